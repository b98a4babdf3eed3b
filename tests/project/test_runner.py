"""The runner of the suite: each test runs once, and the tests of one server run in one worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import attrs
from twisted.trial import _synctest
from twisted.trial.unittest import SynchronousTestCase

from tests.runner import LONGEST, SHARED, files_in_memory, groups, has_space
from tests.servers import shared_files
from tests.worker import forget_warnings

PROJECT = Path(__file__).resolve().parent.parent.parent
STARTS = re.compile(
    r"spark_support import|local_spark import|samba\.shared_server|samba import .*shared_server"
    r"|bridge_service\.support import|rabbitmq import .*shared_broker"
)
"""How a test module refers to a server that is started once in a process."""


@attrs.frozen
class Case:
    """A test with a name only."""

    name: str

    def id(self) -> str:
        """As trial asks."""
        return self.name


def names(*tests: str) -> list[list[str]]:
    """The groups of these tests."""
    return [[case.id() for case in group] for group in groups(map(Case, tests))]


class MemoryTests(SynchronousTestCase):
    """Tests write to a file system in memory."""

    def test_files_are_gone_and_logs_stay(self) -> None:
        """A run leaves its logs, the workers' too, and nothing in memory."""
        memory, logs = Path(self.mktemp()).absolute(), Path(self.mktemp())
        memory.mkdir()
        with files_in_memory(memory, logs) as directory:
            (directory / "1" / "tests.wire" / "temp").mkdir(parents=True)
            (directory / "test.log").write_text("all")
            (directory / "1" / "err.log").write_text("one")
            (directory / "1" / "tests.wire" / "temp" / "server.log").write_text("of a test")
            here = Path(tempfile.mkdtemp())
            command = [sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"]
            there = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
            self.assertTrue(here.is_relative_to(memory))
            self.assertTrue(there.is_relative_to(memory))
        self.assertEqual(list(memory.iterdir()), [])
        found = {str(path.relative_to(logs)): path.read_text() for path in logs.rglob("*.log")}
        self.assertEqual(found, {"test.log": "all", "1/err.log": "one"})
        self.assertFalse(Path(tempfile.gettempdir()).is_relative_to(memory))

    def test_trial_after_it(self) -> None:
        """The directory of the logs is one that trial replaces when it is run alone afterwards."""
        memory, logs = Path(self.mktemp()).absolute(), Path(self.mktemp())
        memory.mkdir()
        with files_in_memory(memory, logs):
            pass
        (logs / "test.log").write_text("of the run before")
        command = [sys.executable, "-m", "twisted.trial", f"--temp-directory={logs}", "twisted.trial.util"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_a_killed_run_left(self) -> None:
        """The next run removes the files of one that was killed, and leaves those of one that runs."""
        memory = Path(self.mktemp())
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            pass
        gone, runs = (memory / f"msmq-tests-{number}-x" for number in (ended.pid, os.getpid()))
        gone.mkdir(parents=True)
        runs.mkdir()
        with files_in_memory(memory, Path(self.mktemp())):
            pass
        self.assertEqual(list(memory.iterdir()), [runs])

    def test_without_memory(self) -> None:
        """Where there is no such file system, tests write to the disk."""
        self.assertFalse(has_space(Path(self.mktemp())))


class SharedFilesTests(SynchronousTestCase):
    """What several processes of the tests copy is made once."""

    def setUp(self) -> None:
        self.kept = Path(self.mktemp())
        self.made = 0

    def make(self, directory: Path) -> None:
        """Make a directory with one file."""
        self.made += 1
        (directory / "number").write_text(f"{self.made}")

    def copied(self, version: str = "1.0") -> str:
        """What is in another copy."""
        target = Path(self.mktemp())
        target.mkdir()
        shared_files.copy_of("numbers", version, target, self.make, kept=self.kept)
        return (target / "number").read_text()

    def test_made_once(self) -> None:
        """Each copy has what was made for the first."""
        self.assertEqual([self.copied(), self.copied()], ["1", "1"])

    def test_failure(self) -> None:
        """What was not finished is not copied, and the next process makes it."""

        def fail(directory: Path) -> None:
            self.make(directory)
            raise OSError("full")

        target = Path(self.mktemp())
        target.mkdir()
        self.assertRaises(OSError, shared_files.copy_of, "numbers", "1.0", target, fail, kept=self.kept)
        self.assertEqual([self.copied(), self.copied()], ["2", "2"])

    def test_another_version(self) -> None:
        """It is made anew, and what was kept of the version before is removed."""
        self.assertEqual([self.copied(), self.copied("1.1"), self.copied("1.1")], ["1", "2", "2"])
        self.assertEqual(len([path for path in self.kept.iterdir() if path.is_dir()]), 1)

    def test_old(self) -> None:
        """What may have expired is made anew."""
        self.copied()
        [made] = (path for path in self.kept.iterdir() if path.is_dir())
        since = made.stat().st_mtime - shared_files.AGE
        os.utime(made, (since, since))
        self.assertEqual([self.copied(), self.copied()], ["2", "2"])


class GroupTests(SynchronousTestCase):
    """How tests are handed out."""

    def test_classes(self) -> None:
        """A class is a group, whose tests keep their order."""
        first, second, other = (
            "tests.wire.test_a.A.test_2",
            "tests.wire.test_a.A.test_1",
            "tests.wire.test_a.B.x",
        )
        self.assertEqual(names(first, other, second), [[first, second], [other]])

    def test_server(self) -> None:
        """All tests of a server are one group, of whichever module."""
        batch, loss = "tests.pipeline.test_batch.A.test_a", "tests.pipeline.jobs.test_loss.B.test_b"
        similar = "tests.pipeline.test_batches.A.test_a"
        self.assertEqual(names(batch, similar, loss), [[batch, loss], [similar]])

    def test_longest_first(self) -> None:
        """The groups that take longest come first, wherever their names are in the alphabet."""
        short, long = "tests.wire.test_a.A.test_a", "tests.pipeline.test_batch.A.test_a"
        middle = "tests.integration.test_importing.A.test_a"
        self.assertEqual(names(short, middle, long), [[long], [middle], [short]])

    def test_once(self) -> None:
        """No test is lost, and none comes twice."""
        tests = [
            f"tests.{room}.test_{number}.A.test_a" for room in ("wire", "faults") for number in range(50)
        ]
        self.assertEqual(sorted(name for group in names(*tests) for name in group), sorted(tests))


class TableTests(SynchronousTestCase):
    """The runner's table of the suite."""

    def test_users_of_servers(self) -> None:
        """Every module that needs Spark, Samba or RabbitMQ is in the table; one worker starts each."""
        listed = [name for users in SHARED.values() for name in users]
        missing = []
        for path in (PROJECT / "tests").rglob("test_*.py"):
            module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
            is_listed = any(f"{module}.".startswith(f"{name}.") for name in listed)
            if path != Path(__file__) and STARTS.search(path.read_text(encoding="utf-8")) and not is_listed:
                missing.append(module)
        self.assertEqual(missing, [])

    def test_modules_exist(self) -> None:
        """Each name in the tables is a package or module of the tests."""
        named = [*LONGEST, *(name for users in SHARED.values() for name in users)]
        gone = [
            name
            for name in named
            if name not in SHARED
            and not (PROJECT / name.replace(".", "/")).is_dir()
            and not (PROJECT / name.replace(".", "/")).with_suffix(".py").is_file()
        ]
        self.assertEqual(gone, [])


LOGGING = """
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase


class LoggingTests(SynchronousTestCase):
    def test_log(self) -> None:
        Logger().info("a line of {what}", what="a \\ud800 test")
"""


class WorkerTests(SynchronousTestCase):
    """A worker between two tests."""

    def test_log_of_a_worker(self) -> None:
        """What a test logs is in the directory of its worker, and none of it goes through the runner."""
        place, logs = Path(self.mktemp()).absolute(), Path(self.mktemp()).absolute()
        place.mkdir()
        (place / "test_logging.py").write_text(LOGGING)
        command = [sys.executable, "-m", "tests.runner", "--jobs", "1", f"--temp-directory={logs}"]
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, place)))}
        done = subprocess.run(
            [*command, "test_logging"], check=False, capture_output=True, text=True, env=paths, cwd=place
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        line = "a line of a \\ud800 test\n"
        self.assertIn(line, (logs / "0" / "test.log").read_text())
        self.assertNotIn("a line of", (logs / "test.log").read_text())

    def test_warnings_come_again(self) -> None:
        """A module that has warned warns again in the next test, as trial demands; others are left alone."""
        wordy, silent = ModuleType("wordy"), ModuleType("silent")
        wordy.__dict__["__warningregistry__"] = {("text", RuntimeWarning, 1): True}
        forget_warnings({"wordy": wordy, "silent": silent, "missing": None})
        self.assertIsNone(wordy.__dict__["__warningregistry__"])
        self.assertNotIn("__warningregistry__", vars(silent))

    def test_it_is_used(self) -> None:
        """Trial still sets the attribute by the function that is replaced."""
        self.assertIn("_setWarningRegistryToNone", _synctest._collectWarnings.__code__.co_names)
