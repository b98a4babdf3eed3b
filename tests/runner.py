"""Runs the suite as C{trial --jobs} does, with the tests of a costly server in one worker, the longest first.

trial gives each test to the next worker that is free.
So each worker starts a JVM for Spark and a domain of Samba of its own, and a long test may well be the last.
Here the tests of such a server are one group, which one worker runs from its first test to its last; of the
others each class is a group, or a module or package whose classes share what is costly to make.
Options, output and exit status are those of trial: C{python -m tests.runner --jobs 3 tests}, and there is one
more: with C{--in-memory} the tests write to a file system in memory, if there is a large one.
A third of the time of the suite is waiting for a disk to sync.
What a test claims of a sync it observes in the calls of the system, or on L{tests.disk.directory}.
The log of each worker is C{test.log} in its directory, C{_trial_temp/0} and so on.
C{_trial_temp/groups.log} says of each group since when it ran, how long, the processor time of its worker and
of the processes of that, whether they have ended or go on, and which worker it was.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import psutil
from twisted.scripts import trial
from twisted.trial._dist.disttrial import DistTrialRunner, WorkerPool

# Modules of tests take their settings of hypothesis when they are imported.
from tests import samples as samples
from tests.worker import LOG

WORKER: Final = ["-m", "tests.worker"]
"""What a worker runs, of the interpreter's arguments."""

IN_MEMORY: Final = "--in-memory"
MEMORY: Final = Path("/dev/shm")
SPACE: Final = 4 << 30
"""Bytes that have to be free; the tests write less than one eighth of it at the same time."""

SHARED: Final = {
    "Spark": (
        "tests.pipeline.jobs",
        "tests.pipeline.archive.test_archive_in_spark",
        "tests.pipeline.archive.test_archive_readers",
        "tests.pipeline.test_batch",
        "tests.pipeline.test_checks",
        "tests.pipeline.bodies.test_decoded_structs",
        "tests.pipeline.test_example",
        "tests.pipeline.test_files",
        "tests.pipeline.test_jobs_on_a_running_server",
        "tests.pipeline.test_jobs_command",
        "tests.pipeline.test_session",
        "tests.pipeline.test_streaming",
        "tests.pipeline.test_writing",
    ),
    "Samba": (
        "tests.directory.ldap.kerberos.test_active_directory_keytab",
        "tests.directory.ldap.test_delegation",
        "tests.directory.ldap.test_enterprise",
        "tests.directory.ldap.test_members",
        "tests.directory.test_access_matrix",
        "tests.directory.test_active_directory",
        "tests.directory.test_attribute_table",
    ),
    # In front of the package that they are in: they need no RabbitMQ.
    "Kafka": ("tests.bridge_service.kafka",),
    "RabbitMQ": ("tests.bridge_service", "tests.bridge_program.test_server"),
    "PostgreSQL for two": ("tests.standby",),
    "Source tree": ("tests.test_architecture", "tests.project.test_declared_dependencies"),
}
"""The packages and modules whose tests share what takes seconds to make: a server, or the parsed package."""

LONGEST: Final = (
    "Spark",
    "RabbitMQ",
    "tests.simulation",
    "tests.estates.test_processes",
    "Samba",
    "tests.project.test_documents",
    "tests.web.console.test_browser",
    "tests.pipeline.processes",
    "Kafka",
    "PostgreSQL for two",
    "tests.pipeline.archive",
    "tests.project.test_packaging",
    "tests.faults",
    "tests.project.test_demo",
    "tests.project.test_example_programs",
    "tests.archive_service",
    "tests.storage.postgresql",
    "tests.integration",
    "tests.service.test_enterprise",
    "tests.soak_servers",
    "tests.storage",
    "tests.estates",
    "tests.directory",
    "Source tree",
    "tests.nodes.test_any_network",
    "tests.nodes.acknowledgements.test_hostile_histories",
    "tests.routing",
    "tests.cli.test_shadow",
    "tests.net",
    "tests.testing",
)
"""What is handed out first, in this order, as it waits or takes long; the rest fills the gaps at the end."""


def groups(cases: Iterable[Any]) -> list[list[Any]]:
    """The tests, each of them once, in the groups and the order in which workers take them."""
    found: dict[str, list[Any]] = {}
    for case in cases:
        found.setdefault(_group(case.id()), []).append(case)
    return [found[name] for name in sorted(found, key=_rank)]


