"""Deadlines of many items."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.deadlines import Deadlines

steps = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 3), st.integers(0, 20)),
    st.tuples(st.just("clear"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("expire"), st.just(0), st.integers(0, 20)),
)


class DeadlineTests(SynchronousTestCase):
    @given(st.lists(steps, max_size=60))
    def test_it_is_a_dictionary_with_a_minimum(self, history: list[tuple[str, int, int]]) -> None:
        """After any operations it agrees with a plain dictionary."""
        deadlines: Deadlines[int] = Deadlines()
        model: dict[int, float] = {}
        for step, thing, when in history:
            match step:
                case "set":
                    deadlines.set(thing, when)
                    model[thing] = when
                case "clear":
                    deadlines.clear(thing)
                    model.pop(thing, None)
                case _:
                    expired = deadlines.take_expired(when)
                    times = [model[thing] for thing in expired]
                    self.assertEqual(times, sorted(times))
                    due = {thing for thing, deadline in model.items() if deadline <= when}
                    self.assertEqual(set(expired), due)
                    model = {thing: deadline for thing, deadline in model.items() if deadline > when}
            self.assertEqual(deadlines.earliest, min(model.values(), default=None))
            self.assertEqual([deadlines.get(thing) for thing in range(4)], [model.get(n) for n in range(4)])
            self.assertEqual(sorted(deadlines.items()), sorted(model))
            self.assertEqual(len(deadlines), len(model))

    def test_moving_one_costs_no_memory(self) -> None:
        """A deadline that is put off a million times leaves nothing behind, earlier or later."""
        deadlines: Deadlines[int] = Deadlines()
        for when in range(1000):
            deadlines.set(when % 3, when)
            deadlines.set(3, 2000 - when)
            deadlines.clear(when % 3)
            deadlines.set(when % 3, when + 1)
        self.assertLess(len(deadlines._heap), 100)

    def test_things_without_an_order(self) -> None:
        """Items with the same deadline need not be comparable, however often their deadlines are moved."""
        deadlines: Deadlines[object] = Deadlines()
        items = [object() for _ in range(40)]
        for when in range(200, 0, -1):
            for item in items:
                deadlines.set(item, when)
            self.assertEqual(deadlines.earliest, when)
        self.assertEqual(deadlines.take_expired(0.5), [])
        self.assertEqual(len(deadlines), 40)
        self.assertCountEqual(deadlines.take_expired(1), items)
        self.assertEqual((deadlines.take_expired(1000), len(deadlines), deadlines.earliest), ([], 0, None))

    def test_many_items(self) -> None:
        """The earliest is right after every move of many items, and they expire in order, each once."""
        deadlines: Deadlines[int] = Deadlines()
        model: dict[int, int] = {}
        for step in range(3000):
            item, when = step * 7 % 31, step * 7919 % 1009
            if step % 11 == 5:
                deadlines.clear(item)
                model.pop(item, None)
            else:
                deadlines.set(item, when)
                model[item] = when
            self.assertEqual(deadlines.earliest, min(model.values(), default=None))
        times = [model[item] for item in deadlines.take_expired(500)]
        self.assertEqual(times, sorted(when for when in model.values() if when <= 500))
        later = [model[item] for item in deadlines.take_expired(2000)]
        self.assertEqual(later, sorted(when for when in model.values() if when > 500))
        self.assertEqual(len(deadlines), 0)

    def test_an_item_that_expired_may_be_set_again(self) -> None:
        """To the same deadline or an earlier one."""
        deadlines: Deadlines[str] = Deadlines()
        for when in (5, 5, 3):
            deadlines.set("item", when)
            self.assertEqual(deadlines.take_expired(5), ["item"])
            self.assertIsNone(deadlines.get("item"))
        deadlines.set("item", 9)
        deadlines.clear("item")
        self.assertIsNone(deadlines.earliest)
        deadlines.set("item", 9)
        self.assertEqual(deadlines.earliest, 9)

    def test_a_deadline_that_comes_nearer_again(self) -> None:
        """It counts, after it was put off and many others were moved."""
        deadlines: Deadlines[str] = Deadlines()
        deadlines.set("item", 5)
        deadlines.set("item", 10)
        for step in range(200):
            deadlines.set("other", 1000 - step)
        deadlines.set("item", 7)
        self.assertEqual(deadlines.earliest, 7)
        self.assertEqual(deadlines.take_expired(7), ["item"])
        self.assertEqual(deadlines.earliest, 801)
