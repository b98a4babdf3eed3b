"""The event log through the control API: pages, the last entries, filters, and following."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from msmq.control.server.resources.events import FOLLOWERS
from msmq.interfaces.storage import StoredEvent
from tests.control.support import Caller, ControlTestCase


class EventTests(ControlTestCase):
    """C{GET /v1/events}."""

    def note(self, *reasons: str) -> None:
        """Have events."""
        for reason in reasons:
            self.service.note("tested", reason, queue="private$\\orders")
        self.clock.advance(0)

    def events(self, **parameters: Any) -> list[dict[str, Any]]:
        """The lines up to the end."""
        caller = self.caller()
        caller.ask("GET", "/v1/events", None, **parameters)
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.lines

    def test_all_entries_in_order(self) -> None:
        """All entries come in order, however many there are; the end has the number of the last."""
        self.note(*(str(number) for number in range(500)))
        *found, end = self.events()
        self.assertEqual([event["reason"] for event in found], [str(number) for number in range(500)])
        self.assertEqual(end, {"end": "log", "after": found[-1]["sequence"]})
        first = found[0]
        self.assertEqual(
            (first["event"], first["queue"], first["message"], first["class"]),
            ("tested", ".\\private$\\orders", None, None),
        )

    def test_message(self) -> None:
        """An entry about a message names it."""
        self.put(b"x")
        [identifier] = self.identifiers()
        self.run_to_end(self.service.purge_queue(".\\private$\\orders"))
        [event, _] = self.events(where="event == 'purged'")
        self.assertEqual((event["message"], event["class_name"]), (identifier, "MQMSG_CLASS_NACK_Q_PURGED"))

    def test_last_ones(self) -> None:
        """C{tail} begins with the last entries, for any number, also of an empty log."""
        self.assertEqual(self.events(tail="3"), [{"end": "log", "after": 0}])
        for count in (1, 1, 2, 3, 10, 100):
            self.note(*"x" * count)
            *found, end = self.events(tail="3")
            self.assertEqual(end["after"], found[-1]["sequence"])
            self.assertEqual(len(found), min(3, end["after"]))

    def test_filters(self) -> None:
        """Entries of one kind, of queues whose names contain a text, or with a text in any key."""
        self.note("One", "two")
        self.service.note("other", "three", queue="private$\\invoices")
        self.clock.advance(0)
        for parameters, reasons in (
            ({"event": "other"}, ["three"]),
            ({"queue": "ORDERS"}, ["One", "two"]),
            ({"text": "one"}, ["One"]),
            ({"text": "invoice"}, ["three"]),
            ({"event": "tested", "text": "t", "where": "reason == 'two'"}, ["two"]),
            ({"event": "oth"}, []),
        ):
            *found, _ = self.events(**parameters)
            self.assertEqual([event["reason"] for event in found], reasons, parameters)

    def test_those_that_come(self) -> None:
        """With C{follow} what comes later is written within a second, and the client ends it."""
        self.note("before")
        caller = self.caller()
        caller.ask("GET", "/v1/events", None, follow="true", tail="0", where="contains(reason, 'after')")
        self.clock.advance(0)
        self.note("after", "other")
        self.clock.advance(1)
        self.clock.advance(0)
        self.assertEqual(
            [event["reason"] for event in map(json.loads, caller.answer.body.splitlines())], ["after"]
        )
        self.assertFalse(caller.answer.is_whole)
        caller.hang_up()
        soon = self.clock.reactor.seconds() + 2
        self.assertEqual([each for each in self.clock.reactor.getDelayedCalls() if each.getTime() < soon], [])

    def test_followers_are_limited(self) -> None:
        """More clients than the limit are refused; one that goes makes room."""
        callers = [self.caller(f"192.0.2.{number}") for number in range(FOLLOWERS)]
        for caller in callers:
            caller.ask("GET", "/v1/events", None, follow="true")
        answer = self.call("GET", "/v1/events", None, follow="true")
        self.assert_refused(answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", "follow the event log")
        callers[0].hang_up()
        again = self.caller("192.0.2.0")
        again.ask("GET", "/v1/events", None, follow="true")
        self.assertEqual(again.answer.status, 200)

    def test_followers_of_one_caller_are_limited(self) -> None:
        """One caller cannot keep all others from following."""
        callers = [self.caller() for _ in range(FOLLOWERS)]
        for caller in callers:
            caller.ask("GET", "/v1/events", None, follow="true")
        self.assert_refused(callers[-1].answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", "of one caller")
        other = self.caller("192.0.2.2")
        other.ask("GET", "/v1/events", None, follow="true")
        self.assertEqual(other.answer.status, 200)

    def test_followers_that_come_together(self) -> None:
        """The limit holds for clients that ask for the last entries while the store is slow."""
        reads: list[Deferred[Sequence[StoredEvent]]] = []

        def read(after: int, limit: int) -> Deferred[Sequence[StoredEvent]]:
            reads.append(Deferred())
            return reads[-1]

        self.patch(self.disk, "read_events", read)
        callers = [self.caller(f"192.0.2.{number}") for number in range(FOLLOWERS)]
        for caller in callers:
            caller.ask("GET", "/v1/events", None, follow="true", tail="1")
        answer = self.call("GET", "/v1/events", None, follow="true", tail="1")
        self.assert_refused(answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", "follow the event log")
        while reads:
            reads.pop().callback(())
        self.assertEqual({caller.answer.status for caller in callers}, {200})

    def test_slow_filters(self) -> None:
        """Others are served between entries, however long a filter takes for each."""
        self.note(*"x" * 100)
        reactor = self.clock.reactor

        def slow() -> float:
            reactor.rightNow += 0.001
            return reactor.rightNow

        self.patch(reactor, "seconds", slow)
        for path, parameters in (("/v1/events", ""), ("/v1/stream", "?topics=events&after=0")):
            caller = self.caller()
            others: list[int] = []

            def serve(caller: Caller = caller, others: list[int] = others) -> None:
                found = caller.transport.value().count(b'"tested"')
                if found < 100:
                    others.append(found)
                    reactor.callLater(0, serve)

            serve()
            caller.ask("GET", path + parameters)
            self.assertGreater(len(others), 9, path)
            self.assertLess(len(others), 1000, path)
            caller.hang_up()

    def test_refusals(self) -> None:
        """Unknown keys and parameters that exclude each other are refused."""
        for parameters, words in (
            ({"where": "evnt == 'x'"}, "an event has no key 'evnt'; did you mean event?"),
            ({"after": "1", "tail": "1"}, "exclude each other"),
            ({"since": "1"}, "since"),
        ):
            answer = self.call("GET", "/v1/events", None, **parameters)
            self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", words)
