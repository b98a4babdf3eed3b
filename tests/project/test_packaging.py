"""Content of an installation, from a wheel and from an editable checkout, and the reports of CI.

Packages are built from a copy of the project and installed into a new environment, which sees the
dependencies of this one but nothing of the checkout.
None of it needs the network.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.installation import INTERPRETERS

PROJECT = Path(__file__).resolve().parent.parent.parent

SHIPPED = (
    "setup.cfg",
    "pyproject.toml",
    "packaging/build_backend.py",
    "packaging/description.md",
    "packaging/interface_stubs.py",
    "docs/ldap",
    "LICENSE",
    "msmq",
    "pyspark_msmq",
    "twisted",
)
"""All that a build needs; what is not here does not reach the wheel."""

UNPACKED = {".gitignore", ".pre-commit-config.yaml"}
"""What is for a checkout of git alone."""

PLUGIN = "twisted/plugins/msmq_plugin.py"
SPARK_DOOR = "pyspark_msmq/__init__.py"

TWISTD = "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()"

CONTRACT_PROGRAM = """
from twisted.trial.unittest import TestCase
from msmq.testing import MemoryMessageStore, message_packet, message_view
from msmq.testing.contracts import AccessControlContract, DirectoryContract
from msmq.testing.contracts import MessageStoreContract, RouterContract

class OwnStoreTests(MessageStoreContract, TestCase):
    def make_store(self):
        return MemoryMessageStore()

    def test_packet(self):
        self.assertEqual(message_view(message_packet("text")).body_size, 4)
"""
"""A test module of a store's author, who has the wheel alone."""

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
FROM_LOCAL_FILES = ("--no-index", "--no-deps", "--no-build-isolation")


def run(*command: str | Path, directory: Path, status: int = 0, **environment: str) -> str:
    """Run a command to its end, in an environment without our own paths, and give what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != status:
        raise AssertionError(f"{command} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


@cache
def shipped_source() -> Path:
    """A copy of what is shipped, so that a build leaves nothing in the checkout."""
    source = Path(tempfile.mkdtemp(prefix="msmq-packaging-"))
    atexit.register(shutil.rmtree, source, ignore_errors=True)
    for name in SHIPPED:
        if (PROJECT / name).is_dir():
            rubbish = shutil.ignore_patterns("__pycache__", "dropin.cache")
            shutil.copytree(PROJECT / name, source / name, ignore=rubbish)
        else:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, source / name)
    return source


@cache
def built_wheel() -> Path:
    """The wheel of it, built once."""
    directory = Path(tempfile.mkdtemp(prefix="msmq-packaging-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    run(*PIP, "wheel", *FROM_LOCAL_FILES, "-w", directory, shipped_source(), directory=directory)
    [wheel] = directory.glob("msmq-*.whl")
    return wheel


class InstallationTests(SynchronousTestCase):
    """A wheel and an editable checkout both bring the package, the command and the plugin."""

    def setUp(self) -> None:
        self.workshop = Path(tempfile.mkdtemp(prefix="msmq-packaging-"))
        self.addCleanup(shutil.rmtree, self.workshop)

    def install(self, *what: str | Path) -> Path:
        """Install into a new environment that has this one's dependencies; give its directory of commands."""
        environment = self.workshop / "environment"
        run(sys.executable, "-m", "venv", "--without-pip", environment, directory=self.workshop)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        # A directory that a .pth file adds is not searched for more .pth files, so that what is
        # installed editable here stays out of sight there.
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        target = ("--python", environment / "bin" / "python")
        # The commands compile what they import, a quarter of the package.
        run(*PIP, *target, "install", "--no-compile", *FROM_LOCAL_FILES, *what, directory=self.workshop)
        return environment / "bin"

    def check_plugin(self, binaries: Path) -> Path:
        """Fail unless C{twistd} lists the queue manager in an empty directory, which is the result."""
        empty = self.workshop / "empty"
        empty.mkdir()
        self.assertRegex(
            run(binaries / "python", "-c", TWISTD, "--help", directory=empty),
            r"(?m)^\s+msmq\s+An open MSMQ queue manager",
        )
        self.assertEqual(list(empty.iterdir()), [])
        return empty

    def test_wheel_holds_the_package_and_the_plugin(self) -> None:
        """The wheel ships the package, the licence, the plugin and Spark's door; all, and nothing else."""
        source = shipped_source()
        with ZipFile(built_wheel()) as wheel:
            names = {name for name in wheel.namelist() if ".dist-info/" not in name}
            schemas = {name for name in names if ".data/data/share/msmq/ldap/" in name}
            [licence] = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
            self.assertIn(b"The msmq authors", wheel.read(licence))
        files = {
            str(path.relative_to(source))
            for room in ("msmq", "msmq-stubs")
            for path in (source / room).rglob("*")
            if path.is_file()
        }
        self.assertIn("msmq/py.typed", files)
        self.assertEqual(names - schemas, {*files, PLUGIN, SPARK_DOOR})
        self.assertEqual(
            {Path(name).name for name in schemas},
            {path.name for path in (PROJECT / "docs" / "ldap").iterdir()},
        )

    def test_wheel_works_in_an_empty_directory(self) -> None:
        """Installed from the wheel, C{twistd} lists the queue manager, the command answers, and the contract
        tests run.
        """
        binaries = self.install(built_wheel())
        empty = self.check_plugin(binaries)
        twistd = (binaries / "python", "-c", TWISTD)
        self.assertIn("--data", run(*twistd, "msmq", "--help", directory=empty))
        self.assertIn("status", run(binaries / "msmq", "--help", directory=empty))
        self.assertEqual(list(empty.iterdir()), [])
        own = self.workshop / "own"
        own.mkdir()
        (own / "test_own.py").write_text(CONTRACT_PROGRAM, encoding="utf-8")
        tests = [
            f"test_own.OwnStoreTests.{name}" for name in ("test_packet", "test_packets_are_read_unchanged")
        ]
        printed = run(binaries / "python", "-m", "twisted.trial", *tests, directory=own, PYTHONPATH=str(own))
        self.assertIn("PASSED (successes=2)", printed)

    def test_editable_checkout_works_in_an_empty_directory(self) -> None:
        """Installed editable, with no option of its own, the plugin is found outside the checkout too."""
        self.check_plugin(self.install("--editable", shipped_source()))


