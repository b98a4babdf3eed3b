"""Requests of the directory core, their results, and the procedures that yield them.

A procedure is a generator: it yields an effect, receives its L{Answer}, and returns the result.
If an effect fails with an exception of msmq, such as a failed commit, the exception is thrown into the
procedure, which rolls back its work.
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

    @ivar value: the result of C{SUCCESS}; see the request or event.
    @ivar detail: why it failed, in words.
    """

    result: DirectoryOperationResult = DirectoryOperationResult.SUCCESS
    value: Any = None
    detail: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the result is C{SUCCESS}."""
        return self.result is DirectoryOperationResult.SUCCESS

    @property
    def is_disconnected(self) -> bool:
        """Whether no directory was available."""
        return self.result is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED


@attrs.frozen
class Answer:
    """The result of the request that a procedure yielded, and its time."""

    now: Moment
    outcome: Outcome = Outcome()


# Directory requests


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

    @ivar former: expected current values of these attributes; C{None} for an unconditional write.
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
    """The objectSid of a computer; its value is the SID, as bytes. [MS-MQDSSM] 3.1.6.14."""

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
    """Send a request to the directory; the answer has its result and value."""

    request: DirectoryRequest


@attrs.frozen
class SendChangeNotification:
    """Send a change notification; its delivery is not awaited. [MS-MQCN] 3.3.4.1."""

    operation: ChangeOperation
    object: DirectoryObject


@attrs.frozen
class FindDirectoryServers:
    """Discover directory servers. [MS-MQDMPR] 3.1.3.

    Its value is a sequence of host names, empty if none are found.

    @ivar record: the name of their SRV record in DNS; empty outside of a domain, where other sources may have
        them.
    """

    record: str


@attrs.frozen
class KeyRequest:
    """A key of a queue manager. [MS-MQDMPR] 3.1.3.

    @ivar provider_name: sProviderName.
    @ivar bit_length: size of the modulus.
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
    """Generate RSA keys, one of each kind for both purposes, and store the private keys. [MS-MQDMPR] 3.1.3.

    Its value is a L{QueueManagerKeys}, in the order of the requests.
    """

    keys: tuple[KeyRequest, ...]


@attrs.frozen
class Store:
    """Commit these changes atomically."""

    changes: Sequence[Change]


@attrs.frozen
class QueueManagerChanged:
    """The object of this queue manager changed; its quotas take effect.

    @ivar former_identifier: the previous Identifier, if the directory assigned another.
    """

    object: QueueManagerObject
    former_identifier: UUID | None = None


@attrs.frozen
class CreateLocally:
    """Create this public queue locally, and commit the changes with it."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class UpdateLocally:
    """Change these properties of an own public queue, and commit the changes with it."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class DeleteLocally:
    """Delete an own public queue locally, and commit the changes with it. [MS-MQDMPR] 3.1.7.1.4."""

    queue: QueueObject
    changes: Sequence[Change]


@attrs.frozen
class ReportDivergence:
    """Report the differences of a queue's, or this queue manager's, directory object.

    @ivar path: of the queue, C{GAMMA\\orders}; empty for the queue manager.
    @ivar kept: differences where the local value stays, one text each; earlier differences that are missing
        here are resolved.
    @ivar taken: differences that were adopted, one text each.
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
"""Generator of effects; see the module docstring."""
