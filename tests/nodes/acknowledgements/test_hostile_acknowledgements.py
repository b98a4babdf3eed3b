"""Peers that acknowledge what they did not receive, repeatedly, wrongly, or in the name of another peer."""

from __future__ import annotations

import random
import struct
from uuid import UUID

from tests.builders import ALPHA, GAMMA, session_ack, session_header
from tests.nodes.outgoing.senders import SenderTestCase
from tests.nodes.scripted import (
    ACK_RECEIVE,
    DEADXACT,
    JOURNAL,
    ORDER_ACK,
    acknowledgement,
    final_ack,
    order_ack,
)

UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")


class HostileTests(SenderTestCase):
    """No acknowledgement of a peer removes a message that did not arrive, or causes one to be sent twice."""

    def test_acknowledgements_of_what_was_never_sent(self) -> None:
        """They take nothing, and say nothing about what is sent afterwards."""
        self.put(b"1", b"2")
        sequence = self.sequence()
        for other, number in (
            (sequence, 0),
            (sequence + 1, 1),
            (sequence - 1, 1),
            (0, 1),
            (0xFFFFFFFFFFFFFFFF, 2),
        ):
            self.tell(order_ack(other, number))
        self.assertEqual(self.remaining(), 2)
        self.put(b"3")
        self.assertEqual(self.numbers(), [(1, 0), (2, 1), (3, 2)])
        self.assertEqual(self.remaining(), 3)
        self.tell(order_ack(sequence, 3))
        self.assertEqual(self.remaining(), 0)

    def test_acknowledgements_of_numbers_that_were_not_sent(self) -> None:
        """What is sent afterwards waits for an acknowledgement of what was sent; there is one report."""
        self.put(b"1", b"2", b"3")
        sequence = self.sequence()
        for number in (1, 2):
            for claimed in (4, 0xFFFFFFFF, 5):
                self.tell(order_ack(sequence, claimed))
            self.put(b"later")
            self.assertEqual((len(self.numbers()), self.remaining()), (3, 3 + 1))
            self.tell(order_ack(sequence, number))
        self.tell(order_ack(sequence, 3))
        self.assertEqual(self.numbers(), [(1, 0), (2, 1), (3, 2), (1, 0), (2, 1)])
        self.tell(order_ack(self.sequence(), 2))
        self.assertEqual(self.remaining(), 0)
        stored = self.successResultOf(self.alpha.store.read_events(0, 1000))
        self.assertEqual([each.event.event for each in stored].count("sequence_passed"), 1)

    def test_acknowledgements_repeated_and_in_another_order(self) -> None:
        """An old one changes nothing, and one of an ended sequence nothing of the next (reading 54)."""
        self.put(b"1", b"2", b"3")
        old = self.sequence()
        for number in (2, 1, 2, 2, 1):
            self.tell(order_ack(old, number))
        self.assertEqual(self.remaining(), 1)
        self.tell(order_ack(old, 3))
        self.put(b"4", b"5")
        self.assertGreater(self.sequence(), old)
        for number in (1, 2, 3):
            self.tell(order_ack(old, number))
        self.assertEqual(self.remaining(), 2)
        self.assertEqual(self.numbers()[-2:], [(1, 0), (2, 1)])

    def test_final_acknowledgements_repeated_and_forged(self) -> None:
        """Each message has one fate, and only a FinalAck that names it in every field decides it."""
        self.put(b"1", b"2", journal=True, dead_letter=True)
        first, second = self.peer.messages
        sequence, number, previous = second.place
        forged = [
            final_ack(second, about=UNKNOWN_PEER),
            final_ack(second, about=GAMMA),
            acknowledgement(
                ACK_RECEIVE,
                struct.pack("<QII", sequence + 1, number, previous) + ALPHA.bytes_le + struct.pack("<I", 2),
            ),
            acknowledgement(
                ACK_RECEIVE,
                struct.pack("<QII", sequence, number + 1, previous) + ALPHA.bytes_le + struct.pack("<I", 2),
            ),
            acknowledgement(
                ACK_RECEIVE,
                struct.pack("<QII", sequence, number, previous) + ALPHA.bytes_le + struct.pack("<I", 99),
            ),
        ]
        self.tell(*forged)
        self.assertEqual(self.remaining(), 2)
        self.tell(order_ack(sequence, 2), *forged)
        self.tell(*[final_ack(first)] * 3, final_ack(first, 0xC002))
        self.assertEqual(self.there(self.alpha, JOURNAL), [b"1"])
        self.assertEqual(self.there(self.alpha, DEADXACT), [])
        self.tell(final_ack(second, 0xC001), final_ack(second))
        self.assertEqual(self.there(self.alpha, JOURNAL), [b"1"])
        self.assertEqual(self.there(self.alpha, DEADXACT), [b"2"])
        self.assertFalse(self.peer.is_lost)

    def test_malformed_acknowledgements(self) -> None:
        """They are counted and dropped, or end the session; the message stays and arrives by the next one."""
        self.put(b"1")
        sequence = self.sequence()
        good = order_ack(sequence, 1)
        for packet in (
            acknowledgement(ORDER_ACK, b""),
            acknowledgement(ORDER_ACK, struct.pack("<QII", sequence, 1, 0)),
            acknowledgement(ORDER_ACK, struct.pack("<QII", sequence, 1, 0) + bytes(24)),
            acknowledgement(0x0002, good[-36:]),
            acknowledgement(0x0000, good[-36:]),
            acknowledgement(0x3FFF, struct.pack("<QII", sequence, 1, 0) + ALPHA.bytes_le + bytes(4)),
            good[:-36].replace("Ordering".encode("utf-16-le"), "ordering".encode("utf-16-le")) + good[-36:],
            good[:100] + b"\xff" * 40 + good[140:],
            good[:60] + b"\xff\xff\xff\xff" + good[64:],
        ):
            if self.peer.is_lost:
                self.clock.advance(6)
            self.tell(packet)
            self.assertEqual(self.remaining(), 1, packet)
        self.clock.advance(10)
        self.tell(order_ack(sequence, 1))
        self.assertEqual(self.remaining(), 0)

    def test_a_session_acknowledgement_of_what_was_never_sent(self) -> None:
        """It ends the session, and what it named is sent again."""
        self.put(b"1", journal=True)
        self.peer.say(session_ack(session_header(9, 0, recoverable_base=1, recoverable_flags=0xFFFFFFFF)))
        self.clock.advance(0.1)
        self.assertTrue(self.peer.is_lost)
        self.clock.advance(10)
        self.assertEqual(self.numbers(), [(1, 0)])
        self.assertEqual(self.there(self.alpha, JOURNAL), [])

    def test_an_acknowledgement_from_another_queue_manager(self) -> None:
        """Only the receiver of the messages of a direct name can acknowledge them."""
        self.put(b"1", b"2", journal=True)
        message = self.peer.messages[0]
        sequence = self.sequence()
        unknown_peer = self.dial("ALPHA", host=self.network.host("127.0.0.9"), identifier=UNKNOWN_PEER)
        unknown_peer.send(order_ack(sequence, 2, source=UNKNOWN_PEER), order_ack(sequence, 2))
        unknown_peer.send(final_ack(message, source=UNKNOWN_PEER), final_ack(message))
        self.clock.advance(1)
        self.assertEqual(self.remaining(), 2)
        self.assertEqual(self.there(self.alpha, JOURNAL), [])
        # The receiver may dial by itself to tell.
        dialled = self.dial("ALPHA")
        dialled.send(order_ack(sequence, 2))
        self.clock.advance(1)
        self.assertEqual(self.remaining(), 0)

    def test_any_history_of_acknowledgements(self) -> None:
        """However they are mixed, exactly what was acknowledged by its sequence and number leaves."""
        chance = random.Random(7)
        highest = 0
        self.put(*[b"%d" % number for number in range(1, 21)])
        sequence = self.sequence()
        for _ in range(200):
            number = chance.choice((0, *range(1, 16), 21, 1 << 31, 0xFFFFFFFF))
            other = chance.choice((sequence, sequence, sequence + 1, sequence - (1 << 32), 0))
            self.tell(order_ack(other, number))
            if other == sequence and number <= 15:
                highest = max(highest, number)
            self.assertEqual(self.remaining(), 20 - highest)
            self.peer.acknowledge()
        self.assertEqual(highest, 15)
        self.clock.advance(31)
        self.assertEqual({message.body for message in self.peer.messages[20:]}, set(_bodies(16, 20)))
        self.tell(order_ack(sequence, 20))
        self.assertEqual(self.remaining(), 0)


def _bodies(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]
