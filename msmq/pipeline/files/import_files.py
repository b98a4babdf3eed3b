"""The Parquet files that an import reads: those given, and those in directories and archives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msmq.pipeline.archive.manifest import FRESH, ROOT, Archive
from msmq.pipeline.files.destinations import queue_name
from msmq.pipeline.files.directory import file_order
from msmq.pipeline.files.errors import FilesError, parquet
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.files.logged_journals import left_out, logged_files, sent_files


def files_in(
    paths: Sequence[Path], *, topic: str = "", on_left_out: Callable[[str], None] = lambda line: None
) -> list[Path]:
    """The given Parquet files, and those with messages in the given directories, in the order of their rows.

    @param topic: the one queue whose rows are sent; empty for all.
    @param on_left_out: called with a line about what a directory has that is not imported: events, and of an
        archive rows that are not in Parquet yet, and journals whose messages are in a message log too.
    @raise FilesError: there is no such file, or none with messages in a directory.
    """
    found: list[Path] = []
    for path in map(Path.absolute, paths):
        if path.is_dir():
            inside, fresh = _inside(path, topic, on_left_out)
            sendable = [each for each in inside if not _has_events(each)]
            if not sendable:
                raise FilesError(f"{path}: {_nothing_to_send(path, bool(inside), fresh)}")
            if events := len(inside) - len(sendable):
                on_left_out(f"{path}: left out {_files(events)} of events, which cannot be sent")
            if fresh:
                on_left_out(
                    f"{path}: left out {_files(fresh)} with the newest rows of the archive, which are not in"
                    f" Parquet yet: first run msmq archive compact {path}"
                )
            found += sendable
        elif path.exists():
            found.append(path)
        else:
            raise FilesError(f"{path}: there is no such file")
    return found


def _inside(path: Path, topic: str, on_left_out: Callable[[str], None]) -> tuple[list[Path], int]:
    """The Parquet files in a directory, in the order of their rows; of an archive also how many are fresh.

    @raise FilesError: a manifest of an archive cannot be read.
    """
    if (path / ROOT).is_file():
        archive = Archive(path)
        manifests = archive.streams()
        copies = logged_files(manifests, topic)
        for journal, files in copies.items():
            line = left_out(manifests, journal, files)
            on_left_out(f"{path}: {line}; --topic '{queue_name(journal)}' sends them")
        without = {file.path for files in copies.values() for file in files}
        # Events, which an archive has in fresh files at almost any time, are not sent from any.
        sendable = [file for each in manifests if each.stream != EVENTS for file in each.files]
        fresh = sum(file.is_fresh and file.path not in without for file in sendable)
        # Of the same manifests: others may name a journal's rows in files that are not in these.
        return [archive.path(file) for file in sent_files(manifests, without)], fresh
    # Spark names directories like this, too.
    every = (each for each in sorted(path.rglob("*.parquet"), key=file_order) if each.is_file())
    inside = [each for each in every if not _is_hidden(each, path)]
    return inside, len(list((path / FRESH).glob("*.arrow")))


def _nothing_to_send(path: Path, has_events: bool, fresh: int) -> str:
    """Why a directory has no file to import, and what to do."""
    if fresh:
        return f"its messages are not in Parquet yet: first run msmq archive compact {path}"
    if has_events:
        return "it has events only, which cannot be sent; name a directory with exported messages"
    return "there are no Parquet files in it"


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def _has_events(path: Path) -> bool:
    """Whether a file has events; L{rows_of} reports one that cannot be read."""
    try:
        return "event" in parquet().read_schema(path).names
    except (OSError, ValueError):
        return False


def _is_hidden(path: Path, below: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(below).parts)
