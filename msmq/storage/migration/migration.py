"""Migration of all content from one store to another, resumable after a crash.

The target is filled under a mark, which each batch updates with its position; no server opens a store with
that mark.
When source and target have the same counts and hashes, the source gets its mark, then that of the target is
removed together with an event, then the mark of the source says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads

from msmq.interfaces.storage import IMessageStore, UnknownQueue
from msmq.persistence.changes import AppendEvent, PutState, RemoveState
from msmq.persistence.migration_mark import (
    MARK,
    CopyPosition,
    MigrationMark,
    MigrationRole,
    read_mark,
)
from msmq.persistence.snapshot import Snapshot
from msmq.storage.log.workers import Worker
from msmq.storage.migration.digest import SECTIONS, SectionDigest, StoreDigest, digest_of
from msmq.storage.migration.errors import AlreadyMoved, DigestMismatch, MigrationError, TargetInUse
from msmq.storage.migration.pages import copy_pages
from msmq.storage.migration.store_locations import StoreLocation

EVENT: Final = "migrated"
"""The event in the target that says that a migration ended, and what it moved."""
REPORTED_ROWS: Final = 10_000
"""Rows after which a verification reports how far it is."""

_Result = TypeVar("_Result")


@attrs.frozen
class MigrationProgress:
    """Progress report of a migration.

    @ivar step: C{copied} after each batch, C{verified} while hashes are computed, then C{proven}, C{retired}
        (the source has its mark), C{released} (the target has lost its own) and C{finished}.
    @ivar rows: rows that were copied, or read for the hashes, in this step.
    """

    step: str
    rows: int


@attrs.frozen
class MigrationSummary:
    """Result of a migration.

    @ivar sections: by the names in L{SECTIONS}; empty if an earlier process had copied all of it, and only
        the marks were missing.
    @ivar is_resumed: whether an earlier process had begun.
    """

    source: str
    target: str
    sections: Mapping[str, SectionDigest]
    is_resumed: bool

    def __str__(self) -> str:
        """One line."""
        if not self.sections:
            return f"{self.source} had been moved to {self.target}"
        counts = ", ".join(f"{self.sections[name].rows} {name}" for name in SECTIONS)
        return f"{self.source} was moved to {self.target}: {counts}"


class Migration:
    """One migration, from one queue manager's store to an empty one.

    Both stores are locked meanwhile. Memory use is the start index of each store, and some pages.

    @param accepts_loss: whether the source is moved although it is not the one last used there.
    @param now: seconds since 1970-01-01 UTC, for the event.
    @param report: called in the reactor's thread after each step.
    """

    def __init__(
        self,
        source: StoreLocation,
        target: StoreLocation,
        reactor: IReactorFromThreads,
        *,
        accepts_loss: bool,
        now: Callable[[], float],
        new_identifier: Callable[[], UUID],
        report: Callable[[MigrationProgress], object],
    ) -> None:
        self._source = source
        self._target = target
        self._reactor = reactor
        self._accepts_loss = accepts_loss
        self._now = now
        self._new_identifier = new_identifier
        self._report = report

    async def run(self) -> MigrationSummary:
        """Run the migration.

        @raise AlreadyMoved: the source was migrated before.
        @raise TargetInUse: the target holds something else.
        @raise StorageError: it failed; a later run continues from there.
        """
        if self._source.text == self._target.text:
            raise MigrationError(f"{self._source.text}: source and target are the same store")
        if not self._source.exists():
            raise MigrationError(f"{self._source.text}: there is no such store")
        worker = Worker("msmq migration", self._reactor.callFromThread)
        source = self._source.make_store(accepts_loss=self._accepts_loss)
        try:
            mark = _mark_of(await source.open(), self._source)
            if mark is None:
                return await self._move(source, worker)
            await self._finish(source, mark)
            return MigrationSummary(self._source.text, self._target.text, {}, True)
        finally:
            await source.close()
            worker.stop()

    async def _move(self, source: IMessageStore, worker: Worker) -> MigrationSummary:
        try:
            mark, is_resumed = await self._fill(source, worker)
        except UnknownQueue:
            # A server has created the queue after the copy was interrupted.
            await _do(worker, self._target.erase)
            mark, is_resumed = await self._fill(source, worker)
        found = await self._digest(self._source, worker)
        copied = await self._digest(self._target, worker)
        if found != copied and is_resumed:
            # The source was used after an earlier process was killed.
            await _do(worker, self._target.erase)
            mark, is_resumed = await self._fill(source, worker)
            copied = await self._digest(self._target, worker)
        if found != copied:
            parts = ", ".join(name for name in SECTIONS if found[name] != copied[name])
            raise DigestMismatch(f"{self._target.text} does not hold what {self._source.text} holds: {parts}")
        self._report_step("proven")
        moved = attrs.evolve(mark, role=MigrationRole.MOVED, other=self._target.text)
        await source.commit([PutState(MARK, moved.to_bytes())])
        self._report_step("retired")
        summary = MigrationSummary(self._source.text, self._target.text, found, is_resumed)
        await self._release(source, moved, str(summary))
        return summary

    async def _fill(self, source: IMessageStore, worker: Worker) -> tuple[MigrationMark, bool]:
        """Copy everything after the last position; returns whether anything was copied."""
        target = self._target.make_store()
        try:
            mark = await self._claim(await target.open(), target)
            is_resumed = mark.position != CopyPosition()
            reader = self._source.make_reader()
            pages = copy_pages(reader, mark.position)
            try:
                page = await _do(worker, lambda: next(pages, None))
                while page is not None:
                    mark = attrs.evolve(mark, position=page.position)
                    writing = target.commit([*page.changes, PutState(MARK, mark.to_bytes())])
                    # The next page is read while this one is written.
                    following = _do(worker, lambda: next(pages, None))
                    rows = page.rows
                    try:
                        await writing
                    finally:
                        page = await following
                    self._report_step("copied", rows)
            finally:
                await _do(worker, reader.close)
            return mark, is_resumed
        finally:
            await target.close()

    async def _claim(self, snapshot: Snapshot, target: IMessageStore) -> MigrationMark:
        """The mark of the target, which gets one if it is empty.

        @raise TargetInUse: it holds something that is not of this migration.
        """
        mark = _mark_of(snapshot, self._target, MigrationRole.TARGET)
        if mark is not None:
            if not self._source.is_named(mark.other):
                raise TargetInUse(
                    f"{self._target.text}: a migration from {mark.other} has begun to fill it;"
                    " finish that one, or name another target"
                )
            return attrs.evolve(mark, other=self._source.text)
        if snapshot.queues or snapshot.state or await target.read_events(0, 1):
            raise TargetInUse(
                f"{self._target.text}: there is a store already; name another target, or move that one away"
            )
        mark = MigrationMark(MigrationRole.TARGET, self._new_identifier(), self._source.text)
        await target.commit([PutState(MARK, mark.to_bytes())])
        self._report_step("claimed")
        return mark

    async def _finish(self, source: IMessageStore, mark: MigrationMark) -> None:
        """Complete the marks after an earlier process was killed.

        @raise AlreadyMoved: all are set.
        """
        if not self._target.is_named(mark.other) or mark.is_finished or not self._target.exists():
            raise AlreadyMoved(f"{self._source.text}: was moved to {mark.other}")
        await self._release(source, mark, f"{self._source.text} was moved to {self._target.text}")

    async def _release(self, source: IMessageStore, mark: MigrationMark, text: str) -> None:
        target = self._target.make_store()
        try:
            snapshot = await target.open()
            found = _mark_of(snapshot, self._target, MigrationRole.TARGET)
            if found is not None and found.identifier != mark.identifier:
                raise TargetInUse(f"{self._target.text}: it is the target of another migration")
            if found is not None:
                event = AppendEvent(self._now(), b"", EVENT, text)
                await target.commit([RemoveState(MARK), event])
            elif not snapshot.state:
                raise MigrationError(
                    f"{self._source.text}: was moved to {self._target.text}, which is empty; restore that one"
                )
        finally:
            await target.close()
        self._report_step("released")
        finished = attrs.evolve(mark, other=self._target.text, is_finished=True)
        await source.commit([PutState(MARK, finished.to_bytes())])
        self._report_step("finished")

    async def _digest(self, location: StoreLocation, worker: Worker) -> StoreDigest:
        unreported = 0

        def count(rows: int) -> None:
            nonlocal unreported
            unreported += rows
            if unreported >= REPORTED_ROWS:
                self._reactor.callFromThread(self._report_step, "verified", unreported)
                unreported = 0

        def read() -> StoreDigest:
            reader = location.make_reader()
            try:
                return digest_of(reader, count)
            finally:
                reader.close()

        found = await _do(worker, read)
        self._report_step("verified", unreported)
        return found

    def _report_step(self, step: str, rows: int = 0) -> None:
        self._report(MigrationProgress(step, rows))


def _mark_of(
    snapshot: Snapshot, location: StoreLocation, role: MigrationRole = MigrationRole.MOVED
) -> MigrationMark | None:
    """The mark of a store that was opened; C{None} if it has none.

    @raise MigrationError: it has one that it cannot have here.
    """
    try:
        mark = read_mark(snapshot.state.get(MARK))
    except ValueError as error:
        raise MigrationError(f"{location.text}: {error}") from error
    if mark is None or mark.role is role:
        return mark
    if mark.role is MigrationRole.MOVED:
        raise MigrationError(
            f"{location.text}: was moved to {mark.other}, and is kept; discard it with msmq store discard"
        )
    raise MigrationError(
        f"{location.text}: the migration from {mark.other} that fills it has not ended; repeat that one"
    )


def _do(worker: Worker, task: Callable[[], _Result]) -> Deferred[_Result]:
    """Begin a task of the worker thread."""
    done: Deferred[_Result] = Deferred()

    def report(outcome: _Result | Exception) -> None:
        if isinstance(outcome, Exception):
            done.errback(outcome)
        else:
            done.callback(outcome)

    worker.do(task, report)
    return done
