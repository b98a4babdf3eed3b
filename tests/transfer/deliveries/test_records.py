"""Records of deliveries as bytes, merged, searched and bounded."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateError
from msmq.transfer.deliveries.flight import Flight, RunBuilder
from msmq.transfer.deliveries.records import (
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    MessageRun,
    read_index,
    read_records,
    write_block,
)
from msmq.transfer.deliveries.table import MERGED, DeliveryTable
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
        self.assertEqual(
            builder.finish(),
            [
                MessageRun(1, 2, 5, 0, 2.0),
                MessageRun(3, 1, 7, 0, 3.0),
                MessageRun(5, 1, 8, 0, 3.0),
                MessageRun(6, 1, 10, 0, 3.0),
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
