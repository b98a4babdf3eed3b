"""L{Session}: what its owner sets and learns."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Closed, CloseReason
from msmq.session.session import Session
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from tests.builders import GAMMA
from tests.session.support import (
    ALPHA,
    BETA,
    START,
    Driven,
    accepted,
    dialled,
    establish,
    open_acceptor,
    open_initiator,
    parameters,
    session_ack,
    session_header,
    user_packet,
)


class CallerTests(SynchronousTestCase):
    """What an owner sets for a session and learns from it."""

    def test_which_side(self) -> None:
        """The one that opened the connection is the initiator."""
        self.assertIs(dialled().session.is_initiator, True)
        self.assertIs(accepted().session.is_initiator, False)

    def test_was_open(self) -> None:
        """From the end of the handshake on, also after the end of the session."""
        for make, answers in (
            (dialled, (establish(ALPHA, BETA), parameters())),
            (accepted, (establish(ALPHA), parameters())),
        ):
            driven = make()
            for answer in answers:
                self.assertIs(driven.session.was_open, False)
                driven.receive(answer)
            self.assertIs(driven.session.was_open, True)
            driven.perform(driven.session.connection_lost(driven.now))
            self.assertIs(driven.session.was_open, True)
        driven = dialled()
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertIs(driven.session.was_open, False)

    def test_set_before_the_connection(self) -> None:
        """The addressee and the ping may be known only after the session was created."""
        driven = Driven(is_initiator=True)
        driven.session.expect(GAMMA)
        driven.session.pinged()
        driven.perform(driven.session.connected(driven.now))
        expected = establish(ALPHA, GAMMA, time_stamp=1_000_000, operating_system=0x0010)
        self.assertEqual(driven.take_written(), expected)
        driven.receive(establish(ALPHA, BETA))
        self.assertEqual(driven.close_reason, CloseReason.WRONG_PEER)

    def test_only_the_cleanup_timer_runs_in_an_open_session(self) -> None:
        """Nothing else is due before it."""
        for driven in (open_acceptor(), open_initiator()):
            self.assertEqual(driven.session.deadline, driven.now.monotonic + 300)

    def test_the_time_of_a_recoverable_acknowledgement_is_negotiated(self) -> None:
        """The acceptor uses the initiator's, within what its settings allow."""
        for proposed, used in ((2000, 2.0), (499, 0.5), (3_600_000, 120.0)):
            driven = accepted()
            driven.receive(establish(ALPHA))
            driven.receive(parameters(proposed, 120_000))
            driven.receive(user_packet(recoverable=True))
            expected = min(used, 60.0)
            self.assertEqual(driven.session.deadline, driven.now.monotonic + expected)

    def test_a_window_of_zero_in_the_answer_is_one(self) -> None:
        """The acceptor still gets one message at a time."""
        driven = dialled()
        driven.receive(establish(ALPHA, BETA))
        driven.receive(parameters(window_size=0))
        self.assertEqual(driven.session.capacity, 1)

    def test_the_error_of_an_unexpected_packet(self) -> None:
        """It says which packet came in which state, and where the packet says so."""
        driven = accepted()
        driven.receive(session_ack(bytes(16)))
        [closed] = driven.take(Closed)
        assert isinstance(closed, Closed) and closed.error is not None
        self.assertEqual(closed.error.offset, 0)
        self.assertIn("SessionAck packet received in state WAITING_EC_MSG", str(closed.error))

    def test_arrivals_that_wait(self) -> None:
        """Packets that arrived are there until a portion takes them."""
        driven = open_acceptor(window_size=2)
        self.assertIs(driven.session.has_arrivals, False)
        driven.session.arrive([(user_packet(b"1"), None), (user_packet(b"2"), None)])
        for waits, bodies in ((True, []), (True, [b"1"]), (False, [b"1", b"2"])):
            self.assertIs(driven.session.has_arrivals, waits)
            self.assertEqual(driven.bodies, bodies)
            driven.perform(driven.session.take_portion(driven.now))

    def test_a_portion_goes_up_to_the_first_messages(self) -> None:
        """Acknowledgements before them are processed in the same step; those behind them wait."""
        driven = open_acceptor()
        driven.send(user_packet(), user_packet(), user_packet())
        acknowledgements = [session_ack(session_header(received=number)) for number in (1, 2)]
        last = session_ack(session_header(received=3, sent=1))
        driven.session.arrive([(packet, None) for packet in (*acknowledgements, user_packet(b"body"), last)])
        driven.perform(driven.session.take_portion(driven.now))
        self.assertEqual(driven.bodies, [b"body"])
        self.assertEqual(driven.session.statistics.unacknowledged, 1)
        self.assertTrue(driven.session.has_arrivals)
        driven.perform(driven.session.take_portion(driven.now))
        self.assertEqual(driven.session.statistics.unacknowledged, 0)
        self.assertIsNone(driven.close_reason)

    def test_a_message_begins_to_arrive(self) -> None:
        """Before the handshake is complete that closes the session, and later it does nothing."""
        for make, state in ((dialled, "WAITING_ECR_MSG"), (accepted, "WAITING_EC_MSG")):
            driven = make()
            driven.perform(driven.session.user_message_before_open(driven.now))
            [closed] = driven.take(Closed)
            assert isinstance(closed, Closed)
            self.assertIs(closed.reason, CloseReason.OUT_OF_TURN)
            self.assertIn(f"UserMessage packet received in state {state}", str(closed.error))
        driven = open_acceptor()
        self.assertEqual(driven.session.user_message_before_open(driven.now), [])
        self.assertIs(driven.session.state, SessionState.OPEN)

    def test_without_an_owner(self) -> None:
        """Any initiator is accepted, and nothing waits to be sent when the session ends."""
        acceptor = Session(BETA, SessionSettings(), is_initiator=False)
        acceptor.accepted(START)
        acceptor.receive([(establish(ALPHA), None), (parameters(), None)], START)
        self.assertIs(acceptor.state, SessionState.OPEN)
        initiator = Session(ALPHA, SessionSettings(), is_initiator=True)
        initiator.connected(START)
        initiator.connection_lost(START)
        self.assertIs(initiator.state, SessionState.CLOSED)

    def test_the_window_before_the_handshake(self) -> None:
        """It is that of the settings, until the peer states its own."""
        for window in (10, 64, 100):
            driven = accepted(settings=SessionSettings(window_size=window))
            self.assertEqual(driven.session.statistics.window, window)
