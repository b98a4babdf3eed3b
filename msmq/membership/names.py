"""Name resolution by the directory: queue paths, distribution lists. [MS-MQDMPR] 3.1.7.1.26, 3.1.7.3.8."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.membership.access import NO_DIRECTORY, DirectoryAccess
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    AskDirectory,
    Outcome,
    Procedure,
    ReadObjectSid,
    ResolveDistributionList,
)
from msmq.structures.names.format_name import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    QueueSuffix,
    is_read_only,
)
from msmq.structures.status import MQError, Status

MOST_ELEMENTS: Final = 4096
"""Limit on the queues of one name; each is opened and receives a copy of every message."""


@attrs.frozen
class QueuePath:
    """Result of Get Queue Path. [MS-MQDMPR] 3.1.7.1.26.

    @ivar path_name: rPathName; empty if it cannot be determined.
    @ivar machine_name: rMachineName, a name or an address; empty for kinds of format names without a
        computer.
    """

    path_name: str = ""
    machine_name: str = ""


def get_queue_path(
    access: DirectoryAccess, name: FormatName, local_path: Callable[[int], str | None]
) -> Procedure[QueuePath]:
    """Get Queue Path. [MS-MQDMPR] 3.1.7.1.26.

    An own private queue needs no directory; for one on another computer only the computer is known.
    The computer of a public queue is that of its Pathname, since no directory has a reference to it.
    For a journal, and for the system queues of a computer, the result is empty unless the name is direct.

    @param local_path: the Pathname, with the computer, of our private queue with this number.
    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME for a public or private name that the directory does not know.
    """
    match name:
        case DirectFormatName():
            _, _, remainder = str(name).partition("\\")
            return QueuePath(f"{name.address}\\{remainder}", name.address)
        case PublicFormatName(suffix=QueueSuffix.NONE):
            outcome = yield from access.read_directory(QueueObject, [equals("identifier", name.queue)])
            _check_known(name, outcome)
            queue: DirectoryEntry[QueueObject] = outcome.value
            pathname: str = queue["pathname"]
            return QueuePath(pathname, pathname.partition("\\")[0])
        case PrivateFormatName(suffix=QueueSuffix.NONE):
            own = access.local.object
            if name.queue_manager == own.identifier:
                return QueuePath(local_path(name.number) or "", own.computer_name)
            outcome = yield from access.read_directory(
                QueueManagerObject, [equals("identifier", name.queue_manager)]
            )
            _check_known(name, outcome)
            host: DirectoryEntry[QueueManagerObject] = outcome.value
            return QueuePath("", host["computer_name"])
    return QueuePath()


def _check_known(name: FormatName, outcome: Outcome) -> None:
    if not outcome.succeeded:
        reason = outcome.detail or "the directory does not say why"
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_FORMATNAME, f"{name} is not known: {reason} ({outcome.result.value})"
        )


class UnresolvedList(MQError):
    """A distribution list that could not be resolved.

    @ivar is_away: the directory is unavailable.
    """

    def __init__(self, name: DistributionListFormatName, outcome: Outcome) -> None:
        reason = outcome.detail or "the directory does not say why"
        super().__init__(
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
            f"{name} cannot be resolved: {reason} ({outcome.result.value})",
        )
        self.is_away = outcome.is_disconnected


def expand_format_name(
    access: DirectoryAccess, names: Sequence[FormatName]
) -> Procedure[tuple[FormatName, ...]]:
    """Expand Format Name: resolve a name to queues. [MS-MQDMPR] 3.1.7.3.8.

    A single name other than a distribution list is returned as it is.
    Several names, and the members of distribution lists (recursively), are sorted by text without case and
    without duplicates; cycles of lists are harmless.

    @param names: the elements of the name, as L{msmq.structures.names.format_name.parse_format_names} gives
        them.
    @return: the addresses of messages, in the order that their headers require.
    @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a list that cannot be resolved, that has no
        members, or that has one to which messages cannot be sent; MQ_ERROR_INSUFFICIENT_RESOURCES for more
        than 4096 queues.
    @raise LocalProtocolError: C{names} is empty.
    """
    if not names:
        raise LocalProtocolError("no format name to expand")
    if len(names) == 1 and not isinstance(names[0], DistributionListFormatName):
        return tuple(names)
    waiting = deque(names)
    visited: set[DistributionListFormatName] = set()
    found: dict[str, FormatName] = {}
    while waiting:
        name = waiting.popleft()
        if not isinstance(name, DistributionListFormatName):
            found.setdefault(str(name).lower(), name)
        elif name not in visited:
            visited.add(name)
            waiting.extend((yield from _members(access, name)))
        if max(len(found), len(waiting), len(visited)) > MOST_ELEMENTS:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                f"{names[0]} expands to more than {MOST_ELEMENTS} queues",
            )
    if not found:
        raise _unsupported(f"{names[0]} has no members")
    expanded = tuple(found[text] for text in sorted(found))
    for name in expanded:
        if len(expanded) > 1 and is_read_only(name):
            raise _unsupported(f"{name}, a member of {names[0]}, can only be read")
    return expanded


def _members(access: DirectoryAccess, name: DistributionListFormatName) -> Procedure[Sequence[FormatName]]:
    outcome = NO_DIRECTORY
    if access.local.directory_integrated:
        answer = yield AskDirectory(ResolveDistributionList(name))
        outcome = answer.outcome
    if not outcome.succeeded:
        raise UnresolvedList(name, outcome)
    members: Sequence[FormatName] = outcome.value
    return members


def _unsupported(detail: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, detail)


def read_machine_sid(access: DirectoryAccess, computer_name: str) -> Procedure[bytes]:
    """MachineSid, for the default security descriptor of a queue. [MS-MQDMPR] 3.1.7.1.3.1.

    @return: the SID; empty without a directory, or if the directory has none.
    """
    if not access.local.directory_integrated:
        return b""
    answer = yield AskDirectory(ReadObjectSid(computer_name))
    sid: bytes = answer.outcome.value if answer.outcome.succeeded else b""
    return sid
