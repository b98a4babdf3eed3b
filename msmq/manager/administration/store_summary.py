"""Size of the store, free space, and durations of commits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msmq.interfaces.manager.summaries import StoreSummary
from msmq.interfaces.storage import ICommitTimes, IMessageStore, IStoreFiles


def summarize_store(store: IMessageStore) -> StoreSummary:
    """The figures of a store; what it does not provide is C{None}."""
    files: Sequence[Path] = IStoreFiles(store).files() if IStoreFiles.providedBy(store) else ()
    system = None
    if files:
        try:
            system = os.statvfs(files[0].parent)
        except OSError:
            pass
    return StoreSummary(
        bytes=sum(map(_size, files)) if files else None,
        # Free for unprivileged processes.
        free_bytes=None if system is None else system.f_bavail * system.f_frsize,
        capacity_bytes=None if system is None else system.f_blocks * system.f_frsize,
        commit_times=ICommitTimes(store).commit_times() if ICommitTimes.providedBy(store) else None,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # It was deleted meanwhile.
        return 0
