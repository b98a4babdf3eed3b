"""Rows of messages, packed or not, are those of a plain dictionary."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.storage.log.core import message_rows
from msmq.storage.log.core.message_rows import MessageRows
from msmq.storage.log.core.records import MESSAGE_ROW
from tests.samples import examples

IDS = st.integers(0, 40) | st.integers(0, 7).map(lambda level: level << 56) | st.integers(0, (1 << 64) - 1)


def row(number: int) -> bytes:
    due = -1 if number % 2 else number << 33
    return MESSAGE_ROW.pack(
        number << 31, number, 2, number / 3, due, number % 5, number % 3, b"%020d" % (number % 7)
    )


class SmallRows(MessageRows):
    """Rows that are packed early."""

    block = 4
    young = 3


class Machine(RuleBasedStateMachine):
    """Anything that may happen to rows, compared with a dictionary; blocks of four rows, three young ones."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = SmallRows()
        self.model: dict[int, bytes] = {}
        self.number = 0

    def new_row(self) -> bytes:
        self.number += 1
        return row(self.number)

    @rule(lookup_id=IDS)
    def put(self, lookup_id: int) -> None:
        self.rows[lookup_id] = self.model[lookup_id] = self.new_row()

    @rule(lookup_ids=st.lists(IDS, max_size=12), is_sorted=st.booleans())
    def extend(self, lookup_ids: list[int], is_sorted: bool) -> None:
        if is_sorted:
            lookup_ids = sorted(set(lookup_ids))
        rows = [self.new_row() for _ in lookup_ids]
        self.rows.extend(array("Q", lookup_ids), b"".join(rows))
        self.model.update(zip(lookup_ids, rows, strict=True))

    @rule(first=IDS, count=st.integers(1, 6))
    def put_new(self, first: int, count: int) -> None:
        rows = {lookup_id: self.new_row() for lookup_id in range(first, min(first + count, 1 << 64))}
        if self.rows.put_new(first, list(rows.values())):
            assert not self.model.keys() & rows.keys()
            self.model.update(rows)

    @rule(first=IDS, count=st.integers(1, 6))
    def forget(self, first: int, count: int) -> None:
        self.rows.forget(range(first, first + count))
        for lookup_id in range(first, first + count):
            self.model.pop(lookup_id, None)

    @rule(first=IDS, count=st.integers(1, 12))
    def remove(self, first: int, count: int) -> None:
        """Many are removed at once, whether they are there or not."""
        near = [one for one in sorted(self.model) if one >= first][:count]
        gone = near if count % 2 else sorted({first, *near, *(one + 1 for one in near if one + 1 < 1 << 64)})
        self.rows.remove(array("Q", gone))
        for lookup_id in gone:
            self.model.pop(lookup_id, None)

    @rule(lookup_id=IDS)
    def pop(self, lookup_id: int) -> None:
        assert self.rows.pop(lookup_id, None) == self.model.pop(lookup_id, None)

    @rule(place=st.integers(0, 100))
    def pop_present(self, place: int) -> None:
        if self.model:
            lookup_id = sorted(self.model)[place % len(self.model)]
            assert self.rows.pop(lookup_id) == self.model.pop(lookup_id)

    @rule()
    def popitem(self) -> None:
        if self.model:
            lookup_id, found = self.rows.popitem()
            assert self.model.pop(lookup_id) == found

    @rule(lookup_id=IDS)
    def look(self, lookup_id: int) -> None:
        assert self.rows.get(lookup_id) == self.model.get(lookup_id)
        assert (lookup_id in self.rows) == (lookup_id in self.model)

    @rule(
        gone=st.sets(st.integers(0, 20)),
        restored=st.sets(st.integers(0, 20)),
        after=st.integers(0, 8),
        added=st.lists(IDS, max_size=5),
    )
    def iterate_while_changing(
        self, gone: set[int], restored: set[int], after: int, added: list[int]
    ) -> None:
        """Rows present all the time are found during any changes of others, as they are at that time."""
        before = set(self.model)
        found: dict[int, bytes] = {}
        for place, (lookup_ids, rows) in enumerate(self.rows.pages(2)):
            for index, lookup_id in enumerate(lookup_ids):
                found[lookup_id] = rows[index * MESSAGE_ROW.size : (index + 1) * MESSAGE_ROW.size]
                assert found[lookup_id] == self.model[lookup_id]
            if place == after:
                ordered = sorted(self.model)
                for number, other in enumerate(ordered):
                    if number in gone | restored:
                        del self.rows[other]
                for number, other in enumerate(ordered):
                    if number in restored - gone:
                        self.rows.restore(array("Q", [other]), self.model[other])
                    elif number in gone:
                        del self.model[other]
                for other in added:
                    self.put(other)
        assert before & set(self.model) - set(added) <= found.keys()
        assert not self.rows._restored

    @rule()
    def order(self) -> None:
        ordered = [
            (lookup_id, bytes(rows[place * MESSAGE_ROW.size : (place + 1) * MESSAGE_ROW.size]))
            for ids, rows in self.rows.ordered()
            for place, lookup_id in enumerate(ids)
        ]
        assert ordered == sorted(self.model.items())

    @rule()
    def columns(self) -> None:
        """The columns have what the rows have."""
        found = [
            (lookup_id, *values)
            for part in self.rows.columns()
            for lookup_id, *values in zip(
                part.lookup_ids,
                *(part.generations, part.sizes, part.arrived, part.due, part.aborts, part.moves),
                strict=True,
            )
        ]
        expected = []
        for lookup_id, one in sorted(self.model.items()):
            location, size, _, arrived, due, aborts, moves, _ = MESSAGE_ROW.unpack(one)
            expected.append((lookup_id, location >> 32, size, arrived, due, aborts, moves))
        assert found == expected

    @rule(number=st.integers(0, 6))
    def find(self, number: int) -> None:
        identity = b"%020d" % number
        found = [each for each in self.rows.named(identity) if each is not None]
        assert sorted(found) == sorted(key for key, value in self.model.items() if value.endswith(identity))

    @invariant()
    def is_the_same(self) -> None:
        assert (len(self.rows), bool(self.rows)) == (len(self.model), bool(self.model))
        assert dict(self.rows.items()) == self.model
        assert sorted(self.rows) == sorted(self.model)
        assert all(len(block.ids) <= 8 and block.live for block in self.rows._blocks)


