"""Tests of session acknowledgements and windows ([MS-MQQB] 3.1.5.5, 3.1.6.3, 3.1.6.4)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.session.effects import Acknowledged, Closed, CloseReason, Deliver, Transmit, WindowOpened
from msmq.session.outgoing import OutgoingPacket
from msmq.session.state import MOST_UNNAMED_BYTES
from msmq.settings import SessionSettings
from tests.session.support import (
    Driven,
    acks,
    open_acceptor,
    open_initiator,
    session_ack,
    session_header,
    user_packet,
)


def acknowledged(driven: Driven) -> list[bytes]:
    """The packets that may be forgotten, in the order in which the session said so."""
    return [
        message.packet
        for effect in driven.take(Acknowledged)
        if isinstance(effect, Acknowledged)
        for message in effect.messages
    ]


class AcknowledgingTests(SynchronousTestCase):
    """Acknowledgements of a receiver, and their time."""

    def test_acknowledges_one_message_when_the_timer_expires(self) -> None:
        """A single express message is acknowledged at half the AckTimeout, once; after that the timer is
        stopped, so that the next one has the whole time again, whenever it comes.

        MQQB-3.1.6.4-01, MQQB-3.1.5.8.2-06, MQQB-3.1.6.4-06, MQQB-3.1.2.5-02.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9.999)
        self.assertEqual(driven.written, b"")
        driven.advance(0.001)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])
        driven.advance(0.2)
        driven.receive(user_packet())
        driven.advance(9.999)
        self.assertEqual(driven.written, b"")
        driven.advance(0.001)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 64)])
        driven.advance(100)
        self.assertEqual(driven.written, b"")

    def test_the_second_message_does_not_move_the_timer(self) -> None:
        """The timer runs from the first unacknowledged message (MQQB-3.1.2.5-01).

        MQQB-3.1.6.4-02.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9)
        driven.receive(user_packet())
        driven.advance(1)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 64)])

    def test_nothing_received_is_nothing_acknowledged(self) -> None:
        """An open session without messages writes nothing (MQQB-3.1.6.4-01)."""
        driven = open_acceptor()
        driven.advance(299)
        self.assertEqual(driven.written, b"")

    def test_acknowledges_at_half_the_window(self) -> None:
        """With a window of 4 the second message is acknowledged at once, and then the fourth.

        MQQB-3.1.1.6.1-05, MQQB-3.1.1.3.1-05.
        """
        driven = open_acceptor(window_size=4)
        driven.receive(user_packet())
        self.assertEqual(driven.written, b"")
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 64)])
        driven.receive(user_packet())
        self.assertEqual(driven.written, b"")
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(4, 0, 0, 0, 0, 64)])

    def test_a_batch_is_acknowledged_where_that_is_due(self) -> None:
        """Messages that come together are split there: what came before them counts, and a window of 1 gets
        an acknowledgement for each (MQQB-3.1.5.8.2-02).
        """
        for window, first, batch, counts in (
            (4, 1, 3, [2, 4]),
            (6, 1, 4, [3]),
            (1, 0, 3, [1, 2, 3]),
            (2, 0, 2, [1, 2]),
            (8, 3, 9, [4, 8, 12]),
        ):
            driven = open_acceptor(window_size=window)
            if first:
                driven.receive(user_packet() * first)
            driven.receive(user_packet() * batch)
            self.assertEqual([ack[0] for ack in acks(driven.take_written())], counts, window)
            self.assertEqual(len(driven.bodies), first + batch)

    def test_an_acknowledgement_is_awaited(self) -> None:
        """The peer may wait for it with a full window; it need not wait for a message."""
        driven = open_acceptor(window_size=2)
        effects = driven.session.receive([(user_packet(), None)], driven.now)
        self.assertEqual([each.is_awaited for each in effects if isinstance(each, Transmit)], [True])
        effects = driven.session.send([OutgoingPacket(user_packet())], driven.now)
        self.assertEqual([each.is_awaited for each in effects if isinstance(each, Transmit)], [False])

    def test_an_acknowledgement_stops_the_timer(self) -> None:
        """A message after it has the whole time again."""
        driven = open_acceptor(window_size=4)
        driven.receive(user_packet())
        driven.advance(5)
        driven.receive(user_packet())
        self.assertEqual([ack[0] for ack in acks(driven.take_written())], [2])
        driven.advance(1)
        driven.receive(user_packet())
        driven.advance(9.9)
        self.assertEqual(driven.take_written(), b"")
        driven.advance(0.1)
        self.assertEqual([ack[0] for ack in acks(driven.take_written())], [3])

    def test_only_an_arrived_message_can_be_stored(self) -> None:
        """A higher number is the caller's mistake, and names nothing."""
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True) * 2)
        error = self.assertRaises(LocalProtocolError, driven.session.persisted, 3, driven.now)
        self.assertIn("persisted(through=3): the last recoverable message", str(error))
        driven.perform(driven.session.persisted(2, driven.now))
        driven.perform(driven.session.persisted(1, driven.now))
        driven.advance(1)
        self.assertEqual(acks(driven.take_written()), [(2, 1, 0b11, 0, 0, 64)])

    def test_what_is_stored_during_a_pause_is_named_in_time(self) -> None:
        """The pause stops the timer; a message that is stored after it starts it again."""
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True) * 2)
        driven.perform(driven.session.pause(driven.now))
        driven.take_written()
        driven.advance(0.25)
        driven.perform(driven.session.persisted(1, driven.now))
        self.assertEqual(driven.session.deadline, driven.now.monotonic + 0.5)
        driven.advance(0.4)
        self.assertEqual(driven.take_written(), b"")
        driven.advance(0.1)
        self.assertEqual(acks(driven.take_written()), [(2, 1, 1, 0, 0, 1)])

    def test_acknowledges_a_batch_once(self) -> None:
        """Thirty-two messages in one chunk get one acknowledgement, after their delivery.

        MQQB-3.1.1.6.1-04.
        """
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(b"%d" % number) for number in range(32)))
        self.assertEqual(driven.bodies, [b"%d" % number for number in range(32)])
        self.assertEqual(acks(driven.take_written()), [(32, 0, 0, 0, 0, 64)])

    def test_recoverable_messages_are_named_once_they_are_stored(self) -> None:
        """The base is the lowest stored number, the flags run from it; while nothing else is counted or
        stored, the timer expires without an acknowledgement.

        MQQB-3.1.6.4-01, MQQB-3.1.6.4-03, MQQB-3.1.6.4-05, MQQB-3.1.3.2-02, MQQB-3.1.5.8.7-06.
        """
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(3)))
        [deliver] = driven.take(Deliver)
        assert isinstance(deliver, Deliver)
        self.assertEqual(deliver.first_recoverable, 1)
        driven.perform(driven.session.persisted(2, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(3, 1, 0b11, 0, 0, 64)])
        driven.advance(5)
        self.assertEqual(acks(driven.take_written()), [])
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(3, 3, 0b1, 0, 0, 64)])

    def test_a_recoverable_message_shortens_the_timer(self) -> None:
        """The negotiated time of recoverable messages takes over, whether they are stored by then or not.

        MQQB-3.1.5.8.7-05.
        """
        for stored, named in ((1, (1, 1)), (0, (0, 0))):
            driven = open_acceptor()
            driven.receive(user_packet())
            driven.receive(user_packet(recoverable=True))
            driven.perform(driven.session.persisted(stored, driven.now))
            driven.advance(0.5)
            self.assertEqual(acks(driven.take_written()), [(2, *named, 0, 0, 64)])

    def test_thirty_two_recoverables_are_acknowledged_at_once(self) -> None:
        """The flags name no more than 32 (MQQB-3.1.5.8.7-01, MQQB-3.1.5.8.7-02)."""
        driven = open_acceptor(settings=SessionSettings(window_size=200), window_size=200)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(40)))
        driven.perform(driven.session.persisted(40, driven.now))
        self.assertEqual(acks(driven.take_written()), [(40, 1, 0xFFFFFFFF, 0, 0, 200)])
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(40, 33, 0xFF, 0, 0, 200)])

    def test_all_that_one_commit_stored_is_named_at_once(self) -> None:
        """As many acknowledgements as that takes; only what is less than 32 waits for the timer."""
        driven = open_acceptor(settings=SessionSettings(window_size=500), window_size=500)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(200)))
        driven.perform(driven.session.persisted(100, driven.now))
        named = [(base, flags) for _, base, flags, *_ in acks(driven.take_written())]
        self.assertEqual(named, [(base, 0xFFFFFFFF) for base in (1, 33, 65)])
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(200, 97, 0xF, 0, 0, 500)])

    def test_the_rest_is_named_when_nothing_follows(self) -> None:
        """Fewer than 32 wait ten milliseconds without another commit, not half a second."""
        driven = open_acceptor(settings=SessionSettings(window_size=256), window_size=256)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(40)))
        driven.perform(driven.session.persisted(40, driven.now))
        driven.take_written()
        driven.advance(0.005)
        self.assertEqual(driven.written, b"")
        driven.advance(0.005)
        self.assertEqual(acks(driven.take_written()), [(40, 33, 0xFF, 0, 0, 256)])

    def test_a_steady_sender_is_acknowledged_together(self) -> None:
        """Messages that are stored one by one, two milliseconds apart, get an acknowledgement for 32."""
        driven = open_acceptor(settings=SessionSettings(window_size=256), window_size=256)
        for number in range(1, 65):
            driven.receive(user_packet(recoverable=True))
            driven.perform(driven.session.persisted(number, driven.now))
            driven.advance(0.002)
        self.assertEqual([ack[1] for ack in acks(driven.take_written())], [1, 33])

    def test_a_pending_commit_is_waited_for(self) -> None:
        """While a commit takes long there is no acknowledgement of a part."""
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(3)))
        driven.perform(driven.session.persisted(2, driven.now))
        driven.advance(0.1)
        self.assertEqual(driven.written, b"")
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.1)
        self.assertEqual(acks(driven.take_written()), [(3, 1, 0b111, 0, 0, 64)])

    def test_what_was_sent_is_counted_in_the_acknowledgement(self) -> None:
        """A SessionAck carries both sent counts and the window (MQQB-3.1.6.4-04).

        MQQB-3.1.1.3.1-03, MQQB-3.1.7.1.3-06.
        """
        driven = open_acceptor()
        driven.send(user_packet(), user_packet(recoverable=True), user_packet())
        driven.take_written()
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 3, 1, 64)])

    def test_counts_wrap_at_65536(self) -> None:
        """The 65537th message is acknowledged as number 1."""
        driven = open_acceptor()
        batch = user_packet() * 4096
        for _ in range(16):
            driven.receive(batch)
        driven.take_written()
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_a_message_carries_the_acknowledgement_late_in_the_timer(self) -> None:
        """After three quarters of the timer a message takes the acknowledgement along.

        The timer has ended with that, and runs anew from the next arrival on.
        MQQB-2.2.6-08, MQQB-3.1.7.11-02, MQQB-3.1.7.11-03, MQQB-3.1.7.1.3-07.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(7.4)
        driven.send(user_packet(b"early"))
        self.assertEqual(driven.take_written(), user_packet(b"early"))
        driven.advance(0.2)
        driven.send(user_packet(b"late"), user_packet(b"later"))
        header = session_header(received=1, sent=2)
        expected = user_packet(b"late", header=header) + user_packet(b"later")
        self.assertEqual(driven.take_written(), expected)
        driven.receive(user_packet())
        driven.advance(9.9)
        self.assertEqual(driven.take_written(), b"")
        driven.advance(0.1)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 3, 0, 64)])
        driven.advance(30)
        self.assertEqual(driven.written, b"")

    def test_an_order_ack_carries_nothing(self) -> None:
        """Some peers know it by its empty flags (reading 4): the acknowledgement waits for its timer."""
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9)
        ack = user_packet(destination="TCP:127.0.0.2\\PRIVATE$\\order_queue$")
        driven.send(ack)
        self.assertEqual(driven.take_written(), ack)
        driven.advance(1)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 1, 0, 64)])

    def test_what_was_carried_is_named_once(self) -> None:
        """What a carrier has acknowledged is neither named nor counted again (MQQB-3.1.7.11-03)."""
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True))
        driven.advance(0.4)
        driven.perform(driven.session.persisted(1, driven.now))
        driven.send(user_packet())
        header = session_header(received=1, sent=1, recoverable_base=1, recoverable_flags=1)
        self.assertEqual(driven.take_written(), user_packet(header=header))
        driven.receive(user_packet() * 31)
        self.assertEqual(driven.take_written(), b"")
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(33, 0, 0, 1, 0, 64)])

    def test_a_message_carries_nothing_that_is_not_owed(self) -> None:
        """Neither before anything arrived, nor at three quarters of the timer exactly, nor if it runs only
        for messages that are not stored yet.
        """
        driven = open_acceptor()
        driven.send(user_packet())
        self.assertEqual(driven.take_written(), user_packet())
        driven.receive(user_packet(recoverable=True))
        driven.advance(0.375)
        driven.send(user_packet())
        self.assertEqual(driven.take_written(), user_packet())
        driven.advance(0.125)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 2, 0, 64)])
        driven.advance(0.45)
        driven.send(user_packet())
        self.assertEqual(driven.take_written(), user_packet())

    def test_messages_behind_the_carrier_are_counted(self) -> None:
        """The header states the counts up to its own message, and the next acknowledgement those of all."""
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9)
        packets = [user_packet(b"%d" % number, recoverable=True) for number in range(3)]
        driven.send(*packets)
        header = session_header(received=1, sent=1, recoverable_sent=1)
        carrier = user_packet(b"0", recoverable=True, header=header)
        self.assertEqual(driven.take_written(), carrier + packets[1] + packets[2])
        statistics = driven.session.statistics
        self.assertEqual((statistics.sent, statistics.recoverable_sent, statistics.unacknowledged), (3, 3, 3))
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 3, 3, 64)])

    def test_a_message_names_the_stored_messages_once(self) -> None:
        """A message carries the flags of the recoverable messages that are stored; no SessionAck repeats
        them, and the next one names only what was stored since.

        MQQB-3.1.7.1.3-08.
        """
        driven = open_acceptor()
        driven.receive(user_packet(recoverable=True) * 4)
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.4)
        driven.send(user_packet())
        taken = driven.take_written()
        self.assertEqual(taken[-16:], session_header(4, 1, recoverable_base=1, recoverable_flags=7))
        driven.advance(30)
        self.assertEqual(driven.take_written(), b"", "all four are counted, and three are named")
        driven.perform(driven.session.persisted(4, driven.now))
        driven.advance(30)
        self.assertEqual(acks(driven.take_written()), [(4, 4, 1, 1, 0, 64)])


class UnnamedTests(SynchronousTestCase):
    """A peer that counts recoverable messages, and does not say that it has stored them."""

    def setUp(self) -> None:
        self.driven = open_initiator()
        self.packet = user_packet(recoverable=True)
        self.sent = 0

    def send(self, packet: bytes | None = None) -> int:
        """Send as many as may go."""
        count = self.driven.session.capacity
        self.driven.send(*(packet or self.packet for _ in range(count)))
        self.sent += count
        return count

    def count(self, base: int = 0, flags: int = 0) -> None:
        """The peer counts what was sent, and names some."""
        header = session_header(self.sent & 0xFFFF, recoverable_base=base, recoverable_flags=flags)
        self.driven.receive(session_ack(header))

    def test_none_is_taken_for_another(self) -> None:
        """Their numbers have 16 bits, so nothing more is sent before half of them are acknowledged."""
        while self.send():
            self.count()
        self.assertEqual(self.sent, 0x7FFF)
        self.assertEqual(acknowledged(self.driven), [])
        self.driven.take(WindowOpened)
        # All but the first are named.
        for base in range(2, 0x8000, 32):
            self.count(base, 0xFFFFFFFF)
        self.assertEqual((len(acknowledged(self.driven)), self.driven.session.capacity), (0x7FFE, 0))
        self.assertEqual(self.driven.take(WindowOpened), [])
        self.count(1, 1)
        self.assertEqual(len(self.driven.take(WindowOpened)), 1)
        self.assertEqual(self.send(), 64)

    def test_all_come_back(self) -> None:
        """When nothing happens any more the session closes, and none of them is forgotten."""
        while self.send():
            self.count()
        self.driven.advance(700)
        self.assertIs(self.driven.close_reason, CloseReason.IDLE)
        [closed] = self.driven.take(Closed)
        assert isinstance(closed, Closed)
        self.assertEqual(len(closed.unacknowledged), self.sent)

    def test_large_ones(self) -> None:
        """They are kept in memory, so there is a bound to what they have together."""
        self.send(user_packet(b"x" * (MOST_UNNAMED_BYTES // 32), recoverable=True))
        self.count()
        self.driven.take(WindowOpened)
        self.assertEqual((self.sent, self.driven.session.capacity), (64, 0))
        self.count(1, 0xFFFFFFFF)
        self.assertEqual(self.driven.session.capacity, 0)
        self.count(33, 1)
        self.assertEqual(self.driven.session.capacity, 64)
        self.assertEqual(len(self.driven.take(WindowOpened)), 1)

    def test_exactly_as_many_bytes(self) -> None:
        """The bound itself is not over it, and one small message more is."""
        body = MOST_UNNAMED_BYTES // 32 - len(self.packet)
        message = OutgoingPacket(user_packet(b"x" * body, recoverable=True))
        self.assertEqual(len(message.packet), MOST_UNNAMED_BYTES // 32)
        self.driven.session.send([message] * 32, self.driven.now)
        self.sent = 32
        self.count()
        self.assertEqual(self.driven.session.capacity, 64)
        self.driven.send(self.packet)
        self.assertEqual(self.driven.session.capacity, 0)

    def test_the_largest_window(self) -> None:
        """However large both windows are, no more are in flight than 16-bit counts can tell apart."""
        for window in (32766, 32767, 32768, 65535):
            driven = open_initiator(settings=SessionSettings(window_size=window), window_size=65535)
            self.assertEqual(driven.session.statistics.window, min(window, 32767))
            self.assertEqual(driven.session.capacity, min(window, 32767))
