"""Acknowledgements while the owner of a session works on delivered messages and reads no others."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import CloseReason
from msmq.settings import SessionSettings
from tests.session.support import ALPHA, accepted, acks, establish, open_acceptor, parameters, user_packet

ESTABLISH = establish(ALPHA)


class ProcessingTests(SynchronousTestCase):
    """The Session Ack Wait Timer of the peer does not expire, however long the messages take."""

    def test_acknowledges_at_intervals(self) -> None:
        """Every half of the negotiated time, with or without news, until the messages are processed."""
        for ack_timeout, interval in ((20_000, 10), (50_000, 25)):
            driven = accepted(settings=SessionSettings(session_cleanup=1000))
            driven.receive(ESTABLISH)
            driven.receive(parameters(500, ack_timeout, 1))
            driven.receive(user_packet())
            driven.take_written()
            driven.session.begin_processing(driven.now)
            for _ in range(3):
                driven.advance(interval - 0.25)
                self.assertEqual(driven.take_written(), b"")
                driven.advance(0.25)
                self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])
            driven.session.end_processing()
            driven.advance(10 * interval)
            self.assertEqual(driven.take_written(), b"")

    def test_the_interval_begins_with_the_last_acknowledgement(self) -> None:
        """One that is sent for another reason meanwhile delays the next one, as the peer's timer begins anew
        with it.
        """
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True))
        driven.advance(1)
        driven.take_written()
        driven.session.begin_processing(driven.now)
        driven.advance(6)
        driven.perform(driven.session.persisted(1, driven.now))
        driven.advance(0.25)
        self.assertEqual([ack[1] for ack in acks(driven.take_written())], [1])
        driven.advance(9.5)
        self.assertEqual(driven.take_written(), b"")
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_short_pauses(self) -> None:
        """Many of them are acknowledged like a long one, and so is one that has got a second reason."""
        for gap in (0.25, 0.0):
            driven = open_acceptor()
            for _ in range(20):
                driven.session.begin_processing(driven.now)
                driven.advance(3)
                if gap:
                    driven.session.end_processing()
                    driven.advance(gap)
            self.assertGreater(len(acks(driven.take_written())), 5)

    def test_an_acknowledgement_after_the_processing_starts_no_interval(self) -> None:
        """The timer stays stopped."""
        driven = open_acceptor(window_size=2)
        driven.session.begin_processing(driven.now)
        driven.session.end_processing()
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])
        driven.advance(250)
        self.assertEqual(driven.take_written(), b"")

    def test_is_no_idleness(self) -> None:
        """A session whose messages are being processed stays open; it closes when it is idle afterwards."""
        for cleanup in (15, 4):
            driven = open_acceptor(settings=SessionSettings(session_cleanup=cleanup))
            driven.session.begin_processing(driven.now)
            driven.advance(100)
            self.assertIsNone(driven.close_reason)
            driven.session.end_processing()
            driven.advance(30)
            self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_acknowledgements_that_are_not_read(self) -> None:
        """Our own messages are not given up: their acknowledgements may have come, and are read afterwards.

        A peer that has been silent since then is, after its whole time.
        """
        driven = open_acceptor()
        driven.send(user_packet())
        driven.session.begin_processing(driven.now)
        driven.advance(95)
        self.assertIsNone(driven.close_reason)
        driven.session.end_processing()
        driven.advance(39)
        self.assertIsNone(driven.close_reason)
        driven.advance(40)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_only_in_open(self) -> None:
        """Before the handshake is complete, and after the end, there is nothing to acknowledge."""
        early = accepted()
        late = open_acceptor()
        late.perform(late.session.connection_lost(late.now))
        for driven in (early, late):
            before = driven.session.deadline
            driven.session.begin_processing(driven.now)
            self.assertEqual(driven.session.deadline, before)
            self.assertEqual(driven.take_written(), b"")