class RowsTests(SynchronousTestCase):
    """Rows of a queue."""

    def test_any_history(self) -> None:
        """After any puts and removals the rows are those of a dictionary."""
        machine = Machine.TestCase
        machine.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)
        machine().runTest()

    def test_removed_and_put_again(self) -> None:
        """A row that comes back where a packed one was removed is found by every iteration."""
        rows = SmallRows()
        rows.extend(array("Q", [1, 5, 9]), row(1) + row(5) + row(9))
        del rows[9]
        for lookup_id in (9, 20, 21, 22):
            rows[lookup_id] = row(lookup_id)
        self.assertEqual(
            sorted(lookup_id for lookup_ids, _ in rows.pages() for lookup_id in lookup_ids),
            [1, 5, 9, 20, 21, 22],
        )

    def test_put_again_and_removed(self) -> None:
        """A row that came back where a packed one was removed goes with the packed ones around it."""
        rows = SmallRows()
        rows.extend(array("Q", [1, 2, 3, 4]), row(1) + row(2) + row(3) + row(4))
        del rows[2]
        rows[2] = row(2)
        rows.remove(array("Q", [1, 2, 3]))
        self.assertEqual(list(rows), [4])

    @given(st.data())
    @settings(max_examples=5, deadline=None)
    def test_memory(self, data: st.DataObject) -> None:
        """Packed rows have at most a tenth more bytes than their content, and few objects."""
        count = 20_000 + data.draw(st.integers(0, 5000))
        rows = MessageRows()
        for number in range(count):
            rows[number] = row(number)
        packed = sum(len(block.ids) for block in rows._blocks)
        self.assertGreater(packed, count - message_rows.YOUNG - 1)
        self.assertLess(len(rows._blocks), count // message_rows.BLOCK + 2 + count // message_rows.YOUNG)
