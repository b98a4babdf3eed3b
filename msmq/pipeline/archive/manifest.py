"""The manifest of an archive: for each stream which files hold its rows, and up to which number.

Each stream has its own manifest, one JSON file that is replaced atomically: what it names is the archive, and
a file that no manifest names is not part of it.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.durable import make_directory, sync, write_durably
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.missing import NOT_WATCHED, MissingEntries
from msmq.pipeline.files.errors import FileUnwritable, check_encoding
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.schema import VERSION as RECORD_FORMAT

VERSION: Final = 1
"""The version of the layout of an archive."""

ROOT: Final = "_archive.json"
LOCK: Final = "_archive.lock"
MANIFESTS: Final = "_streams"
FRESH: Final = "_fresh"
ERASED: Final = "_erased"
ERASED_IDENTIFIERS: Final = "_erased_identifiers"
ERASURES: Final = "_erasures.jsonl"
ERASURE_LOCK: Final = "_erasures.lock"
ERASING: Final = "_erasing.json"
NOTED: Final = "_erasures.noted"
REMOVED: Final = "_removed.json"
"""Names that readers of plain Parquet ignore, since they begin with _."""

MESSAGE_FILES: Final = "messages"
"""The folder of the finished files of messages; the one of events has the name of their stream."""

UNFINISHED: Final = ".new"
"""The suffix of files in progress, which no reader takes: some programs read names that begin with a dot."""

_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9]+")


@attrs.frozen
class ArchiveFile:
    """One file.

    @ivar path: relative to the archive.
    @ivar date: the date of arrival of its rows, in UTC.
    @ivar size: its bytes; C{crc}: the CRC-32 of its content.
    @ivar first: the smallest number of its rows, C{last} the largest: offsets of a log, C{lookup_id}s else.
    @ivar level: how often its rows were merged.
    @ivar written: when it was written, in seconds since 1970-01-01 UTC.
    """

    path: str
    date: str
    rows: int
    size: int
    crc: int
    first: int
    last: int
    level: int
    written: float

    @property
    def is_fresh(self) -> bool:
        """Whether it is Arrow, and will be merged."""
        return self.path.endswith(".arrow")


@attrs.define
class StreamManifest:
    """The manifest of one stream.

    @ivar name: the beginning of the names of its files.
    @ivar queue: the identifier of the queue, without dashes.
    @ivar next: of a log, the first number that is not archived.
    @ivar begun: the first number that was available when the archive began.
    @ivar anchor: the last archived number of a log, and the checksum of its row; empty before any.
    @ivar missing: of a log, which entries are not archived.
    @ivar skipped: rows of a queue that are not archived again, by C{lookup_id} and time of arrival in
        microseconds, since they were erased.
    @ivar retired: files that others have replaced, or that are too old, with the time: readers may still need
        them.
    @ivar replaced: files that an erasure has deleted, each with the file that has its other rows, empty if it
        had none, and the time.
    @ivar serial: the number of the next file.
    @ivar erased: the number of rows that were erased.
    @ivar expired: the number of rows that were removed by age.
    """

    name: str
    stream: str
    topic: str
    queue: str
    next: int = 0
    begun: int = 0
    anchor: tuple[int, ...] = ()
    files: list[ArchiveFile] = attrs.field(factory=list)
    missing: MissingEntries = attrs.field(factory=MissingEntries)
    skipped: list[tuple[int, int]] = attrs.field(factory=list)
    retired: list[tuple[str, float]] = attrs.field(factory=list)
    replaced: list[tuple[str, str, float]] = attrs.field(factory=list)
    serial: int = 0
    erased: int = 0
    expired: int = 0

    @property
    def rows(self) -> int:
        """The number of archived rows."""
        return sum(file.rows for file in self.files)

    @property
    def beginning(self) -> tuple[str, int]:
        """The date of its first rows, and the smallest number of that date."""
        return min(((file.date, file.first) for file in self.files), default=("", 0))

    def path_now(self, path: str) -> str | None:
        """The file that has the rows of a file of an earlier manifest; empty if all were erased.

        C{None} if the file was deleted for another reason, long after it was replaced.
        """
        for old, new, _ in self.replaced:
            if old == path:
                path = new
        named = {file.path for file in self.files} | {old for old, _ in self.retired}
        return path if path in named or not path else None

    def new_path(self, date: str, *, fresh: bool) -> str:
        """The path of the next file."""
        self.serial += 1
        name = f"{self.name}-{self.serial:010}"
        if fresh:
            return f"{FRESH}/{name}.arrow"
        kind = EVENTS if self.stream == EVENTS else f"{MESSAGE_FILES}/stream={self.stream}"
        return f"{kind}/date={date}/{name}.parquet"


def stream_name(stream: str, topic: str, queue: str) -> str:
    """The name of a stream, the same for the same queue only."""
    readable = _NOT_PLAIN.sub("-", f"{topic}-{stream}").strip("-").lower()[-60:]
    return f"{readable}-{blake2b(f'{stream}/{queue}'.encode(), digest_size=6).hexdigest()}"


class Archive:
    """The directory of an archive."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def owner(self) -> str:
        """The GUID of the queue manager whose archive it is.

        @raise ArchiveError: there is no archive, or it has another version.
        """
        return str(self._root()["queue_manager"])

    def store_path(self) -> str:
        """The path of the store; empty if it is not in files.

        @raise ArchiveError: there is no archive, or it has another version.
        """
        return str(self._root().get("store", ""))

    def _root(self) -> dict[str, Any]:
        path = self.directory / ROOT
        check_encoding(self.directory)
        try:
            root = json.loads(path.read_bytes())
            version, records = int(root["version"]), int(root["record_format"])
            str(root["queue_manager"])
        except FileNotFoundError:
            raise ArchiveError(f"{self.directory}: there is no archive") from None
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{path}: not the description of an archive: {error}") from error
        if (version, records) > (VERSION, RECORD_FORMAT) or version != VERSION:
            raise ArchiveError(
                f"{path}: an archive of version {version}, record format {records}; this program knows"
                f" {VERSION} and {RECORD_FORMAT}"
            )
        return dict(root)

    def begin(self, owner: str, store: str = "") -> None:
        """Create the archive of a queue manager, or check that it is the one of this queue manager.

        @param store: the path of its store, for readers of both; empty if it is not in files.
        @raise ArchiveError: it belongs to another queue manager, or other files are there.
        """
        path = self.directory / ROOT
        root = {
            "version": VERSION,
            "record_format": RECORD_FORMAT,
            "queue_manager": owner,
            "store": store,
        }
        if path.exists():
            former = self._root()
            found = str(former["queue_manager"])
            if found != owner:
                raise ArchiveError(
                    f"{self.directory}: the archive of {found}, not of {owner}; select another directory"
                )
            # A former process may have been killed before the names of its manifests were synchronised. What
            # these make unnecessary is removed from now on, here and from the store.
            for directory in (self.directory / MANIFESTS, self.directory):
                sync(directory)
            if former.get("store", "") != store:
                write_durably(path, json.dumps(root).encode() + b"\n", 0o666)
            return
        if not all(map(_is_beginning, self.directory.iterdir())):
            raise ArchiveError(f"{self.directory}: not an archive and not empty; select another directory")
        for name in (MANIFESTS, FRESH):
            (self.directory / name).mkdir(exist_ok=True)
        write_durably(path, json.dumps(root).encode() + b"\n", 0o666)

    @contextmanager
    def locked(self, *, create: bool = False) -> Iterator[None]:
        """Wait for the lock of the writers, and hold it.

        @raise FileUnwritable: the directory cannot be written.
        @raise FilesError: its path is not UTF-8.
        """
        check_encoding(self.directory)
        try:
            if create:
                # It has bodies of messages, so it is as closed as the store unless an operator opens it.
                make_directory(self.directory)
            with (self.directory / LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            where = error.filename or self.directory
            raise FileUnwritable(f"{where}: {error.strerror or error}") from error

    def streams(self) -> list[StreamManifest]:
        """The manifests of all streams.

        @raise ArchiveError: one is damaged, or cannot be read.
        """
        folder = self.directory / MANIFESTS
        try:
            # Not by a pattern, which takes a directory that cannot be listed for an empty one: tidy would
            # remove all files.
            names = sorted(path.stem for path in folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ArchiveError(f"{folder}: cannot be read: {error.strerror or error}") from error
        return [found for name in names if (found := self.load(name)) is not None]

    def load(self, name: str) -> StreamManifest | None:
        """The manifest of a stream; C{None} before its first rows.

        @raise ArchiveError: it is damaged, or cannot be read.
        """
        path = self.directory / MANIFESTS / f"{name}.json"
        try:
            return _manifest(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveError(f"{path}: not a manifest: {error}") from error

    def store(self, manifest: StreamManifest) -> None:
        """Replace the manifest of a stream, atomically and durably.

        @raise OSError: it cannot be written.
        """
        for folder in {(self.directory / file.path).parent for file in manifest.files if file.is_fresh}:
            sync(folder)
        content = json.dumps(attrs.asdict(manifest), separators=(",", ":")).encode() + b"\n"
        write_durably(self.directory / MANIFESTS / f"{manifest.name}.json", content, 0o666)

    def path(self, file: ArchiveFile) -> Path:
        """The path of a file."""
        return self.directory / file.path

    def finished(self, stream: str = "") -> list[Path]:
        """The Parquet files that the manifests name, those of each queue in the order of their numbers.

        Those of a queue that was deleted are before those of one that was created later with its name.
        There may be others on the disk with the same rows, for example while an erasure runs.

        @param stream: the stream; empty for all.
        @raise ArchiveError: a manifest is damaged, or cannot be read.
        """
        return [
            self.path(file)
            for manifest in sorted(self.streams(), key=lambda each: each.beginning)
            if stream in ("", manifest.stream)
            for file in sorted(manifest.files, key=lambda each: (each.first, each.last))
            if not file.is_fresh
        ]

    def tidy(self) -> None:
        """Remove the files that no manifest names: what a killed writer left behind."""
        manifests = self.streams()
        named = {file.path for each in manifests for file in each.files}
        named.update(path for each in manifests for path, _ in each.retired)
        for folder, pattern in (
            (FRESH, "*.arrow"),
            (MESSAGE_FILES, "**/*.parquet"),
            (EVENTS, "**/*.parquet"),
            *((each, f"**/*.parquet{UNFINISHED}") for each in (MESSAGE_FILES, EVENTS)),
        ):
            for path in (self.directory / folder).glob(pattern):
                if path.relative_to(self.directory).as_posix() not in named:
                    path.unlink()
        for folder in (MANIFESTS, ERASED, ERASED_IDENTIFIERS, "."):
            for path in (self.directory / folder).glob(f"*{UNFINISHED}"):
                path.unlink()

    def remove(self, paths: Sequence[str]) -> None:
        """Delete files that no manifest names any more, and folders that became empty."""
        for path in paths:
            (self.directory / path).unlink(missing_ok=True)
            if not path.startswith(FRESH):
                with suppress(OSError):
                    (self.directory / path).parent.rmdir()


def _is_beginning(path: Path) -> bool:
    """Whether something in a directory may be of a process that was killed while it began the archive."""
    if path.name in (MANIFESTS, FRESH):
        return path.is_dir() and not any(path.iterdir())
    return path.name in (LOCK, f"{ROOT}{UNFINISHED}")


def _manifest(found: Any) -> StreamManifest:
    names = {field.name for field in attrs.fields(StreamManifest)}
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    # Earlier versions wrote neither, but the ranges that were trimmed.
    found.setdefault("replaced", [])
    trimmed = found.pop("gaps", [])
    found.setdefault("missing", {**attrs.asdict(MissingEntries(deleted=NOT_WATCHED)), "trimmed": trimmed})
    if set(found) != names:
        raise ValueError(f"its keys are {', '.join(sorted(found))}")
    found["files"] = [ArchiveFile(**file) for file in found["files"]]
    found["anchor"] = tuple(found["anchor"])
    found["missing"] = MissingEntries.from_record(found["missing"])
    for name in ("skipped", "retired"):
        found[name] = [(first, second) for first, second in found[name]]
    found["replaced"] = [(old, new, since) for old, new, since in found["replaced"]]
    return StreamManifest(**found)
