"""A queue manager that refuses new sessions while a file exists, and says so in its answers to pings::

python maintenance_ping.py msmq-data 127.0.0.2 /run/maintenance
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from msmq import Overrides, Server, ServerPingProtocol, SessionProtocol, load


class MaintenancePing(ServerPingProtocol):
    """Answers pings with a refusal while the file exists.

    @param file: its existence means maintenance.
    """

    def __init__(self, *arguments: Any, file: Path) -> None:
        super().__init__(*arguments)
        self.file = file

    def would_refuse(self, address: tuple[str, int]) -> bool:
        """Refuse during maintenance, and what the server itself would refuse."""
        return self.file.exists() or super().would_refuse(address)


class MaintenanceSession(SessionProtocol):
    """Refuses sessions while the file exists: not every peer sends a ping before it connects."""

    file: Path

    def may_open(self) -> bool:
        """Whether the peer that has connected gets a session."""
        return not self.file.exists() and super().may_open()


def make_server(data: str, address: str, file: Path, reactor: Any) -> Server:
    """The server, which is not started yet."""
    configuration = load(None, Overrides(name="ALPHA", data=data, address=address))
    sessions = type("Session", (MaintenanceSession,), {"file": file})
    return Server(
        configuration,
        reactor,
        ping_protocol=partial(MaintenancePing, file=file),
        session_protocol=sessions,
    )


async def main(reactor: Any, data: str, address: str, file: str) -> None:
    """Serve until the process is stopped."""
    server = make_server(data, address, Path(file), reactor)
    server.startService()
    await server.started
    reactor.addSystemEventTrigger("before", "shutdown", server.stopService)
    print(f"new sessions are refused while {file} exists", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
