"""Tests of L{msmq.bridge.flight}: a message leaves its source only when its destination has it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.flight import FlightState, RouteFlight
from tests.bridge.route_model import RouteModel
from tests.samples import examples


class FlightModelTests(SynchronousTestCase):
    """Every order of confirmations, returns, refusals, losses and restarts."""

    @settings(max_examples=examples(50), deadline=None)
    @given(
        st.lists(st.integers(0, 13), max_size=60),
        st.frozensets(st.integers(0, 7), max_size=2),
        st.frozensets(st.integers(0, 7), max_size=2),
        st.integers(1, 5),
    )
    def test_nothing_is_lost(
        self, actions: list[int], unroutable: frozenset[int], poison: frozenset[int], window: int
    ) -> None:
        """Whatever fails in whichever order, each message arrives or is a dead letter with its reason."""
        model = RouteModel(8, unroutable, poison - unroutable, window)
        for number in actions:
            model.actions[number]()
        model.finish()
        model.check()

    @given(st.lists(st.sampled_from(["deliver", "connect", "confirm", "remove"]), max_size=60))
    def test_order_is_kept(self, actions: list[str]) -> None:
        """While nothing fails, messages arrive in the order of the source, each once."""
        model = RouteModel(8)
        for name in actions:
            getattr(model, name)()
        model.finish()
        self.assertEqual(model.arrived, list(range(8)))


class RouteFlightTests(SynchronousTestCase):
    """Single rules."""

    def flight(self, *identities: str, window: int = 2, stops_at_failure: bool = False) -> RouteFlight:
        """A flight with a connected destination and messages with tokens from 1 on."""
        flight = RouteFlight(window, stops_at_failure)
        flight.destination_ready()
        for token, identity in enumerate(identities, 1):
            flight.take(token, identity)
        return flight

    def test_window_limits_what_is_unconfirmed(self) -> None:
        """No more messages are sent than may be unconfirmed."""
        flight = self.flight("a", "b", "c")
        self.assertEqual(flight.next_steps().send, (1, 2))
        flight.confirmed(1)
        steps = flight.next_steps()
        self.assertEqual((steps.send, steps.remove), ((3,), (1,)))

    def test_returned_message_is_not_removed_by_its_confirmation(self) -> None:
        """RabbitMQ confirms an unroutable message after it has returned it; it becomes a dead letter."""
        flight = self.flight("a")
        flight.next_steps()
        flight.returned(1, "no queue is bound")
        flight.confirmed(1)
        steps = flight.next_steps()
        self.assertEqual((steps.remove, steps.dead_letters), ((), ((1, "no queue is bound"),)))

    def test_confirmed_message_is_not_sent_twice_after_the_source_was_lost(self) -> None:
        """A message that the source delivers again after its confirmation is removed, not sent."""
        flight = self.flight("a", "b")
        flight.next_steps()
        flight.confirmed(1)
        flight.source_lost()
        flight.take(11, "a")
        flight.take(12, "b")
        steps = flight.next_steps()
        self.assertEqual((steps.send, steps.remove), ((12,), (11,)))

    def test_message_that_closes_the_channel_is_found(self) -> None:
        """After a closed channel messages are sent one by one; the culprit fails, and the others arrive."""
        flight = self.flight("a", "b", "c", window=3)
        flight.next_steps()
        flight.destination_lost("too large")
        flight.destination_ready()
        self.assertEqual(flight.next_steps().send, (1,))
        flight.confirmed(1)
        self.assertEqual(flight.next_steps().send, (2,))
        flight.destination_lost("too large")
        self.assertEqual(flight.state_of(2), FlightState.FAILED)
        flight.destination_ready()
        steps = flight.next_steps()
        self.assertEqual((steps.send, steps.dead_letters), ((3,), ((2, "too large"),)))

    def test_pause_sends_nothing(self) -> None:
        """A paused route sends nothing, and removes what is confirmed meanwhile."""
        flight = self.flight("a", "b", window=1)
        flight.next_steps()
        flight.pause()
        flight.confirmed(1)
        steps = flight.next_steps()
        self.assertEqual((steps.send, steps.remove), ((), (1,)))
        flight.resume()
        self.assertEqual(flight.next_steps().send, (2,))

    def test_route_stops_at_a_failure_on_request(self) -> None:
        """With C{on_failure = "stop"} nothing behind a failed message is sent before an operator resumes."""
        flight = self.flight("a", "b", window=1, stops_at_failure=True)
        flight.next_steps()
        flight.failed(1, "limit")
        steps = flight.next_steps()
        self.assertEqual((steps.send, steps.dead_letters, flight.stop_reason), ((), (), "limit"))
        flight.resume()
        self.assertEqual(flight.next_steps().send, (1,))

    def test_refused_message_waits(self) -> None:
        """After a refusal for now nothing is sent until the back-off has ended; then the message is first."""
        flight = self.flight("a", "b", "c", window=1)
        flight.next_steps()
        flight.nacked(1)
        self.assertEqual(flight.next_steps().send, ())
        flight.back_off_ended()
        self.assertEqual(flight.next_steps().send, (1,))

    def test_late_results_change_nothing(self) -> None:
        """Results of a lost connection are ignored."""
        flight = self.flight("a")
        flight.next_steps()
        flight.destination_lost()
        flight.confirmed(1)
        flight.returned(1, "late")
        flight.nacked(7)
        self.assertEqual(flight.state_of(1), FlightState.WAITING)
