"""Journals in an archive that also has the message logs of their queues: an import sends one of both.

A message keeps its time of arrival in the journal, so a date of which the log has no rows is in the journal
alone: the log was enabled later, or disabled before.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from operator import itemgetter

from msmq.pipeline.archive.manifest import ArchiveFile, StreamManifest
from msmq.pipeline.files.destinations import queue_name
from msmq.pipeline.reading.streams import is_called


def logged_files(manifests: Sequence[StreamManifest], topic: str) -> Mapping[str, Sequence[ArchiveFile]]:
    """The files of journals, by topic, whose queues have a message log with rows of their dates.

    Most of their messages would be sent twice.

    @param topic: the one queue whose rows are sent; empty for all.
    """
    dates: dict[str, set[str]] = {}
    for each in manifests:
        if each.stream == "log" and (not topic or is_called(each.topic, topic)):
            dates.setdefault(each.topic.lower(), set()).update(file.date for file in each.files)
    found: dict[str, list[ArchiveFile]] = {}
    for each in manifests:
        if each.stream == "journal":
            logged = dates.get(each.topic.lower().removesuffix(";journal"), set())
            if files := [file for file in each.files if file.date in logged]:
                found.setdefault(each.topic, []).extend(files)
    return found


def sent_files(manifests: Sequence[StreamManifest], without: Container[str]) -> list[ArchiveFile]:
    """The finished files of an import, by date: a queue may have some in its log, others in its journal.

    Files of a log are in the order of their numbers; those of a deleted queue are before those of one that
    was created later with its name.

    @param without: files that are left out, by their paths relative to the archive.
    """
    found: list[tuple[str, ArchiveFile]] = []
    for manifest in sorted(manifests, key=lambda each: each.beginning):
        date = ""
        for file in sorted(manifest.files, key=lambda each: (each.first, each.last)):
            # The numbers of a log increase also when the clock was set back; others begin with a priority.
            date = max(date, file.date) if manifest.stream == "log" else file.date
            if not file.is_fresh and file.path not in without:
                found.append((date, file))
    return [file for _, file in sorted(found, key=itemgetter(0))]


def left_out(manifests: Sequence[StreamManifest], journal: str, files: Sequence[ArchiveFile]) -> str:
    """What of a journal is left out, and why.

    @param files: those that are left out.
    """
    name, why = queue_name(journal), "since the message log of the queue, which is sent, has most of"
    if all(file in files for each in manifests if each.topic == journal for file in each.files):
        return f"left out {name}, {why} its messages too"
    dates = sorted({file.date for file in files})
    days = dates[0] if len(dates) == 1 else f"{len(dates)} days from {dates[0]} to {dates[-1]}"
    return f"left out the messages of {days} in {name}, {why} these too"
