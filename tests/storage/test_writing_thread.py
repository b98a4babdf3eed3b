"""The thread that writes to SQLite survives whatever its database raises."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import Change, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.storage.sqlite.writing_thread import SqliteWritingThread
from msmq.storage.writing_thread import Listener, Stop
from tests.patience import DEADLINE


class FaultyDatabase:
    """A database whose background steps and whose end fail with an error that it should not raise.

    @ivar written: the batches that it has.
    """

    def __init__(self) -> None:
        self.written: list[Sequence[Change]] = []

    def snapshot(self) -> Snapshot:
        """It is empty."""
        return Snapshot()

    def write(self, batches: Sequence[Sequence[Change]]) -> list[StorageError | None]:
        """All are written."""
        self.written += batches
        return [None] * len(batches)

    def cleanup(self) -> bool:
        """Fail."""
        raise ZeroDivisionError("cleanup")

    def checkpoint(self) -> bool:
        """Fail."""
        raise ZeroDivisionError("checkpoint")

    def close(self) -> None:
        """Fail."""
        raise ZeroDivisionError("close")


class SurvivingThreadTests(SynchronousTestCase):
    """Errors of cleanup, checkpoint and close."""

    def test_unexpected_errors(self) -> None:
        """Batches are written and reported after each of them, and the end is reported, too."""
        reports: SimpleQueue[object] = SimpleQueue()
        database = FaultyDatabase()
        thread = SqliteWritingThread(
            "writer",
            lambda: database,  # type: ignore[arg-type, return-value]
            (),
            Listener(reports.put, reports.put, lambda: reports.put("ended")),
        )
        thread.start()
        self.assertIsInstance(reports.get(timeout=DEADLINE), Snapshot)
        for number in range(3):
            done: Deferred[None] = Deferred()
            thread.put(((PutState("n", bytes((number,))),), done))
            self.assertEqual(reports.get(timeout=DEADLINE), [(done, None)])
        thread.put(Stop())
        self.assertEqual(reports.get(timeout=DEADLINE), "ended")
        self.assertEqual(len(database.written), 3)
        self.assertEqual(len(self.flushLoggedErrors()), 0)
