"""Journals in an archive that also has the message logs of their queues: an import sends one of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msmq.pipeline.archive.manifest import StreamManifest
from msmq.pipeline.files.destinations import queue_name
from msmq.pipeline.reading.streams import is_called


def logged_journals(manifests: Sequence[StreamManifest], topic: str) -> list[StreamManifest]:
    """The journals of queues whose message log is imported: most of their messages would be sent twice.

    @param topic: the one queue whose rows are sent; empty for all.
    """
    logs = {each.topic.lower() for each in manifests if each.stream == "log" and _is_finished(each)}
    return [
        each
        for each in manifests
        if each.stream == "journal"
        and _is_finished(each)
        and (log := each.topic.lower().removesuffix(";journal")) in logs
        and (not topic or is_called(log, topic))
    ]


def left_out(manifests: Sequence[StreamManifest], journal: str) -> str:
    """What of a journal is left out, and why: the message log may have existed for a part of its time."""
    journals = _dates(each for each in manifests if each.topic == journal)
    log = journal.lower().removesuffix(";journal")
    logs = _dates(each for each in manifests if each.stream == "log" and each.topic.lower() == log)
    name, why = queue_name(journal), "since the message log of the queue, which is sent, has most of"
    if logs[0] <= journals[0] and journals[-1] <= logs[-1]:
        return f"left out {name}, {why} its messages too"
    return (
        f"left out {name} with the messages of {journals[0]} to {journals[-1]}, {why} those of {logs[0]} to"
        f" {logs[-1]} too"
    )


def _dates(manifests: Iterable[StreamManifest]) -> list[str]:
    """The dates of arrival of the rows of streams, in order."""
    return sorted({file.date for each in manifests for file in each.files})


def _is_finished(manifest: StreamManifest) -> bool:
    """Whether a stream has rows that can be imported."""
    return not all(file.is_fresh for file in manifest.files)
