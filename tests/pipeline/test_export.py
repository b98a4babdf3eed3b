"""Stored messages become Parquet files, once, whichever process is killed in between."""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import attrs
import numpy
import pyarrow.parquet
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    AppendLog,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    TrimLog,
)
from msmq.pipeline.files.directory import TopicFiles, date_of, writing_into
from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.files.exporter import Exported, Exporter, ExportRequest, export_request, store_at
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.streams import Topic, find_topic
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, arrow_schema, names_of
from msmq.storage.checking.log_repair import rebuild_log
from tests.builders import BETA, user_packet
from tests.pipeline.export_case import (
    DAMAGED,
    DAY,
    DEAD,
    JOURNAL,
    MORNING,
    ORDERS,
    OUTGOING,
    PROJECT,
    ExportTestCase,
    event,
    log,
    packet,
    put,
)
from tests.pipeline.stores import spoil_log, write_log


class NameTests(SynchronousTestCase):
    """Which queue is meant by a name."""

    def test_a_path_comes_before_what_is_short_for_one(self) -> None:
        """Where a public and a private queue have the same name, whichever was made first."""
        private, public = Topic(UUID(int=1), ".\\private$\\Orders"), Topic(UUID(int=2), ".\\orders")
        for topics in ([private, public], [public, private]):
            for name, expected in (
                ("orders", public),
                (".\\ORDERS", public),
                ("private$\\orders", private),
                (".\\private$\\orders", private),
                ("order", None),
            ):
                self.assertIs(find_topic(topics, name), expected, name)
        self.assertIs(find_topic([private], "orders"), private)


