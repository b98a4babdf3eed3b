"""Tests of the session's state machine as a whole: it has an answer for everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.session.machine import MACHINE, SessionInputs
from msmq.session.outgoing import OutgoingPacket
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from tests.builders import ALPHA, BETA, GAMMA, NULL
from tests.samples import examples
from tests.session.support import (
    START,
    Driven,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)

PACKETS = st.one_of(
    st.builds(
        establish,
        st.sampled_from([ALPHA, BETA, GAMMA]),
        st.sampled_from([ALPHA, BETA, GAMMA, NULL]),
        time_stamp=st.integers(0, 0xFFFFFFFF),
        operating_system=st.integers(0, 0xFFFF),
        refused=st.booleans(),
    ),
    st.builds(
        parameters,
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 0xFFFF),
        refused=st.booleans(),
    ),
    st.builds(
        lambda received, sent, base, flags, window: session_ack(
            session_header(received, sent, recoverable_base=base, recoverable_flags=flags, window_size=window)
        ),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 0xFFFF),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 0xFFFF),
    ),
    st.builds(user_packet, st.binary(max_size=20), recoverable=st.booleans()),
    st.builds(
        lambda sent, received: user_packet(header=session_header(received, sent)),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    st.binary(min_size=1, max_size=80),
)

STEPS = st.one_of(
    st.tuples(st.just("receive"), PACKETS),
    st.tuples(st.just("advance"), st.floats(0, 400)),
    st.tuples(st.just("send"), st.booleans()),
    st.tuples(st.just("persisted"), st.integers(0, 5)),
    st.tuples(st.just("lost"), st.none()),
    st.tuples(st.just("close"), st.none()),
    st.tuples(st.just("connected"), st.none()),
    st.tuples(st.just("accepted"), st.none()),
    st.tuples(st.just("failed"), st.none()),
    st.tuples(st.just("backlog"), st.booleans()),
)


def run(driven: Driven, step: str, argument: object) -> None:
    """Do one thing to a session."""
    session = driven.session
    match step, argument:
        case "receive", bytes(data):
            driven.receive(data)
        case "advance", float(seconds):
            driven.advance(seconds)
        case "send", bool(recoverable):
            if session.capacity:
                driven.send(user_packet(recoverable=recoverable))
        case "persisted", int(through):
            arrived = session.statistics.recoverable_received
            driven.perform(session.persisted(min(through, arrived), driven.now))
        case "lost", _:
            driven.perform(session.connection_lost(driven.now))
        case "close", _:
            driven.perform(session.close(CloseReason.STOPPED, driven.now))
        case "connected", _:
            driven.perform(session.connected(driven.now))
        case "accepted", _:
            driven.perform(session.accepted(driven.now))
        case "failed", _:
            driven.perform(session.connect_failed(ConnectionProgress.UNKNOWN_FAILURE, driven.now))
        case "backlog", bool(backlog):
            driven.backlog = backlog


class MachineTests(SynchronousTestCase):
    """No packet, timer or network event makes a session raise."""

    def test_is_total(self) -> None:
        """Every input has a transition in every state (MQQB-3.1.1.3.1-16)."""
        automaton = MACHINE.__automat_automaton__
        answered = {(origin.name, happens) for origin, happens, _, _ in automaton.allTransitions()}
        inputs = [name for name in vars(SessionInputs) if not name.startswith("_")]
        expected = {(state.value, happens) for state in SessionState for happens in inputs}
        self.assertEqual(answered, expected)

    @settings(max_examples=examples(100))
    @given(st.booleans(), st.booleans(), st.lists(STEPS, max_size=40))
    def test_never_raises(self, is_initiator: bool, backlog: bool, steps: list[tuple[str, object]]) -> None:
        """Any sequence of packets, timers, sends and disconnects leaves it in one of its states."""
        driven = Driven(is_initiator=is_initiator, backlog=backlog)
        start = driven.session.connected if is_initiator else driven.session.accepted
        driven.perform(start(driven.now))
        for step, argument in steps:
            run(driven, step, argument)
            self.assertIn(driven.session.state, SessionState)
            self.assertLessEqual(driven.session.statistics.unacknowledged, 64)

    @settings(max_examples=examples(60))
    @given(st.lists(STEPS, max_size=30))
    def test_returns_every_message_once(self, steps: list[tuple[str, object]]) -> None:
        """A sent message is acknowledged or returned at the end, and never both."""
        driven = Driven(is_initiator=True)
        driven.perform(driven.session.connected(driven.now))
        driven.receive(establish(ALPHA, BETA) + parameters())
        sent: list[OutgoingPacket] = []
        for step, argument in steps:
            if step == "send" and driven.session.capacity:
                message = OutgoingPacket(user_packet(b"%d" % len(sent), recoverable=bool(argument)))
                sent.append(message)
                driven.perform(driven.session.send([message], driven.now))
            elif step not in ("connected", "send"):
                run(driven, step, argument)
        driven.perform(driven.session.connection_lost(driven.now))
        back = [
            message
            for effect in driven.effects
            for message in (
                *getattr(effect, "messages", ()),
                *getattr(effect, "unacknowledged", ()),
            )
            if isinstance(message, OutgoingPacket)
        ]
        self.assertEqual(sorted(map(id, back)), sorted(map(id, sent)))


class TwoSessionsTests(SynchronousTestCase):
    """Both ends of one connection, joined in memory."""

    def exchange(self, a: Driven, b: Driven) -> None:
        """Carry bytes until neither has anything to say."""
        while a.written or b.written:
            b.receive(a.take_written())
            a.receive(b.take_written())

    def test_messages_go_both_ways_on_one_connection(self) -> None:
        """After the handshake either side sends (MQQB-2.1.1-08)."""
        a = Driven(is_initiator=True)
        b = Driven(is_initiator=False)
        b.perform(b.session.accepted(b.now))
        a.perform(a.session.connected(a.now))
        self.exchange(a, b)
        self.assertEqual((a.session.state, b.session.state), (SessionState.OPEN, SessionState.OPEN))
        for number in range(10):
            a.send(user_packet(b"a%d" % number))
            b.send(user_packet(b"b%d" % number))
            self.exchange(a, b)
            for side in (a, b):
                side.advance(3)
            self.exchange(a, b)
        self.assertEqual(b.bodies, [b"a%d" % number for number in range(10)])
        self.assertEqual(a.bodies, [b"b%d" % number for number in range(10)])
        self.assertIsNone(a.close_reason or b.close_reason)

    def test_a_full_window_is_never_a_dead_lock(self) -> None:
        """With every window from 1 to 5 a long stream goes through without a timer."""
        for window in range(1, 6):
            a = Driven(is_initiator=True, settings=SessionSettings(window_size=window))
            b = Driven(is_initiator=False)
            b.perform(b.session.accepted(START))
            a.perform(a.session.connected(START))
            self.exchange(a, b)
            for number in range(50):
                self.assertGreater(a.session.capacity, 0)
                a.send(user_packet(b"%d" % number))
                self.exchange(a, b)
            self.assertEqual(b.bodies, [b"%d" % number for number in range(50)])
