"""Relay of pings, by which an initiator asks whether a session would be refused. [MS-MQQB] 3.1.7.7."""

from __future__ import annotations

from typing import Final

from twisted.internet.error import InvalidAddressError
from twisted.internet.protocol import DatagramProtocol

from msmq.errors import RemoteProtocolError
from msmq.structures.internal.ping import Ping
from msmq.wire.addresses import read_address

MOST_PINGS: Final = 1_000
"""Limit on the pings whose answer is awaited; the oldest are forgotten."""


class PingRelay(DatagramProtocol):
    """Passes each ping on to the target, and its answer to the host that asked.

    @param target: the IP address and the port of the target.
    """

    noisy = False

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._asked: dict[int, tuple[str, int]] = {}

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Pass on a ping or an answer; anything else is ignored."""
        try:
            ping = Ping.from_bytes(datagram)
        except RemoteProtocolError:
            return
        address = addr[0], addr[1]
        # A socket gives a link-local address without the scope with which it was sent to.
        if (read_address(addr[0]), addr[1]) == (read_address(self._target[0]), self._target[1]):
            to = self._asked.pop(ping.cookie, None)
        else:
            to = self._target
            self._asked.pop(ping.cookie, None)
            if len(self._asked) >= MOST_PINGS:
                del self._asked[next(iter(self._asked))]
            self._asked[ping.cookie] = address
        if to is not None and self.transport is not None:
            try:
                self.transport.write(datagram, to)
            except (OSError, InvalidAddressError):
                # No route, or an address of the other family: no peer waits for it longer than for a lost
                # datagram.
                return
