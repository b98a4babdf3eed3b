"""The core of a session, accepted or dialled, fed with anything while anything else happens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.session.effects import (
    Acknowledged,
    Closed,
    CloseReason,
    ConnectionProgress,
    Deliver,
    Effect,
    Opened,
    Transmit,
)
from msmq.session.session import Session
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.wire.framer import StreamFramer
from tests.builders import establish, parameters, session_ack, session_header, user_packet
from tests.fuzz.finding import expect
from tests.fuzz.repairing import repaired

OURS: Final = UUID(int=0xBE7A)
THEIRS: Final = UUID(int=0xA1FA)
SETTINGS: Final = SessionSettings(window_size=8)
OVER: Final = (SessionState.CLOSED, SessionState.WAITING_RECONNECT)
PACKET: Final = user_packet(b"ours")
RECOVERABLE_PACKET: Final = user_packet(b"ours", recoverable=True)
WAITS: Final = (0.1, 1.0, 10.0, 31.0, 61.0, 130.0, 301.0, 4000.0)


@attrs.frozen(eq=False)
class _Ours:
    """A message of ours; each is itself alone."""

    packet: bytes
    is_recoverable: bool


class _Fuzzed:
    """One session with the framer before it, as the connection drives them."""

    def __init__(self, is_initiator: bool, has_backlog: bool) -> None:
        self.is_initiator = is_initiator
        self.now = Moment(1000.0, 1_700_000_000.0)
        self.session = Session(OURS, SETTINGS, is_initiator=is_initiator, has_backlog=lambda: has_backlog)
        self.incoming = StreamFramer(measure_user_message, internal_only=True)
        self.outgoing = StreamFramer(measure_user_message)
        self.sent: list[_Ours] = []
        self.done: set[_Ours] = set()
        self.closed: CloseReason | None = None
        self.recoverable = 0
        self.opened = 0

    def begin(self) -> None:
        """The connection stands."""
        begin = self.session.connected if self.is_initiator else self.session.accepted
        self.perform(begin(self.now))

    def shake_hands(self, window_size: int) -> None:
        """Behave, to begin with."""
        if self.is_initiator:
            self.receive(establish(OURS, THEIRS))
        else:
            self.receive(establish(THEIRS))
        self.receive(parameters(window_size=window_size))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Hold each effect to what the connection relies on."""
        for effect in effects:
            match effect:
                case Transmit(chunks):
                    expect(
                        self.closed in (None, CloseReason.REFUSED), "nothing is written to a closed session"
                    )
                    for chunk in chunks:
                        self.outgoing.feed(chunk)
                    expect(self.outgoing.error is None, "what is written can be read")
                    expect(self.outgoing.buffered == 0, "only whole packets are written")
                case Deliver(messages, first_recoverable):
                    expect(self.opened, "messages arrive on an open session alone")
                    expect(first_recoverable == self.recoverable + 1, "recoverable messages are numbered on")
                    self.recoverable += sum(message.is_recoverable for message in messages)
                case Acknowledged(messages):
                    self._done(messages)
                case Opened():
                    self.opened += 1
                    expect(self.opened == 1, "a session opens once")
                case Closed(reason, unacknowledged):
                    expect(self.closed is None, "a session closes once")
                    self.closed = reason
                    self._done(unacknowledged)
                    expect(len(self.done) == len(self.sent), "every message is acknowledged or given back")

    def _done(self, messages: Iterable[object]) -> None:
        for message in messages:
            expect(isinstance(message, _Ours), "our own objects come back")
            assert isinstance(message, _Ours)
            expect(message not in self.done, "no message comes back twice")
            self.done.add(message)

    def receive(self, data: bytes) -> None:
        """As L{msmq.net.session.SessionProtocol.dataReceived} does it."""
        session, framer, now = self.session, self.incoming, self.now
        if session.state in OVER:
            return
        frames = framer.feed(data)
        effects = session.receive(frames, now) if frames else []
        if framer.internal_only and framer.user_packet_waiting:
            if session.state is SessionState.OPEN:
                framer.internal_only = False
                effects += session.receive(framer.feed(b""), now)
            else:
                effects += session.user_message_before_open(now)
        if framer.error is not None:
            effects += session.malformed(framer.error, now)
        self.perform(effects)

    def wait(self, seconds: float) -> None:
        """Time passes; what is due happens."""
        self.now = self.now.later(seconds)
        for _ in range(64):
            deadline = self.session.deadline
            if deadline is None or deadline > self.now.monotonic:
                return
            self.perform(self.session.expire(self.now))
        expect(False, "timers come to rest")

    def send(self, count: int, is_recoverable: bool) -> None:
        """An application sends, as far as the window allows."""
        count = min(count, self.session.capacity)
        packet = RECOVERABLE_PACKET if is_recoverable else PACKET
        messages = [_Ours(packet, is_recoverable) for _ in range(count)]
        self.sent += messages
        self.perform(self.session.send(messages, self.now))

    def check(self) -> None:
        """The invariants that hold at any time."""
        statistics = self.session.statistics
        expect(0 <= statistics.unacknowledged <= 32767, "the window holds")
        expect(self.session.capacity >= 0, "there is room or none")
        expect((self.closed is not None) == (self.session.state in OVER), "a closed session says so")


