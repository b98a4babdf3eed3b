"""Archives continuously, next to the server."""

from __future__ import annotations

from collections.abc import Callable

from msmq.interfaces.storage import StorageError
from msmq.pipeline.archive.archiver import ArchiveProgress, Archiver
from msmq.pipeline.files.errors import FileUnwritable
from msmq.storage.readers import StoreMoved


def follow(
    archiver: Archiver,
    is_over: Callable[[], bool],
    report: Callable[[ArchiveProgress], None],
    complain: Callable[[str], None],
) -> None:
    """Archive again and again.

    A disk that is full and a store that cannot be read are reported once, and tried again.

    @param is_over: waits between two passes, and returns whether to end.
    @param report: called with each pass that has archived rows or found gaps.
    @param complain: called with a reason why nothing is archived, and when it is over.
    @raise FilesError: the archive is damaged, or not that of the store.
    @raise StoreMoved: the content of the store was migrated to another one.
    """
    problem = ""
    while True:
        try:
            progress = archiver.run()
        except StoreMoved:
            # Another store has to be opened.
            raise
        except (FileUnwritable, StorageError) as error:
            if str(error) != problem:
                problem = str(error)
                complain(f"{problem}; trying again")
        else:
            if problem:
                problem = ""
                complain("archiving again")
            if progress.rows or progress.gaps:
                report(progress)
        if is_over():
            return
