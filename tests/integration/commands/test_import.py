"""Exported messages are sent again through a running server, each once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from twisted.internet.threads import deferToThread

from msmq.control.client.client import ControlClient
from msmq.interfaces.storage import StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.files.import_files import files_in
from msmq.pipeline.files.import_progress import ImportProgress
from msmq.pipeline.files.import_rows import Row, UnsendableRow, record_of
from msmq.pipeline.files.importer import Importer
from msmq.pipeline.rows import event_batch, message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError
from tests.builders import ALPHA, user_packet
from tests.faults.refused_commit import refusing
from tests.integration.test_control_socket import ORDERS, PROJECT, Command, CommandTestCase, reactor
from tests.signed_messages import Fields

LOGGED = ".\\private$\\logged"
TX = ".\\private$\\tx"
COUNT = 300


class ImportTestCase(CommandTestCase):
    """A server over SQLite, and a directory of exported files."""

    storage = "sqlite"

    async def start(self) -> None:
        """Have queues of every kind."""
        await super().start()
        await self.service.create_queue(LOGGED, log=True)
        await self.service.create_queue(TX, transactional=True)
        self.files = self.directory / "files"
        self.files.mkdir()
        self.client = ControlClient(self.socket)

    def write(self, name: str, *packets: bytes, topic: str = LOGGED, first: int = 1) -> Path:
        """A file, as an export makes it."""
        stored = [StoredPacket(packet, topic, number, 1.0) for number, packet in enumerate(packets, first)]
        table = pyarrow.Table.from_batches([message_batch(stored, names_of(EXPORTED_COLUMNS))])
        path = self.files / name
        path.parent.mkdir(exist_ok=True, parents=True)
        pyarrow.parquet.write_table(table, path)
        return path

    def write_events(self, path: Path) -> None:
        """A file with an event."""
        event = event_batch([StoredEvent(1, AppendEvent(1.0, b"", "expired"))])
        path.parent.mkdir(exist_ok=True, parents=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_batches([event]), path)

    def numbered(self, *numbers: int) -> list[bytes]:
        """Packets whose bodies are these numbers."""
        return [user_packet(b"%d" % number, message_id=number, recoverable=True) for number in numbers]

    async def everything(self, queue: str = ORDERS) -> list[bytes]:
        """The bodies of what is in a queue."""
        try:
            reservation = await self.service.reserve(queue, count=10_000, timeout=0, peek=True)
        except MQError:
            return []
        return [bytes(message.view.body) for message in reservation.messages]

    def importer(self, *paths: Path, **options: Any) -> Importer:
        return Importer(self.client, files_in(paths or [self.files]), **options)


class ThereAndBackTests(ImportTestCase):
    """C{msmq export} and then C{msmq import}."""

    async def test_log(self) -> None:
        """A queue gets back what its message log has, in order, as a replay would send it."""
        kept: dict[str, Any] = {
            "label": "a label",
            "body_type": 8,
            "priority": 5,
            "application_tag": 7,
            "response_queue": parse_format_name("DIRECT=OS:beta\\private$\\answers"),
            "correlation_id": MessageIdentifier(ALPHA, 9).to_bytes(),
            "extension": b"\0\1\2",
        }
        dropped: dict[str, Any] = {
            "acknowledge": Acknowledge.POSITIVE_ARRIVAL,
            "admin_queue": parse_format_name("DIRECT=OS:ALPHA\\private$\\orders"),
            "journal": True,
            "dead_letter": True,
            "time_to_be_received": 10_000,
        }
        sent = [
            Message(body=b"%d" % number, delivery=Delivery.RECOVERABLE, **kept, **dropped)
            for number in range(20)
        ]
        await self.service.send(LOGGED, sent)
        await self.service.purge_queue(LOGGED)
        exported = await self.msmq(
            "export", LOGGED, "--log", "--output", str(self.files), "--data", str(self.data)
        )
        self.assertEqual((exported.status, exported.errors), (0, ""))
        rehearsed = await self.msmq("import", str(self.files), "--dry-run", "--json")
        self.assertEqual(rehearsed.objects, [{"destination": LOGGED, "messages": 20, "dry_run": True}])
        self.assertEqual(await self.everything(LOGGED), [])
        imported = await self.msmq("import", str(self.files), "--json")
        self.assertEqual((imported.status, imported.errors), (0, ""))
        self.assertEqual(imported.objects, [{"destination": LOGGED, "messages": 20, "dry_run": False}])
        reservation = await self.service.reserve(LOGGED, count=100, timeout=0)
        views = [message.view for message in reservation.messages]
        self.assertEqual([bytes(view.body) for view in views], [b"%d" % number for number in range(20)])
        view = views[0]
        self.assertEqual((view.label, view.body_type, view.priority), ("a label", 8, 5))
        self.assertEqual((view.application_tag, bytes(view.extension)), (7, b"\0\1\2"))
        self.assertEqual(str(view.response_format_name()), "DIRECT=OS:beta\\private$\\answers")
        self.assertEqual(view.correlation_id, kept["correlation_id"])
        self.assertTrue(view.is_recoverable)
        self.assertEqual((view.acknowledge, view.journal, view.dead_letter), (0, False, False))
        self.assertEqual(view.time_to_be_received, 0xFFFFFFFF)
        reservation.release()
        names = sorted(path.name for path in self.files.iterdir() if not path.is_dir())
        self.assertEqual(names, ["_msmq_export.json", "_msmq_export.lock"])

    async def test_once(self) -> None:
        """The same files again send nothing, until another key is given; another queue gets them."""
        self.write("a.parquet", *self.numbered(1, 2, 3))
        for arguments, orders, logged in (
            ((), 0, 3),
            ((), 0, 3),
            (("--key", "again"), 0, 6),
            (("--into", ORDERS), 3, 6),
            (("--into", ORDERS), 3, 6),
        ):
            self.assertEqual((await self.msmq("import", str(self.files), *arguments)).status, 0)
            counts = [len(await self.everything(queue)) for queue in (ORDERS, LOGGED)]
            self.assertEqual(counts, [orders, logged])

    async def test_directories_of_spark(self) -> None:
        """A directory whose name is that of a file is read as a directory."""
        parts = [self.write(f"of.parquet/part-{each}.parquet", *self.numbered(each)) for each in (1, 2)]
        (self.files / "of.parquet" / "_SUCCESS").write_bytes(b"")
        for path in (self.files, self.files / "of.parquet"):
            self.assertEqual(files_in([path]), parts)

    async def test_a_clock_that_was_set_back(self) -> None:
        """Later messages are sent later, even with the date of the day before."""
        for date, first in (("2026-01-02", 1), ("2026-01-01", 3), ("2026-01-02", 5)):
            name = f"private-logged-log-0123456789ab-{first:020}-{first + 1:020}.parquet"
            self.write(f"date={date}/{name}", *self.numbered(first, first + 1), first=first)
        ended = await self.msmq("import", str(self.files))
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(await self.everything(LOGGED), [b"%d" % number for number in range(1, 7)])

    async def test_messages_and_events(self) -> None:
        """Of a directory with both, messages are sent; what is left out is said, with what to do."""
        archive = self.directory / "archive"
        self.write("../archive/messages/stream=log/a.parquet", *self.numbered(1, 2))
        self.write_events(archive / "events" / "b.parquet")
        ended = await self.msmq("import", str(archive))
        self.assertEqual((ended.status, await self.everything(LOGGED)), (0, [b"1", b"2"]))
        self.assertIn("left out 1 file of events, which cannot be sent", ended.errors)
        self.assertEqual(ended.errors.count("\n"), 1)
        (archive / "_fresh").mkdir()
        (archive / "_fresh" / "c.arrow").write_bytes(b"")
        ended = await self.msmq("import", str(archive), "--dry-run")
        self.assertEqual(ended.status, 0)
        self.assertIn("left out 1 file with the newest rows of the archive", ended.errors)
        self.assertIn(f"first run msmq archive compact {archive.absolute()}", ended.errors)
        ended = await self.msmq("import", str(archive / "events"))
        self.assertEqual((ended.status, ended.errors.count("\n")), (2, 1))
        self.assertIn("it has events only, which cannot be sent", ended.errors)

    async def test_kinds_of_queues(self) -> None:
        """Into a transactional queue all messages go as transactional ones, and the other way round."""
        self.write("a.parquet", *self.numbered(1, 2), topic=f"{LOGGED};journal")
        self.write("b.parquet", *self.numbered(3), topic=ORDERS)
        self.write("_c.parquet", *self.numbered(4))
        self.write(".d/e.parquet", *self.numbered(5))
        ended = await self.msmq("import", str(self.files), "--into", TX)
        self.assertEqual((ended.status, await self.everything(TX)), (0, [b"1", b"2", b"3"]))
        await deferToThread(self.importer(topic="orders").run, ImportProgress(self.directory / "p", ""))
        self.assertEqual((await self.everything(ORDERS), await self.everything(LOGGED)), ([b"3"], []))
        await deferToThread(self.importer().run, ImportProgress(self.directory / "p", ""))
        self.assertEqual(
            (await self.everything(ORDERS), await self.everything(LOGGED)), ([b"3"], [b"1", b"2"])
        )

    async def test_not_sendable(self) -> None:
        """Damaged packets and packets of queue managers themselves are reported, and the rest is sent."""
        nack = user_packet(b"nack", label="label")
        # MessageClass stands behind the flags and the length of the label, before all other properties.
        place = nack.index("label".encode("utf-16-le")) - 56 + 2
        nack = nack[:place] + b"\x02\x80" + nack[place + 2 :]
        self.write("a.parquet", b"no packet", *self.numbered(1), nack, *self.numbered(2), b"")
        for dry_run in (True, False):
            ended = await self.msmq("import", str(self.files), "--json", *["--dry-run"][: int(dry_run)])
            self.assertEqual(ended.status, 1)
            self.assertEqual(ended.objects, [{"destination": LOGGED, "messages": 2, "dry_run": dry_run}])
            lines = ended.errors.splitlines()
            self.assertEqual(len(lines), 3)
            for line, row, word in zip(
                lines, (1, 3, 5), ("damaged", "MQMSG_CLASS_NACK", "damaged"), strict=True
            ):
                self.assertIn(f"a.parquet row {row}: ", line)
                self.assertIn(word, line)
        self.assertEqual(await self.everything(LOGGED), [b"1", b"2"])

    async def test_dead_letters_need_a_destination(self) -> None:
        """A dead letter is sent again, though its class has the reason of its failure; the destination
        is required.
        """
        late = user_packet(b"late", label="label")
        place = late.index("label".encode("utf-16-le")) - 56 + 2
        late = late[:place] + b"\x04\xc0" + late[place + 2 :]
        self.write("a.parquet", late, topic=".\\system$;deadletter")
        ended = await self.msmq("import", str(self.files))
        self.assertEqual(ended.status, 2)
        self.assertIn("choose a queue with --into", ended.errors)
        ended = await self.msmq("import", str(self.files), "--into", LOGGED)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(await self.everything(LOGGED), [b"late"])

    async def test_dead_letters_among_messages(self) -> None:
        """Without a destination, messages of dead-letter and outgoing queues are left out, and counted."""
        self.write("a.parquet", *self.numbered(1, 2))
        self.write("b.parquet", *self.numbered(3, 4), topic=".\\system$;deadletter")
        self.write("c.parquet", *self.numbered(5), topic="DIRECT=OS:BETA\\q")
        self.write("d.parquet", *self.numbered(6), topic=ORDERS)
        for dry_run in (True, False):
            ended = await self.msmq("import", str(self.files), "--json", *["--dry-run"][: int(dry_run)])
            self.assertEqual(ended.status, 1)
            self.assertEqual(
                [(each["destination"], each["messages"]) for each in ended.objects],
                [(LOGGED, 2), (ORDERS, 1)],
            )
            lines = ended.errors.splitlines()
            self.assertEqual(len(lines), 2, lines)
            self.assertIn(".\\system$;deadletter: left out 2 messages, which cannot be sent there", lines[0])
            self.assertIn("DIRECT=OS:BETA\\q: left out 1 message, ", lines[1])
        self.assertEqual(await self.everything(LOGGED), [b"1", b"2"])
        ended = await self.msmq(
            "import", str(self.files), "--topic", ".\\system$;deadletter", "--into", ORDERS
        )
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(await self.everything(), [b"6", b"3", b"4"])

    async def test_missing_queues_are_found_first(self) -> None:
        """Queues that do not exist, and files that cannot be read, are found before anything is sent."""
        self.write("a.parquet", *self.numbered(1))
        self.write("b.parquet", *self.numbered(2), topic=".\\private$\\gone")
        self.write("c.parquet", *self.numbered(3), topic=".\\private$\\lost;journal")
        ended = await self.msmq("import", str(self.files))
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("no such queues: .\\private$\\gone, .\\private$\\lost; nothing was sent", ended.errors)
        self.assertEqual(await self.everything(LOGGED), [])
        self.assertEqual([each.name for each in self.files.iterdir() if each.suffix != ".parquet"], [])
        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), self.files / "d.parquet")
        ended = await self.msmq("import", str(self.files), "--into", LOGGED)
        self.assertEqual((ended.status, ended.errors.count("\n")), (2, 1))
        self.assertIn("rows without packet, topic, offset", ended.errors)
        self.assertEqual(await self.everything(LOGGED), [])

    async def test_refusals(self) -> None:
        """An error is one line, and no message is sent."""
        good = self.write("good.parquet", *self.numbered(1))
        self.write_events(self.directory / "events.parquet")
        newer = pyarrow.parquet.read_table(good).replace_schema_metadata({"msmq.record_format": "99"})
        pyarrow.parquet.write_table(newer, self.directory / "newer.parquet")
        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), self.directory / "strange.parquet")
        (self.directory / "damaged.parquet").write_bytes(b"PAR1")
        (self.directory / "empty").mkdir()
        self.write("../dead.parquet", *self.numbered(1), topic=".\\system$;deadletter")
        self.write("../gone.parquet", *self.numbered(1), topic=".\\private$\\gone")
        for name, status, word in (
            ("events.parquet", 2, "events"),
            ("newer.parquet", 2, "99"),
            ("strange.parquet", 2, "packet"),
            ("damaged.parquet", 2, "damaged.parquet"),
            ("empty", 2, "no Parquet files"),
            ("none", 2, "no such file"),
            ("dead.parquet", 2, "--into"),
            ("gone.parquet", 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        ):
            for more in ((), ("--dry-run",)):
                ended = await self.msmq("import", name, *more)
                self.assertEqual(
                    (ended.status, ended.output, ended.errors.count("\n")), (status, b"", 1), name
                )
                self.assertIn(word, ended.errors)
        ended = await self.msmq("import", "files", "--into", ".\\private$\\gone")
        self.assertEqual(ended.status, 1)
        ended = await self.msmq(
            "import", "files", "--progress", "/nonexistent/p", "--into", "DIRECT=nonsense"
        )
        self.assertEqual((ended.status, ended.errors.count("\n")), (2, 1))
        self.assertEqual(await self.everything(LOGGED), [])


class ResumedTests(ImportTestCase):
    """An import that is broken off."""

    def many(self) -> None:
        """Three files."""
        for name, first in (("date=1/a", 0), ("date=1/b", 100), ("date=2/a", 200)):
            self.write(f"{name}.parquet", *self.numbered(*range(first, first + 100)), first=first)

    async def assert_each_once(self) -> None:
        """Everything is there, and nothing twice."""
        found = await self.everything(LOGGED)
        self.assertEqual(sorted(found, key=int), [b"%d" % number for number in range(COUNT)])

    async def test_noted(self) -> None:
        """It goes on behind what was taken, without a look at the rest."""
        self.many()

        class Broken(Exception):
            pass

        path = self.directory / "progress"
        for limit in (50, 130, 70):
            left = limit

            def count(rows: int) -> None:
                nonlocal left
                left -= rows
                if left < 0:
                    raise Broken

            importer = self.importer(on_rows=count, outstanding=20)
            with self.assertRaises(Broken):
                await deferToThread(importer.run, ImportProgress(path, importer.task))
        looked: list[int] = []
        importer = self.importer(on_rows=looked.append)
        await deferToThread(importer.run, ImportProgress(path, importer.task))
        self.assertLess(sum(looked), COUNT)
        self.assertFalse(path.exists())
        await self.assert_each_once()

    async def test_files_that_came_meanwhile(self) -> None:
        """The rest of a file is sent though new files precede it now, whose import breaks too."""

        class Broken(Exception):
            pass

        path = self.directory / "progress"
        for name, first, limit in (("date=2/a", 200, 50), ("date=1/b", 100, 120), ("date=1/a", 0, 110)):
            self.write(f"{name}.parquet", *self.numbered(*range(first, first + 100)), first=first)
            left = limit

            def count(rows: int) -> None:
                nonlocal left
                left -= rows
                if left < 0:
                    raise Broken

            importer = self.importer(on_rows=count, outstanding=20)
            with self.assertRaises(Broken):
                await deferToThread(importer.run, ImportProgress(path, importer.task))
        importer = self.importer()
        await deferToThread(importer.run, ImportProgress(path, importer.task))
        await self.assert_each_once()

    async def test_order_after_a_late_refusal(self) -> None:
        """What comes after a message whose commit fails is not sent before it, whatever the queue."""
        expected = [*(b"%d" % number for number in range(100)), b"refused", b"101"]
        packets = [user_packet(body, message_id=number) for number, body in enumerate(expected, 1)]
        self.write("a.parquet", *packets, *self.numbered(*range(103, COUNT)))
        for queue in (TX, LOGGED):
            with self.subTest(queue=queue):
                importer = self.importer(into=queue)
                progress = ImportProgress(self.directory / "progress", importer.task)
                with refusing(self.data / "msmq.sqlite", b"refused"):
                    with self.assertRaises(MQError):
                        await deferToThread(importer.run, progress)
                    # This is stored after all that was sent.
                    await self.put(b"last", delivery=Delivery.RECOVERABLE)
                again = self.importer(into=queue)
                await deferToThread(again.run, progress)
                rest = [b"%d" % number for number in range(103, COUNT)]
                self.assertEqual(await self.everything(queue), [*expected, *rest])

    async def test_too_large(self) -> None:
        """A message that can never be stored is skipped by its row; it holds up none of those around it."""
        large = [user_packet(bytes(150_000), message_id=number, recoverable=True) for number in (3, 5)]
        few = self.numbered(1, 2, 4)
        self.write("a.parquet", *few[:2], large[0], few[2], large[1], *self.numbered(*range(6, COUNT)))
        narrow = ".\\private$\\narrow"
        await self.service.create_queue(narrow, quota=100)
        ended = await self.msmq("import", str(self.files), "--into", narrow)
        self.assertEqual((ended.status, ended.errors.count("larger than all of it")), (1, 2))
        self.assertEqual(re.findall(r"row (\d+)", ended.errors), ["3", "5"])
        expected = [b"%d" % number for number in range(1, COUNT) if number not in (3, 5)]
        self.assertEqual(await self.everything(narrow), expected)

    async def test_killed(self) -> None:
        """A process that is killed sends nothing twice when it is started again, with notes or without."""
        self.many()
        program = (
            "import os, signal, sys\n"
            "from pathlib import Path\n"
            "from msmq.control.client.client import ControlClient\n"
            "from msmq.pipeline.files import importer as module\n"
            "from msmq.pipeline.files.import_files import files_in\n"
            "from msmq.pipeline.files.import_progress import ImportProgress\n"
            "module._NOTED_EVERY = 20\n"
            "left = int(sys.argv[3])\n"
            "def count(rows):\n"
            "    global left\n"
            "    left -= rows\n"
            "    if left < 0:\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "client = ControlClient(Path(sys.argv[1]))\n"
            "files = files_in([Path(sys.argv[2])])\n"
            "importer = module.Importer(client, files, on_rows=count, outstanding=20)\n"
            "importer.run(ImportProgress(Path(sys.argv[4]), importer.task))\n"
        )
        for number, limit in enumerate((150, 100, 280)):
            killed = await self.ended(program, str(limit), f"progress-{number // 2}")
            self.assertIsNone(killed)
        self.assertEqual(await self.ended(program, str(COUNT + 1), "progress-1"), 0)
        await self.assert_each_once()

    async def ended(self, program: str, *arguments: str) -> int | None:
        """Run a program in the project, and give its status; C{None} if a signal ended it."""
        command = Command()
        reactor.spawnProcess(
            command,
            sys.executable,
            [sys.executable, "-c", program, str(self.socket), str(self.files), *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
            path=str(self.directory),
        )
        ended = await command.ended
        self.assertEqual(ended.errors, "")
        return ended.status

    async def test_another_import(self) -> None:
        """Notes about something else are not taken for ours, nor what is not a note."""
        path = self.directory / "progress"
        progress = ImportProgress(path, "one")
        progress.note()
        self.assertIn("another import", str(self.assertRaises(FilesError, ImportProgress, path, "two")))
        path.write_text("{}")
        self.assertIn(str(path), str(self.assertRaises(FilesError, ImportProgress, path, "one")))


class RecordTests(ImportTestCase):
    """The conversion of one packet."""

    async def test_invalid_response_queue(self) -> None:
        """An unusable name of a response queue keeps no message from being sent."""
        for response, expected in (
            ("x", None),
            ("OS:a\\private$\\b", "DIRECT=OS:a\\private$\\b"),
            ("", None),
        ):
            packet = Fields(response=response, message_class=0).packet()
            row = Row(Path("f"), 1, packet, LOGGED, 1)
            record = record_of(row, ORDERS, transactional=None, keep_express=False, key="k")
            self.assertEqual(record.header.get("response_queue"), expected)

    async def test_delivery(self) -> None:
        """A copy is recoverable; that of an express message is express only where that is asked for."""
        for recoverable in (False, True):
            row = Row(Path("f"), 1, user_packet(b"body", recoverable=recoverable), LOGGED, 1)
            for keep_express in (False, True):
                record = record_of(row, ORDERS, transactional=None, keep_express=keep_express, key="k")
                expected = "express" if keep_express and not recoverable else "recoverable"
                self.assertEqual(record.header["delivery"], expected)

    async def test_any_damage(self) -> None:
        """A packet with any byte missing is a message or unsendable, and nothing else."""
        whole = user_packet(b"body", label="label")
        outcomes: Sequence[int] = [0, 0]
        for size in range(len(whole) + 1):
            row = Row(Path("f"), 1, whole[:size], LOGGED, 1)
            try:
                record_of(row, ORDERS, transactional=None, keep_express=False, key="k")
            except UnsendableRow:
                outcomes = [outcomes[0] + 1, outcomes[1]]
            else:
                outcomes = [outcomes[0], outcomes[1] + 1]
        self.assertGreater(min(outcomes), 0)