def _group(test: str) -> str:
    for server, users in SHARED.items():
        if _is_within(test, users):
            return server
    return test.rpartition(".")[0]


def _rank(group: str) -> int:
    return next((rank for rank, name in enumerate(LONGEST) if _is_within(group, (name,))), len(LONGEST))


def _is_within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@attrs.frozen
class Workers(WorkerPool):
    """Workers of trial, each of which runs L{tests.worker}."""

    def _launchWorkerProcesses(self, spawner: Any, protocols: Any, arguments: Any) -> None:
        def spawn(
            protocol: Any, executable: str, args: list[str], env: dict[str, str], **kwargs: Any
        ) -> None:
            # trial gives a worker its directory only after it has begun to log.
            log = {LOG: protocol._logDirectory.child("test.log").path}
            spawner(protocol, executable, args=[executable, *WORKER, *args[2:]], env={**env, **log}, **kwargs)

        super()._launchWorkerProcesses(spawn, protocols, arguments)


@attrs.define
class GroupsRunner(DistTrialRunner):
    """trial's runner, whose workers take groups of tests."""

    _workerPoolFactory: Any = Workers
    _waiting: list[list[Any]] = attrs.field(init=False, factory=list)
    _began: float = attrs.field(init=False, factory=time.monotonic)

    async def _driveWorker(self, result: Any, testCases: Iterable[Any], worker: Any) -> None:
        # Every worker is given the same iterator: the first one takes all that is in it.
        self._waiting.extend(groups(testCases))
        # trial hides the process behind the transport of its orders.
        process = psutil.Process(worker.transport._transport.pid)
        with (Path(self._workingDirectory) / "groups.log").open("a", buffering=1) as log:
            while self._waiting:
                group = self._waiting.pop(0)
                since, used = time.monotonic(), processor_time(process)
                await super()._driveWorker(result, group, worker)
                log.write(
                    f"{since - self._began:8.1f} {time.monotonic() - since:8.1f} s"
                    f" {processor_time(process) - used:8.1f} s {process.pid} {_group(group[0].id())}\n"
                )


def processor_time(process: psutil.Process) -> float:
    """Seconds of processor time of a process and of its children, also those that still run; 0 once it is
    gone.
    """
    try:
        used = sum(process.cpu_times()[:4])
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                used += sum(child.cpu_times()[:4])
    except psutil.Error:
        return 0.0
    return used


def has_space(memory: Path) -> bool:
    """Whether the files of the tests fit into a file system in memory, and the tests beside them."""
    if not os.access(memory, os.W_OK | os.X_OK):
        return False
    space = os.statvfs(memory)
    return min(space.f_bavail * space.f_frsize, psutil.virtual_memory().available) >= SPACE


@contextmanager
def files_in_memory(memory: Path, logs: Path) -> Iterator[Path]:
    """Have tests write to a new directory in memory, which is removed at the end.

    Temporary files too are created there, by this process and those that it starts.

    @param memory: a file system in memory.
    @param logs: where the logs of the run are kept.
    """
    for left in memory.glob("msmq-tests-*-*"):
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            # Of a run that was killed.
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f"msmq-tests-{os.getpid()}-", dir=memory.resolve()))
    before, tempfile.tempdir = os.environ.get("TMPDIR"), None
    temporary = directory / "t"
    temporary.mkdir()
    os.environ["TMPDIR"] = os.fspath(temporary)
    try:
        yield directory / "trial"
    finally:
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        logs.mkdir(exist_ok=True)
        # trial replaces no directory without it.
        (logs / "_trial_marker").touch()
        for log in (directory / "trial").rglob("*.log"):
            kept = logs / log.relative_to(directory / "trial")
            if log.parent.parent in (directory, directory / "trial"):
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(log, kept)
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Run what the arguments name."""
    trial.DistTrialRunner = GroupsRunner  # type: ignore[attr-defined]
    if IN_MEMORY not in sys.argv:
        trial.run()
    sys.argv.remove(IN_MEMORY)
    if not has_space(MEMORY):
        print(f"{MEMORY} has not {SPACE >> 30} GiB: the tests write to the disk", flush=True)
        trial.run()
    with files_in_memory(MEMORY, Path("_trial_temp")) as directory:
        sys.argv.insert(1, f"--temp-directory={directory}")
        trial.run()


if __name__ == "__main__":
    main()
