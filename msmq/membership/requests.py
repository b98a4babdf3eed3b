"""Requests of the directory core, their results, and the procedures that yield them.

A procedure is a generator: it yields an effect, is sent the L{Answer} to it, and returns what its docstring
says.
An effect that fails with an exception of our own, such as a store that could not keep what it should, is
thrown into the procedure, which undoes what it has to undo.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import attrs

from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import ChangeOperation, DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import AttributeFilter, SortOrder
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.names.format_name import DistributionListFormatName

Attributes: TypeAlias = tuple[str, ...] | None
"""The names of Directory attributes; C{None} for all of a type."""


@attrs.frozen
class Outcome:
    """The rStatus of an event, and its other results.

    @ivar value: what C{SUCCESS} brings; the request or the event says what.
    @ivar detail: why it failed, in words.
    """

    result: DirectoryOperationResult = DirectoryOperationResult.SUCCESS
    value: Any = None
    detail: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was asked for."""
        return self.result is DirectoryOperationResult.SUCCESS

    @property
    def is_disconnected(self) -> bool:
        """Whether there was no directory to ask."""
        return self.result is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED


@attrs.frozen
class Answer:
    """The result of the request that a procedure yielded, and its time."""

    now: Moment
    outcome: Outcome = Outcome()


# What a directory can be asked for


@attrs.frozen
class CreateObject:
    """[MS-MQDMPR] 3.1.7.1.18; its value is the GUID of the new object."""

    object: DirectoryObject
    attributes: Attributes = None


@attrs.frozen
class DeleteObject:
    """[MS-MQDMPR] 3.1.7.1.19."""

    object: DirectoryObject


@attrs.frozen
class ReadObject:
    """[MS-MQDMPR] 3.1.7.1.20; its value is a L{msmq.membership.entry.DirectoryEntry}."""

    of: type[DirectoryObject]
    filters: tuple[AttributeFilter, ...] = ()
    attributes: Attributes = None


@attrs.frozen
class BeginRead:
    """[MS-MQDMPR] 3.1.7.1.21; its value is a handle, a whole number."""

    of: type[DirectoryObject]
    filters: tuple[AttributeFilter, ...] = ()
    attributes: Attributes = None
    order: tuple[SortOrder, ...] = ()


@attrs.frozen
class NextRead:
    """[MS-MQDMPR] 3.1.7.1.22; its value is as of L{ReadObject}."""

    handle: int


@attrs.frozen
class EndRead:
    """[MS-MQDMPR] 3.1.7.1.23."""

    handle: int


@attrs.frozen
class WriteObject:
    """[MS-MQDMPR] 3.1.7.1.24; its value is whether it was written.

    @ivar former: what was read of these attributes, which have to be that still; C{None} if they need not.
    """

    object: DirectoryObject
    attributes: Attributes = None
    former: DirectoryEntry[Any] | None = None


@attrs.frozen
class ResolveDistributionList:
    """[MS-MQDSSM] 3.1.6.9; its value is a sequence of format names."""

    name: DistributionListFormatName


@attrs.frozen
class ReadObjectSid:
    """[MS-MQDSSM] 3.1.6.14 the objectSid of a computer; its value is the SID, as bytes."""

    computer_name: str


DirectoryRequest: TypeAlias = (
    CreateObject
    | DeleteObject
    | ReadObject
    | BeginRead
    | NextRead
    | EndRead
    | WriteObject
    | ResolveDistributionList
    | ReadObjectSid
)


# Effects


@attrs.frozen
class AskDirectory:
    """Ask the directory; the answer has the result and the value that the request names."""

    request: DirectoryRequest


@attrs.frozen
class SendChangeNotification:
    """[MS-MQCN] 3.3.4.1 send a change notification; its delivery has no effect here."""

    operation: ChangeOperation
    object: DirectoryObject


@attrs.frozen
class FindDirectoryServers:
    """[MS-MQDMPR] 3.1.3 discover directory servers.

    Its value is a sequence of host names, empty if none are found.

    @ivar record: the name of their SRV record in DNS; empty outside of a domain, where others may know them.
    """

    record: str


@attrs.frozen
class KeyRequest:
    """[MS-MQDMPR] 3.1.3 one key that a queue manager has.

    @ivar provider_name: sProviderName.
    @ivar bit_length: of the modulus.
    """

    provider_name: str
    bit_length: int


@attrs.frozen
class QueueManagerKeys:
    """The public halves of the keys of a queue manager."""

    encryption: MqdsPublicKeys
    signing: MqdsPublicKeys


@attrs.frozen
class MakeKeys:
    """[MS-MQDMPR] 3.1.3 make RSA keys, one of each kind for both purposes, and keep their secret halves.

    Its value is a L{QueueManagerKeys}, in the order of the requests.
    """

    keys: tuple[KeyRequest, ...]


@attrs.frozen
class Store:
    """Commit these changes, all of them or none."""

    changes: Sequence[Change]


@attrs.frozen
class QueueManagerChanged:
    """The object of this queue manager is another now; its quotas hold from now on.

    @ivar former_identifier: the Identifier that it had before, if the directory gave it another.
    """

    object: QueueManagerObject
    former_identifier: UUID | None = None


@attrs.frozen
class CreateLocally:
    """Make this public queue here, and commit the changes with it."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class UpdateLocally:
    """Give a public queue of ours these properties, and commit the changes with it."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class DeleteLocally:
    """[MS-MQDMPR] 3.1.7.1.4 delete a public queue of ours, and commit the changes with it."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class ReportDivergence:
    """Report how the directory's object of a queue, or of this queue manager, is another than ours.

    @ivar path: of the queue, C{GAMMA\\orders}; empty for the queue manager.
    @ivar kept: what is another there and stays as it is here, a text each; what was reported before and is
        not among it is no difference any more.
    @ivar taken: what was taken over, a text each.
    """

    path: str
    kept: tuple[str, ...]
    taken: tuple[str, ...] = ()


LocalEffect: TypeAlias = (
    Store | QueueManagerChanged | CreateLocally | UpdateLocally | DeleteLocally | ReportDivergence
)

DirectoryEffect: TypeAlias = (
    AskDirectory | SendChangeNotification | FindDirectoryServers | MakeKeys | LocalEffect
)

R = TypeVar("R")

Procedure: TypeAlias = Generator[DirectoryEffect, Answer, R]
"""See the head of this module."""
