"""ArchiveService: keeps the archive of a server by a process of its own, and starts it again if it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from msmq.archive_service.settings import ArchiveSettings
from msmq.archive_service.worker_link import WorkerLink
from msmq.interfaces.archive import ArchiveSummary, ErasedRows, IArchive
from msmq.interfaces.clock import IClock
from msmq.interfaces.manager.queue_manager import IAdministration
from msmq.moment import Moment
from msmq.structures.status import MQError, Status

WORKER: Final = "msmq.pipeline.archive.worker"
"""The module that archives; it imports pyarrow, which this process never does."""

ERASED_EVENT: Final = "archive_erased"
INCOMPLETE_EVENT: Final = "archive_incomplete"

MOST_REQUESTS: Final = 16
"""Limit on erasures and compactions that wait."""

_LONGEST_REASON: Final = 2000
_SHORTEST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_PATIENCE: Final = 3.0
"""Seconds for which a stop waits for the step that is being done: a server stops within five."""

Launch = Callable[[WorkerLink], object]
"""Starts the process with this protocol."""


@implementer(IArchive)
class ArchiveService:
    """See the module.

    @param location: where the process reads the store.
    @param launch: starts the process.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        settings: ArchiveSettings,
        location: str,
        manager: IAdministration,
        reactor: IReactorTime,
        clock: IClock,
        launch: Launch,
    ) -> None:
        assert settings.directory is not None
        self._settings = settings
        self._directory: Path = settings.directory
        self._location = location
        self._manager = manager
        self._reactor = reactor
        self._clock = clock
        self._launch = launch
        self._link: WorkerLink | None = None
        self._state: dict[str, Any] = {}
        self._requests: dict[int, Deferred[dict[str, Any]]] = {}
        self._next_request = 1
        self._started: Moment | None = None
        self._complete: Moment | None = None
        self._reason = ""
        self._is_late = False
        self._restarts = 0
        self._pause = _SHORTEST_PAUSE
        self._begun = 0.0
        self._call: IDelayedCall | None = None
        self._ended: Deferred[None] | None = None

    def start(self) -> None:
        """Start the process."""
        self._started = self._clock.now()
        self._begin()

    async def stop(self) -> None:
        """Let the process end after its present step, which is killed if it takes long."""
        self._started = None
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._link is not None and self._link.is_alive:
            self._ended = Deferred()
            call = self._reactor.callLater(_PATIENCE, self._link.kill)
            self._link.end()
            await self._ended
            if call.active():
                call.cancel()

    def summary(self) -> ArchiveSummary:
        """See L{IArchive}."""
        since = self._complete or self._started
        lag = 0.0 if since is None else self._clock.now().monotonic - since.monotonic
        return ArchiveSummary(
            directory=str(self._directory),
            condition=self._condition(),
            reason=self._reason,
            complete=None if self._complete is None else self._complete.wall,
            lag=round(lag, 3),
            is_late=lag > self._settings.late,
            free_bytes=_free(self._directory),
            restarts=self._restarts,
            **{name: int(self._state.get(name, 0)) for name in _COUNTS},
        )

    async def erase(self, condition: str, *, dry_run: bool = False) -> Sequence[ErasedRows]:
        """See L{IArchive}."""
        answer = await self._ask({"erase": condition, "dry_run": dry_run})
        return [ErasedRows(*row) for row in answer["rows"]]

    async def compact(self) -> ArchiveSummary:
        """See L{IArchive}."""
        await self._ask({"compact": True})
        return self.summary()

    def worker_reported(self, record: Mapping[str, Any]) -> None:
        """See L{WorkerListener<msmq.archive_service.worker_link.WorkerListener>}."""
        if "state" in record:
            self._take(record["state"])
        for each in record.get("erasures", ()):
            self._manager.note(ERASED_EVENT, _erasure(each))
        if "erasures" in record and self._link is not None:
            self._link.send({"noted": record["end"]})
        if (done := self._requests.pop(record.get("answer", 0), None)) is not None:
            if "error" in record:
                wrong = record.get("wrong", True)
                status = (
                    Status.MQ_ERROR_INVALID_PARAMETER if wrong else Status.MQ_ERROR_MESSAGE_STORAGE_FAILED
                )
                done.errback(MQError(status, str(record["error"])))
            else:
                done.callback(dict(record))

    def worker_ended(self, reason: str) -> None:
        """See L{WorkerListener<msmq.archive_service.worker_link.WorkerListener>}."""
        requests, self._requests = self._requests, {}
        for done in requests.values():
            done.errback(_unavailable(f"the archive process has ended: {reason}"))
        if self._started is None:
            self._link = None
            if self._ended is not None:
                self._ended.callback(None)
            return
        self._link = None
        self._reason = f"the archive process has ended: {reason}"
        self._log.error("the archive process has ended, and is started again: {reason}", reason=reason)
        self._restarts += 1
        self._call = self._reactor.callLater(self._pause, self._begin)
        self._pause = min(_LONGEST_PAUSE, 2 * self._pause)

    def _begin(self) -> None:
        self._call = None
        self._begun = self._clock.now().monotonic
        settings = self._settings
        self._link = WorkerLink(
            self,
            {
                "location": self._location,
                "directory": str(self._directory),
                "streams": list(settings.streams),
                "queues": list(settings.queues),
                "keep_days": settings.keep_days,
                "interval": settings.interval,
            },
        )
        try:
            self._launch(self._link)
        except OSError as error:
            self.worker_ended(error.strerror or str(error))

    def _condition(self) -> str:
        if self._started is None:
            return "stopped"
        if self._link is None:
            return "waiting"
        return str(self._state.get("condition", "starting"))

    def _take(self, state: Mapping[str, Any]) -> None:
        former = self._reason
        self._state = dict(state)
        now = self._clock.now()
        if now.monotonic - self._begun >= _LONGEST_PAUSE:
            # One that ends after its first report is started less and less often, too.
            self._pause = _SHORTEST_PAUSE
        if (age := state.get("age")) is not None:
            self._complete = Moment(monotonic=now.monotonic - age, wall=now.wall - age)
        self._reason = str(state.get("reason", ""))
        if self._reason and self._reason != former:
            self._log.error("the archive is not written: {reason}", reason=self._reason)
        elif former and not self._reason:
            self._log.info("the archive is written again")
        for line in state.get("gaps", ()):
            self._log.error("the archive is incomplete: {line}", line=line)
            self._manager.note(INCOMPLETE_EVENT, str(line))
        is_late = self.summary().is_late
        if is_late and not self._is_late:
            self._log.warn(
                "the archive is late: it is complete up to {seconds} seconds ago",
                seconds=int(self.summary().lag),
            )
        self._is_late = is_late

    async def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        if self._link is None or not self._link.is_alive:
            raise _unavailable(self._reason or "the archive process does not run")
        if len(self._requests) >= MOST_REQUESTS:
            raise _unavailable(f"{MOST_REQUESTS} requests to the archive are waiting; try again later")
        number, self._next_request = self._next_request, self._next_request + 1
        done = self._requests[number] = Deferred()
        self._link.send({"request": number, **request})
        return await done


_COUNTS: Final = ("rows", "files", "bytes", "archived", "behind", "missing", "erased", "expired")


def process_launch(reactor: Any) -> Launch:
    """Starts a process with the interpreter of this one.

    @param reactor: with C{IReactorProcess}.
    """

    def launch(link: WorkerLink) -> object:
        return reactor.spawnProcess(link, sys.executable, [sys.executable, "-m", WORKER], env=None)

    return launch


def _free(directory: Path) -> int | None:
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _unavailable(reason: str) -> MQError:
    return MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, reason)


def _erasure(record: Mapping[str, Any] | None) -> str:
    """An erasure as the reason of an event; it has no values, since they may be those of a person.

    @param record: C{None} for a line of the record that cannot be read.
    """
    if record is None:
        return "an erasure whose line in _erasures.jsonl cannot be read: a power failure has cut it off"
    rows = "; ".join(f"{name}: {count}" for name, count in record["rows"].items())
    text = f"{record['time']}: rows were erased by {', '.join(record['columns'])}: {rows}"[:_LONGEST_REASON]
    return f"{text}; the erasure was interrupted: erase again" if record.get("interrupted") else text
