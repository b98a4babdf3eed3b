"""[MS-MQQB] 3.1.1.1.1: the transitions of figures 3 and 4, and what a pause does in their last state."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Disconnect, Reconnect, Transmit
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from tests.builders import established
from tests.session.support import (
    ALPHA,
    BETA,
    Driven,
    accepted,
    acks,
    dialled,
    establish,
    open_acceptor,
    open_initiator,
    parameters,
    session_ack,
    session_header,
    user_packet,
)


class InitiatorTests(SynchronousTestCase):
    """Figure 3."""

    def test_transitions_to_open(self) -> None:
        """Each packet leads one state on, and is answered by the next (MQQB-3.1.1.1.1.1-01)."""
        driven = dialled()
        states = [driven.session.state]
        first = len(driven.take_written())
        driven.receive(establish(ALPHA, BETA, time_stamp=driven.now.milliseconds))
        states.append(driven.session.state)
        second = len(driven.take_written())
        driven.receive(parameters())
        states.append(driven.session.state)
        self.assertEqual(
            states, [SessionState.WAITING_ECR_MSG, SessionState.WAITING_CPR_MSG, SessionState.OPEN]
        )
        self.assertEqual((first, second, driven.take_written()), (572, 32, b""))

    def test_each_transition_to_closed(self) -> None:
        """A wrong answer, silence, a broken rule, idleness, no acknowledgement: each closes.

        MQQB-3.1.1.1.1.1-02.
        """

        def unanswered(driven: Driven) -> None:
            driven.send(user_packet())
            driven.advance(200)

        ways: list[tuple[Callable[[], Driven], Callable[[Driven], object]]] = [
            (dialled, lambda driven: driven.receive(establish(BETA, BETA))),
            (dialled, lambda driven: driven.receive(establish(ALPHA, BETA, refused=True))),
            (dialled, lambda driven: driven.advance(60)),
            (dialled, lambda driven: driven.receive(user_packet())),
            (open_initiator, lambda driven: driven.receive(session_ack(session_header(received=1)))),
            (open_initiator, lambda driven: driven.advance(300)),
            (open_initiator, unanswered),
        ]
        for begin, leave in ways:
            driven = begin()
            self.assertNotEqual(driven.session.state, SessionState.CLOSED)
            leave(driven)
            self.assertEqual(driven.session.state, SessionState.CLOSED)
            self.assertEqual(driven.take(Disconnect), [Disconnect()])

    def test_what_remains_is_dialled_for(self) -> None:
        """With a message left it waits and dials again; with none that was the end.

        MQQB-3.1.1.1.1.1-04.
        """
        for backlog in (True, False):
            driven = open_initiator(backlog=backlog)
            driven.perform(driven.session.connection_lost(driven.now))
            expected = SessionState.WAITING_RECONNECT if backlog else SessionState.CLOSED
            self.assertEqual(driven.session.state, expected)
            driven.advance(60)
            self.assertEqual(driven.take(Reconnect), [Reconnect()] if backlog else [])
        again = dialled()
        self.assertEqual(len(again.take_written()), 572)


class AcceptorTests(SynchronousTestCase):
    """Figure 4."""

    def test_transitions_to_open(self) -> None:
        """Each packet is answered by one of its kind, and leads one state on (MQQB-3.1.1.1.1.2-01)."""
        driven = accepted()
        states = [driven.session.state]
        driven.receive(establish(ALPHA))
        states.append(driven.session.state)
        answered = [len(driven.take_written())]
        driven.receive(parameters())
        states.append(driven.session.state)
        answered.append(len(driven.take_written()))
        self.assertEqual(
            states, [SessionState.WAITING_EC_MSG, SessionState.WAITING_CP_MSG, SessionState.OPEN]
        )
        self.assertEqual(answered, [572, 32])

    def test_each_transition_to_closed(self) -> None:
        """A refusal is sent; an initiator that does not go on is closed after a minute.

        MQQB-3.1.1.1.1.2-02.
        """
        refused = accepted()
        another = ALPHA
        refused.receive(establish(ALPHA, another))
        self.assertEqual(refused.take_written(), established(ALPHA, BETA, refused=True))
        self.assertEqual(refused.session.state, SessionState.CLOSED)
        silent = accepted()
        silent.receive(establish(ALPHA))
        silent.advance(59.9)
        self.assertEqual(silent.session.state, SessionState.WAITING_CP_MSG)
        silent.advance(0.1)
        self.assertEqual(silent.session.state, SessionState.CLOSED)

    def test_closed_is_the_end(self) -> None:
        """With any pending messages, this side opens no further connection (MQQB-3.1.1.1.1.2-03)."""
        driven = open_acceptor(backlog=True)
        driven.send(user_packet())
        driven.perform(driven.session.connection_lost(driven.now))
        driven.advance(1000)
        self.assertEqual(driven.session.state, SessionState.CLOSED)
        self.assertEqual(driven.take(Reconnect), [])
        self.assertIsNone(driven.session.deadline)


class PauseTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.7.13 and 3.1.7.14, for the session."""

    def test_a_window_of_one(self) -> None:
        """The peer gets the count of arrivals, and a window of one message (MQQB-3.1.7.13-02)."""
        driven = open_acceptor()
        driven.receive(user_packet() * 3)
        driven.perform(driven.session.pause(driven.now))
        written = driven.take_written()
        self.assertEqual(acks(written), [(3, 0, 0, 0, 0, 1)])
        self.assertEqual(written[32:34], b"\x01\x00")

    def test_nothing_is_said_twice(self) -> None:
        """No timer acknowledges again what the pause did, and the session is idle from then on.

        MQQB-3.1.7.13-03.
        """
        driven = open_acceptor(settings=SessionSettings(session_cleanup=100))
        driven.advance(90)
        driven.receive(user_packet(recoverable=True))
        driven.perform(driven.session.persisted(1, driven.now))
        driven.perform(driven.session.pause(driven.now))
        self.assertEqual(acks(driven.take_written()), [(1, 1, 1, 0, 0, 1)])
        driven.advance(9.9)
        self.assertEqual(driven.take_written(), b"")
        self.assertEqual(driven.session.state, SessionState.OPEN)
        driven.advance(0.1)
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_counts_begin_anew(self) -> None:
        """What the pause has acknowledged is neither named nor counted again (MQQB-3.1.7.13-03)."""
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True))
        driven.perform(driven.session.persisted(1, driven.now))
        driven.perform(driven.session.pause(driven.now))
        self.assertEqual(acks(driven.take_written()), [(1, 1, 1, 0, 0, 1)])
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 1)])

    def test_each_message_is_acknowledged(self) -> None:
        """The peer may send no second one before that, and the timer is at least ten seconds."""
        driven = open_acceptor()
        driven.perform(driven.session.pause(driven.now))
        driven.take_written()
        for count in (1, 2):
            driven.receive(user_packet())
            self.assertEqual(acks(driven.take_written()), [(count, 0, 0, 0, 0, 1)])

    def test_the_first_message_after_it_is_acknowledged(self) -> None:
        """Until then the peer knows only of the window of 1; from then on half a window is awaited again."""
        driven = open_acceptor()
        driven.perform(driven.session.pause(driven.now))
        driven.session.resume()
        driven.take_written()
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])
        driven.receive(user_packet() * 31)
        self.assertEqual(driven.take_written(), b"")
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(33, 0, 0, 0, 0, 64)])

    def test_no_acknowledgement_is_awaited(self) -> None:
        """A message that is not stored yet does not keep the session either (MQQB-3.1.7.13-01)."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=100))
        driven.advance(99.8)
        driven.receive(user_packet(recoverable=True))
        driven.perform(driven.session.pause(driven.now))
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 1)])
        driven.advance(0.2)
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_resumed(self) -> None:
        """It is not idle, and the next acknowledgement has the whole window (MQQB-3.1.7.14-03)."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=100))
        driven.perform(driven.session.pause(driven.now))
        driven.advance(90)
        driven.session.resume()
        driven.advance(20)
        self.assertEqual(driven.session.state, SessionState.OPEN)
        driven.take_written()
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_only_in_open(self) -> None:
        """Before and after there is no peer to notify."""
        driven = accepted()
        driven.perform(driven.session.pause(driven.now))
        self.assertEqual([each for each in driven.effects if isinstance(each, Transmit)], [])
        self.assertEqual(driven.take_written(), b"")
