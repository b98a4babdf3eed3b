"""A server under which the system fails, at any of the calls by which it writes."""

from __future__ import annotations

import copy
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msmq.storage.log.factory import DIRECTORY_NAME, mark_name
from msmq.structures.status import Status
from tests.faults import IS_THOROUGH, tell
from tests.faults.scenario import ORDERS, Account, ArrivalOutcome, Visitor, busy_life, first_life, second_life
from tests.faults.server import ServerProcess, ServerTestCase
from tests.faults.tracing import Fault, read_log, tracer, why_not

Life: TypeAlias = Callable[[Visitor], None]

Errors: TypeAlias = Mapping[str, Sequence[tuple[str, bool]]]

ERRORS: Errors = {
    "pwrite64": (("ENOSPC", False), ("ENOSPC", True), ("EIO", False), ("KILL", False)),
    "write": (("ENOSPC", False), ("ENOSPC", True), ("EIO", False), ("KILL", False)),
    "fdatasync": (("EIO", False), ("EIO", True), ("KILL", False)),
    "fsync": (("EIO", False), ("EIO", True), ("KILL", False)),
    "ftruncate": (("EIO", False), ("EIO", True), ("KILL", False)),
    "fallocate": (("ENOSPC", False), ("EIO", False), ("KILL", False)),
}
"""The ways in which each call fails: once, or again and again from there on."""

ENDS = ("", "-wal", "-shm", ".reserve", ".express", ".express-wal", ".express-shm")
"""Of the names of the store's files."""

LOG_ERRORS: Errors = {
    **ERRORS,
    "pwritev2": (
        ("ENOSPC", False),
        ("ENOSPC", True),
        ("EIO", False),
        ("EIO", True),
        ("EROFS", True),
        ("KILL", False),
    ),
    "rename": (("EIO", False), ("EROFS", True), ("KILL", False)),
    "unlink": (("EIO", False), ("EROFS", True), ("KILL", False)),
}

LOG_FILES = (
    *("lock", "segment.new", "checkpoint-a", "checkpoint-b"),
    *(f"{kind}-{number:06d}" for kind in ("segment", "express") for number in range(1, 40)),
)

REFUSALS = (Status.MQ_ERROR_INSUFFICIENT_RESOURCES, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)

KEPT_OUT = "the store is full"
"""The refusal of a change to a disk that was full a moment ago."""

REPORTED = (
    "cannot write: there is no space left: ",
    "cannot write: the disk or its file system failed: ",
    "cannot open: there is no space left: ",
    "cannot open: the disk or its file system failed: ",
    "identity.json: Input/output error",
    "msmq.sqlite: cannot open: Input/output error",
    KEPT_OUT,
)

LOG_REPORTED = (
    "cannot write: No space left on device",
    "cannot write: Input/output error",
    "cannot write: Read-only file system",
    "cannot create a segment: ",
    "cannot open: No space left on device",
    "cannot open: Input/output error",
    "cannot open: Read-only file system",
    "identity.json: Input/output error",
    "identity.json: Read-only file system",
    KEPT_OUT,
)
"""The same for the record log."""
"""Texts of errors, of which one is shown."""


