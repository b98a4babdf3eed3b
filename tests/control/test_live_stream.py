"""Live figures: the history of an hour, and streams of server-sent events."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.live.event_stream import HEARTBEAT, EventStreamEncoder
from msmq.control.server.live.history import COLUMNS, INTERVAL, SAMPLES, FigureHistory
from msmq.control.server.resources.live_stream import OBJECTS, PERIOD, STREAMS
from msmq.interfaces.manager.summaries import MessageFlow
from msmq.manager.administration import inspection
from tests.control.support import ORDERS, Caller, ControlTestCase


def _flow(arrived: int, received: int = 0) -> MessageFlow:
    return MessageFlow(arrived - received, 0, arrived, received, 0, 0, None)


class HistoryTests(SynchronousTestCase):
    """The samples of the last hour."""

    def setUp(self) -> None:
        self.history = FigureHistory()

    def column(self, name: str, taken: int = 0) -> list[float]:
        """The values of one column after the first samples."""
        return [sample[COLUMNS.index(name)] for sample in self.history.since(taken)["samples"]]

    def test_rates(self) -> None:
        """Counts become messages a second; the first sample, and one after a pause, have no rate."""
        for arrived in (100, 150, 150, 170):
            self.history.add(_flow(arrived, 100))
        self.history.pause()
        self.history.add(_flow(10_000, 100))
        self.assertEqual(self.column("arrived"), [0, 5, 0, 2, 0])
        self.assertEqual(self.column("messages"), [0, 50, 50, 70, 9900])

    def test_deleted_queue(self) -> None:
        """A deleted queue, whose counts are gone, makes no negative rate."""
        for arrived in (100, 20, 30):
            self.history.add(_flow(arrived))
        self.assertEqual(self.column("arrived"), [0, 0, 1])

    def test_limit(self) -> None:
        """The samples of an hour are kept; a client that has some gets the rest."""
        for number in range(SAMPLES + 5):
            self.history.add(_flow(number))
        self.assertEqual(len(self.column("messages")), SAMPLES)
        self.assertEqual(self.column("messages", SAMPLES + 3), [SAMPLES + 3, SAMPLES + 4])
        self.assertTrue(self.history.since(0)["first"])
        self.assertFalse(self.history.since(SAMPLES)["first"])


class EncoderTests(SynchronousTestCase):
    """The bytes of one stream."""

    def test_changes(self) -> None:
        """A value is sent when it has changed; without any a comment is sent in time."""
        encoder = EventStreamEncoder(0)
        encoder.set("overview", {"messages": 1})
        self.assertEqual(encoder.take(0), b'retry: 3000\n\nevent: overview\ndata: {"messages":1}\n\n')
        encoder.set("overview", {"messages": 1})
        self.assertEqual(encoder.take(HEARTBEAT - 1), b"")
        self.assertEqual(encoder.take(HEARTBEAT), b": heartbeat\n\n")
        self.assertEqual(encoder.take(HEARTBEAT), b"")
        encoder.set("overview", {"messages": 2})
        self.assertEqual(encoder.take(HEARTBEAT), b'event: overview\ndata: {"messages":2}\n\n')

    def test_forget(self) -> None:
        """A reader that was behind gets every value again, and nothing of what was pending."""
        encoder = EventStreamEncoder(0)
        encoder.take(0)
        encoder.set("overview", 1)
        encoder.add("event", 7)
        encoder.forget()
        encoder.set("overview", 1)
        self.assertEqual(encoder.take(0), b"event: overview\ndata: 1\n\n")

    def test_hostile_text(self) -> None:
        """A line break in a value does not end its event."""
        encoder = EventStreamEncoder(0)
        encoder.take(0)
        encoder.set("queue", "a\n\nevent: b\r\n\u2028data: c")
        self.assertEqual(encoder.take(0).count(b"\n"), 3)


class StreamTests(ControlTestCase):
    """C{GET /v1/stream}."""

    def stream(self, query: str, address: str = "192.0.2.1") -> Caller:
        """Open a stream."""
        caller = self.caller(address)
        caller.ask("GET", f"/v1/stream?{query}")
        return caller

    def events(self, caller: Caller, since: int = 0) -> list[tuple[str, Any]]:
        """The events that a client has received, after the first ones."""
        found = []
        for block in caller.answer.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "event" in fields:
                found.append((fields["event"], json.loads(fields["data"])))
        return found[since:]

    def test_overview(self) -> None:
        """All figures first, then those that change, and nothing while none does."""
        caller = self.stream("topics=overview")
        self.assertEqual(caller.answer.headers["content-type"], "text/event-stream")
        [(topic, value)] = self.events(caller)
        self.assertEqual((topic, value["messages"], value["arrived"]), ("overview", 0, 0))
        self.clock.advance(PERIOD)
        self.assertEqual(self.events(caller, 1), [])
        self.put(b"a", b"b")
        self.take(count=1)
        self.clock.advance(PERIOD)
        [(_, value)] = self.events(caller, 1)
        self.assertEqual((value["messages"], value["arrived"], value["received"]), (1, 2, 1))
        self.assertIsInstance(value["oldest_message_time"], str)

    def test_queues(self) -> None:
        """A stream follows the queues of its page alone; one that is deleted is null."""
        other = self.make_queue("other")
        caller = self.stream("queue=.%5Cprivate$%5Corders&queue=.%5Cprivate$%5Cnone")
        (_, first), (_, second) = self.events(caller)
        self.assertEqual((first["name"], first["value"]["messages"]), (ORDERS, 0))
        self.assertIsNone(second["value"])
        self.put(b"a", queue=other)
        self.clock.advance(PERIOD)
        self.assertEqual(self.events(caller, 2), [])
        self.put(b"a")
        self.clock.advance(PERIOD)
        self.assertEqual([value["value"]["messages"] for _, value in self.events(caller, 2)], [1])
        self.run_to_end(self.service.delete_queue(ORDERS))
        self.clock.advance(PERIOD)
        self.assertEqual(self.events(caller, 3), [("queue", {"name": ORDERS, "value": None})])

    def test_event_log(self) -> None:
        """The last entries of the event log, then new ones."""
        self.call("POST", "/v1/queues/.%5Cprivate$%5Corders/purge")
        caller = self.stream("topics=events")
        before = self.events(caller)
        self.assertEqual({topic for topic, _ in before}, {"event"})
        self.call("POST", "/v1/queues/.%5Cprivate$%5Corders/purge")
        self.clock.advance(PERIOD)
        after = self.events(caller, len(before))
        self.assertIn("queue purge", str(after))
        sequences = [value["sequence"] for _, value in (*before, *after)]
        self.assertEqual(sequences, sorted(set(sequences)))

    def test_filtered_event_log(self) -> None:
        """Entries of one kind, queue or text alone, after a number; each has its number as the event's id."""
        for number in range(120):
            self.service.note("tested", f"Change {number:03}", queue="private$\\orders")
        self.service.note("other", "change", queue="private$\\invoices")
        self.clock.advance(0)
        for query, reasons in (
            ("after=0&event=tested&event_text=CHANGE%20007", ["Change 007"]),
            ("after=0&event_queue=INVOICES", ["change"]),
            ("where=event%3D%3D'other'", ["change"]),
            ("after=118", ["Change 118", "Change 119", "change"]),
        ):
            found = self.events(self.stream(f"topics=events&{query}"))
            self.assertEqual([value["reason"] for _, value in found], reasons, query)

    def test_events_after_a_reconnection(self) -> None:
        """A browser that connects again names the last entry that it has, and gets those that follow."""
        for number in range(60):
            self.service.note("tested", str(number))
        self.clock.advance(0)
        caller = self.stream("topics=events&after=0")
        last = caller.answer.body.decode().rpartition("id: ")[2].split()[0]
        caller.hang_up()
        self.service.note("tested", "meanwhile")
        self.clock.advance(0)
        again = self.caller()
        again.ask("GET", "/v1/stream?topics=events&after=0", None, {"Last-Event-ID": last})
        self.assertEqual([value["reason"] for _, value in self.events(again)], ["meanwhile"])
        strange = self.caller()
        strange.ask("GET", "/v1/stream?topics=events&after=60", None, {"Last-Event-ID": "seven"})
        self.assertEqual([value["reason"] for _, value in self.events(strange)], ["meanwhile"])

    def test_history(self) -> None:
        """The samples so far, then each new one; without a web endpoint there are none."""
        self.clock.advance(INTERVAL * 3)
        caller = self.stream("topics=history")
        self.assertEqual(self.events(caller)[0][1]["samples"], [])
        self.site.figures.start()
        self.addCleanup(self.site.figures.stop)
        for _ in range(3):
            self.clock.advance(INTERVAL)
        caller = self.stream("topics=history")
        [(_, value)] = self.events(caller)
        self.assertEqual((len(value["samples"]), value["first"]), (4, True))
        for _ in range(5):
            self.clock.advance(PERIOD)
        [(_, value)] = self.events(caller, 1)
        self.assertEqual((len(value["samples"]), value["first"]), (1, False))

    def test_many_queues(self) -> None:
        """The figures of many queues are added up in slices, between which others are served."""
        self.patch(inspection, "_FLOW_SLICE", 2)
        for number in range(6):
            self.put(b"a", queue=self.make_queue(f"q{number}"))
        parts = list(self.service.inspection.flow())
        self.assertEqual(set(parts[:-1]), {None})
        self.assertGreaterEqual(len(parts), 4)
        caller = self.stream("topics=overview")
        self.assertEqual([value["messages"] for _, value in self.events(caller)], [6])

    def test_slow_reader(self) -> None:
        """A client that does not read costs no memory; when it reads again it gets the present figures."""
        caller = self.stream("topics=overview&queue=.%5Cprivate$%5Corders")
        caller.pause()
        self.put(b"a")
        self.clock.advance(PERIOD)
        size = len(caller.transport.value())
        for _ in range(10):
            self.put(b"a")
            self.clock.advance(PERIOD)
        self.assertEqual(len(caller.transport.value()), size)
        known = len(self.events(caller))
        caller.resume()
        self.clock.advance(PERIOD)
        self.assertEqual([topic for topic, _ in self.events(caller, known)], ["overview", "queue"])
        self.assertEqual(self.events(caller)[-1][1]["value"]["messages"], 11)

    def test_no_listener(self) -> None:
        """Without an open stream nothing is scheduled; the end of a client ends its stream."""
        idle = len(self.clock.reactor.getDelayedCalls())
        caller = self.stream("topics=overview")
        self.assertGreater(len(self.clock.reactor.getDelayedCalls()), idle)
        caller.hang_up()
        self.assertEqual(len(self.clock.reactor.getDelayedCalls()), idle)

    def test_limit(self) -> None:
        """One stream too many is refused, until another ends."""
        callers = [self.stream("topics=overview", f"192.0.2.{number}") for number in range(STREAMS)]
        self.assert_refused(
            self.stream("topics=overview").answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", str(STREAMS)
        )
        callers[0].hang_up()
        self.assertEqual(len(self.events(self.stream("topics=overview"))), 1)
        self.assertEqual(self.call("HEAD", "/v1/stream?topics=overview").status, 503)

    def test_limit_of_one_caller(self) -> None:
        """One caller leaves a quarter of them to others, and has its share again when one of its own ends."""
        callers = [self.stream("topics=overview") for _ in range(STREAMS)]
        share = [caller for caller in callers if caller.answer.status == 200]
        self.assertEqual(len(share), STREAMS * 3 // 4)
        self.assert_refused(callers[-1].answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", "of one caller")
        self.assertEqual(self.stream("topics=overview", "192.0.2.2").answer.status, 200)
        share[0].hang_up()
        self.assertEqual(self.stream("topics=overview").answer.status, 200)

    def test_end_of_the_server(self) -> None:
        """A queue manager that stops ends the stream with the reason, and the client connects again."""
        caller = self.stream("topics=overview")
        self.service.stopService()
        self.clock.advance(PERIOD)
        self.assertEqual(self.events(caller)[-1][0], "refused")
        self.assertTrue(caller.answer.is_whole)

    def test_bad_queries(self) -> None:
        """An unknown topic, too many objects, and a stream of nothing are refused."""
        for query, words in (
            ("", "name topics"),
            ("topics=", "name topics"),
            ("topics=overview,colours", "colours"),
            ("topics=overview&topics=events", "2 times"),
            ("topics=overview&colour=red", "no parameter"),
            ("topics=%00", "not"),
            ("topics=events&where=evnt", "did you mean event?"),
            (f"topics=events&event_text={'x' * 1001}", "may have 1000"),
            ("topics=events&after=1&after=2", "2 times"),
            ("&".join(["queue=a"] * (OBJECTS + 1)), f"at most {OBJECTS}"),
        ):
            self.assert_refused(self.stream(query).answer, 400, "MQ_ERROR_INVALID_PARAMETER", words)
