"""Relays the sessions of one queue manager to another, prints a line for each packet, and keeps a capture::

    python recording_proxy.py 192.0.2.7 127.0.0.9 session.pcap
    msmq decode session.pcap

The queue manager that sends reaches the other one through the proxy with this line of its configuration::

    [hosts]
    BETA = "127.0.0.9"
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from msmq.testing import RecordingProxy, RelayedPacket


class PrintingProxy(RecordingProxy):
    """Prints what passes."""

    def packet_relayed(self, packet: RelayedPacket) -> None:
        """Print one line."""
        arrow = "->" if packet.is_from_initiator else "<-"
        print(f"{packet.session} {arrow} {described(packet)}", flush=True)


def described(packet: RelayedPacket) -> str:
    """One packet, or one event of a session, in words."""
    fields = packet.fields
    if packet.kind != "packet":
        return f"{packet.kind} {packet.detail}".rstrip()
    if "rule" in fields:
        return f"no packet: {fields['field']} {fields['rule']}"
    if fields.get("packet") == "UserMessage":
        properties: Any = fields["MessagePropertiesHeader"]
        return f"message {properties['Label']!r}, {properties['MessageSize']} bytes"
    return str(fields.get("packet", fields.get("note")))


async def main(reactor: Any, target: str, address: str = "127.0.0.1", capture: str | None = None) -> None:
    """Relay until the process is stopped."""
    proxy = PrintingProxy(target, capture=capture, address=address, reactor=reactor)
    proxy.startService()
    await proxy.started
    reactor.addSystemEventTrigger("before", "shutdown", proxy.stopService)
    print(f"sessions to {address} go to {target}", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
