"""The command C{python -m msmq.pipeline}: what it writes of Parquet, and how it refuses what is wrong."""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from pyarrow import parquet
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StoredEvent
from msmq.persistence.changes import AppendEvent, AppendLog, PutQueue, PutState
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import compact
from msmq.pipeline.files.exporter import Exporter, export_request, store_at
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.rows import event_batch, message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, VERSION_KEY, names_of
from msmq.pipeline.spark.command import main, parser
from msmq.pipeline.spark.inputs import (
    LITTLE_DATA,
    JobInput,
    are_small,
    parse_input,
    read_estate,
    read_rows,
    unread_rows,
)
from msmq.pipeline.spark.lineage import LineageRun
from msmq.pipeline.stored_packets import StoredPacket
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.names.format_name import parse_format_name
from tests.builders import ALPHA, BETA, user_packet
from tests.pipeline import stores
from tests.pipeline.spark_support import cached_tables, jobs_so_far, shared_session
from tests.project.example_files import example

ORDERS = r".\private$\orders"
SENT = 1_700_000_000
EXPORTED = names_of(EXPORTED_COLUMNS)
ENTERPRISE = Path(__file__).parent.parent.parent / "examples" / "enterprise" / "enterprise.toml"


def stored(number: int, topic: str, *, is_logged: bool = False, **facts: Any) -> StoredPacket:
    """A message of ALPHA in some store."""
    packet = user_packet(b"body", message_id=number, source=ALPHA, sent_time=SENT + number)
    counts = {} if is_logged else {"aborts": 0, "moves": 0}
    return StoredPacket(
        packet, topic, **{"offset": number, "arrived": SENT + number + 0.5, **counts, **facts}
    )