def _steps(data: bytes) -> Iterator[tuple[int, bytes]]:
    """A kind, a size and as many bytes, again and again."""
    position = 0
    while position + 2 < len(data):
        kind = data[position]
        size = int.from_bytes(data[position + 1 : position + 3], "little") & 0x3FF
        yield kind, data[position + 3 : position + 3 + size]
        position += 3 + size


def sessions(data: bytes) -> None:
    """The result is effects only, and every sent message is acknowledged or returned, once.

    The first byte says which side dialled, and whether the handshake is good; the rest is steps.
    """
    if len(data) < 2:
        return
    fuzzed = _Fuzzed(bool(data[0] & 1), bool(data[0] & 2))
    if data[0] & 0xE0 == 0xE0:
        fuzzed.perform(fuzzed.session.connect_failed(ConnectionProgress.SOCKET_CONNECT_FAILURE, fuzzed.now))
    else:
        fuzzed.begin()
        if data[0] & 4:
            fuzzed.shake_hands(data[1])
    for kind, payload in _steps(data[2:]):
        _take_step(fuzzed, kind, payload)
        fuzzed.check()
    # Whatever it was, a peer that says nothing more is given up, and what was sent is given back.
    fuzzed.perform(fuzzed.session.congestion_ended(fuzzed.now))
    for _ in range(16):
        if fuzzed.session.deadline is None:
            break
        fuzzed.wait(301)
    expect(fuzzed.session.state in OVER, "a silent peer is given up")
    expect(len(fuzzed.done) == len(fuzzed.sent), "every message is acknowledged or given back")


def _take_step(fuzzed: _Fuzzed, kind: int, payload: bytes) -> None:
    session, now = fuzzed.session, fuzzed.now
    first = payload[0] if payload else 0
    match kind % 16:
        case 0 | 1:
            fuzzed.receive(payload)
        case 2:
            fuzzed.receive(repaired(first, payload[1:]))
        case 3:
            fuzzed.receive(repaired(0x08, payload[:16].ljust(16, b"\0")))
        case 4:
            fuzzed.receive(session_ack(payload[:16].ljust(16, b"\0")))
        case 5:
            statistics = session.statistics
            fuzzed.receive(
                session_ack(
                    session_header(
                        (statistics.sent - first) & 0xFFFF,
                        statistics.received & 0xFFFF,
                        recoverable_base=payload[1] if len(payload) > 1 else 1,
                        recoverable_flags=int.from_bytes(payload[2:6], "little"),
                        recoverable_sent=statistics.recoverable_received & 0xFFFF,
                        window_size=payload[6] if len(payload) > 6 else 64,
                    )
                )
            )
        case 6 | 7:
            header = payload[1:17] if len(payload) > 16 else None
            packet = user_packet(
                payload[17:],
                destination="OS:b\\q",
                recoverable=bool(first & 1),
                header=header,
                header_is_counted=bool(first & 2),
            )
            fuzzed.receive(packet * (1 + (first >> 6)))
        case 8:
            fuzzed.wait(WAITS[first % len(WAITS)])
        case 9 | 10:
            fuzzed.send(first, bool(kind & 1))
        case 11:
            fuzzed.perform(session.persisted(min(first, fuzzed.recoverable), now))
        case 12:
            if first & 1:
                session.congested()
            else:
                fuzzed.perform(session.congestion_ended(now))
        case 13:
            if first & 2:
                fuzzed.perform(session.narrow(now))
            elif first & 1:
                fuzzed.perform(session.pause(now))
            else:
                session.resume()
        case 14:
            if first & 1:
                fuzzed.perform(session.connection_lost(now))
            else:
                fuzzed.perform(session.close(CloseReason.STOPPED, now))
        case _:
            sender = UUID(bytes_le=payload[:16]) if len(payload) >= 16 else THEIRS
            fuzzed.receive(establish(sender, OURS if first & 1 else THEIRS, refused=bool(first & 2)))