class FailingSystemTestCase(ServerTestCase):
    """No confirmed message is lost, failed operations are refused, and the server continues.

    @cvar storage: the description of the store.
    @cvar errors: the ways in which each call fails.
    @cvar threads: that write; the n-th call of each of them fails, so that each may refuse something.
    @cvar reported: the possible texts of a refusal or of a failed start.
    """

    skip = why_not()
    storage = "sqlite"
    errors = ERRORS
    threads = 1
    reported: Sequence[str] = REPORTED

    def files(self, data: Path) -> list[Path]:
        """The files of the store, and their directories."""
        return [data, *(data / f"msmq.sqlite{end}" for end in ENDS)]

    def start(self, home: Path, tracer: Sequence[str] = ()) -> ServerProcess:
        """Start a server on this store."""
        return self.server(home, storage=self.storage, environment=self.environment, tracer=tracer)

    def setUp(self) -> None:
        super().setUp()
        self.environment = self.plugins()

    def run_traced(self, home: Path, *options: str) -> ServerProcess:
        around = tracer(home / "log", ",".join(self.errors), *options, only=self.files(home / "data"))
        return self.start(home, around)

    def faults(self, life: Life, home: Path, account: Account) -> list[Fault]:
        """All that can fail in a life."""
        server = self.run_traced(home)
        self.assertTrue(server.is_ready(), server.output)
        life(Visitor(server.client, account))
        self.assertEqual(server.terminate(), -15)
        self.assertEqual(account.refusals, [])
        calls = Counter((call.name, call.thread) for call in read_log(home / "log"))
        counts: dict[str, int] = {}
        for (name, _), count in sorted(calls.items()):
            counts[name] = max(count, counts.get(name, 0))
        tell(f"{life.__name__}: {counts}")
        return [
            Fault(call, error, number, is_lasting)
            for call, count in counts.items()
            for error, is_lasting in self.errors[call]
            for number in range(1, count + 1)
        ]

    def live_with_faults(
        self, life: Life, *, before: Life | None = None, stride: int, thorough: int = 1
    ) -> None:
        """Run this life with each fault, or with some of them.

        @param before: another life, which ends with a kill.
        @param stride: of how many faults one is tried; C{thorough} is the same for L{IS_THOROUGH}.
        """
        account = Account()
        if before is not None:
            server = self.start(self.home)
            self.assertTrue(server.is_ready(), server.output)
            before(Visitor(server.client, account))
            server.kill()
        twin = self.directory()
        copy_home(self.home, twin)
        faults = self.faults(life, twin, copy.deepcopy(account))
        tried = faults[:: thorough if IS_THOROUGH else stride]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = list(filter(None, pool.map(partial(self.wrong_with, life, account), tried)))
        tell(f"{life.__name__}: {len(tried)} of {len(faults)} faults tried, {len(wrong)} failed")
        self.assertEqual(len(wrong), 0, "\n".join(wrong))

    def wrong_with(self, life: Life, account: Account, fault: Fault) -> str:
        """The violations in a run with a fault; empty without any."""
        home = self.directory()
        copy_home(self.home, home)
        try:
            self.live_with(fault, life, home, copy.deepcopy(account))
        except Exception as error:
            wrong = f"{life.__name__}, {fault}: {error!r}"
            tell(wrong)
            return wrong
        shutil.rmtree(home / "data")
        return ""

    def live_with(self, fault: Fault, life: Life, home: Path, account: Account) -> None:
        """Live with a fault, then look at what is left."""
        server = self.run_traced(home, *fault.options)
        visitor = Visitor(server.client, account)
        is_killed = fault.error == "KILL"
        if server.is_ready():
            life(visitor)
            if not is_killed:
                self.check_running(server, visitor, account, fault)
            self.assertIn(server.terminate(), (-9, -15) if is_killed else (-15,))
        elif is_killed:
            self.assertEqual(server.ended(), -9)
        else:
            self.assertEqual(server.ended(), 1)
            self.assertIn("msmq cannot start: ", server.output)
            self.assert_reported(server.output)
        self.assertFalse(server.is_hung)
        self.assertNotIn("Traceback", server.output)
        self.check_restart(home, account)

    def check_running(self, server: ServerProcess, visitor: Visitor, account: Account, fault: Fault) -> None:
        """It said what happened, and does what can be done."""
        status = server.client.status()
        self.assertEqual(status["state"], "running")
        if not fault.is_lasting:
            self.check_recovery(visitor, account, is_full=status["throttled"])
        for refusal in account.refusals:
            self.assertIn(refusal.status, REFUSALS, refusal)
            self.assert_reported(refusal.detail)
        if visitor.has_sent and visitor.is_there(ORDERS) and not server.client.status()["throttled"]:
            taken = visitor.send(ORDERS, "needs no disk", delivery="express")
            self.assertTrue(taken, f"{account.refusals[-1:]}")
            self.assertIn("needs no disk", visitor.look(ORDERS))

    def check_recovery(self, visitor: Visitor, account: Account, *, is_full: bool) -> None:
        """Only one thing a thread was refused; but if the disk was full, nothing comes in for a while."""
        if is_full:
            there = visitor.look(ORDERS)
            found = visitor.receive(ORDERS, 1)
            for _ in range(self.threads - 1):
                found = found or visitor.receive(ORDERS, 1)
            self.assertEqual(found, there[:1])
            self.assertLessEqual({each.status for each in account.refusals}, {REFUSALS[0]}, account.refusals)
            return
        visitor.send(ORDERS, "when it is over")
        visitor.send(ORDERS, "when it is surely over")
        # A disk that was full for a moment may have kept others out for a moment.
        refusals = [each for each in account.refusals if KEPT_OUT not in each.detail]
        self.assertLessEqual(len(refusals), self.threads, account.refusals)

    def assert_reported(self, text: str) -> None:
        self.assertTrue(any(reported in text for reported in self.reported), text)

    def check_restart(self, home: Path, account: Account) -> None:
        """A server on a sound system finds what was promised, and works."""
        server = self.start(home)
        self.assertTrue(server.is_ready(), server.output)
        visitor = Visitor(server.client, account)
        for queue, fate in account.queues.items():
            is_there = visitor.is_there(queue)
            if fate is not ArrivalOutcome.OPEN:
                self.assertIs(is_there, fate is ArrivalOutcome.KEPT, queue)
            if is_there:
                self.assertEqual(account.wrong(queue, visitor.look(queue)), [])
        self.assertTrue(visitor.is_there(ORDERS) or visitor.create(ORDERS))
        there = visitor.look(ORDERS)
        self.assertTrue(visitor.send(ORDERS, "at last"))
        self.assertEqual(visitor.receive(ORDERS, len(there) + 1), [*there, "at last"])
        server.kill()


