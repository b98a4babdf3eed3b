"""What a server does with the process that archives: starts it again, measures its lag, asks it, stops it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.python.failure import Failure

from msmq.archive_service.service import MOST_REQUESTS, ArchiveService
from msmq.archive_service.settings import ArchiveSettings
from msmq.archive_service.worker_link import LONGEST_LINE, WorkerLink
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError, Status
from tests.nodes.support import Node, NodesTestCase


class ScriptedProcess:
    """A process whose output a test writes; it ends when it is killed or its input is closed."""

    def __init__(self, link: WorkerLink) -> None:
        self.link = link
        self.lines: list[dict[str, Any]] = []
        self.is_stubborn = False
        self.is_input_closed = False
        link.makeConnection(self)

    def writeToChild(self, descriptor: int, data: bytes) -> None:
        assert descriptor == 0
        if self.is_input_closed:
            # As Twisted's process has it.
            raise KeyError(descriptor)
        self.lines += [json.loads(line) for line in data.splitlines()]

    def closeChildFD(self, descriptor: int) -> None:
        self.is_input_closed = True
        if not self.is_stubborn:
            self.link.processEnded(Failure(ProcessDone(0)))

    def signalProcess(self, signal: str) -> None:
        self.link.processEnded(Failure(ProcessTerminated(signal=9)))

    def report(self, **record: object) -> None:
        """A line of output, in two parts."""
        line = json.dumps(record).encode() + b"\n"
        self.link.outReceived(line[:5])
        self.link.outReceived(line[5:])


class ArchiveServiceTests(NodesTestCase):
    """ALPHA keeps an archive."""

    def node(self, name: str, identifier: Any, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.processes: list[ScriptedProcess] = []
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()
        self.service = ArchiveService(
            ArchiveSettings(directory=self.directory, streams=("log",), keep_days=7, late=60.0),
            "postgresql://user:secret@db/msmq",
            self.alpha.service,
            self.clock.reactor,
            self.clock,
            lambda link: self.processes.append(ScriptedProcess(link)),
        )
        self.service.start()
        self.addCleanup(lambda: self.run_to_end(self.service.stop()))

    @property
    def process(self) -> ScriptedProcess:
        return self.processes[-1]

    def has_more(self, count: int) -> bool:
        """Whether there were more processes than this number."""
        return len(self.processes) > count

    def event_texts(self) -> list[tuple[str, str]]:
        found = self.run_to_end(self.alpha.service.inspection.events())
        return [(each.event.event, each.event.reason) for each in found]

    def test_the_process_gets_its_settings_as_input(self) -> None:
        """Arguments would show the password of a database to every user of the machine."""
        [settings] = self.process.lines
        self.assertEqual("postgresql://user:secret@db/msmq", settings["location"])
        self.assertEqual((["log"], 7), (settings["streams"], settings["keep_days"]))

    def test_what_the_process_reports_is_the_state(self) -> None:
        """With the age of the data, by the clock of this process that is never set."""
        self.assertEqual("starting", self.service.summary().condition)
        self.process.report(state={"condition": "running", "rows": 5, "behind": 2, "age": 3.0, "gaps": []})
        self.clock.advance(10)
        found = self.service.summary()
        self.assertEqual(("running", 5, 2, 13.0), (found.condition, found.rows, found.behind, found.lag))
        self.assertEqual(self.clock.now().wall - 13, found.complete)
        self.assertEqual((False, True), (found.is_late, found.free_bytes is not None))

    def test_an_archive_that_falls_behind_is_late(self) -> None:
        """Also one whose process has never completed a pass."""
        self.clock.advance(61)
        self.assertTrue(self.service.summary().is_late)
        self.process.report(state={"condition": "running", "age": 0.5, "gaps": []})
        self.assertFalse(self.service.summary().is_late)
        self.process.report(state={"condition": "waiting", "reason": "no space left", "gaps": []})
        self.clock.advance(61)
        found = self.service.summary()
        self.assertEqual(("waiting", "no space left", True), (found.condition, found.reason, found.is_late))

    def test_a_process_that_ends_is_started_again(self) -> None:
        """After a pause that grows while it keeps ending, up to a minute; the reason is its last words."""
        pauses = []
        for _ in range(8):
            self.process.link.errReceived(b"Traceback\nImportError: no pyarrow\n")
            self.process.signalProcess("KILL")
            self.assertEqual("waiting", self.service.summary().condition)
            self.assertIn("ImportError: no pyarrow", self.service.summary().reason)
            count, before = len(self.processes), self.clock.now().monotonic
            self.clock.advance_until(partial(self.has_more, count))
            pauses.append(self.clock.now().monotonic - before)
        self.assertEqual([1, 2, 4, 8, 16, 32, 60, 60], pauses)
        self.assertEqual(8, self.service.summary().restarts)
        self.clock.advance(60)
        self.process.report(state={"condition": "running", "age": 0, "gaps": []})
        self.process.signalProcess("KILL")
        self.clock.advance(1)
        self.assertEqual(10, len(self.processes))

    def test_a_process_that_ends_after_its_first_report(self) -> None:
        """The pause grows as well: each start costs a process, and each end a line in the log."""
        start = self.clock.now().monotonic
        for _ in range(8):
            self.process.report(state={"condition": "running", "age": 0, "gaps": []})
            self.process.signalProcess("KILL")
            self.clock.advance_until(partial(self.has_more, len(self.processes)))
        self.assertGreaterEqual(self.clock.now().monotonic - start, 1 + 2 + 4 + 8 + 16 + 32 + 60)

    def test_a_process_that_reads_no_more(self) -> None:
        """It is started again, and what it has reported is recorded; callers get an error at once."""
        erasure = {"time": "2026-01-31T00:00:00+00:00", "columns": ["label"], "rows": {"orders log": 2}}
        self.process.is_input_closed = True
        self.process.report(erasures=[erasure], end=80)
        self.assertEqual(["archive_erased"], [event for event, _ in self.event_texts()])
        self.clock.advance(1)
        self.assertEqual(2, len(self.processes))
        self.process.is_input_closed = True
        error = self.failureResultOf(Deferred.fromCoroutine(self.service.compact()), MQError).value
        self.assertEqual(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, error.status)

    def test_an_erasure_is_an_event_without_values(self) -> None:
        """The process hears that it is recorded, so that it is not reported again."""
        erasing = Deferred.fromCoroutine(self.service.erase("label = 'Jane Doe'"))
        self.assertEqual(
            {"request": 1, "erase": "label = 'Jane Doe'", "dry_run": False}, self.process.lines[-1]
        )
        erasure = {"time": "2026-01-31T00:00:00+00:00", "columns": ["label"], "rows": {"orders log": 2}}
        self.process.report(erasures=[erasure], end=80)
        self.assertEqual({"noted": 80}, self.process.lines[-1])
        self.process.report(answer=1, rows=[["orders", "log", 2]])
        [found] = self.successResultOf(erasing)
        self.assertEqual(("orders", "log", 2), (found.topic, found.stream, found.rows))
        [(event, reason)] = self.event_texts()
        self.assertEqual("archive_erased", event)
        self.assertIn("label: orders log: 2", reason)
        self.assertNotIn("Jane", reason)

    def test_erasures_that_were_cut_off(self) -> None:
        """An interrupted one says what to do, and a line that cannot be read is an event too."""
        erasure = {"time": "2026-01-31T00:00:00+00:00", "columns": ["label"], "rows": {"orders log": 2}}
        self.process.report(erasures=[{**erasure, "interrupted": True}, None], end=80)
        [first, second] = [reason for _, reason in self.event_texts()]
        self.assertIn("label: orders log: 2; the erasure was interrupted: erase again", first)
        self.assertIn("_erasures.jsonl cannot be read", second)

    def test_an_erasure_that_is_reported_during_a_stop(self) -> None:
        """It is recorded; the process cannot hear that any more, and reports it again after the start."""
        self.process.is_stubborn = True
        stopping = Deferred.fromCoroutine(self.service.stop())
        erasure = {"time": "2026-01-31T00:00:00+00:00", "columns": ["label"], "rows": {"orders log": 2}}
        self.process.report(erasures=[erasure], end=80)
        self.assertTrue(self.process.link.is_alive)
        self.assertEqual(["archive_erased"], [event for event, _ in self.event_texts()])
        self.process.signalProcess("KILL")
        self.successResultOf(stopping)

    def test_missing_entries_are_an_event(self) -> None:
        """So that an operator learns of them where messages are explained."""
        self.process.report(state={"condition": "running", "gaps": ["orders: 3 to 4 were trimmed"]})
        self.assertEqual([("archive_incomplete", "orders: 3 to 4 were trimmed")], self.event_texts())

    def test_what_the_process_refuses_is_refused(self) -> None:
        """A wrong condition is an error of the caller, a full disk is not."""
        for number, wrong, status in (
            (1, True, Status.MQ_ERROR_INVALID_PARAMETER),
            (2, False, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED),
        ):
            asking = Deferred.fromCoroutine(self.service.compact())
            self.process.report(answer=number, error="no", wrong=wrong)
            self.assertEqual(status, self.failureResultOf(asking, MQError).value.status)

    def test_requests_are_refused_while_the_process_is_gone(self) -> None:
        """Those that wait too."""
        asking = Deferred.fromCoroutine(self.service.compact())
        self.process.signalProcess("KILL")
        for each in (asking, Deferred.fromCoroutine(self.service.compact())):
            error = self.failureResultOf(each, MQError).value
            self.assertEqual(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, error.status)

    def test_requests_are_bounded(self) -> None:
        """A caller cannot fill the memory of the server with them."""
        waiting = [Deferred.fromCoroutine(self.service.compact()) for _ in range(MOST_REQUESTS + 1)]
        self.failureResultOf(waiting.pop(), MQError)
        self.process.signalProcess("KILL")
        for each in waiting:
            self.failureResultOf(each, MQError)

    def test_output_that_is_no_report_ends_the_process(self) -> None:
        """And so does a line without end."""
        self.process.link.outReceived(b"rubbish\n")
        self.assertFalse(self.process.link.is_alive)
        self.clock.advance(1)
        self.process.link.outReceived(bytes(LONGEST_LINE + 1))
        self.assertFalse(self.process.link.is_alive)

    def test_a_stop_waits_for_the_step_and_not_for_long(self) -> None:
        """The archive is as it was after the last step in any case."""
        self.process.is_stubborn = True
        stopping = Deferred.fromCoroutine(self.service.stop())
        self.assertNoResult(stopping)
        self.clock.advance(3)
        self.successResultOf(stopping)
        self.clock.advance(100)
        self.assertEqual((1, "stopped"), (len(self.processes), self.service.summary().condition))
