"""Records of deliveries as bytes, merged, searched and bounded."""

from __future__ import annotations

import random
import struct
import zlib

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateError
from msmq.transfer.deliveries.flight import Flight, RunBuilder
from msmq.transfer.deliveries.records import (
    LARGEST_PAGE,
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    MessageRun,
    content_size,
    read_index,
    read_records,
    write_block,
    write_page,
)
from msmq.transfer.deliveries.table import MERGED, MERGED_BYTES, DeliveryTable
from tests.builders import ALPHA, BETA

OWN = ALPHA.bytes_le
THERE = DeliveryTarget(BETA.bytes_le, "127.0.0.3", 1_700_000_000.0, "DIRECT=TCP:127.0.0.3\\private$\\orders")


def handed_over(message_id: int, time: float = 1_700_000_001.0, count: int = 1) -> DeliveryRecord:
    run = MessageRun(message_id, count, message_id, 0, time - 0.25)
    return DeliveryRecord(DeliveryStep.HANDED_OVER, time, THERE, OWN, (run,))


class Stored:
    """The stored values of a table."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def take(self, table: DeliveryTable) -> None:
        for name, value in table.take():
            if value is None:
                del self.values[name]
            else:
                self.values[name] = value


def found(table: DeliveryTable, message_id: int, source: bytes = OWN) -> list[DeliveryRecord]:
    return [record for portion in table.find(source, message_id) for record in portion]


class RecordTests(SynchronousTestCase):
    """One block."""

    def test_written_values_are_read(self) -> None:
        """Peer, address, session, numbers and times of one message of several are exact."""
        run = MessageRun(70, 3, 12, 5, 1_700_000_000.875)
        record = DeliveryRecord(DeliveryStep.SETTLED, 1_700_000_001.125, THERE, OWN, (run,), 1 << 63, 0x4000)
        data = write_block([handed_over(7), record])
        [one] = read_records("", data, OWN, 72)
        self.assertEqual(one.runs, (MessageRun(72, 1, 14, 7, 1_700_000_000.875),))
        self.assertEqual((one.time, one.where, one.source), (record.time, THERE, OWN))
        self.assertEqual((one.step, one.sequence, one.message_class), (DeliveryStep.SETTLED, 1 << 63, 0x4000))
        self.assertEqual(list(read_records("", data, OWN, 73)), [])
        self.assertEqual(list(read_records("", data, BETA.bytes_le, 72)), [])
        [plain] = read_records("", data, OWN, 7)
        self.assertEqual((plain.sequence, plain.message_class), (0, 0))
        self.assertEqual(plain.runs, (MessageRun(7, 1, 7, 0, 1_700_000_000.75),))

    def test_unknown_values(self) -> None:
        """A number, a time or a class that is not known is 0 after reading too."""
        where = DeliveryTarget(bytes(16), "", 0.0, "orders")
        record = DeliveryRecord(DeliveryStep.ORDERED, 2.0, where, OWN, (MessageRun(7, 1),))
        self.assertEqual(list(read_records("", write_block([record]), OWN, 7)), [record])
        self.assertEqual((record.sequence, record.message_class), (0, 0))
        self.assertEqual(attrs.astuple(record.runs[0]), (7, 1, 0, 0, 0.0))

    def test_cut_short(self) -> None:
        """A block that ends anywhere within its index is damaged, and so is one of another version."""
        data = write_block([handed_over(7), attrs.evolve(handed_over(8), source=BETA.bytes_le)])
        index = struct.calcsize("<BBIQQH") + 2 * struct.calcsize("<16sII")
        for size in range(index):
            error = self.assertRaises(StateError, read_index, "x", data[:size])
            self.assertEqual(error.name, "x")
        self.assertEqual(read_index("x", data[:index]), read_index("x", data))
        for other in (b"\x09", b"\xff"):
            for changed in (other + data[1:], data[:1] + other + data[2:]):
                self.assertIn("is of version", str(self.assertRaises(StateError, read_index, "x", changed)))

    def test_one_range_for_each_source(self) -> None:
        """An index that names a queue manager twice is damaged."""
        data = write_block([handed_over(7), attrs.evolve(handed_over(8), source=BETA.bytes_le)])
        head, entry = struct.calcsize("<BBIQQH"), struct.calcsize("<16sII")
        twice = data[: head + entry] + data[head : head + entry] + data[head + 2 * entry :]
        self.assertRaises(StateError, read_index, "x", twice)

    def test_index(self) -> None:
        """It has the number of messages, the first and the last time, and the range of each source."""
        records = [
            handed_over(7, 1_700_000_002.5, count=3),
            handed_over(20, 1_700_000_001.125),
            attrs.evolve(handed_over(3, 1_700_000_001.5), source=BETA.bytes_le),
        ]
        ranges = {OWN: (7, 20), BETA.bytes_le: (3, 3)}
        index = read_index("x", write_block(records))
        self.assertEqual((index.messages, index.first, index.last), (5, 1_700_000_001.125, 1_700_000_002.5))
        self.assertEqual(index.ranges, ranges)
        for source, number, expected in ((OWN, 6, False), (OWN, 7, True), (OWN, 20, True), (OWN, 21, False)):
            self.assertIs(index.may_have(source, number), expected)
        self.assertFalse(index.may_have(bytes(16), 7))
        apart = [read_index("x", write_block([record])) for record in records]
        self.assertEqual(type(index).joined(apart), index)

    def test_size_of_a_page(self) -> None:
        """A page that has not as many bytes as it states, none, or more than any, is damaged."""
        block = write_block([handed_over(7)])
        index = read_index("x", block)
        page = write_page([block, block], index)
        at = struct.calcsize("<BBIQQH") + struct.calcsize("<16sII")
        right = int.from_bytes(page[at : at + 4], "little")
        self.assertEqual(content_size("x", page), right)
        self.assertEqual(content_size("x", block), len(block))
        self.assertEqual(len(list(read_records("x", page, OWN, 7))), 2)
        for size in (right - 1, right + 1, 0, LARGEST_PAGE + 1):
            wrong = page[:at] + size.to_bytes(4, "little") + page[at + 4 :]
            error = self.assertRaises(StateError, lambda data: list(read_records("x", data, OWN, 7)), wrong)
            self.assertEqual(error.name, "x")
        self.assertRaises(StateError, lambda: list(read_records("x", page[:-1], OWN, 7)))
        for size, is_possible in ((0, False), (1, True), (LARGEST_PAGE, True), (LARGEST_PAGE + 1, False)):
            stated = page[:at] + size.to_bytes(4, "little") + page[at + 4 :]
            if is_possible:
                self.assertEqual(content_size("x", stated), size)
            else:
                self.assertRaises(StateError, content_size, "x", stated)

    def test_a_record_that_is_cut_short(self) -> None:
        """The error says where it is, in a block and in a page."""
        block = write_block([handed_over(7)])
        error = self.assertRaises(StateError, lambda: list(read_records("x", block[:-1], OWN, 7)))
        self.assertIn("the record at offset", str(error))
        page = write_page([block[:-1]], read_index("x", block))
        self.assertRaises(StateError, lambda: list(read_records("x", page, OWN, 7)))

    def test_a_block_that_is_cut_short(self) -> None:
        """A page whose last block states more bytes than there are is damaged, for that reason."""
        block = write_block([handed_over(7)])
        index = struct.calcsize("<BBIQQH") + struct.calcsize("<16sII")
        content = struct.pack("<I", len(block) + 1) + block
        page = write_page([block], read_index("x", block))[:index]
        page += struct.pack("<I", len(content)) + zlib.compress(content)
        error = self.assertRaises(StateError, lambda: list(read_records("x", page, OWN, 7)))
        self.assertIn(f"a block of {len(block) + 1} bytes is cut short", str(error))

    def test_many_are_small(self) -> None:
        """A thousand messages with consecutive identifiers take less than 300 bytes."""
        self.assertLess(len(write_block([handed_over(1, count=1000)])), 300)

    @given(st.data())
    def test_damage(self, data: st.DataObject) -> None:
        """Damaged bytes are reported as such, or read as something else, and nothing else happens."""
        table, stored = DeliveryTable("x/", 100_000), Stored()
        for number in range(MERGED[0]):
            table.add(handed_over(number + 1))
            stored.take(table)
        table.add(handed_over(1000))
        stored.take(table)
        for value in stored.values.values():
            position = data.draw(st.integers(0, len(value) - 1))
            changed = value[:position] + bytes((value[position] ^ data.draw(st.integers(1, 255)),))
            changed += value[position + 1 : data.draw(st.integers(position, len(value)))]
            try:
                read_index("x", changed)
                list(read_records("x", changed, OWN, 1))
            except StateError as error:
                self.assertIn("'x'", str(error))


class RunTests(SynchronousTestCase):
    """Messages that went together."""

    def test_consecutive_messages_are_one(self) -> None:
        """Identifiers and numbers have to follow each other, and the time has to be the same."""
        builder = RunBuilder()
        for numbers in ((1, 5, 0, 2.0), (2, 6, 0, 2.0), (3, 7, 0, 3.0), (5, 8, 0, 3.0), (6, 10, 0, 3.0)):
            builder.add(*numbers)
        expected = builder.finish()[:]
        self.assertEqual(builder.finish(), expected, "nothing was added")
        self.assertEqual(
            expected,
            [
                MessageRun(1, 2, 5, 0, 2.0),
                MessageRun(3, 1, 7, 0, 3.0),
                MessageRun(5, 1, 8, 0, 3.0),
                MessageRun(6, 1, 10, 0, 3.0),
            ],
        )

    def test_sequence_numbers_have_to_follow_each_other(self) -> None:
        """A gap in any of the three numbers, or one that is missing, begins a run."""
        builder = RunBuilder()
        for numbers in (
            (1, 0, 4),
            (2, 0, 5),
            (3, 0, 6),
            (4, 0, 8),
            (5, 0, 0),
            (6, 0, 0),
            (7, 1, 0),
            (8, 0, 0),
        ):
            builder.add(*numbers)
        self.assertEqual(
            builder.finish(),
            [
                MessageRun(1, 3, 0, 4),
                MessageRun(4, 1, 0, 8),
                MessageRun(5, 2),
                MessageRun(7, 1, 1),
                MessageRun(8, 1),
            ],
        )

    def test_without_numbers(self) -> None:
        """Identifiers alone are joined too."""
        builder = RunBuilder()
        for number in (8, 9, 11):
            builder.add(number)
        self.assertEqual(builder.finish(), [MessageRun(8, 2), MessageRun(11, 1)])


class FlightTests(SynchronousTestCase):
    """Messages in transit on a session."""

    def test_numbers_and_times(self) -> None:
        """Each message has its number in the order of sending and the time of its sending."""
        flight = Flight()
        flight.depart("abc", 1.0)
        flight.depart("de", 2.0)
        self.assertEqual([flight.arrive(one) for one in "adcx"], [1, 4, 3, 0])
        flight.forget()
        self.assertEqual([flight.time(number) for number in (2, 3, 4, 5)], [1.0, 1.0, 2.0, 2.0])
        self.assertEqual(len(flight), 2)

    def test_messages_that_arrive_together(self) -> None:
        """The runs equal those of separate messages."""
        chance = random.Random(4711)
        for _ in range(300):
            alone, together = Flight(), Flight()
            sent: list[str] = []
            for step in range(chance.randrange(1, 6)):
                portion = [f"{step}/{number}" for number in range(chance.randrange(1, 6))]
                for flight in (alone, together):
                    flight.depart(portion, float(step // 2))
                sent += portion
            ids = list(range(100, 100 + len(sent)))
            if chance.random() < 0.5:
                # A gap, an exchange, and one that is not on its way.
                ids = [one + (one > 103) for one in ids]
                place = chance.randrange(len(sent))
                sent[0], sent[place] = sent[place], sent[0]
                sent.append("other")
                ids.append(ids[-1] + 1)
            builder = RunBuilder()
            for one, message_id in zip(sent, ids, strict=True):
                number = alone.arrive(one)
                builder.add(message_id, number, 0, alone.time(number))
            self.assertEqual(together.arrive_together(sent, ids), builder.finish())
            self.assertEqual(len(together), 0)

    def test_messages_that_did_not_depart(self) -> None:
        """They have no number, and are one run if their identifiers follow each other; others are another."""
        flight = Flight()
        flight.depart("a", 0.0)
        runs = flight.arrive_together("xyaz", [1, 2, 3, 4])
        self.assertEqual(runs, [MessageRun(1, 2), MessageRun(3, 1, 1), MessageRun(4, 1)])

    def test_times_are_forgotten(self) -> None:
        """The stored times are bounded by the messages in transit."""
        flight = Flight()
        for number in range(1000):
            flight.depart((number,), float(number))
            flight.arrive(number)
            flight.forget()
        self.assertEqual(flight.time(999), 0.0)
        self.assertEqual(flight.time(1000), 999.0)


class TableTests(SynchronousTestCase):
    """Many blocks."""

    def setUp(self) -> None:
        self.table = DeliveryTable("x/", 1_000_000)
        self.stored = Stored()

    def fill(self, count: int, first: int = 1) -> None:
        for number in range(first, first + count):
            self.table.add(handed_over(number, 1_700_000_000.0 + number))
            self.stored.take(self.table)

    def again(self) -> DeliveryTable:
        """The table after a restart."""
        table = DeliveryTable("x/", 1_000_000)
        table.load(self.stored.values)
        return table

    def test_found_at_once(self) -> None:
        """A record is found before it is stored."""
        self.table.add(handed_over(7))
        self.assertEqual(len(found(self.table, 7)), 1)
        self.assertEqual(found(self.table, 8), [])

    def test_figures(self) -> None:
        """Steps are counted when they are added, and are pending until they are taken."""
        self.assertEqual((self.table.pending, self.table.messages, self.table.size), (0, 0, 0))
        self.table.add(handed_over(1, count=3))
        self.table.add(handed_over(7, count=2))
        self.assertEqual((self.table.pending, self.table.messages), (5, 5))
        self.assertEqual(self.table.since, 1_700_000_001.0)
        self.stored.take(self.table)
        self.assertEqual((self.table.pending, self.table.messages), (0, 5))
        self.assertGreater(self.table.size, sum(map(len, self.stored.values.values())))
        self.table.add(handed_over(9))
        self.assertEqual((self.table.pending, self.table.messages), (1, 6))

    def test_whether_it_is_on(self) -> None:
        """With a limit of 0 nothing is recorded, also for the time until it is changed."""
        table = DeliveryTable("x/", 0)
        self.assertFalse(table.is_on)
        table.add(handed_over(1))
        self.assertEqual(found(table, 1), [])
        table.configure(1)
        self.assertTrue(table.is_on)
        table.add(handed_over(1))
        self.assertEqual(len(found(table, 1)), 1)

    def test_the_limit_is_exact(self) -> None:
        """As many bytes as the limit are kept, and with one less the oldest value goes."""
        self.fill(3)
        self.table.configure(self.table.size)
        self.assertEqual(self.table.take(), [])
        self.table.configure(self.table.size - 1)
        self.assertEqual(self.table.take(), [("x/0", None)])
        self.assertEqual((self.table.messages, found(self.table, 1)), (2, []))

    def test_blocks_are_merged_by_their_size_too(self) -> None:
        """Few blocks are one page when they have so many bytes together, and not before."""
        size = before = 0
        for start in range(0, 300_000, 10_000):
            builder = RunBuilder()
            for number in range(start, start + 10_000, 10):
                builder.add(number)
            record = DeliveryRecord(DeliveryStep.ORDERED, 1.0, THERE, OWN, builder.finish())
            size += len(write_block([record]))
            self.table.add(record)
            self.stored.take(self.table)
            if size >= MERGED_BYTES:
                break
            before += 1
            self.assertEqual(len(self.stored.values), before)
        self.assertGreater(before, 2)
        self.assertEqual(len(self.stored.values), 1)
        self.assertEqual(self.again().messages, 1000 * (before + 1))

    def test_one_large_value(self) -> None:
        """It is not merged with anything, costs what it did, and is found before and after a restart."""
        builder = RunBuilder()
        for number in range(0, 150_000, 10):
            builder.add(number)
        self.table.add(DeliveryRecord(DeliveryStep.ORDERED, 1.0, THERE, OWN, builder.finish()))
        [(name, value)] = self.table.take()
        assert value is not None
        self.stored.values[name] = value
        self.assertGreater(len(value), MERGED_BYTES)
        size = self.table.size
        self.assertEqual(self.table.take(), [])
        self.assertEqual(self.table.size, size)
        for table in (self.table, self.again()):
            self.assertEqual((len(found(table, 149_990)), table.messages, table.size), (1, 15_000, size))
        self.table.configure(0)
        self.assertEqual(self.table.take(), [(name, None)])
        self.assertEqual((self.table.size, self.table.messages), (0, 0))

    def test_found_after_a_restart(self) -> None:
        """Every record is found once, however often it was merged, before and after a restart."""
        count = MERGED[0] * MERGED[1] * 2 + MERGED[0] + 3
        self.fill(count)
        for table in (self.table, self.again()):
            self.assertEqual(table.messages, count)
            for number in (1, 2, MERGED[0], MERGED[0] + 1, count - 1, count):
                [record] = found(table, number)
                self.assertEqual(record.time, 1_700_000_000.0 + number)
            self.assertEqual(found(table, count + 1), [])
            self.assertEqual(table.since, 1_700_000_001.0)

    def test_few_values(self) -> None:
        """A message at a time leaves few values, of fewer than 30 bytes for a message."""
        count = MERGED[0] * MERGED[1] * 3
        self.fill(count)
        self.assertLess(len(self.stored.values), 10)
        self.assertLess(sum(map(len, self.stored.values.values())), 30 * count)

    def test_restarts_leave_few_values(self) -> None:
        """Values are merged further after a restart."""
        for number in range(100):
            self.fill(20, 20 * number + 1)
            self.table = self.again()
        self.assertLess(len(self.stored.values), MERGED[0] + MERGED[1] + 2)
        self.assertEqual(self.table.messages, 2000)

    def test_small_pages_are_merged_after_a_restart(self) -> None:
        """As many as without it make a larger one, which stays as it is."""
        count = MERGED[0] * MERGED[1]
        for start in range(1, count + 1, MERGED[0]):
            self.fill(MERGED[0], start)
            self.table = self.again()
        self.assertEqual(len(self.stored.values), 1)
        for start in range(count + 1, 2 * count + 1, MERGED[0]):
            self.fill(MERGED[0], start)
            self.table = self.again()
        self.assertEqual(len(self.stored.values), 2)
        self.assertEqual(self.table.messages, 2 * count)

    def test_bounded(self) -> None:
        """Beyond the limit the oldest records are removed, in the store too."""
        self.table.configure(20_000)
        self.fill(5000)
        self.assertLessEqual(self.table.size, 20_000)
        self.assertLess(sum(map(len, self.stored.values.values())), 20_000)
        self.assertEqual(found(self.table, 1), [])
        self.assertEqual(len(found(self.table, 5000)), 1)
        self.assertGreater(self.table.since or 0, 1_700_000_001.0)

    def test_no_records_with_a_limit_of_zero(self) -> None:
        """With a limit of 0 nothing is kept, and what was kept is removed."""
        self.fill(70)
        self.table.configure(0)
        self.table.add(handed_over(100))
        self.stored.take(self.table)
        self.assertEqual((self.stored.values, self.table.since), ({}, None))

    def test_large_values_are_not_merged(self) -> None:
        """A page has a largest size; what is large already stays as it is, and is found."""
        for start in range(0, 3_000_000, 60_000):
            builder = RunBuilder()
            for number in range(start, start + 60_000, 10):
                builder.add(number)
            record = DeliveryRecord(DeliveryStep.ORDERED, 1.0 + start, THERE, OWN, builder.finish())
            self.table.add(record)
            self.stored.take(self.table)
        for number in (2_999_990, 2_400_000):
            self.assertEqual(len(found(self.table, number)), 1, number)
            self.assertEqual(len(found(self.again(), number)), 1, number)

    def test_many_sources(self) -> None:
        """Messages of many queue managers are in several blocks."""
        for number in range(2500):
            record = handed_over(7)
            source = number.to_bytes(16, "big")
            self.table.add(DeliveryRecord(record.step, record.time, record.where, source, record.runs))
        self.stored.take(self.table)
        self.assertEqual(len(self.stored.values), 3)
        self.assertEqual(len(found(self.again(), 7, (2499).to_bytes(16, "big"))), 1)

    def test_damaged_value(self) -> None:
        """A value that cannot be read is reported and removed; the others are there."""
        self.fill(2)
        self.stored.values["x/0"] = b"\x09"
        table = self.again()
        self.assertEqual(len(table.damage), 1)
        self.assertIn("x/0", table.damage[0])
        self.assertEqual(len(found(table, 2)), 1)
        self.stored.take(table)
        self.assertEqual(list(self.stored.values), ["x/1"])
        self.assertEqual(table.take(), [], "it is removed once")

    def test_failed_commit(self) -> None:
        """Records of a failed commit are stored with their page."""
        self.table.add(handed_over(1))
        self.table.take()
        self.table.add(handed_over(2))
        lost = self.table.take()
        self.assertEqual(len(lost), 1)
        for number in range(3, MERGED[0] + 1):
            self.table.add(handed_over(number))
            for name, value in self.table.take():
                if value is not None:
                    self.stored.values[name] = value
        self.assertEqual(len(found(self.again(), 2)), 1)