class ExportTests(ExportTestCase):
    """Content of the files."""

    def test_queue(self) -> None:
        """A queue becomes one file a day, with every column, and the packets as they are."""
        self.write([put(number, priority=7 if number == 6 else 3) for number in range(1, 9)])
        [reported] = self.export(".\\private$\\orders")
        self.assertEqual(reported, Exported(".\\private$\\orders", "queue", rows=8, files=3))
        folders = [name.partition("/")[0] for name in self.files if name.endswith(".parquet")]
        self.assertEqual(folders, ["date=2023-11-15", "date=2023-11-16", "date=2023-11-16"])
        self.assertEqual(sorted(self.rows()), list(range(1, 9)))
        for path in self.directory.rglob("*.parquet"):
            table = pyarrow.parquet.read_table(path, partitioning=None)
            self.assertEqual(table.column_names, list(names_of(EXPORTED_COLUMNS)))
            self.assertEqual(table.schema.metadata, arrow_schema(EXPORTED_COLUMNS).metadata)
            for row in table.to_pylist():
                self.assertEqual(row["packet"], packet(row["offset"]))
                self.assertEqual(row["value"], b"body %d" % row["offset"])
                self.assertEqual(f"date={row['timestamp'].date()}", path.parent.name)
        whole = pyarrow.parquet.read_table(self.directory)
        self.assertEqual((whole.num_rows, whole.column_names[-1]), (8, "date"))

    def test_columns(self) -> None:
        """A column has its comment, is not nullable if each row has a value, and is a dictionary of names."""
        self.write([put(1), event(1)])
        self.export("orders", "events")
        orders, events = (
            pyarrow.parquet.read_schema(path)
            for path in sorted(self.directory.rglob("*.parquet"), key=lambda path: "events" in path.name)
        )
        for schema, columns in ((orders, EXPORTED_COLUMNS), (events, EVENT_COLUMNS)):
            comments = [schema.field(column.name).metadata[b"comment"].decode() for column in columns]
            self.assertEqual(comments, [column.meaning for column in columns])
        self.assertEqual(
            [orders.field(name).nullable for name in ("topic", "packet", "label", "admin_queue")],
            [False, False, True, True],
        )
        names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        self.assertEqual((orders.field("class_name").type, events.field("event").type), (names, names))

    def test_beside_files_of_an_older_version(self) -> None:
        """Files with plain columns, as exports once wrote them, are read together with the new ones."""
        self.write([log(1)])
        self.export("orders", log=True)
        [path] = self.directory.rglob("*.parquet")
        table = pyarrow.parquet.read_table(path, partitioning=None)
        pyarrow.parquet.write_table(table.cast(arrow_schema(EXPORTED_COLUMNS)), path)
        self.write([log(2), log(20)])
        self.export("orders", log=True)
        whole = pyarrow.parquet.read_table(self.directory)
        self.assertEqual(whole.column("topic").to_pylist(), [".\\private$\\orders"] * 3)

    def test_a_full_disk(self) -> None:
        """The error names the file, of which nothing is left; the next export continues there."""
        self.write([log(number) for number in range(1, 11)])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            error = self.assertRaises(FilesError, self.export, "orders", log=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertIn(f"{self.directory}/.msmq-private-orders-log", str(error))
        self.assertEqual(self.files, ["_msmq_export.json", "_msmq_export.lock"])
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, self.rows()), (10, list(range(1, 11))))

    def test_names(self) -> None:
        """Journals, dead letters, outgoing queues, logs and events, each under its name."""
        self.write(
            [put(1), put(2, JOURNAL), put(3, DEAD), put(4, OUTGOING), log(5), event(6), put(7, JOURNAL)]
        )
        for name, with_log, stream, count in (
            ("private$\\ORDERS", False, "queue", 1),
            ("orders", False, "queue", 1),
            (".\\private$\\orders;journal", False, "journal", 2),
            (".\\system$;deadletter", False, "dead_letter", 1),
            ("DIRECT=OS:beta\\private$\\x", False, "outgoing", 1),
            ("orders", True, "log", 1),
            ("events", False, "events", 1),
        ):
            self.directory = Path(self.mktemp())
            [reported] = self.export(name, log=with_log)
            self.assertEqual((reported.stream, reported.rows, len(self.rows())), (stream, count, count))
        [path] = self.directory.rglob("*.parquet")
        table = pyarrow.parquet.read_table(path, partitioning=None)
        self.assertEqual(table.column_names, list(names_of(EVENT_COLUMNS)))
        self.assertEqual(table.column("event").to_pylist(), ["expired"])

    def test_damaged(self) -> None:
        """A damaged packet is a row with all of its bytes, and with what is wrong."""
        self.write([put(1), put(2, content=DAMAGED), put(3, content=b""), put(4, content=packet(4)[:-3])])
        [reported] = self.export("orders")
        self.assertEqual((reported.rows, reported.damaged), (4, 3))
        self.assertEqual(self.rows("packet"), [packet(1), DAMAGED, b"", packet(4)[:-3]])
        errors = self.rows("decode_error")
        self.assertEqual([error is None for error in errors], [True, False, False, False])
        self.assertEqual([row is None for row in self.rows("id")], [False, True, True, True])

    def test_other_users_cannot_read_it(self) -> None:
        """A directory that is created has mode 0700, as the store and an archive; an existing one stays."""
        self.addCleanup(os.umask, os.umask(0o022))
        self.write([put(1)])
        self.export("orders")
        self.assertEqual(self.directory.stat().st_mode & 0o777, 0o700)
        self.directory.chmod(0o750)
        self.write([put(2)])
        self.export("orders")
        self.assertEqual(self.directory.stat().st_mode & 0o777, 0o750)

    def test_empty_queue(self) -> None:
        """An empty queue becomes no file."""
        self.assertEqual(self.export("orders"), [Exported(".\\private$\\orders", "queue")])
        self.assertEqual(self.files, ["_msmq_export.json", "_msmq_export.lock"])

    def test_large_ones(self) -> None:
        """A file has no more rows than it may."""
        self.write([log(number) for number in range(1, 11)])
        [reported] = self.export("orders", log=True, file_rows=2)
        self.assertEqual((reported.rows, self.rows()), (10, list(range(1, 11))))
        self.assertLessEqual(
            max(pyarrow.parquet.read_metadata(path).num_rows for path in self.directory.rglob("*.parquet")), 2
        )

    def test_times_of_no_year(self) -> None:
        """A time that no calendar has is not a date."""
        for time in (None, 1e300, float("nan"), float("inf"), -1e20):
            self.assertEqual(date_of(time), "__HIVE_DEFAULT_PARTITION__")


