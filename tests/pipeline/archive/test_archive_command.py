"""C{msmq archive} writes, shows, verifies and erases an archive."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from msmq.cli.options import Settings
from msmq.control.client.client import ControlClient
from msmq.control.server.factory import make_site
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.persistence.changes import PutState, TrimLog
from msmq.pipeline.archive.manifest import MANIFESTS
from tests.builders import BETA
from tests.cli.served import MemoryLocation, ServedCommandTestCase
from tests.cli.support import CommandTestCase
from tests.control.test_archive import OneArchive
from tests.pipeline import stores


class ArchiveCommandTests(CommandTestCase):
    """The verb and its output."""

    def setUp(self) -> None:
        root = Path(self.mktemp())
        self.data = stores.write_log(root / "data", stores.estate())
        self.directory = str(root / "archive")

    def archive(self, *arguments: str, verb: str = "update") -> list[dict[str, object]]:
        ended = self.msmq("--json", "--data", str(self.data), "archive", verb, self.directory, *arguments)
        self.assertEqual(0, ended.status, ended)
        found: list[dict[str, object]] = ended.objects
        return found

    def test_an_update_then_what_there_is(self) -> None:
        """Each stream with its rows, and nothing is wrong with it."""
        self.assertEqual([{"rows": 29, "behind": 0}], self.archive())
        self.assertEqual([{"rows": 0, "behind": 0}], self.archive("--compact"))
        [log] = [each for each in self.archive(verb="show") if each["stream"] == "log"]
        self.assertEqual(
            (".\\private$\\orders", 20, 1, 21), tuple(log[k] for k in ("topic", "rows", "files", "next"))
        )
        self.assertEqual([], self.archive(verb="check"))
        self.assertEqual(6, len(list(Path(self.directory).rglob("*.parquet"))))

    def test_problems_have_the_status_1(self) -> None:
        """What was trimmed too early is named by an update too."""
        self.archive()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(self.data, [TrimLog(stores.ORDERS.identifier, stores.ARRIVED + 50, None)])
        line = ".\\private$\\orders: the entries 21 to 22 were trimmed before they were archived"
        ended = self.msmq("--data", str(self.data), "archive", "update", self.directory)
        self.assertIn(line, ended.errors)
        ended = self.msmq("archive", "check", self.directory)
        self.assertEqual((1, True), (ended.status, line in ended.output), ended)

    def test_gaps_before_a_compaction_that_fails(self) -> None:
        """They are named: the next update does not find them again."""
        self.archive()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(self.data, [TrimLog(stores.ORDERS.identifier, stores.ARRIVED + 40.5, None)])
        [path] = Path(self.directory).glob("_fresh/events-*.arrow")
        path.write_bytes(path.read_bytes()[:-9])
        ended = self.msmq("--data", str(self.data), "archive", "update", self.directory, "--compact")
        self.assertEqual(2, ended.status)
        self.assertIn("the entries 21 to 21 were trimmed before they were archived", ended.errors)
        self.assertIn(f"{path}: damaged", ended.errors)

    def test_without_its_packages(self) -> None:
        """Each verb that reads or writes files says what to install, and changes nothing."""
        self.archive()
        before = sorted(Path(self.directory).rglob("*"))
        program = (
            "import sys; sys.modules |= dict.fromkeys(('numpy', 'pyarrow'))\n"
            "from msmq.cli.command import run; sys.exit(run(sys.argv[1:]))"
        )
        for verb in (
            ["update"],
            ["check"],
            ["compact"],
            ["erase", "--where", "label = 'x'", "--yes"],
        ):
            with self.subTest(verb=verb):
                command = ["archive", *verb, self.directory, "--data", str(self.data)]
                ended = subprocess.run(
                    [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
                )
                self.assertEqual((ended.returncode, ended.stderr.count("\n")), (2, 1), ended.stderr)
                self.assertRegex(ended.stderr, "needs (numpy|pyarrow): pip install 'msmq\\[parquet]'")
                self.assertEqual(before, sorted(Path(self.directory).rglob("*")))

    def test_an_erasure_needs_a_confirmation(self) -> None:
        """Without a terminal that is --yes; a rehearsal needs none."""
        self.archive()
        where = ("--where", "label = 'message 3'")
        expected = [{"topic": ".\\private$\\orders", "stream": "log", "rows": 1}]
        self.assertEqual(expected, self.archive(*where, "--dry-run", verb="erase"))
        self.assert_refused(("archive", "erase", self.directory, *where), 2, "--yes")
        self.assertEqual(expected, self.archive(*where, "--yes", verb="erase"))
        self.assertEqual([], self.archive(*where, "--yes", verb="erase"))

    def test_gaps_of_an_update_that_fails(self) -> None:
        """They are named with the error: no other update finds them again."""
        self.archive()
        stores.write_log(self.data, [stores.log(40), stores.log(41)])
        stores.write_log(
            self.data, [TrimLog(stores.ORDERS.identifier, before=stores.ARRIVED + 40.5, keep_bytes=None)]
        )
        [path] = (Path(self.directory) / MANIFESTS).glob("events-*.json")
        path.write_bytes(b"{")
        for verb in (["update"], ["update", "--follow"]):
            ended = self.msmq("--data", str(self.data), "archive", *verb, self.directory)
            gap = "the entries 21 to 21 were trimmed before they were archived"
            self.assertEqual((2, verb == ["update"]), (ended.status, gap in ended.errors))
            self.assertIn(f"{path}: not a manifest", ended.errors)

    def test_a_path_that_is_not_utf_8(self) -> None:
        """Parquet files cannot have it: nothing is created there, and a copy there is not read."""
        directory = f"{self.directory}\udcff"
        refusal = "this path is not UTF-8, as Parquet files need it; use another"
        self.assert_refused(("--data", str(self.data), "archive", "update", directory), 2, refusal)
        exporting = ("--data", str(self.data), "export", "orders", "--log", "--output", directory)
        self.assert_refused(exporting, 2, refusal)
        self.assertFalse(Path(directory).exists())
        self.archive()
        shutil.copytree(self.directory, directory)
        for verb in (("show",), ("check",), ("compact",), ("erase", "--where", "label = 'x'", "--yes")):
            self.assert_refused(("archive", verb[0], directory, *verb[1:]), 2, refusal)

    def test_what_cannot_be_done_is_one_line(self) -> None:
        """No archive, no condition, no store."""
        self.assert_refused(("archive", "show", self.directory), 2, "there is no archive")
        self.archive()
        self.assert_refused(
            ("archive", "erase", self.directory, "--where", "label"), 2, "must be COLUMN = VALUE"
        )
        self.assert_refused(("archive", "update", self.directory, "--store", "nowhere"), 1, "nowhere")
        stores.write_log(self.data, [PutState("queue_manager", BETA.bytes)])
        self.assert_refused(
            ("--data", str(self.data), "archive", "update", self.directory), 2, "select another directory"
        )


class ServedArchiveCommandTests(ServedCommandTestCase):
    """The verbs without a directory, about the archive of the server."""

    def test_a_server_without_an_archive(self) -> None:
        """One line names the setting."""
        self.assert_ended(("archive", "status"), 1, "[archive] directory")

    def test_the_archive_of_the_server(self) -> None:
        """Its state, an erasure that has to be confirmed, a compaction."""
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=self.members(),
            clock=self.clock.reactor,
            archive=OneArchive(),
        )
        client = ControlClient(MemoryLocation(self.site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)
        [found] = self.msmq("--json", "archive", "status").objects
        self.assertEqual(("/srv/archive", 7, 2.5), (found["directory"], found["rows"], found["lag"]))
        where = ("--where", "label = 'Jane Doe'")
        self.assert_ended(("archive", "erase", *where), 2, "--yes")
        [row] = self.msmq("--json", "archive", "erase", *where, "--yes").objects
        self.assertEqual({"topic": "orders", "stream": "log", "rows": 2}, row)
        [found] = self.msmq("--json", "archive", "compact").objects
        self.assertEqual((5, 1), (found["rows"], found["files"]))
        self.assert_ended(("archive", "erase", "--where", "label"), 1, "not a condition")
