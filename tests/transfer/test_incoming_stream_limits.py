"""Limits on incoming streams: how many there are, and the share of one host."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from tests.builders import BETA, GAMMA
from tests.transfer.support import Receiver, transactional_packet
from tests.transfer.test_incoming_streams import ACCEPTED, DUPLICATE, NO_ROOM, X, message


class RoomTests(SynchronousTestCase):
    def receiver(self, idle: float = 60) -> Receiver:
        receiver = Receiver(settings=SessionSettings(incoming_streams=2, incoming_stream_idle=idle))
        receiver.take(message(1))
        receiver.advance(1)
        receiver.take(message(1, source=BETA))
        return receiver

    def test_a_stream_in_use_is_never_forgotten(self) -> None:
        """Another stream beyond the limit is refused, and its messages have to come again."""
        receiver = self.receiver()
        self.assertEqual(receiver.take(message(1, source=GAMMA)), [NO_ROOM])
        self.assertEqual(receiver.take(message(1), message(2)), [DUPLICATE, ACCEPTED])

    def test_an_idle_stream_makes_room(self) -> None:
        """The one that was idle for longest goes, from the store too."""
        receiver = self.receiver()
        receiver.advance(50)
        receiver.take(message(2))
        receiver.advance(20)
        self.assertEqual(receiver.take(message(1, source=GAMMA)), [ACCEPTED])
        self.assertEqual(len(receiver.state), 2)
        receiver = receiver.restart()
        self.assertEqual(receiver.take(message(1), message(1, source=GAMMA)), [DUPLICATE] * 2)

    def test_how_long_a_stream_is_kept(self) -> None:
        """It is idle from the last second of the time on, and not before."""
        receiver = self.receiver(idle=60)
        receiver.advance(58)
        self.assertEqual(receiver.take(message(1, source=GAMMA)), [NO_ROOM])
        receiver.advance(1)
        self.assertEqual(receiver.take(message(1, source=GAMMA)), [ACCEPTED])

    def test_removed_entries_stay_stored_if_the_store_fails(self) -> None:
        """It is removed with the next commit."""
        receiver = self.receiver()
        receiver.advance(100)
        receiver.classify(message(1, source=GAMMA))
        receiver.begin()
        receiver.failed()
        self.assertEqual(receiver.take(message(1, source=GAMMA)), [ACCEPTED])
        self.assertEqual(len(receiver.state), 2)

    def test_a_stream_that_is_being_stored_stays(self) -> None:
        """Even if its clock says that it is old."""
        receiver = self.receiver(idle=-1)
        receiver.classify(message(2), message(2, source=BETA))
        self.assertEqual(receiver.classify(message(1, source=GAMMA)), [NO_ROOM])


class SharesTests(SynchronousTestCase):
    """No host has more streams than are left for others."""

    def setUp(self) -> None:
        self.receiver = Receiver(settings=SessionSettings(incoming_streams=8, incoming_stream_idle=60))
        self.sources = 0

    def fill(self, address: str = "TCP:10.0.0.9") -> int:
        """How many streams one host gets."""
        for count in range(100):
            self.sources += 1
            verdicts = self.receiver.classify(message(1, source=UUID(int=self.sources)), address=address)
            self.store()
            if verdicts == [NO_ROOM]:
                return count
        raise AssertionError("without an end")

    def store(self) -> None:
        self.receiver.begin()
        self.receiver.write()
        self.receiver.stored()

    def test_one_host_leaves_room_for_others(self) -> None:
        """And the next one leaves some too; what they have goes on."""
        self.assertEqual(self.fill(), 5)
        self.assertEqual(self.receiver.streams.held_by("TCP:10.0.0.9"), 5)
        self.assertEqual(self.fill("TCP:10.0.0.10"), 2)
        self.assertEqual(self.fill("TCP:10.0.0.11"), 1)
        self.assertEqual(self.receiver.classify(message(2, source=UUID(int=1))), [ACCEPTED])

    def test_a_network_of_ipv6_is_one_host(self) -> None:
        """A host with one of its addresses gets no more with another."""
        self.assertEqual(self.fill("TCP:2001:db8::1"), 5)
        self.assertEqual(self.fill("TCP:2001:db8::2"), 0)

    def test_after_a_restart(self) -> None:
        """Their receivers are known, also of those to names without an address."""
        packets = [
            transactional_packet(place=(X, 1, 0), private_number=7, source=UUID(int=100 + number))
            for number in range(3)
        ]
        self.receiver.classify(*packets)
        self.store()
        self.assertEqual(self.fill(), 2)
        self.receiver = self.receiver.restart()
        self.assertEqual((self.fill(), self.receiver.streams.held_by("TCP:10.0.0.9")), (0, 5))
        [info, *_] = self.receiver.streams.infos()
        self.assertEqual(self.fill("TCP:10.0.0.10"), 2)
        self.assertTrue(info.sequence_number)

    def test_a_stream_by_another_route(self) -> None:
        """It is counted for its latest source, once, and for that alone, also after a restart."""
        self.fill()
        for place in (2, 3):
            for number in range(1, 4):
                again = message(place, source=UUID(int=number))
                self.assertEqual(self.receiver.classify(again, address="TCP:10.0.0.10"), [ACCEPTED])
            self.store()
            self.assertEqual(self.held(), [2, 3])
        self.assertEqual(self.fill(), 1)
        self.receiver = self.receiver.restart()
        self.assertEqual(self.held(), [3, 3])
        self.receiver.classify(message(4, source=UUID(int=1)))
        self.assertEqual(self.held(), [4, 2])

    def held(self) -> list[int]:
        """How many streams each of two hosts has."""
        return [self.receiver.streams.held_by(f"TCP:10.0.0.{host}") for host in (9, 10)]

    def test_idle_ones_make_room(self) -> None:
        """Those of the host that has most too."""
        self.fill()
        self.receiver.advance(100)
        self.assertEqual(self.receiver.classify(message(1, source=GAMMA)), [ACCEPTED])
        self.assertEqual(len(self.receiver.streams), 5)

    def test_the_last_place(self) -> None:
        """As many streams as the limit, and not one more, also for a host that has none."""
        receiver = Receiver(settings=SessionSettings(incoming_streams=1))
        self.assertEqual(receiver.take(message(1), address="TCP:10.0.0.1"), [ACCEPTED])
        self.assertEqual(receiver.take(message(1, source=GAMMA), address="TCP:10.0.0.2"), [NO_ROOM])
        self.assertEqual(len(receiver.streams), 1)
