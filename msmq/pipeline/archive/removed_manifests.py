"""Removal of the manifests of deleted queues of which nothing is archived any more, and their counts.

C{_removed.json} has the sums of their counts. A removal writes the counts of the manifest there, removes it,
and adds them to the sums; so at any moment each is counted once, by the manifest or by this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.durable import sync, write_durably
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import (
    ERASED,
    ERASED_IDENTIFIERS,
    ERASING,
    MANIFESTS,
    REMOVED,
    Archive,
    StreamManifest,
)
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.format import EVENTS


@attrs.frozen
class RemovedCounts:
    """What manifests that were removed have counted, of one stream or of all.

    @ivar manifests: their number.
    @ivar missing: the numbers that were trimmed or damaged before they were archived.
    @ivar uncertain: the largest number of entries that were deleted with their queues and not archived.
    @ivar erased: the rows that were erased; C{expired}: those that were removed by age.
    """

    manifests: int = 0
    missing: int = 0
    uncertain: int = 0
    erased: int = 0
    expired: int = 0

    @classmethod
    def of(cls, manifest: StreamManifest) -> RemovedCounts:
        """Those of one manifest."""
        missing = manifest.missing
        return cls(1, missing.numbers, sum(missing.uncertain[2:]), manifest.erased, manifest.expired)

    def plus(self, other: RemovedCounts) -> RemovedCounts:
        """The sums of both."""
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return RemovedCounts(*(one + another for one, another in pairs))


@attrs.frozen
class _Removal:
    """A removal that has begun."""

    name: str
    stream: str
    counts: RemovedCounts


class RemovedManifests:
    """The removed manifests of an archive; the caller of each change holds its lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._path = archive.directory / REMOVED

    def counts(self) -> RemovedCounts:
        """The sums of all streams.

        @raise ArchiveError: they cannot be read.
        """
        return reduce(RemovedCounts.plus, self.by_stream().values(), RemovedCounts())

    def by_stream(self) -> Mapping[str, RemovedCounts]:
        """The sums of each stream.

        @raise ArchiveError: they cannot be read.
        """
        return self._settled()[0]

    def complete(self) -> None:
        """Finish a removal that was interrupted; one that has removed nothing may begin again.

        @raise FilesError: the counts cannot be read or written.
        """
        sums, is_interrupted = self._settled()
        if is_interrupted:
            self._write(sums)

    def is_removable(self, manifest: StreamManifest) -> bool:
        """Whether nothing is archived of a deleted queue, and no reader needs what was.

        Identifiers of erased messages are kept as long as rows, and so is the manifest then.

        @raise ArchiveError: the identifiers cannot be read.
        """
        if manifest.stream == EVENTS or manifest.files or manifest.retired or manifest.replaced:
            return False
        # An erasure compares the counts before and after it.
        return not (self._archive.directory / ERASING).exists() and not self._has_identifiers(manifest)

    def remove(self, manifest: StreamManifest) -> None:
        """Remove the manifest of a deleted queue that L{is_removable}.

        @raise FilesError: the counts cannot be read or written, or the manifest cannot be removed.
        """
        removal = _Removal(manifest.name, manifest.stream, RemovedCounts.of(manifest))
        # Another process may have been killed during a removal since this pass began.
        sums, _ = self._settled()
        self._write(sums, removal)
        path = self._manifest(manifest.name)
        erased = [
            self._archive.directory / folder / f"{manifest.name}.parquet"
            for folder in (ERASED, ERASED_IDENTIFIERS)
        ]
        try:
            # Durably before the manifest: without it they would stay forever.
            for each in erased:
                if each.exists():
                    each.unlink()
                    sync(each.parent)
            path.unlink()
            sync(path.parent)
        except OSError as error:
            raise FileUnwritable(f"{path}: cannot be removed: {error.strerror or error}") from error
        self._write(_added(sums, removal))

    def _settled(self) -> tuple[Mapping[str, RemovedCounts], bool]:
        """The sums, with the counts of a removal that was interrupted after it had removed its manifest.

        The second value is whether one was interrupted.
        """
        sums, removal = self._read()
        if removal is None or self._manifest(removal.name).exists():
            return sums, removal is not None
        return _added(sums, removal), True

    def _manifest(self, name: str) -> Path:
        return self._archive.directory / MANIFESTS / f"{name}.json"

    def _has_identifiers(self, manifest: StreamManifest) -> bool:
        import pyarrow
        from pyarrow import parquet

        path = self._archive.directory / ERASED_IDENTIFIERS / f"{manifest.name}.parquet"
        try:
            return bool(parquet.read_metadata(path).num_rows)
        except FileNotFoundError:
            return False
        except (OSError, pyarrow.ArrowException) as error:
            raise ArchiveError(f"{path}: not what erased messages leave: {error}") from error

    def _read(self) -> tuple[Mapping[str, RemovedCounts], _Removal | None]:
        try:
            found = json.loads(self._path.read_bytes())
            sums = {str(stream): _counts(record) for stream, record in found["sums"].items()}
            removing = found["removing"]
            if removing is None:
                return sums, None
            return sums, _Removal(removing["name"], removing["stream"], _counts(removing["counts"]))
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            raise ArchiveError(f"{self._path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArchiveError(
                f"{self._path}: not the counts of removed manifests: {error}; remove it to begin their counts"
                " again"
            ) from error

    def _write(self, sums: Mapping[str, RemovedCounts], removal: _Removal | None = None) -> None:
        record = {
            "sums": {stream: attrs.asdict(each) for stream, each in sums.items()},
            "removing": None if removal is None else attrs.asdict(removal),
        }
        try:
            write_durably(self._path, json.dumps(record).encode() + b"\n", 0o666)
        except OSError as error:
            raise FileUnwritable(f"{self._path}: cannot be written: {error.strerror or error}") from error


def counted(archive: Archive) -> Mapping[str, RemovedCounts]:
    """What the manifests of an archive have counted, by stream, also those that were removed.

    @raise ArchiveError: a manifest, or what removed ones have counted, cannot be read.
    """
    manifests, removed = all_manifests(archive)
    found = dict(removed)
    for each in manifests:
        found[each.stream] = found.get(each.stream, RemovedCounts()).plus(RemovedCounts.of(each))
    return found


def all_manifests(archive: Archive) -> tuple[Sequence[StreamManifest], Mapping[str, RemovedCounts]]:
    """The manifests of an archive, and what those that were removed have counted, by stream.

    One that is removed meanwhile is in one of both.

    @raise ArchiveError: a manifest, or what removed ones have counted, cannot be read.
    """
    removed = RemovedManifests(archive)
    before, found = removed.by_stream(), archive.streams()
    for _ in range(_TRIES):
        now = removed.by_stream()
        if now == before:
            break
        before, found = now, archive.streams()
    return found, before


_TRIES: Final = 5
"""How often a reader begins again since manifests are removed while it reads them."""

_NAMES: Final = tuple(field.name for field in attrs.fields(RemovedCounts))


def _counts(record: Mapping[str, Any]) -> RemovedCounts:
    return RemovedCounts(*(int(record[name]) for name in _NAMES))


def _added(sums: Mapping[str, RemovedCounts], removal: _Removal) -> Mapping[str, RemovedCounts]:
    former = sums.get(removal.stream, RemovedCounts())
    return {**sums, removal.stream: former.plus(removal.counts)}
