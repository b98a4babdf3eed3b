"""Memory of the objects found by long reads."""

from __future__ import annotations

import gc
from itertools import product
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.reads import FoundObjects, PendingReads
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueObject
from msmq.membership.queries import SortOrder, select
from msmq.persistence.definition import QueuePrivacy

ATTRIBUTES = ("label", "base_priority", "identifier")


def entry(number: int) -> DirectoryEntry[QueueObject]:
    """A queue; some have a label and a priority that others have as well, some have no label."""
    values = {
        "identifier": UUID(int=number),
        "pathname": f"ALPHA\\orders{number}",
        "base_priority": number * 7 % 5,
        "privacy_level": QueuePrivacy.BODY,
    }
    if number % 4:
        values["label"] = "abcABC"[number % 6]
    return DirectoryEntry(QueueObject, values)


class FoundObjectsTests(SynchronousTestCase):
    """Objects are packed, and come out as they went in."""

    def test_as_they_were_found(self) -> None:
        """Each object is taken with the attributes that were asked for, in the order of the search."""
        entries = [entry(number) for number in range(20)]
        for attributes in (None, ATTRIBUTES):
            found, reads = FoundObjects(QueueObject, attributes), PendingReads()
            for each in entries:
                found.append(each)
            for _ in found.ordering((), 7):
                self.fail("there is nothing to compare")
            handle = reads.begin(found)
            taken = [reads.next(handle) for _ in entries]
            self.assertEqual(taken, [each.only(attributes) for each in entries])

    def test_order(self) -> None:
        """An order by several attributes, up or down, is that of a read that is sorted at once."""
        entries = [entry(number) for number in range(50)]
        for first, second, *ascending in product((0, 1, 2), (1, 2), (True, False), (True, False)):
            order = (SortOrder(first, ascending[0]), SortOrder(second, ascending[1]), SortOrder())
            found = FoundObjects(QueueObject, ATTRIBUTES)
            for each in entries:
                found.append(each)
            for _ in found.ordering(order, 7):
                pass
            taken = [found.pop() for _ in entries]
            self.assertEqual(taken, select(entries, (), ATTRIBUTES, order))

    def test_steps(self) -> None:
        """Sorting is done in steps that compare a few objects each: sorted runs, then merges."""
        found = FoundObjects(QueueObject, ATTRIBUTES)
        for number in range(1000):
            found.append(entry(number))
        steps = sum(1 for _ in found.ordering((SortOrder(), SortOrder(1), SortOrder()), 50))
        self.assertGreaterEqual(steps, 2 * 1000 // 50)

    def test_nothing_for_the_collector(self) -> None:
        """However many objects a read has found, the garbage collector has no more to walk through."""
        found = FoundObjects(QueueObject, ATTRIBUTES)
        gc.collect()
        before = len(gc.get_objects())
        for number in range(2000):
            found.append(entry(number))
        self.assertLess(len(gc.get_objects()) - before, 200)
        self.assertEqual(len(found), 2000)