class SourceDistributionTests(SynchronousTestCase):
    """What a packager for a distribution gets."""

    def test_source_distribution_is_complete(self) -> None:
        """It has every tracked file, so that the tests run and the documentation can be made from it."""
        listed = subprocess.run(
            ["git", "ls-files", "-z"],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout.split("\0")
        tracked = {name for name in listed if name and (PROJECT / name).is_file()} - UNPACKED
        if not tracked:
            raise SkipTest("this is no checkout of git")
        workshop = Path(tempfile.mkdtemp(prefix="msmq-packaging-"))
        self.addCleanup(shutil.rmtree, workshop)
        for name in tracked:
            (workshop / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (workshop / "source" / name).symlink_to(PROJECT / name)
        build = "from setuptools import build_meta; build_meta.build_sdist('..')"
        run(sys.executable, "-c", build, directory=workshop / "source")
        [sdist] = workshop.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        self.assertEqual(tracked - names, set())

    def test_description_has_no_relative_links(self) -> None:
        """The description is shown where no other file of the repository is."""
        text = (PROJECT / "packaging" / "description.md").read_text(encoding="utf-8")
        links = re.findall(r"\]\(([^)]*)\)", text)
        self.assertEqual([link for link in links if not link.startswith("https://")], [])

    def test_versions_of_python(self) -> None:
        """The classifiers, nox and the trial installation name the same versions."""
        configuration = (PROJECT / "setup.cfg").read_text(encoding="utf-8")
        named = re.findall(r"Python :: (3\.\d+)", configuration)
        self.assertEqual(tuple(named), INTERPRETERS)
        self.assertIn(f"python={list(INTERPRETERS)}".replace("'", '"'), (PROJECT / "noxfile.py").read_text())


class ReportTests(SynchronousTestCase):
    """.ci/run reports what trial and the static checks really said."""

    def report(self, summary: str, *, tests: int = 0, lint: int = 0, status: int) -> str:
        """The last line of .ci/run, with a C{make} that prints C{summary} and ends with these statuses."""
        tools = Path(tempfile.mkdtemp(prefix="msmq-report-"))
        self.addCleanup(shutil.rmtree, tools)
        make = tools / "make"
        make.write_text(
            f"#!/bin/sh\nif [ $1 = test ]; then printf '%s\\n' '{summary}'; exit {tests}; fi\nexit {lint}\n",
            encoding="utf-8",
        )
        make.chmod(0o755)
        # What the machine has is not what these tests are about.
        for name in ("apt-get", "install"):
            (tools / name).symlink_to("/bin/true")
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        return run(PROJECT / ".ci" / "run", directory=tools, status=status, PATH=path).splitlines()[-1]

    def test_all_passed(self) -> None:
        """A clean run ends with its count and status 0."""
        self.assertEqual(self.report("PASSED (successes=12)", status=0), "12 passed, 0 failed, 0 skipped")

    def test_skips_are_counted(self) -> None:
        """Skipped tests are counted apart."""
        summary = "PASSED (skips=3, successes=12)"
        self.assertEqual(self.report(summary, status=0), "12 passed, 0 failed, 3 skipped")

    def test_every_kind_of_failure_is_counted(self) -> None:
        """Failures, errors and tests that were expected to fail are all failures."""
        counts = "skips=1, expectedFailures=1, failures=2, errors=30, unexpectedSuccesses=400, successes=50"
        report = self.report(f"FAILED ({counts})", tests=1, status=1)
        self.assertEqual(report, "50 passed, 433 failed, 1 skipped")

    def test_expected_failure_alone_fails(self) -> None:
        """A run that trial calls passed does not pass while a test is expected to fail."""
        summary = "PASSED (expectedFailures=1, successes=2)"
        self.assertEqual(self.report(summary, status=1), "2 passed, 1 failed, 0 skipped")

    def test_lint_alone_fails(self) -> None:
        """A fault that only the static checks find fails the run and leaves the totals as they are."""
        summary = "PASSED (successes=2)"
        self.assertEqual(self.report(summary, lint=2, status=1), "2 passed, 0 failed, 0 skipped")

    def test_nothing_run_fails(self) -> None:
        """A run without tests does not pass."""
        self.assertEqual(self.report("PASSED", status=1), "0 passed, 0 failed, 0 skipped")

    def test_broken_run_fails(self) -> None:
        """A run that ends without a summary has failed, even without counted failures."""
        self.assertEqual(self.report("Killed", tests=137, status=1), "0 passed, 1 failed, 0 skipped")