class FailingSystemTests(FailingSystemTestCase):
    """The store in SQLite."""

    def test_first_life(self) -> None:
        """Every write of a server that begins with nothing."""
        self.live_with_faults(first_life, stride=131)

    def test_space_comes_back(self) -> None:
        """On a disk that was full messages are accepted again, without intervention."""
        twin = self.directory()
        server = self.run_traced(twin, "-s", "100000")
        self.assertTrue(server.is_ready(), server.output)
        first_life(Visitor(server.client, Account()))
        server.kill()
        writes = [call for call in read_log(twin / "log") if call.name == "pwrite64"]
        [number, *_] = [number for number, call in enumerate(writes, 1) if b"batch 3" in call.data]
        server = self.run_traced(self.home, *Fault("pwrite64", "ENOSPC", number).options)
        self.assertTrue(server.is_ready(), server.output)
        account = Account()
        visitor = Visitor(server.client, account)
        first_life(visitor)
        self.assertTrue(server.client.status()["throttled"], account.refusals)
        self.assertFalse(visitor.send(ORDERS, "too early"))
        while server.client.status()["throttled"]:
            self.assertFalse(server.is_hung)
            visitor.receive(ORDERS, 1)
        self.assertTrue(visitor.send(ORDERS, "at last"))
        server.kill()
        self.check_restart(self.home, account)

    def test_after_a_kill(self) -> None:
        """Every write of one that was killed and starts again."""
        self.live_with_faults(second_life, before=first_life, stride=97)

    def test_checkpoint(self) -> None:
        """Writes of one that brings its log into the file while it works."""
        self.live_with_faults(busy_life, before=first_life, stride=18_001, thorough=211)


class LogFailingSystemTests(FailingSystemTestCase):
    """The record log, with segments that are soon full."""

    storage = "small-log"
    errors = LOG_ERRORS
    # The reactor's, that of groups, and that of segments and checkpoints.
    threads = 3
    reported = LOG_REPORTED

    def files(self, data: Path) -> list[Path]:
        """The files of the store, and their directories."""
        log, mark = data / DIRECTORY_NAME, data / mark_name(data / DIRECTORY_NAME)
        return [data, mark, mark.with_name(f"{mark.name}.new"), log, *(log / name for name in LOG_FILES)]

    def test_first_life(self) -> None:
        """Every write of a server that begins with nothing."""
        self.live_with_faults(first_life, stride=151)

    def test_after_a_kill(self) -> None:
        """Every write of one that was killed and starts again."""
        self.live_with_faults(second_life, before=first_life, stride=97)

    def test_many_segments(self) -> None:
        """Writes of one that goes through many segments and writes checkpoints."""
        self.live_with_faults(busy_life, before=first_life, stride=701, thorough=11)


def copy_home(home: Path, target: Path) -> None:
    """Copy what a server that was killed has left, but for its socket."""
    shutil.copytree(home, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
