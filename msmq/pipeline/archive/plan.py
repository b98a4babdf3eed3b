"""Plan of a read of an archive and the rest of its store, each row once.

Of logs the manifests are read first, and then the store, which may have trimmed what was archived in between,
or deleted its queue: then both are read again. Of queues the store is read first, since messages leave them
at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.pipeline.archive.archived_entries import has_other_anchor, has_other_end
from msmq.pipeline.archive.manifest import ROOT, Archive, StreamManifest, stream_name
from msmq.pipeline.archive.parts import LAST_OFFSET, ArchiveSlice, FilePart, opened_parquet
from msmq.pipeline.files.directory import NO_DATE, date_of
from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import LEVEL, ReadSlice, RowSpan, cut, with_places
from msmq.pipeline.reading.stores import check_ends, cuts_of
from msmq.pipeline.reading.streams import Topic, logged_topics, offsets_of, subscribed, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.storage.readers import StoreMoved, StoreReader, has_store, open_looked_up
from msmq.wire.guid import NULL_GUID

if TYPE_CHECKING:
    from msmq.pipeline.archive.kept_rows import KeptRows

_Value = TypeVar("_Value")

NO_STORE: Final = "none"
"""The option C{store} of a read of the archive alone."""

SLICE_ROWS: Final = 100_000
"""Rows of small files that are read by one process."""

TAIL_ROWS: Final = 25_000
"""Messages of a queue that are read by one process."""

_TRIES: Final = 5


def is_archive(location: str) -> bool:
    """Whether a path is that of an archive.

    @raise ReadingError: the path cannot be followed.
    """
    try:
        return "://" not in location and (Path(location) / ROOT).is_file()
    except OSError as error:
        raise ReadingError(f"{location}: cannot be read: {error.strerror or error}") from None


def store_of(archive: Archive, options: ReadOptions) -> str | None:
    """The location of the store of an archive; C{None} to read the archive alone.

    @raise ReadingError: it is unknown, or not there.
    """
    if options.store == NO_STORE:
        return None
    if options.store:
        return options.store
    found = archive.store_path()
    if not found:
        raise ReadingError(
            f"{archive.directory} does not name its store: set the option store to the data directory or"
            f" postgresql://..., or to {NO_STORE} to read the archive alone"
        )
    if not (has_store(Path(found)) or Path(found).is_file()):
        raise ReadingError(
            f"{archive.directory}: its store {found} is not here: set the option store to where it is, or to"
            f" {NO_STORE} to read the archive alone"
        )
    return found


def plan_archive(options: ReadOptions, wanted: RowSelection, stream: str) -> list[ArchiveSlice]:
    """The parts of a read of an archive.

    @raise ReadingError: the options do not fit the archive.
    @raise ArchiveError: the archive is damaged.
    @raise StorageError: the store cannot be read.
    """
    if stream not in ARCHIVED_STREAMS:
        raise ReadingError(f"an archive has the streams {', '.join(ARCHIVED_STREAMS)}, not {stream}")
    archive = Archive(Path(options.path))
    owner = archive.owner()
    location = store_of(archive, options)
    planner = _Planner(archive, options, wanted, stream)
    if location is None:
        return planner.plan(None)
    # The path in the archive may be that of a store whose content was migrated since.
    store = open_store(location) if options.store else open_looked_up(Path(location))
    try:
        if stream == "log":
            # What is archived is most of a store that is read often.
            store.skip_logged({UUID(each.queue): _first_needed(each) for each in planner.manifests()})
        found = store.identifier()
        if found != owner:
            raise ReadingError(
                f"{archive.directory} is the archive of {owner}, and {store.text} the store of"
                f" {found or '(none)'}; set the option store to the store of {owner}"
            )
        return planner.plan(store)
    except StoreMoved as error:
        raise ReadingError(f"{error}: set the option store to it") from None
    finally:
        store.close()


class _Moved(Exception):
    """The archive has gone on, and the store has trimmed what the plan would read from it."""


@attrs.frozen
class _Planner:
    archive: Archive
    options: ReadOptions
    wanted: RowSelection
    stream: str

    def plan(self, store: StoreReader | None) -> list[ArchiveSlice]:
        for _ in range(_TRIES):
            manifests = self.manifests()
            try:
                return self._plan(store, manifests)
            except _Moved:
                continue
            except FilesError:
                # An erasure may have deleted a file that the manifests named.
                if self.manifests() == manifests:
                    raise
        raise ReadingError(f"{self.archive.directory}: the archive is faster than its reader, try again")

    def manifests(self) -> list[StreamManifest]:
        """Those of the stream."""
        return [each for each in self.archive.streams() if each.stream == self.stream]

    def _plan(self, store: StoreReader | None, manifests: Sequence[StreamManifest]) -> list[ArchiveSlice]:
        topics = {(each.topic, each.queue): Topic(UUID(each.queue), each.topic) for each in manifests}
        there: list[Topic] = []
        if store is not None:
            there = [Topic(NULL_GUID, EVENTS_TOPIC)]
            if self.stream != EVENTS:
                there = self._present(store, manifests)
            topics.update({(topic.name, topic.queue.hex): topic for topic in there})
        present = {topic.queue.hex for topic in there}
        options = attrs.evolve(self.options, pattern="") if self.stream == EVENTS else self.options
        where, every = str(self.archive.directory), list(topics.values())
        found = {topic.name for topic in subscribed(options, self.stream, every, where)}
        chosen = set(_same_named(dict.fromkeys(found), every)) if options.topics else found
        starting = _same_named(offsets_of(options.starting, every, "startingOffsets", where), every)
        ending = _same_named(offsets_of(options.ending, every, "endingOffsets", where), every)
        check_ends(starting, ending)
        limits = {
            name: self._limits(starting.get(name), ending.get(name))
            for name in chosen
            if self.wanted.has_topic(name)
        }
        there = [topic for topic in there if topic.name in limits]
        if store is not None and self.stream not in ("log", EVENTS):
            return self._queued(store, there, limits)
        slices = list(self._files(manifests, limits))
        by_name = {each.name: each for each in manifests}
        if store is None:
            return slices
        self._check_absent(present, manifests)
        for topic in there:
            name = stream_name(self.stream, topic.name, topic.queue.hex)
            slices += self._logged_tail(store, topic, name, by_name.get(name), *limits[topic.name])
        return slices

    def _present(self, store: StoreReader, manifests: Sequence[StreamManifest]) -> list[Topic]:
        """The queues of the stream that the store has."""
        if self.stream == "log":
            return logged_topics(store.queues(), {UUID(each.queue) for each in manifests})
        return topics_of(self.stream, store.queues())

    def _check_absent(self, present: Set[str], manifests: Sequence[StreamManifest]) -> None:
        """Check that a log which has left the store is archived no further than the manifests say.

        @param present: the queues that the store has, without dashes.
        @raise _Moved: it is; those entries are in no part of the plan.
        """
        for each in manifests:
            # What the archive has noted as deleted does not grow any more.
            if each.queue not in present and not each.missing.deleted:
                now = self.archive.load(each.name)
                if now is not None and now.next > each.next:
                    raise _Moved

    def _queued(
        self, store: StoreReader, there: Sequence[Topic], limits: Mapping[str, tuple[int, int]]
    ) -> list[ArchiveSlice]:
        """The plan for messages in queues, which are listed before the manifests are read.

        So one that is archived and leaves its queue meanwhile is in a manifest.
        """
        # It needs numpy, which a read of a log alone does without.
        from msmq.pipeline.archive.kept_rows import KeptRows

        listed = [(topic, KeptRows(self.archive)) for topic in there]
        for topic, kept in listed:
            kept.list_messages(store, topic.queue)
        manifests = self.manifests()
        slices = list(self._files(manifests, limits))
        by_name = {each.name: each for each in manifests}
        for topic, kept in listed:
            name = stream_name(self.stream, topic.name, topic.queue.hex)
            if (manifest := by_name.get(name)) is not None:
                kept.mark_archived(manifest)
            slices += self._queued_tail(topic, name, kept, *limits[topic.name])
        return slices

    def _limits(self, start: int | str | None, end: int | str | None) -> tuple[int, int]:
        return self.wanted.within(
            start if isinstance(start, int) else 0, end if isinstance(end, int) else LAST_OFFSET
        )

    def _files(
        self, manifests: Sequence[StreamManifest], limits: Mapping[str, tuple[int, int]]
    ) -> Iterator[ArchiveSlice]:
        held: list[FilePart] = []
        for manifest in manifests:
            if manifest.topic not in limits:
                continue
            begin, end = limits[manifest.topic]
            is_log = self.stream in ("log", EVENTS)
            for file in manifest.files:
                if not self._has_date(file.date) or (is_log and (file.last < begin or file.first >= end)):
                    continue
                part = FilePart(manifest.name, manifest.topic, file.path, file.rows, begin=begin, end=end)
                for each in [part] if file.is_fresh else self._groups(part):
                    if held and sum(one.rows for one in held) + each.rows > SLICE_ROWS:
                        yield ArchiveSlice(tuple(held))
                        held = []
                    held.append(each)
        if held:
            yield ArchiveSlice(tuple(held))

    def _has_date(self, date: str) -> bool:
        since, until = self.wanted.since, self.wanted.until
        if date == NO_DATE:
            return True
        # No row is older than 1970, and a time before the year 1 has no date.
        is_late_enough = since is None or since <= 0 or date >= date_of(since)
        return is_late_enough and (until is None or date <= date_of(until))

    def _groups(self, part: FilePart) -> Iterator[FilePart]:
        """The row groups of a Parquet file that may have selected rows, by their statistics."""
        with opened_parquet(self.archive, part) as file:
            if file is None:
                return
            for group in range(file.metadata.num_row_groups):
                found = file.metadata.row_group(group)
                if self._may_have(_bounds(found), part):
                    yield attrs.evolve(part, groups=(group,), rows=found.num_rows)

    def _may_have(self, bounds: Mapping[str, tuple[Any, Any]], part: FilePart) -> bool:
        wanted = self.wanted
        if "offset" in bounds and (bounds["offset"][1] < part.begin or bounds["offset"][0] >= part.end):
            return False
        if "timestamp" in bounds:
            first, last = (each.timestamp() for each in bounds["timestamp"])
            if (wanted.since is not None and last < wanted.since) or (
                wanted.until is not None and first > wanted.until
            ):
                return False
        if wanted.classes is not None and "class" in bounds:
            least, greatest = bounds["class"]
            return any(least <= each <= greatest for each in wanted.classes)
        return True

    def _logged_tail(
        self,
        store: StoreReader,
        topic: Topic,
        name: str,
        manifest: StreamManifest | None,
        begin: int,
        end: int,
    ) -> Iterator[ArchiveSlice]:
        is_events = self.stream == EVENTS
        if manifest is not None:
            self._check(store, topic, manifest)
        first, last = store.event_bounds() if is_events else store.log_bounds(topic.queue)
        start, stop = max(begin, first if manifest is None else manifest.next), min(end, last)
        if start < first and start < stop:
            now = self.archive.load(name)
            if manifest is not None and now is not None and now.next > manifest.next:
                raise _Moved
            if self.options.fail_on_data_loss:
                raise DataLost(
                    f"{topic.name}: the entries {start} to {first - 1} were trimmed before they were archived"
                    " (failOnDataLoss is true)"
                )
            start = first
        if start >= stop:
            return
        kind = "events" if is_events else "log"
        span = RowSpan(None if is_events else topic.queue, topic.name, start, stop)
        parts = cut(kind, [span], lambda one, rows: cuts_of(store, kind, one, rows), self.options.partitions)
        for part in with_places(parts, lambda queue, first, last: store.places(kind, queue, first, last)):
            yield ArchiveSlice(tail=part, manifest=name)

    def _check(self, store: StoreReader, topic: Topic, manifest: StreamManifest) -> None:
        """Check that entries which are not archived have no numbers of archived ones.

        @raise DataLost: they may have.
        """
        end = store.event_bounds()[1] if self.stream == EVENTS else store.log_end()
        if manifest.next > end:
            is_other = has_other_end(self.archive, store, topic, manifest)
        else:
            is_other = has_other_anchor(store, topic, manifest, RemovalNotices())
        if not is_other:
            return
        text = (
            f"{topic.name}: {store.text} is not the store that was archived, it was restored from a"
            f" backup: its entries before {manifest.next} are not read, set the option store to {NO_STORE} to"
            " read the archive alone"
        )
        if self.options.fail_on_data_loss:
            raise DataLost(f"{text} (failOnDataLoss is true)")
        # Spark shows the output of its Python processes there.
        print(f"{text} (failOnDataLoss is false)", file=sys.stderr)

    def _queued_tail(
        self, topic: Topic, name: str, kept: KeptRows, begin: int, end: int
    ) -> Iterator[ArchiveSlice]:
        numbers, times = kept.wanted()
        is_within = (numbers % LEVEL >= begin) & (numbers % LEVEL < end)
        numbers, times = numbers[is_within], times[is_within]
        for place in range(0, len(numbers), TAIL_ROWS):
            some = numbers[place : place + TAIL_ROWS]
            span = RowSpan(topic.queue, topic.name, int(some[0]), int(some[-1]) + 1, len(some))
            yield ArchiveSlice(
                tail=ReadSlice("messages", (span,)),
                manifest=name,
                numbers=some.tobytes(),
                times=times[place : place + TAIL_ROWS].tobytes(),
            )


def _same_named(named: Mapping[str, _Value], every: Iterable[Topic]) -> dict[str, _Value]:
    """The values of names, also for topics that have these names in other case.

    One that was deleted and created again may have been spelled otherwise then.
    """
    by_name = {name.lower(): value for name, value in named.items()}
    return {topic.name: by_name[topic.name.lower()] for topic in every if topic.name.lower() in by_name}


def _first_needed(manifest: StreamManifest) -> int:
    """The first entry of a log that a read needs: the last archived one, by which the store is recognised."""
    return manifest.anchor[0] if manifest.anchor else manifest.next


def _bounds(group: Any) -> dict[str, tuple[Any, Any]]:
    """The smallest and the largest value of some columns of a row group, where they are known."""
    found = {}
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema in ("offset", "timestamp", "class"):
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max and not statistics.null_count:
                found[column.path_in_schema] = statistics.min, statistics.max
    return found
