"""The process that archives for a server, as the server talks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue, TrimLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.manifest import ERASURES, Archive
from msmq.pipeline.archive.selection import EVERYTHING
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.archive.worker import ArchiveWorker, WorkerChannel
from msmq.pipeline.files.exporter import store_at
from msmq.storage.readers.shape import RowPage, StoreReader
from tests.pipeline import stores

WORKER = (sys.executable, "-m", "msmq.pipeline.archive.worker")


class WorkerTests(SynchronousTestCase):
    """One process after the other."""

    def setUp(self) -> None:
        root = Path(self.mktemp()).absolute()
        self.data, self.directory = root / "data", root / "archive"
        stores.write_log(self.data, stores.estate())

    def begin(self, location: Path | None = None) -> subprocess.Popen[str]:
        """Start it with its settings."""
        process = subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        settings = {"location": str(location or self.data), "directory": str(self.directory), "interval": 0.1}
        self.send(process, **settings, streams=ARCHIVED_STREAMS, queues=["*"], keep_days=0)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()

    def send(self, process: subprocess.Popen[str], **record: object) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(record) + "\n")
        process.stdin.flush()

    def until(
        self, process: subprocess.Popen[str], is_it: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """The first line that fulfils a condition."""
        assert process.stdout is not None
        for line in process.stdout:
            found: dict[str, Any] = json.loads(line)
            if is_it(found):
                return found
        raise self.failureException("it has ended")

    def test_it_archives_and_ends_with_its_server(self) -> None:
        """Its state has what the archive has; the end of its input is its end."""
        process = self.begin()
        found = self.until(process, lambda line: line["state"].get("age") is not None)["state"]
        self.assertEqual(("running", 29, 0), (found["condition"], found["rows"], found["behind"]))
        self.send(process, request=7, erase="label")
        answer = self.until(process, lambda line: "answer" in line)
        self.assertEqual((7, True), (answer["answer"], answer["wrong"]))
        self.assertIn("must be COLUMN = VALUE", answer["error"])
        assert process.stdin is not None
        process.stdin.close()
        self.assertEqual(0, process.wait())

    def test_an_erasure_is_reported_until_it_is_recorded(self) -> None:
        """Also one of the command, while no server ran; a kill in between repeats it."""
        process = self.begin()
        self.until(process, lambda line: line["state"].get("age") is not None)
        process.kill()
        process.wait()
        erase(Archive(self.directory), parse_condition("label = 'message 3'"), stores.ARRIVED)
        ends = []
        for _ in range(2):
            process = self.begin()
            found = self.until(process, lambda line: "erasures" in line)
            self.assertEqual([["label"]], [each["columns"] for each in found["erasures"]])
            ends.append(found["end"])
        self.send(process, noted=ends[-1])
        self.send(process, request=1, compact=True)
        self.until(process, lambda line: "answer" in line)
        process = self.begin()
        self.assertNotIn("erasures", self.until(process, lambda line: "erasures" in line or _is_pass(line)))

    def test_an_erasure_in_many_queues(self) -> None:
        """Is reported with each of them, however long their names are."""
        queues = [
            attrs.evolve(stores.ORDERS, identifier=UUID(int=number), path=f"private$\\{'ü' * 100}{number}")
            for number in range(100, 220)
        ]
        stores.write_log(self.data, [*map(PutQueue, queues), *(stores.log(50, queue) for queue in queues)])
        process = self.begin()
        self.until(process, lambda line: line["state"].get("age") is not None)
        self.send(process, request=1, erase="label = 'message 50'")
        found: set[str] = set()
        while len(found) < len(queues):
            line = self.until(process, lambda line: "erasures" in line)
            found.update(name for each in line["erasures"] for name in each["rows"])
            self.send(process, noted=line["end"])

    def test_gaps_of_a_pass_that_the_store_ends(self) -> None:
        """They are reported with the reason: no later pass finds them again."""
        archive = Archive(self.directory)
        with store_at(str(self.data)) as store:
            Archiver(store, archive).run()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(
            self.data, [TrimLog(stores.ORDERS.identifier, before=stores.ARRIVED + 40.5, keep_bytes=None)]
        )
        source, asking = os.pipe()
        self.addCleanup(os.close, source)
        reports = self.data.with_name("reports")

        def fail(queue: UUID, begin: int) -> RowPage:
            raise StorageError("the connection was lost")

        opened = 0

        @contextmanager
        def stores_of() -> Iterator[StoreReader]:
            nonlocal opened
            opened += 1
            with store_at(str(self.data)) as store:
                if opened == 1:
                    self.patch(store, "message_rows", fail)
                else:
                    os.close(asking)
                yield store

        with reports.open("wb") as written:
            channel = WorkerChannel(source, written.fileno())
            ArchiveWorker(channel, archive, stores_of, selection=EVERYTHING, keep_days=0, interval=0.0).run()
        states = [json.loads(line)["state"] for line in reports.read_text().splitlines()]
        found = [each for each in states if each["gaps"]]
        gap = ".\\private$\\orders: the entries 21 to 21 were trimmed before they were archived"
        self.assertEqual(
            [("the connection was lost", [gap])], [(one["reason"], one["gaps"]) for one in found]
        )

    def test_gaps_while_erasures_cannot_be_read(self) -> None:
        """They are reported with the reason: no later pass finds them again."""
        archive = Archive(self.directory)
        with store_at(str(self.data)) as store:
            Archiver(store, archive).run()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(
            self.data, [TrimLog(stores.ORDERS.identifier, before=stores.ARRIVED + 40.5, keep_bytes=None)]
        )
        record = self.directory / ERASURES
        record.mkdir()
        state = self.until(self.begin(), lambda line: "behind" in line["state"] or line["state"]["reason"])
        self.assertEqual(f"{record}: cannot be read: Is a directory", state["state"]["reason"])
        gap = ".\\private$\\orders: the entries 21 to 21 were trimmed before they were archived"
        self.assertEqual([gap], state["state"]["gaps"])

    def test_gaps_of_a_pass_that_the_server_ends(self) -> None:
        """They are reported before the end: no later process finds them again."""
        archive = Archive(self.directory)
        with store_at(str(self.data)) as store:
            Archiver(store, archive).run()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(
            self.data, [TrimLog(stores.ORDERS.identifier, before=stores.ARRIVED + 40.5, keep_bytes=None)]
        )
        source, asking = os.pipe()
        self.addCleanup(os.close, source)
        os.close(asking)
        reports = self.data.with_name("reports")
        with reports.open("wb") as written:
            ArchiveWorker(
                WorkerChannel(source, written.fileno()),
                archive,
                lambda: store_at(str(self.data)),
                selection=EVERYTHING,
                keep_days=0,
                interval=0.0,
            ).run()
        states = [json.loads(line)["state"] for line in reports.read_text().splitlines()]
        gap = ".\\private$\\orders: the entries 21 to 21 were trimmed before they were archived"
        self.assertEqual([[gap]], [each["gaps"] for each in states])

    def test_a_store_that_cannot_be_read_is_waited_for(self) -> None:
        """With the reason, until it is there."""
        elsewhere = self.data.with_name("elsewhere")
        process = self.begin(elsewhere)
        found = self.until(process, lambda line: "state" in line)["state"]
        self.assertEqual("waiting", found["condition"])
        self.assertIn(str(elsewhere), found["reason"])
        self.data.rename(elsewhere)
        self.until(process, _is_pass)


def _is_pass(line: dict[str, Any]) -> bool:
    """Whether a line reports a pass."""
    return "state" in line and line["state"].get("age") is not None
