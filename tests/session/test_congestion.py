"""A peer that writes and does not read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.session.support import acks, open_acceptor, user_packet


class CongestionTests(SynchronousTestCase):
    """Acknowledgements wait until the peer reads, and then one says it all."""

    def test_nothing_is_written_to_a_full_connection(self) -> None:
        """However many messages come, and however long it takes."""
        session = open_acceptor(window_size=2)
        session.session.congested()
        for _ in range(1000):
            session.receive(user_packet())
        session.advance(100)
        self.assertEqual(session.written, b"")
        self.assertEqual(len(session.bodies), 1000)

    def test_one_acknowledgement_makes_up_for_all(self) -> None:
        """As soon as the peer reads it gets the count of all arrivals."""
        session = open_acceptor(window_size=2)
        session.session.congested()
        for _ in range(10):
            session.receive(user_packet())
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(acks(session.take_written()), [(10, 0, 0, 0, 0, 64)])
        session.receive(user_packet())
        self.assertEqual(acks(session.take_written()), [(11, 0, 0, 0, 0, 64)])

    def test_all_that_is_stored_is_named(self) -> None:
        """An acknowledgement names 32 recoverable messages, so there are as many as it takes."""
        session = open_acceptor()
        session.session.congested()
        for _ in range(100):
            session.receive(user_packet(recoverable=True))
        session.perform(session.session.persisted(100, session.now))
        self.assertEqual(session.written, b"")
        session.perform(session.session.congestion_ended(session.now))
        named = [(base, flags.bit_count()) for _, base, flags, *_ in acks(session.take_written())]
        self.assertEqual(named, [(1, 32), (33, 32), (65, 32)])
        session.advance(1)
        self.assertEqual([ack[1:3] for ack in acks(session.take_written())], [(97, 0b1111)])

    def test_nothing_owed_is_nothing_said(self) -> None:
        """Congestion that ends before an acknowledgement is due leaves its timer alone."""
        session = open_acceptor()
        session.receive(user_packet())
        session.session.congested()
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(session.written, b"")
        session.advance(10)
        self.assertEqual(acks(session.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_each_congestion_is_made_up_for_once(self) -> None:
        """The end of another one, in which nothing became due, sends nothing."""
        session = open_acceptor(window_size=2)
        session.session.congested()
        session.receive(user_packet())
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(acks(session.take_written()), [(1, 0, 0, 0, 0, 64)])
        session.session.congested()
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(session.written, b"")

    def test_a_timer_that_expired_meanwhile_is_made_up_for(self) -> None:
        """The acknowledgement that was due after half of AckTimeout follows."""
        session = open_acceptor()
        session.receive(user_packet())
        session.session.congested()
        session.advance(15)
        self.assertEqual(session.written, b"")
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(acks(session.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_a_closed_session_owes_no_acknowledgement(self) -> None:
        """A pending acknowledgement is dropped when the session closes."""
        session = open_acceptor(window_size=2)
        session.session.congested()
        session.receive(user_packet() + b"rubbish that is long enough")
        session.perform(session.session.congestion_ended(session.now))
        self.assertEqual(session.written, b"")