class AgainTests(ExportTestCase):
    """An export goes on where the one before it ended."""

    def test_log(self) -> None:
        """New entries are added; existing files are not changed."""
        for stream, name, entry in ((True, "orders", log), (False, "events", event)):
            self.directory = Path(self.mktemp())
            self.write([entry(number) for number in range(1, 4)])
            self.export(name, log=stream)
            before = self.files
            self.assertEqual(self.export(name, log=stream)[0].rows, 0)
            self.assertEqual(self.files, before)
            self.write([entry(number) for number in range(4, 9)])
            [reported] = self.export(name, log=stream)
            self.assertEqual((reported.rows, self.rows()), (5, list(range(1, 9))))
            self.assertEqual(set(before) - set(self.files), set())

    def test_queue(self) -> None:
        """Messages that are in no file are added, with higher or lower numbers; received messages stay
        exported.
        """
        self.write([put(1), put(3), put(5, priority=0)])
        self.export("orders")
        self.write(
            [RemoveMessages(ORDERS.identifier, (put(1).lookup_id,)), put(2), put(4, priority=7), put(6)]
        )
        [reported] = self.export("orders")
        self.assertEqual((reported.rows, sorted(self.rows())), (3, [1, 2, 3, 4, 5, 6]))

    def test_messages_of_years(self) -> None:
        """An export remembers of its files only the messages that the queue still has."""
        self.write([put(number) for number in range(1, 6)])
        self.export("orders")
        with store_at(str(self.data)) as store:
            whose = (store.identifier(), str(ORDERS.identifier), "queue")
        files = TopicFiles(self.directory, ".\\private$\\orders", whose)
        self.assertEqual(5, sum(each.last - each.first + 1 for each in files.files()))
        left = put(4).lookup_id
        self.assertEqual([left], list(files.moments(numpy.array([left, left + 100]))))
        self.assertEqual({}, files.moments(numpy.empty(0, numpy.int64)))

    def test_trimmed(self) -> None:
        """Messages that were trimmed before the export are reported; exported ones are not."""
        self.write([log(number) for number in range(1, 4)])
        self.export("orders", log=True)
        self.write([log(number) for number in range(4, 9)])
        self.write([TrimLog(ORDERS.identifier, MORNING + 3 * DAY / 4 + 1, None)])
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, reported.trimmed), (5, None))
        self.write([log(number) for number in range(9, 13)])
        self.write([TrimLog(ORDERS.identifier, MORNING + 10 * DAY / 4 + 1, None)])
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, reported.trimmed), (2, (9, 10)))

    def test_damaged_in_the_store(self) -> None:
        """A row with a wrong bit is left out and named, and so when it is the last one that was exported."""
        self.write([put(1), put(2), put(3), *map(log, range(1, 5))])
        spoil_log(self.data, packet(2))
        [reported] = self.export("orders")
        self.assertEqual((reported.rows, reported.unreadable, len(reported.problems)), (2, 1, 1))
        self.assertRegex(reported.problems[0], "are damaged; run msmq store check$")
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, reported.unreadable), (3, 1))
        spoil_log(self.data, packet(4))
        self.write([log(5)])
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, reported.unreadable), (1, 0))
        spoil_log(self.data, packet(5))
        rebuild_log(self.data / "msmq.log", self.data / "mark", lambda: MORNING)
        self.write([log(6)])
        [reported] = self.export("orders", log=True)
        self.assertEqual((reported.rows, reported.unreadable), (1, 0))
        self.assertEqual([1, 3, 4, 5, 6], self.rows(pattern="*-log*"))

    def test_trimmed_meanwhile(self) -> None:
        """Nor is it silent of what the server trims while it reads."""
        large = user_packet(bytes(3_000_000))
        for kept, found, lost in ((5, [1, 5, 6], (2, 4)), (9, [1], (2, 6))):
            self.setUp()
            self.write(
                [AppendLog(ORDERS.identifier, number, large, MORNING + number) for number in range(1, 7)]
            )
            trimmed: list[int] = []

            def trim(rows: int, kept: int = kept, trimmed: list[int] = trimmed) -> None:
                if not trimmed:
                    self.write([TrimLog(ORDERS.identifier, MORNING + kept, None)])
                trimmed.append(rows)

            [reported] = self.export("orders", log=True, on_rows=trim)
            self.assertEqual((self.rows(), reported.trimmed), (found, lost))

    def test_trimmed_at_any_moment(self) -> None:
        """Each entry is exported or reported, whenever the server trims the log."""
        self.write([log(number) for number in range(1, 4)])
        self.export("orders", log=True)
        self.write([log(number) for number in range(4, 9)])
        data, directory = self.data, self.directory
        outcomes: set[object] = set()
        for moment in itertools.count(1):
            self.data, self.directory = (
                path.with_name(f"{path.name}-{moment}") for path in (data, directory)
            )
            shutil.copytree(data, self.data)
            shutil.copytree(directory, self.directory)
            left = moment

            def trimming(call: Callable[..., object]) -> Callable[..., object]:
                def trim(*arguments: object, **named: object) -> object:
                    nonlocal left
                    left -= 1
                    if not left:
                        self.write([TrimLog(ORDERS.identifier, MORNING + 6 * DAY / 4 + 1, None)])
                    return call(*arguments, **named)

                return trim

            with store_at(str(self.data)) as store:
                for name in ("log_bounds", "log_after", "log"):
                    self.patch(store, name, trimming(getattr(store, name)))
                exporter = Exporter(store, self.directory)
                [reported] = exporter.run(
                    [ExportRequest("log", Topic(ORDERS.identifier, ".\\private$\\orders"))]
                )
            whole, rest = [*range(1, 9)], [*range(1, 4), 7, 8]
            self.assertIn((self.rows(), reported.trimmed), [(whole, None), (rest, (4, 6))], moment)
            outcomes.add(reported.trimmed)
            if left > 0:
                self.assertEqual({None, (4, 6)}, outcomes)
                return

    def test_restored(self) -> None:
        """A store that was restored from a backup has other messages under the same numbers."""
        self.write([log(1), log(2), event(1), event(2), put(1)])
        backup = self.data.with_name(f"{self.data.name}-backup")
        shutil.copytree(self.data, backup)
        self.write([log(3), event(3), put(3)])
        for name, is_log, ended, other in (
            ("orders", True, "it ends before 3, the export before 4", "its entry 3 is another one"),
            ("events", False, "it ends before 3, the export before 4", "its entry 3 is another one"),
            ("orders", False, "", f"its message {put(3).lookup_id} is another one"),
        ):
            self.export(name, log=is_log)
            self.data.rename(f"{self.data}-now")
            shutil.copytree(backup, self.data)
            if ended:
                error = self.assertRaises(FilesError, self.export, name, log=is_log)
                self.assertIn(f"the store is not the one that was exported, {ended}", str(error))
            else:
                self.assertEqual(0, self.export(name, log=is_log)[0].rows)
            late = attrs.evolve(put(3), arrived=MORNING + 5 * DAY)
            self.write([AppendLog(ORDERS.identifier, 4, packet(4), MORNING + 5 * DAY), event(4), late])
            error = self.assertRaises(FilesError, self.export, name, log=is_log)
            self.assertIn(f"{other}: it was restored from a backup; select another directory", str(error))
            shutil.rmtree(self.data)
            Path(f"{self.data}-now").rename(self.data)
            self.assertEqual(0, self.export(name, log=is_log)[0].rows)

    def test_other_queues(self) -> None:
        """A queue that was deleted and created again has other files."""
        self.write([put(1)])
        self.export("orders")
        again = attrs.evolve(ORDERS, identifier=UUID(int=0xE))
        self.write([RemoveQueue(ORDERS.identifier), PutQueue(again), put(1, again)])
        self.assertEqual([done.rows for done in self.export("orders")], [1])
        self.assertEqual(len(self.rows()), 2)

    def test_broken_off(self) -> None:
        """Wherever it is broken off, each row is there once in the end, and no half of a file."""
        self.write([log(number) for number in range(1, 31)], [put(number) for number in range(1, 31)])

        class Broken(Exception):
            pass

        for is_log in (True, False):
            self.directory = Path(self.mktemp())
            for limit in (0, 1, 7, 3, 12):
                left = limit

                def count(rows: int) -> None:
                    nonlocal left
                    left -= rows
                    if left < 0:
                        raise Broken

                with self.assertRaises(Broken):
                    self.export("orders", log=is_log, on_rows=count, file_rows=3)
                self.assertEqual([name for name in self.files if ".msmq-" in name], [])
                self.assertEqual(len(set(self.rows())), len(self.rows()))
            self.export("orders", log=is_log, file_rows=3)
            self.assertEqual(sorted(self.rows()), list(range(1, 31)))

    def test_killed(self) -> None:
        """A process that is killed in the middle of a file leaves what the next one finishes."""
        self.write([log(number) for number in range(1, 41)])
        program = (
            "import os, signal, sys\n"
            "from pathlib import Path\n"
            "from msmq.pipeline.files.exporter import Exporter, export_request\n"
            "from msmq.storage.readers import open_reader\n"
            "data, directory, left = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])\n"
            "def count(rows):\n"
            "    global left\n"
            "    left -= rows\n"
            "    if left < 0:\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "store = open_reader(data)\n"
            "list(Exporter(store, directory, on_rows=count, file_rows=4)"
            ".run([export_request(store, 'orders', log=True)]))\n"
        )
        left_behind = 0
        for limit in (2, 9, 14):
            killed = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    program,
                    os.path.abspath(self.data),
                    str(self.directory.absolute()),
                    str(limit),
                ],
                cwd=PROJECT,
            )
            self.assertEqual(killed.returncode, -signal.SIGKILL)
            left_behind += sum(".msmq-" in name for name in self.files)
            self.assertEqual(self.rows(), list(range(1, len(self.rows()) + 1)))
        self.assertGreater(left_behind, 0)
        self.export("orders", log=True)
        self.assertEqual(self.rows(), list(range(1, 41)))
        self.assertEqual([name for name in self.files if ".msmq-" in name], [])