def export(path: Path, *packets: StoredPacket) -> None:
    """Write what C{msmq export} writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    batch = message_batch(packets, EXPORTED)
    with parquet.ParquetWriter(path, batch.schema) as writer:
        writer.write_batch(batch)


class InputTests(SynchronousTestCase):
    """Values of C{--input}."""

    def test_names(self) -> None:
        """A location with a name, or called by its last part."""
        for text, name, location in (
            ("ALPHA=/data/a", "ALPHA", "/data/a"),
            ("/data/a/", "a", "/data/a/"),
            ("x/wire.pcapng", "wire", "x/wire.pcapng"),
            ("postgresql://u@host/msmq?application_name=x", "msmq", None),
            ("BETA=postgresql://u@host/msmq?a=b", "BETA", "postgresql://u@host/msmq?a=b"),
        ):
            found = parse_input(text)
            self.assertEqual((found.name, found.location), (name, location or text))

    def test_password(self) -> None:
        """No report shows a password."""
        for text in (
            "postgresql://me:secret@host/db",
            "postgresql://me:its&secret@host/db",
            "postgresql://me:its?secret@host/db",
            "postgresql://host/db?user=me&password=secret&a=b",
            "postgresql://host/db?oauth_client_secret=secret",
        ):
            self.assertNotIn("secret", parse_input(text).shown.replace("_secret=", ""))
        for text in ("/data/alpha", "postgresql://host:5432/db?a=b"):
            self.assertEqual(parse_input(text).shown, text)

    def test_endpoints(self) -> None:
        """A control endpoint is called by its computer, and shown without the files that it needs."""
        files = "tokenFile=/t:caFile=/c"
        for text, name, shown in (
            (f"ssl:alpha.example.com:1843:{files}", "alpha.example.com", "ssl:alpha.example.com:1843"),
            (rf"ssl:fd00\:\:1:1843:{files}", "fd00::1", r"ssl:fd00\:\:1:1843"),
        ):
            found = parse_input(text)
            self.assertEqual((found.name, found.shown, found.path), (name, shown, None))

    def test_directory_called_postgres(self) -> None:
        """It is a directory."""
        self.assertEqual(parse_input("postgres-export").path, Path("postgres-export"))

    def test_lineage(self) -> None:
        """OpenLineage has the computer and the streams of a store behind a control endpoint."""
        file = Path(self.mktemp()).absolute()
        places = ("ssl:alpha:1843:tokenFile=/t", r"ssl:fd00\:\:1:1843", "postgresql://host:5433/shop")
        inputs = [parse_input(each) for each in places]
        LineageRun(str(file), "loss", inputs, ("log", "events"), Path("out")).started()
        found = [(each["namespace"], each["name"]) for each in json.loads(file.read_text())["inputs"]]
        expected = [("msmq://alpha:1843", "log"), ("msmq://alpha:1843", "events")]
        expected += [("msmq://[fd00::1]:1843", "log"), ("msmq://[fd00::1]:1843", "events")]
        expected += [("postgres://host:5433", "shop.log"), ("postgres://host:5433", "shop.events")]
        self.assertEqual(expected, found)


class CommandTests(SynchronousTestCase):
    """A job as its users run it."""

    def setUp(self) -> None:
        shared_session()
        self.directory = Path(self.mktemp())
        self.directory.mkdir()
        self.alpha = self.directory / "alpha" / "journal.parquet"
        self.beta = self.directory / "beta" / "2023-11-14" / "part.parquet"

    def run_job(self, *arguments: str) -> tuple[int, str, str]:
        """Status, output, complaints."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(arguments)
        return status, out.getvalue(), err.getvalue()

    def write_estate(self) -> tuple[str, ...]:
        """ALPHA sent ten messages, of which 3 never came, 5 came twice, and 4 came late. Two are dead."""
        export(
            self.alpha,
            *(stored(number, r".\system$;journal") for number in range(1, 11)),
            *(stored(number, r".\system$;deadletter") for number in (11, 12)),
        )
        came = [1, 2, 5, 6, 4, 5, 7, 8, 9, 10]
        export(
            self.beta,
            *(stored(number, ORDERS, is_logged=True, offset=turn) for turn, number in enumerate(came)),
        )
        return ("--input", f"ALPHA={self.alpha}", "--input", f"BETA={self.beta.parent.parent}")

    def assert_report(self, output: Path, *texts: str) -> str:
        """The page has its plots inside, and nothing from elsewhere; it says this."""
        page = (output / "report.html").read_text()
        self.assertIn("<svg", page)
        for reference in ("<script", "<img", "src=", "<link", "@import", "url(http"):
            self.assertNotIn(reference, page)
        report = (output / "report.txt").read_text()
        for text in texts:
            self.assertIn(text, report)
            self.assertIn(text, page)
        return report

    def test_small_inputs(self) -> None:
        """Inputs are small if they are files of 256 MiB together at most; what is elsewhere has no known
        size.
        """
        first, second = Path(self.mktemp()), Path(self.mktemp())
        first.mkdir()
        with open(first / "segment-000001", "wb") as file:
            file.truncate(LITTLE_DATA - 100_000)
        second.write_bytes(b"x")
        inputs = [parse_input(str(first)), parse_input(str(second))]
        self.assertTrue(are_small(inputs))
        self.assertFalse(are_small([*inputs, parse_input("postgresql://host/base")]))
        second.write_bytes(bytes(100_001))
        self.assertFalse(are_small(inputs))

    def test_every_job(self) -> None:
        """Each job reads exported files of two queue managers with few queries, and writes its tables and
        its report.
        """
        inputs = self.write_estate()
        queries = {}
        for job, table, count, texts in (
            (
                *("loss", "fates", 12),
                ("12 messages, 8 delivered: 1 lost, 1 arrived more than once, 2 in dead-letter queues",),
            ),
            ("sequences", "findings", 2, ("there is no transactional stream", "reordered")),
            ("latency", "delays", 9, ("9 messages on 1 routes", "ALPHA")),
            ("deadletters", "clusters", 1, ("2 messages failed, in 1 clusters",)),
            ("quota", "forecast", 3, ("3 queues, journals and logs",)),
        ):
            output = self.directory / job
            before = jobs_so_far()
            status, out, err = self.run_job(job, *inputs, "--output", str(output))
            queries[job] = jobs_so_far() - before
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(out, self.assert_report(output, *texts, "What was read", "2023-11-14 22:13:3"))
            self.assertEqual(parquet.read_table(output / table).num_rows, count, job)
        most = {"loss": 10, "sequences": 12, "latency": 12, "deadletters": 10, "quota": 15}
        self.assertEqual({job: number for job, number in queries.items() if number > most[job]}, {})

    def test_cached_tables_are_released(self) -> None:
        """A run leaves nothing in the session that it has cached, also when it fails; what a program has
        cached in the same session stays.
        """
        inputs = self.write_estate()
        before = cached_tables()
        own = shared_session().range(7).cache()
        self.addCleanup(own.unpersist)
        status, _, err = self.run_job("latency", *inputs, "--output", str(self.directory / "latency"))
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(cached_tables(), before + 1)
        queues = self.directory / "queues.jsonl"
        queues.write_text("{}\n")
        output = ("--output", str(self.directory / "quota"))
        self.refuse("queues.jsonl:1 is not a queue", "quota", *inputs, *output, "--queues", str(queues))
        self.assertEqual(cached_tables(), before + 1)
        self.assertTrue(own.storageLevel.useMemory)

    def test_a_damaged_store(self) -> None:
        """It is an error, unless rows may be left out; the report says that they may be."""
        data = stores.write_log(self.directory / "beta", stores.estate())
        stores.spoil_log(data, "message 7".encode("utf-16-le"))
        arguments = ("loss", "--input", f"BETA={data}", "--output")
        self.refuse("bytes are damaged", *arguments, str(self.directory / "refused"))
        output = self.directory / "loss"
        status, out, err = self.run_job(*arguments, str(output), "--allow-data-loss")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("are damaged in a store, are left out of this report (--allow-data-loss)", out)
        numbers = parquet.read_table(output / "fates").column("id").to_pylist()
        self.assertEqual([], [each for each in numbers if each.endswith("\\7")])
        self.assertTrue([each for each in numbers if each.endswith("\\8")])

    def test_topology(self) -> None:
        """Tables of an enterprise file, and what a change would cost; routes without reports."""
        output = self.directory / "topology"
        status, _, err = self.run_job(
            *("topology", "--enterprise", str(ENTERPRISE), "--output", str(output)),
            *("--what-if", "Berlin..Paris", "--what-if", "Paris..Rome=3"),
        )
        self.assertEqual((status, err), (0, ""))
        self.assert_report(output, "6 of 6 pairs of sites have a route", "6 dearer", "Berlin")
        self.assertEqual(parquet.read_table(output / "differences").num_rows, 6)
        output = self.directory / "routes"
        inputs = self.write_estate()
        status, _, err = self.run_job(
            "routes", *inputs, "--enterprise", str(ENTERPRISE), "--output", str(output)
        )
        self.assertEqual((status, err), (0, ""))
        self.assertIn("0 traced messages", (output / "report.txt").read_text())

    def test_events_and_quotas(self) -> None:
        """Exported events explain what is gone; quotas come from what `msmq queue list` prints."""
        export(self.alpha, stored(1, r".\system$;journal"))
        export(self.beta, stored(2, ORDERS))
        events = self.directory / "events.parquet"
        identity = ALPHA.bytes_le + (1).to_bytes(4, "little")
        batch = event_batch([StoredEvent(1, AppendEvent(SENT + 9.0, identity, "purged", "by hand", 0, "x"))])
        with parquet.ParquetWriter(events, batch.schema) as writer:
            writer.write_batch(batch)
        inputs = [f"--input={path}" for path in (self.alpha, self.beta, events)]
        self.run_job("loss", *inputs, "--output", str(self.directory / "loss"))
        self.assertIn(
            "2 messages, 1 delivered: 0 lost, 0 arrived more than once, 1 purged unread",
            (self.directory / "loss" / "report.txt").read_text(),
        )
        self.assertIn("purged: by hand", (self.directory / "loss" / "report.txt").read_text())
        queues = self.directory / "queues.jsonl"
        facts = {"path": ORDERS, "quota": 1, "bytes": 1024, "journal_quota": None, "journal_bytes": 0}
        queues.write_text(json.dumps(facts) + "\n")
        output = self.directory / "quota"
        status, out, _ = self.run_job("quota", inputs[1], "--queues", str(queues), "--output", str(output))
        self.assertEqual(status, 0)
        self.assertIn(r".\private$\orders (queue) at part is full since 2023-11-14 22:00:00 (UTC)", out)
        self.assertIn("All times of the report are in UTC.", out)
        status, _, err = self.run_job("quota", inputs[1], r"--quota=.\private$\ordres=5", "--output", "x")
        self.assertEqual(status, 1)
        self.assertIn(r"no input has that queue; did you mean .\private$\orders?", err)

    def failure(self) -> StoredPacket:
        """A message in an error queue, with the headers of NServiceBus in its extension."""
        headers = {"ExceptionType": "Shop.Gone", "Message": "order 17 is gone"}
        infos = "".join(
            f"<HeaderInfo><Key>NServiceBus.ExceptionInfo.{key}</Key><Value>{value}</Value></HeaderInfo>"
            for key, value in headers.items()
        )
        text = f'<?xml version="1.0"?><ArrayOfHeaderInfo>{infos}</ArrayOfHeaderInfo>'
        failed = build_packet(
            Message(body=b"x", extension=text.encode()),
            parse_format_name(r"DIRECT=OS:beta\private$\error"),
            source=ALPHA,
            message_id=1,
            sent_time=SENT,
        )
        return StoredPacket(failed, r".\private$\error", 1, SENT + 1.0, 1, aborts=0, moves=0)

    def test_exceptions(self) -> None:
        """Headers of NServiceBus are read from exported packets, also where events were exported too."""
        export(self.beta, self.failure())
        batch = event_batch([StoredEvent(1, AppendEvent(SENT + 9.0, b"", "started"))])
        with parquet.ParquetWriter(self.beta.with_name("events.parquet"), batch.schema) as writer:
            writer.write_batch(batch)
        output = self.directory / "deadletters"
        status, out, err = self.run_job("deadletters", f"--input={self.beta.parent}", "--output", str(output))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("1 messages failed, in 1 clusters; the largest has 1: Shop.Gone", out)
        self.assertIn("order <number> is gone", out)

    def test_exceptions_in_an_archive(self) -> None:
        """The same from an archive, of all of its streams."""
        data, archive = self.directory / "data", self.directory / "archive"
        failure = self.failure().packet
        changes = [*stores.estate(), AppendLog(stores.ORDERS.identifier, 40, failure, SENT + 1.0)]
        stores.write_log(data, changes)
        with store_at(str(data)) as store:
            Archiver(store, Archive(archive), clock=lambda: SENT + 99.0).run()
        compact(Archive(archive), SENT + 99.0)
        output = self.directory / "archived"
        status, out, err = self.run_job("deadletters", f"--input={archive}", "--output", str(output))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("3 messages failed", out)
        self.assertIn("Shop.Gone", out)
        output = self.directory / "drift"
        status, out, err = self.run_job("drift", f"--input={archive}", "--output", str(output))
        self.assertEqual((status, err), (0, ""))
        # Bodies are not archived in decoded form either.
        self.assertIn("22 messages, of which 22 could be decoded", out)

    def test_streams_of_an_archive(self) -> None:
        """A replay sends the messages of one stream of an archive, as it does of a store."""
        data, archive = self.directory / "data", self.directory / "archive"
        stores.write_log(data, stores.estate())
        with store_at(str(data)) as store:
            Archiver(store, Archive(archive), clock=lambda: SENT + 99.0).run()
        compact(Archive(archive), SENT + 99.0)
        for stream, offsets in (("log", [*range(1, 21)]), ("dead_letter", [35])):
            rows = read_rows(shared_session(), [parse_input(str(archive))], stream, ("topic", "offset"))
            self.assertEqual(offsets, sorted(row["offset"] for row in rows.collect()))
        error = self.assertRaises(
            ReadingError, read_rows, shared_session(), [parse_input(str(archive))], "queue", ("topic",)
        )
        self.assertIn(f"the archive {archive} has the streams log, journal", str(error))
        stores.write_log(data, [stores.event(6), stores.event(7), stores.log(40)])
        with store_at(str(data)) as store:
            Archiver(store, Archive(archive), clock=lambda: SENT + 99.0).run()
        given = ("--input", str(archive), "--output", "out", "--control", "there", "--into", "orders")
        options = parser().parse_args(["replay", *given])
        wanted = options.job.wanted(options)
        # What the verdict of the replay says.
        self.assertEqual(1, unread_rows([parse_input(str(archive))], wanted.archived))

    def test_fresh_files_of_an_archive(self) -> None:
        """The verdict says how many rows were not looked at, unless the job reads packets, and so all."""
        data, archive = self.directory / "data", self.directory / "archive"
        for changes in (stores.estate(), [stores.log(40), stores.log(41)]):
            stores.write_log(data, changes)
            with store_at(str(data)) as store:
                Archiver(store, Archive(archive), clock=lambda: SENT + 99.0).run()
            if changes == stores.estate():
                compact(Archive(archive), SENT + 99.0)
        note = "; 2 rows in fresh files of archives are not looked at (msmq archive compact)"
        for job, is_noted in (("loss", True), ("drift", False)):
            status, out, err = self.run_job(job, f"--input={archive}", "--output", str(self.directory / job))
            self.assertEqual((status, err, note in out), (0, "", is_noted))

    def test_archive_in_a_data_directory(self) -> None:
        """The input is the store, and the archive would count its messages twice."""
        data, archive = self.directory / "data", self.directory / "data" / "archive"
        stores.write_log(data, stores.estate())
        with store_at(str(data)) as store:
            Archiver(store, Archive(archive)).run()
        compact(Archive(archive), SENT + 99.0)
        found = read_estate(shared_session(), [parse_input(str(data))], JobInput(("queue",)))
        self.assertEqual({"queue"}, {row["place"] for row in found.messages.collect()})
        both = [parse_input(str(each)) for each in (data, archive)]
        error = self.assertRaises(ReadingError, read_estate, shared_session(), both, JobInput(("queue",)))
        self.assertIn("the inputs data and archive are of one queue manager", str(error))

    def test_age_of_an_empty_queue(self) -> None:
        """The limit is kept, and the input decides it: no message of the queue is older."""
        empty = attrs.evolve(stores.REPORTS, identifier=UUID(int=0x50), path="private$\\empty", number=50)
        data = stores.write_log(self.directory / "data", [*stores.estate(), PutQueue(empty)])
        for name, expected in (("empty", 0), ("misspelt", 4)):
            given = (f"--input={data}", "--limit", f"{name}:age=1", "--output", str(self.directory / name))
            self.assertEqual(expected, self.run_job("sla", *given)[0])

    def test_one_name_for_two_queue_managers(self) -> None:
        """An archive, an export and a store are refused if the name is that of another queue manager, whose
        queues would be the same then.
        """
        places = {}
        for name, owner in (("alpha", ALPHA), ("beta", BETA)):
            data = self.directory / name / "data"
            archive, exported = (self.directory / name / each for each in ("archive", "export"))
            stores.write_log(data, [*stores.estate(), PutState("queue_manager", owner.bytes)])
            with store_at(str(data)) as store:
                Archiver(store, Archive(archive)).run()
                list(Exporter(store, exported).run([export_request(store, "orders")]))
            compact(Archive(archive), SENT + 99.0)
            places[name] = data, archive, exported
        wanted = JobInput(("queue",))
        for one in places["alpha"]:
            for other in places["beta"]:
                with self.subTest(one=one, other=other):
                    inputs = [parse_input(f"A={one}"), parse_input(f"A={other}")]
                    error = self.assertRaises(ReadingError, read_estate, shared_session(), inputs, wanted)
                    self.assertRegex(str(error), "two inputs (of different queue managers )?are called A: ")
        data, _, exported = places["alpha"]
        read_estate(shared_session(), [parse_input(f"A={each}") for each in (data, exported)], wanted)

    def test_bodies_that_cannot_be_compared(self) -> None:
        """If no body can be decoded, the verdict does not say that none has changed."""
        export(self.beta, stored(1, ORDERS))
        given = (f"--input={self.beta}", "--output", str(self.directory / "drift"), "--decode", "json")
        status, out, err = self.run_job("drift", *given)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("1 messages, of which 0 could be decoded: nothing to compare", out)

    def test_program(self) -> None:
        """The example prints what is lost, and says so by its status."""
        inputs = self.write_estate()
        out = StringIO()
        with redirect_stdout(out):
            status = example("lost_messages").main([inputs[1], inputs[3]])
        self.assertEqual(status, 1)
        self.assertEqual(out.getvalue(), f"{{{str(ALPHA).upper()}}}\\3 DIRECT=OS:beta\\private$\\orders\n")

    def refuse(self, complaint: str, *arguments: str, status: int = 1) -> None:
        """The command complains in one line."""
        found, out, err = self.run_job(*arguments)
        self.assertEqual((found, out, err.count("\n")), (status, "", 1), err)
        self.assertIn(complaint, err)

    def test_what_is_wrong(self) -> None:
        """An error is one line that names the problem."""
        inputs = self.write_estate()
        output = ("--output", str(self.directory / "out"))
        self.refuse("unrecognized arguments: --nonsense", "loss", *inputs, *output, "--nonsense", status=2)
        self.refuse("invalid choice: 'gain'", "gain", status=2)
        said = "argument --since: 'noon' is not a time in ISO 8601, such as 2026-01-31T12:00"
        self.refuse(said, "loss", *inputs, *output, "--since", "noon", status=2)
        self.refuse("'x' is not PATH=SIZE", "quota", *inputs, *output, "--quota", "x", status=2)
        self.refuse("nowhere is not there", "loss", "--input", "nowhere", *output)
        self.refuse("is given twice", "loss", *inputs, *inputs, *output)
        (self.directory / "link").symlink_to(self.alpha.absolute())
        for again in (f"BETA={self.beta.parent.parent}/", f"LINK={self.directory / 'link'}"):
            self.refuse("is given twice", "loss", *inputs, "--input", again, *output)
        loop = self.directory / "loop"
        loop.symlink_to("loop")
        self.refuse("loop is not there", "loss", *inputs, "--input", str(loop), *output)
        part = f"PART={self.beta.parent}"
        self.refuse("2023-11-14 is in the input", "loss", *inputs, "--input", part, *output)
        twins = [stores.write_log(self.directory / name, stores.estate()) for name in ("one", "twin")]
        given = [f"--input={twin}" for twin in twins]
        # A store and its copy or its archive: each message would count twice.
        self.refuse("the inputs one and twin are of one queue manager", "loss", *given, *output)
        self.refuse("exists and is not an empty directory", "loss", *inputs, "--output", str(self.directory))
        missing = str(self.directory / "missing.toml")
        self.refuse("missing.toml", "topology", "--enterprise", missing, *output)
        self.refuse(
            *("the enterprise has no site Atlantis", "topology", "--enterprise", str(ENTERPRISE)),
            *(*output, "--what-if", "Atlantis"),
        )
        queues = self.directory / "queues.jsonl"
        queues.write_text("{}\n")
        self.refuse("queues.jsonl:1 is not a queue", "quota", *inputs, *output, "--queues", str(queues))
        self.assertFalse((self.directory / "out").exists())

    def test_invalid_files(self) -> None:
        """A file that is not an export, or a newer one, is refused by name."""
        output = ("--output", str(self.directory / "out"))
        rubbish = self.directory / "rubbish.parquet"
        rubbish.write_bytes(b"rubbish")
        self.refuse("rubbish.parquet is not a file in Parquet", "loss", "--input", str(rubbish), *output)
        table = message_batch([stored(1, ORDERS)], EXPORTED).to_pylist()
        other = self.directory / "other.parquet"
        import pyarrow

        parquet.write_table(pyarrow.table({"name": ["x"]}), other)
        self.refuse("other.parquet has no column topic", "loss", "--input", str(other), *output)
        parquet.write_table(pyarrow.Table.from_pylist([{**table[0], "offset": "seven"}]), other)
        self.refuse("has the column offset as string", "loss", "--input", str(other), *output)
        later = pyarrow.Table.from_batches([message_batch([stored(1, ORDERS)], EXPORTED)])
        times = later.column("timestamp").cast(pyarrow.timestamp("ns"))
        place = later.schema.get_field_index("timestamp")
        parquet.write_table(later.set_column(place, "timestamp", times), other, version="2.6")
        self.refuse("Illegal Parquet type", "loss", "--input", str(other), *output)
        corrupt = self.directory / "corrupt.parquet"
        export(corrupt, stored(1, ORDERS))
        whole = corrupt.read_bytes()
        corrupt.write_bytes(whole[:4] + bytes(400) + whole[404:])
        self.refuse("corrupt.parquet", "loss", "--input", str(corrupt), *output)
        newer = message_batch([stored(1, ORDERS)], EXPORTED)
        schema = newer.schema.with_metadata({VERSION_KEY: b"2"})
        parquet.write_table(pyarrow.Table.from_batches([newer]).cast(schema), other)
        self.refuse("version 2 of the record format", "loss", "--input", str(other), *output)
