"""Public queues of the enterprise by label, type and path. [MS-MQDMPR] 3.1.7.1.21."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final
from uuid import UUID

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.background import run_in_background
from msmq.interfaces.manager.summaries import PublicQueueSummary
from msmq.manager.administration.summaries import optional_type
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.membership.directory_router import ProcedureRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryOperationResult, refusal
from msmq.membership.objects import QueueObject
from msmq.membership.queries import AttributeFilter, equals
from msmq.membership.requests import Outcome
from msmq.structures.names.format_name import PublicFormatName
from msmq.structures.status import MQError

AT_ONCE: Final = 200
"""Queues that are compared in one iteration of the reactor."""

_ATTRIBUTES: Final = ("identifier", "pathname", "label", "type", "transactional", "authentication")
_WILDCARDS: Final = frozenset("*?")


async def find_public_queues(
    access: DirectoryAccess,
    run: ProcedureRunner,
    reactor: IReactorTime,
    *,
    label: str | None,
    application_type: UUID | None,
    path: str | None,
) -> list[PublicQueueSummary]:
    """The public queues that match all criteria, in the order of their paths.

    @param run: runs the procedures of C{access}.
    @param label: case-insensitive, as is C{path}; C{*} and C{?} are wildcards.
    @raise MQError: the directory is unreachable, or refuses.
    """
    filters: list[AttributeFilter] = []
    if application_type is not None:
        filters.append(equals("type", application_type))
    for attribute, wanted in (("label", label), ("pathname", path)):
        if wanted is not None and _WILDCARDS.isdisjoint(wanted):
            filters.append(equals(attribute, wanted))
    begun = await run(access.read_directory_begin(QueueObject, filters, _ATTRIBUTES))
    _check(begun)
    found: list[PublicQueueSummary] = []
    count = 0
    try:
        while (following := await run(access.read_directory_next(begun.value))).succeeded:
            entry: DirectoryEntry[QueueObject] = following.value
            if _matches(entry["label"], label) and _matches(entry["pathname"], path):
                found.append(_summary(entry))
            count += 1
            if count % AT_ONCE == 0:
                await deferLater(reactor, 0)
    except INTERRUPTIONS:
        # The directory keeps what the read has found until it ends, and that is limited for all reads.
        run_in_background(_end(access, run, begun.value), "ending a read of the directory")
        raise
    await run(access.read_directory_end(begun.value))
    if following.result is not DirectoryOperationResult.END_OF_DATA:
        _check(following)
    return sorted(found, key=lambda summary: summary.path)


async def _end(access: DirectoryAccess, run: ProcedureRunner, handle: int) -> None:
    """End a read of which nothing is wanted any more; the directory may be unreachable meanwhile."""
    with suppress(MQError):
        await run(access.read_directory_end(handle))


def _check(outcome: Outcome) -> None:
    if not outcome.succeeded:
        raise refusal(outcome.result, outcome.detail or "the directory refuses")


def _matches(value: str, wanted: str | None) -> bool:
    """Whether a text matches a pattern with the wildcards C{*} and C{?}."""
    return wanted is None or fnmatchcase(value.casefold(), wanted.casefold().replace("[", "[[]"))


def _summary(entry: DirectoryEntry[QueueObject]) -> PublicQueueSummary:
    return PublicQueueSummary(
        path=entry["pathname"],
        format_name=str(PublicFormatName(entry["identifier"])),
        identifier=entry["identifier"],
        label=entry["label"],
        application_type=optional_type(entry["type"]),
        transactional=entry["transactional"],
        authenticate=entry["authentication"],
    )