class TroubleTests(ExportTestCase):
    """Errors name the problem."""

    def test_two_at_once(self) -> None:
        """Two exports never write into one directory together."""
        with writing_into(self.directory, "", ()):
            self.assertIn("another export", str(self.assertRaises(FilesError, self.export, "orders")))
        self.export("orders")

    def test_another_queue_manager(self) -> None:
        """A directory has the export of one queue manager; that of another is refused and writes nothing."""
        self.write([put(1), log(2)])
        self.export("orders")
        self.export("orders", log=True)
        before = self.files
        other = Path(self.mktemp())
        write_log(other, [PutState("queue_manager", BETA.bytes), PutQueue(ORDERS), put(7)])
        for is_noted in (True, False):
            if not is_noted:
                # As an earlier version has left it.
                (self.directory / "_msmq_export.json").unlink()
                before.remove("_msmq_export.json")
            with store_at(str(other)) as store:
                exporter = Exporter(store, self.directory)
                error = self.assertRaises(FilesError, list, exporter.run([export_request(store, "orders")]))
            self.assertIn(f"not of {str(BETA).upper()}; select another directory", str(error))
            self.assertEqual(self.files, before)
        [done] = self.export("orders")
        self.assertEqual((done.rows, self.rows()), (0, [1, 1]))
        (self.directory / "_msmq_export.json").write_text("{}")
        error = self.assertRaises(FilesError, self.export, "orders")
        self.assertIn("_msmq_export.json: does not name the queue manager", str(error))

    def test_no_such_thing(self) -> None:
        """A queue that is not there, and one without a log."""
        for name, is_log in (
            ("none", False),
            ("orders;journals", False),
            ("system$;journal", False),
            ("events", True),
        ):
            self.assertIn(name, str(self.assertRaises(ReadingError, self.export, name, log=is_log)))

    def test_no_directory(self) -> None:
        """A file where the directory is to be."""
        self.directory.write_text("")
        self.assertIn(str(self.directory), str(self.assertRaises(FilesError, self.export, "orders")))

    def test_damaged_file(self) -> None:
        """A file of an earlier export that cannot be read is named, and not taken for an empty one."""
        self.write([put(1)])
        self.export("orders")
        [path] = self.directory.rglob("*.parquet")
        path.write_bytes(b"PAR1")
        self.assertIn(path.name, str(self.assertRaises(FilesError, self.export, "orders")))

    def test_no_store(self) -> None:
        """No store, and none of ours."""
        self.data = Path(self.mktemp())
        self.assertRaises(StorageError, self.export, "orders")
