"""The process that archives for a server: C{python -m msmq.pipeline.archive.worker}.

It reads its settings and requests as lines of JSON, and writes its state and answers so.
It ends when its standard input ends: with the server, whatever ends that.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from msmq.durable import write_durably
from msmq.interfaces.storage import StorageError
from msmq.pipeline.archive.archiver import ArchiveProgress, Archiver
from msmq.pipeline.archive.erasures import ErasureRecord
from msmq.pipeline.archive.manifest import NOTED, Archive
from msmq.pipeline.archive.removed_manifests import RemovedCounts, RemovedManifests
from msmq.pipeline.archive.selection import ArchiveSelection
from msmq.pipeline.archive.upkeep import compact, erase, summaries
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.errors import FilesError, FileUnwritable
from msmq.pipeline.files.exporter import store_at
from msmq.storage.readers import StoreReader

NICE: Final = 10
"""The lower priority of the process."""

REPORTED: Final = 1.0
"""Seconds between two reports during a long pass."""

FAILED_PAUSE: Final = 30.0
"""The smallest number of seconds between two attempts that an operator has to mend."""

MOST_GAPS: Final = 20
"""Limit on lines about missing entries in one report."""

_READ: Final = 64 * 1024


class ArchivingStopped(Exception):
    """The server has ended, or has asked to end."""


class WorkerChannel:
    """Lines of JSON between the process and its server.

    @param source: the descriptor that is read.
    @param target: the descriptor that is written.
    """

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._buffer = b""
        self._records: list[dict[str, Any]] = []
        self.is_ended = False

    def send(self, record: Mapping[str, object]) -> None:
        """Write a line.

        @raise ArchivingStopped: the server is gone.
        """
        left = memoryview(json.dumps(record).encode() + b"\n")
        try:
            while left:
                left = left[os.write(self._target, left) :]
        except OSError:
            self.is_ended = True
            raise ArchivingStopped from None

    def received(self, seconds: float) -> Iterator[dict[str, Any]]:
        """The lines that are there, and those of the next seconds until there is one."""
        if not self._records and not self.is_ended and select.select([self._source], [], [], seconds)[0]:
            data = os.read(self._source, _READ)
            self.is_ended = not data
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            self._records += map(json.loads, lines)
        while self._records:
            yield self._records.pop(0)


class ArchiveWorker:
    """See the module.

    @param opened: opens the store.
    """

    def __init__(
        self,
        channel: WorkerChannel,
        archive: Archive,
        opened: Callable[[], AbstractContextManager[StoreReader]],
        *,
        selection: ArchiveSelection,
        keep_days: int,
        interval: float,
    ) -> None:
        self._channel = channel
        self._archive = archive
        self._opened = opened
        self._selection = selection
        self._keep_days = keep_days
        self._interval = interval
        self._archived = 0
        self._state: dict[str, object] = {}
        self._reported = 0.0
        self._sent = -1

    def run(self) -> None:
        """Archive until the server ends."""
        try:
            while True:
                try:
                    with self._opened() as store:
                        self._follow(store)
                except StorageError as error:
                    self._report("waiting", str(error))
                    self._rest(self._interval)
        except ArchivingStopped:
            return

    def _follow(self, store: StoreReader) -> None:
        """Archive until the store cannot be read."""
        archiver = Archiver(
            store,
            self._archive,
            keep_days=self._keep_days,
            selection=self._selection,
            on_step=self._step,
        )
        while True:
            pause = self._interval
            try:
                self._complete(archiver.run())
            except ArchivingStopped:
                # The next process finds no gap again that a manifest has.
                if gaps := archiver.take_gaps():
                    self._report("running", gaps=_first(gaps))
                raise
            except FileUnwritable as error:
                self._report("waiting", str(error), gaps=_first(archiver.take_gaps()))
            except StorageError as error:
                # The next archiver finds no gap again that a manifest has.
                self._report("waiting", str(error), gaps=_first(archiver.take_gaps()))
                self._rest(self._interval)
                return
            except FilesError as error:
                self._report("failed", str(error), gaps=_first(archiver.take_gaps()))
                pause = max(pause, FAILED_PAUSE)
            self._rest(pause)

    def _complete(self, progress: ArchiveProgress) -> None:
        condition, reason = "running", ""
        try:
            self._send_erasures()
        except FileUnwritable as error:
            condition, reason = "waiting", str(error)
        age = time.monotonic() - progress.complete
        self._report(condition, reason, behind=progress.behind, age=age, gaps=_first(progress.gaps))

    def _step(self, rows: int) -> None:
        """Between two steps: answer requests, and report progress."""
        self._archived += rows
        self._answer(0)
        if rows and time.monotonic() - self._reported > REPORTED:
            self._report("running")

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._answer(left)

    def _answer(self, seconds: float) -> None:
        for record in self._channel.received(seconds):
            if "noted" in record:
                self._note(int(record["noted"]))
                continue
            answer: dict[str, object] = {"answer": record["request"]}
            try:
                answer["rows"] = self._perform(record)
            except FilesError as error:
                answer |= {"error": str(error), "wrong": not isinstance(error, FileUnwritable)}
            self._channel.send(answer)
        if self._channel.is_ended:
            raise ArchivingStopped

    def _perform(self, record: Mapping[str, Any]) -> Sequence[tuple[str, str, int]]:
        if "compact" in record:
            compact(self._archive, time.time())
            self._report("running")
            return []
        condition, is_rehearsal = parse_condition(record["erase"]), bool(record.get("dry_run"))
        found = erase(self._archive, condition, time.time(), dry_run=is_rehearsal)
        if found and not is_rehearsal:
            self._send_erasures()
            self._report("running")
        return [(*name.rpartition(" ")[::2], count) for name, count in found.items()]

    def _report(self, condition: str, reason: str = "", **facts: object) -> None:
        self._reported = time.monotonic()
        state: dict[str, object] = {**self._state, "condition": condition, "reason": reason}
        state |= {"archived": self._archived, "gaps": (), **facts}
        try:
            found, removed = summaries(self._archive), RemovedManifests(self._archive).counts()
        except FilesError:
            found, removed = [], RemovedCounts()
        if found or removed.manifests:
            state |= {name: sum(getattr(each, name) for each in found) for name in _SUMS}
            for name in ("missing", "erased", "expired"):
                state[name] = sum(getattr(each, name) for each in found) + getattr(removed, name)
        self._channel.send({"state": state})
        self._state = {name: state[name] for name in ("behind", *_SUMS, "missing") if name in state}

    def _send_erasures(self) -> None:
        """Report the erasures that the server has not recorded yet, also those of the command."""
        begin = self._noted()
        if begin <= self._sent:
            return
        records, end = ErasureRecord(self._archive).after(begin)
        if records:
            self._sent = begin
            self._channel.send({"erasures": records, "end": end})

    def _noted(self) -> int:
        try:
            return int((self._archive.directory / NOTED).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _note(self, end: int) -> None:
        try:
            write_durably(self._archive.directory / NOTED, b"%d\n" % end, 0o666)
        except OSError:
            # They are reported again after a restart.
            return


def _first(gaps: Sequence[str]) -> list[str]:
    """The lines of one report."""
    more = [f"and {len(gaps) - MOST_GAPS} more"] if len(gaps) > MOST_GAPS else []
    return [*gaps[:MOST_GAPS], *more]


_SUMS: Final = ("rows", "files", "bytes", "erased", "expired")


def main() -> None:
    """Run the process."""
    # Ctrl-C goes to the whole group of a server in the foreground, which ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    channel = WorkerChannel(0, 1)
    settings: dict[str, Any] | None = None
    while settings is None and not channel.is_ended:
        settings = next(channel.received(REPORTED), None)
    if settings is None:
        return
    import pyarrow

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    ArchiveWorker(
        channel,
        Archive(Path(settings["directory"])),
        lambda: store_at(settings["location"]),
        selection=ArchiveSelection(tuple(settings["streams"]), tuple(settings["queues"])),
        keep_days=settings["keep_days"],
        interval=settings["interval"],
    ).run()


if __name__ == "__main__":
    main()
    sys.exit(0)
