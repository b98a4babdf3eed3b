"""A session driven by hand: packets in as bytes, what it would write out as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

from msmq.moment import Moment
from msmq.session.effects import Closed, CloseReason, Deliver, Effect, Transmit
from msmq.session.outgoing import OutgoingPacket
from msmq.session.packet_counts import TrafficCounts
from msmq.session.session import Session
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.wire.framer import StreamFramer
from tests.builders import ALPHA, BETA, establish, parameters, session_ack, session_header, user_packet

START = Moment(1000.0, 1_700_000_000.0)


class Driven:
    """One session and its clock.

    @ivar written: the bytes written since L{take_written}.
    @ivar effects: every effect except writes, in order.
    @ivar counts: the packets of the session.
    """

    def __init__(
        self,
        *,
        is_initiator: bool,
        identifier: UUID | None = None,
        settings: SessionSettings | None = None,
        expected_identifier: UUID | None = None,
        was_pinged: bool = False,
        accepts: bool = True,
        backlog: bool = False,
    ) -> None:
        self.now = START
        self.written = b""
        self.effects: list[Effect] = []
        self.accepts = accepts
        self.backlog = backlog
        self.counts = TrafficCounts()
        self.session = Session(
            identifier or (ALPHA if is_initiator else BETA),
            settings or SessionSettings(),
            is_initiator=is_initiator,
            expected_identifier=expected_identifier,
            was_pinged=was_pinged,
            accepts=lambda: self.accepts,
            has_backlog=lambda: self.backlog,
            counts=self.counts,
        )
        self._framer = StreamFramer(measure_user_message)

    def perform(self, effects: Sequence[Effect]) -> None:
        """Remember what the session asked for."""
        for effect in effects:
            if isinstance(effect, Transmit):
                self.written += b"".join(effect.chunks)
            else:
                self.effects.append(effect)

    def receive(self, data: bytes) -> None:
        """The peer's bytes arrive."""
        frames = self._framer.feed(data)
        self.perform(self.session.receive(frames, self.now))
        if self._framer.error is not None:
            self.perform(self.session.malformed(self._framer.error, self.now))

    def advance(self, seconds: float) -> None:
        """Let time pass, expiring each timer at its own moment."""
        until = self.now.later(seconds)
        while (deadline := self.session.deadline) is not None and deadline <= until.monotonic:
            self.now = self.now.later(max(0.0, deadline - self.now.monotonic))
            self.perform(self.session.expire(self.now))
        self.now = until

    def send(self, *packets: bytes) -> None:
        """Send messages of ours."""
        self.perform(self.session.send([OutgoingPacket(packet) for packet in packets], self.now))

    def take_written(self) -> bytes:
        """The bytes written since the last call."""
        written, self.written = self.written, b""
        return written

    def take(self, kind: type[Effect]) -> list[Effect]:
        """Remove the effects of one type from the recorded ones, and return them."""
        taken = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return taken

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of all messages that were delivered."""
        return [
            bytes(message.body)
            for effect in self.effects
            if isinstance(effect, Deliver)
            for message in effect.messages
        ]

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the session closed, if it did."""
        reasons = [effect.reason for effect in self.effects if isinstance(effect, Closed)]
        assert len(reasons) < 2, "a session closes once"
        return reasons[0] if reasons else None


def accepted(**kwargs: object) -> Driven:
    """A session on a connection that BETA has just accepted: it waits for its initiator."""
    driven = Driven(is_initiator=False, **kwargs)  # type: ignore[arg-type]
    driven.perform(driven.session.accepted(driven.now))
    return driven


def dialled(**kwargs: object) -> Driven:
    """A session on a connection that ALPHA has just dialled."""
    driven = Driven(is_initiator=True, **kwargs)  # type: ignore[arg-type]
    driven.perform(driven.session.connected(driven.now))
    return driven


def open_acceptor(*, window_size: int = 64, direct: bool = True, **kwargs: object) -> Driven:
    """An accepted session that has finished its handshake with ALPHA."""
    driven = accepted(**kwargs)
    driven.receive(establish(ALPHA, UUID(int=0) if direct else BETA))
    driven.receive(parameters(window_size=window_size))
    driven.written = b""
    driven.effects.clear()
    return driven


def open_initiator(*, window_size: int = 64, direct: bool = True, **kwargs: object) -> Driven:
    """A dialled session that has finished its handshake with BETA."""
    driven = dialled(expected_identifier=None if direct else BETA, **kwargs)
    driven.receive(establish(ALPHA, BETA, time_stamp=driven.now.milliseconds))
    driven.receive(parameters(window_size=window_size))
    driven.written = b""
    driven.effects.clear()
    return driven


def acks(data: bytes) -> list[tuple[int, int, int, int, int, int]]:
    """Read the SessionAck packets of a stream that holds nothing else.

    Received count, recoverable base, recoverable flags, sent count, recoverable sent count, window.
    """
    assert len(data) % 36 == 0, data.hex()
    found = []
    for start in range(0, len(data), 36):
        packet = data[start : start + 36]
        assert packet[:20] == session_ack(bytes(16))[:20], packet.hex()
        received, base, flags, sent, recoverable_sent, window, _ = struct.unpack("<HHIHHHH", packet[20:])
        found.append((received, base, flags, sent, recoverable_sent, window))
    return found


__all__ = [
    "ALPHA",
    "BETA",
    "START",
    "Driven",
    "accepted",
    "acks",
    "dialled",
    "establish",
    "open_acceptor",
    "open_initiator",
    "parameters",
    "session_ack",
    "session_header",
    "user_packet",
]
