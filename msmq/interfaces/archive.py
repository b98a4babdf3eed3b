"""IArchive: the archive that a server keeps of its logs, journals, dead letters and events, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import attrs
from zope.interface import Interface, implementer

from msmq.interfaces.manager.summaries import TIME
from msmq.structures.status import MQError, Status


@attrs.frozen(kw_only=True)
class ArchiveSummary:
    """The state of an archive.

    @ivar condition: C{starting}, C{running}, C{waiting} if it cannot be written or the store cannot be read
        now, C{failed} if an operator has to decide, or C{stopped}.
    @ivar reason: the reason of the condition; empty if there is none.
    @ivar rows: rows in the archive; C{files} and C{bytes} likewise.
    @ivar archived: rows that were archived since the server started.
    @ivar behind: log entries and events that were not archived yet at the end of the latest pass.
    @ivar complete: everything that was stored until this time is archived; C{None} before the first pass.
    @ivar lag: the seconds since then, or since the start of the server.
    @ivar is_late: whether the lag exceeds C{[archive] late}.
    @ivar missing: numbers of log entries and events that were trimmed before they were archived.
    @ivar erased: rows that were erased; C{expired}: rows that were removed by age.
    @ivar free_bytes: free space in the file system of the archive; C{None} if unknown.
    @ivar restarts: how often the process that archives was started again.
    """

    directory: str
    condition: str
    reason: str
    rows: int
    files: int
    bytes: int
    archived: int
    behind: int
    complete: float | None = attrs.field(metadata=TIME)
    lag: float
    is_late: bool
    missing: int
    erased: int
    expired: int
    free_bytes: int | None
    restarts: int


@attrs.frozen
class ErasedRows:
    """Rows of one stream that an erasure has removed, or would remove."""

    topic: str
    stream: str
    rows: int


class IArchive(Interface):
    """The archive of a server.

    Every refusal is an L{msmq.structures.status.MQError}; MQ_ERROR_UNSUPPORTED_OPERATION without an archive.
    """

    def summary() -> ArchiveSummary | None:
        """The state of the archive; C{None} without one."""

    def erase(condition: str, *, dry_run: bool = False) -> Awaitable[Sequence[ErasedRows]]:
        """Erase the rows that fulfil a condition; an event records it, without the values of the condition.

        @param dry_run: only count them.
        """

    def compact() -> Awaitable[ArchiveSummary]:
        """Write all rows as Parquet, and return the state then."""


def no_archive() -> MQError:
    """The refusal of a server without an archive."""
    return MQError(
        Status.MQ_ERROR_UNSUPPORTED_OPERATION,
        "the server keeps no archive; [archive] directory in its configuration enables it",
    )


@implementer(IArchive)
class NoArchive:
    """The archive of a server without one."""

    def summary(self) -> ArchiveSummary | None:
        """See L{IArchive}."""
        return None

    async def erase(self, condition: str, *, dry_run: bool = False) -> Sequence[ErasedRows]:
        """See L{IArchive}."""
        raise no_archive()

    async def compact(self) -> ArchiveSummary:
        """See L{IArchive}."""
        raise no_archive()
