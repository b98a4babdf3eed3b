"""The meddler of the pipeline demo: a proxy that loses, repeats and swaps express messages, and reports them.

A session counts its messages and knows no other numbers of express ones.
So the meddler replaces each message that it loses by the previous one: as many arrive
as were sent, and no queue manager notices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from demo_witness import NearSide, Side, Tap, Witness
from twisted.internet.interfaces import IAddress

from msmq import StreamFramer, UserMessageView, measure_user_message

_INTERNAL = 0x08
_SESSION_HEADER = 0x10


@attrs.define
class Mischief:
    """Faults that the meddler injects, and the record of those that it has injected.

    @ivar lose: one message in this many is lost, and the previous one is repeated.
    @ivar swap: one message in this many is sent after its successor.
    @ivar packets: every express message as it was sent, in sending order.
    @ivar lost: the identifiers of lost messages.
    @ivar repeated: how often each repeated message was sent.
    @ivar swapped: the identifiers of messages that were sent after their successor.
    """

    lose: int
    swap: int
    packets: list[bytes] = attrs.field(factory=list)
    lost: list[str] = attrs.field(factory=list)
    repeated: dict[str, int] = attrs.field(factory=dict)
    swapped: list[str] = attrs.field(factory=list)

    def meddle(self, packets: list[bytes]) -> list[bytes]:
        """The packets to forward in place of these express messages, which were sent together."""
        came = list(packets)
        # The first and the last message stay, so that each fault is between two unchanged messages.
        for place in range(1, len(packets) - 1):
            number = len(self.packets) + place
            if number % self.lose == 0:
                came[place] = packets[place - 1]
                self.lost.append(identifier(packets[place]))
                again = identifier(packets[place - 1])
                self.repeated[again] = self.repeated.get(again, 1) + 1
            elif number % self.swap == 0 and came[place + 1] is packets[place + 1]:
                if (number + 1) % self.lose and came[place] is packets[place]:
                    came[place], came[place + 1] = packets[place + 1], packets[place]
                    self.swapped.append(identifier(packets[place]))
        self.packets += packets
        return came


def identifier(packet: bytes) -> str:
    """The identifier of a message."""
    return str(UserMessageView(packet).user_header.identifier)


def _with_header(packet: bytes, header: bytes) -> bytes:
    """The packet with its attached SessionHeader, which PacketSize does not count."""
    return packet[:2] + bytes([packet[2] | _SESSION_HEADER]) + packet[3:] + header


class MeddlingSide(NearSide):
    """Connection to the sender: forwards whole packets, and injects faults into the chosen ones."""

    def __init__(
        self,
        seen: Any,
        far: Side,
        onward: Any,
        mischief: Mischief,
        is_chosen: Callable[[UserMessageView], bool],
    ) -> None:
        super().__init__(seen, far, onward)
        self._mischief = mischief
        self._is_chosen = is_chosen
        self._packets = StreamFramer(measure_user_message)

    def dataReceived(self, data: bytes) -> None:
        """Inject faults into each run of chosen messages, and forward the rest unchanged."""
        run: list[bytes] = []
        out: list[bytes] = []
        for packet, header in self._packets.feed(data):
            is_internal = packet[2] & _INTERNAL
            if not is_internal and header is None and self._is_chosen(UserMessageView(packet)):
                run.append(packet)
                continue
            out += self._mischief.meddle(run)
            run = []
            out.append(packet if header is None else _with_header(packet, header))
        out += self._mischief.meddle(run)
        if self.other is not None:
            self.other.transport.write(b"".join(out))


class MeddlingTap(Tap):
    """Proxy that injects faults into the messages of the initiating queue manager."""

    def __init__(
        self,
        witness: Meddler,
        reactor: Any,
        sender: str,
        receiver: str,
    ) -> None:
        super().__init__(witness, reactor, sender, receiver)
        self._witness = witness

    def buildProtocol(self, addr: IAddress | None) -> NearSide:
        """Create both sides of a new connection."""
        witness = self._witness
        return MeddlingSide(self._there, Side(self._back), self._onward, witness.mischief, witness.is_chosen)


class Meddler(Witness):
    """Runs the proxy of a meddler in a thread of its own.

    @ivar mischief: the faults that it injects into the packets that C{is_chosen} chooses.
    """

    tap_class = MeddlingTap

    def __init__(self, mischief: Mischief, is_chosen: Callable[[UserMessageView], bool]) -> None:
        super().__init__()
        self.mischief = mischief
        self.is_chosen = is_chosen
