"""Events that a test observes."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.observed_events import ObservedEvents


class ObservedEventsTests(SynchronousTestCase):
    """What is kept, and who hears of it."""

    def setUp(self) -> None:
        self.observed = ObservedEvents[object](3, 100, lambda event: event)

    def test_number_of_events(self) -> None:
        """The latest are kept."""
        for number in range(5):
            self.observed.add(number)
        self.assertEqual(list(self.observed.latest), [2, 3, 4])

    def test_size_of_texts(self) -> None:
        """Texts of peers, however nested, do not fill the memory; the last event is kept in any case."""
        self.observed.add("small")
        self.observed.add({"body": ["x" * 60, {"label": "y" * 38}]})
        self.assertEqual(len(self.observed.latest), 1)
        self.observed.add("z" * 2)
        self.assertEqual(len(self.observed.latest), 2)
        self.observed.add("w" * 1000)
        self.assertEqual(list(self.observed.latest), ["w" * 1000])

    def test_waiting(self) -> None:
        """A Deferred fires with an event of the past, or the first one of the future, and once."""
        self.observed.add("past")
        self.assertEqual(self.successResultOf(self.observed.when(lambda event: event == "past")), "past")
        future = self.observed.when(lambda event: event == "future")
        self.assertNoResult(future)
        self.observed.add("future")
        self.observed.add("future")
        self.assertEqual(self.successResultOf(future), "future")

    def test_cancelled(self) -> None:
        """A wait that is cancelled is forgotten."""
        asked: list[object] = []
        waiting = self.observed.when(lambda event: asked.append(event))
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.observed.add(1)
        self.assertEqual(asked, [])

    def test_observers(self) -> None:
        """Each observer is called with each event, in order."""
        seen: list[object] = []
        self.observed.observers.append(seen.append)
        self.observed.add(1)
        self.observed.add(2)
        self.assertEqual(seen, [1, 2])

    def test_wrong_condition(self) -> None:
        """A condition that cannot be called is refused by name."""
        error = self.assertRaises(LocalProtocolError, self.observed.when, 5)
        self.assertIn("condition is an int", str(error))

    def test_condition_that_fails(self) -> None:
        """Its error is the result of the wait, and neither the source nor another wait notices it."""

        def fails(event: object) -> object:
            raise KeyError(event)

        first, second = self.observed.when(fails), self.observed.when(lambda event: event == "future")
        self.observed.add("future")
        self.failureResultOf(first, KeyError)
        self.assertEqual(self.successResultOf(second), "future")
        self.failureResultOf(self.observed.when(fails), KeyError)

    def test_observer_that_fails(self) -> None:
        """Its error is logged, which fails the test; neither the source nor another observer notices it."""
        seen: list[object] = []

        def fails(event: object) -> None:
            raise AssertionError(event)

        self.observed.observers += [fails, seen.append]
        waiting = self.observed.when(lambda event: event == "late")
        self.observed.add("late")
        self.assertEqual(seen, ["late"])
        self.assertEqual(self.successResultOf(waiting), "late")
        [logged] = self.flushLoggedErrors(AssertionError)
        self.assertEqual(str(logged.value), "late")
