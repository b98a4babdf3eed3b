"""A store and its archive, for tests."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change
from msmq.pipeline.archive.archiver import ArchiveProgress, Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import compact, problems, rows
from msmq.pipeline.files.exporter import store_at
from tests.pipeline import stores
from tests.pipeline.stores import ARRIVED

DAY = 86_400.0
NOW = ARRIVED + 100
Row = tuple[str, str, int]


class ArchiveTestCase(SynchronousTestCase):
    """A store, and its archive."""

    def setUp(self) -> None:
        root = Path(self.mktemp())
        self.data, self.directory = root / "data", root / "archive"
        self.archive = Archive(self.directory)
        self.now = NOW
        self.write(*stores.estate())

    def write(self, *changes: Change) -> None:
        """Let the store change, as its server does it."""
        stores.write_log(self.data, changes)

    def update(self, *, keep_days: int = 0, pages: int = 8) -> ArchiveProgress:
        """Archive what is new."""
        with store_at(str(self.data)) as store:
            return Archiver(
                store, self.archive, clock=lambda: self.now, keep_days=keep_days, pages=pages
            ).run()

    def compact(self) -> None:
        """Write everything as Parquet."""
        compact(self.archive, self.now)

    def archived(self) -> Counter[Row]:
        """Every row of the archive: its stream, topic and number."""
        found: Counter[Row] = Counter()
        for stream in {each.stream for each in self.archive.streams()}:
            for batch in rows(self.archive, stream, ("topic", "offset")):
                found.update((stream, row["topic"], row["offset"]) for row in batch.to_pylist())
        return found

    def assert_complete(self, *more: Row, without: Sequence[Row] = ()) -> None:
        """The archive has each row of the estate, and these, once, and verifies."""
        expected = Counter(
            [
                *(("log", ".\\private$\\orders", number) for number in range(1, 21)),
                ("journal", ".\\private$\\Bills;journal", 32),
                ("dead_letter", ".\\system$;deadletter", 35),
                ("dead_letter_transactional", ".\\system$;deadxact", 36),
                ("source_journal", ".\\system$;journal", 37),
                *(("events", "events", number) for number in range(1, 6)),
                *more,
            ]
        )
        expected.subtract(without)
        self.assertEqual(+expected, self.archived())
        self.assertEqual([], list(problems(self.archive)))


def killed(run: Callable[[], object], directory: Path, moment: int) -> bool:
    """Run in a process that is killed at its this-many-th change of a file; whether it was killed.

    Files that pyarrow opens are not seen, but their synchronisation and their renaming are.
    """
    child = os.fork()
    if not child:
        left = moment

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            is_change = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
            # Also files that are opened for writing, or for their synchronisation.
            if is_change or (event == "open" and arguments[1] not in ("r", "rb")):
                left -= str(directory.name) in str(arguments[0])
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            run()
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError(f"the update failed with {os.WEXITSTATUS(status)}")
    return os.WIFSIGNALED(status)
