"""OpenQueueDescriptor, with access and share mode of an open queue. [MS-MQDMPR] 3.1.1.16."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from functools import cache
from typing import Final, TypeAlias

import attrs

from msmq.queues.queue import Queue
from msmq.structures.names.format_name import FormatName


class QueueOperation(enum.Enum):
    """An operation through a handle."""

    PEEK = "peek"
    RECEIVE = "receive"
    PURGE = "purge"
    SEND = "send"
    MOVE = "move"

    # Looked up for every read.
    __hash__ = object.__hash__


class QueueAccessType(enum.Enum):
    """QueueAccessType: the operations for which a queue is opened. [MS-MQDMPR] 3.1.1.17.

    The two administrative ones allow reading outgoing queues as well.
    """

    RECEIVE = "ReceiveAccess"
    SEND = "SendAccess"
    PEEK = "PeekAccess"
    MOVE = "MoveAccess"
    RECEIVE_ADMIN = "ReceiveAdminAccess"
    PEEK_ADMIN = "PeekAdminAccess"

    __hash__ = object.__hash__

    @property
    def operations(self) -> frozenset[QueueOperation]:
        """The allowed operations."""
        return _ALLOWED[self]

    @property
    def is_reader(self) -> bool:
        """Whether messages may be peeked or received."""
        return QueueOperation.PEEK in self.operations

    @property
    def is_receiver(self) -> bool:
        """Whether messages may be received."""
        return QueueOperation.RECEIVE in self.operations

    @property
    def is_admin(self) -> bool:
        """Whether outgoing queues can be opened with it."""
        return self in (QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN)


_RECEIVER: Final = frozenset({QueueOperation.PEEK, QueueOperation.RECEIVE, QueueOperation.PURGE})
_PEEKER: Final = frozenset({QueueOperation.PEEK})
_ALLOWED: Final = {
    QueueAccessType.RECEIVE: _RECEIVER,
    QueueAccessType.RECEIVE_ADMIN: _RECEIVER,
    QueueAccessType.PEEK: _PEEKER,
    QueueAccessType.PEEK_ADMIN: _PEEKER,
    QueueAccessType.SEND: frozenset({QueueOperation.SEND}),
    QueueAccessType.MOVE: frozenset({QueueOperation.MOVE}),
}


class QueueShareMode(enum.Enum):
    """QueueShareMode: whether others may receive or peek. [MS-MQDMPR] 3.1.1.17."""

    DENY_NONE = "DenyNone"
    DENY_RECEIVE = "DenyReceive"

    __hash__ = object.__hash__


class RemoteReadState(enum.Enum):
    """RemoteReadState. [MS-MQDMPR] 3.1.1.16."""

    NONE = "None"
    OPENED = "Opened"
    READY_FOR_READ = "ReadyForRead"


class ReaderKind(enum.Enum):
    """The properties of a reader's handle that matter for sharing; handles for sending or moving do not."""

    PEEK = QueueShareMode.DENY_NONE, False
    RECEIVE = QueueShareMode.DENY_NONE, True
    DENYING_PEEK = QueueShareMode.DENY_RECEIVE, False
    DENYING_RECEIVE = QueueShareMode.DENY_RECEIVE, True

    __hash__ = object.__hash__

    @staticmethod
    @cache
    def of(access: QueueAccessType, share_mode: QueueShareMode) -> ReaderKind | None:
        """The kind of a handle; C{None} if it is not one of a reader."""
        return ReaderKind((share_mode, access.is_receiver)) if access.is_reader else None


ShareTable: TypeAlias = frozenset[tuple[ReaderKind, ReaderKind]]
"""Which existing handle refuses which new one."""

SHARED: Final[ShareTable] = frozenset(
    {
        (ReaderKind.RECEIVE, ReaderKind.DENYING_PEEK),
        (ReaderKind.RECEIVE, ReaderKind.DENYING_RECEIVE),
        (ReaderKind.DENYING_PEEK, ReaderKind.RECEIVE),
        (ReaderKind.DENYING_PEEK, ReaderKind.DENYING_RECEIVE),
        *((ReaderKind.DENYING_RECEIVE, kind) for kind in ReaderKind),
    }
)
"""The share modes with DenyReceive (reading 18). [MS-MQDMPR] 3.1.7.1.5 and 3.1.1.17."""

SHARED_AS_WRITTEN: Final[ShareTable] = SHARED - {(ReaderKind.DENYING_RECEIVE, ReaderKind.PEEK)}
"""The same, literally: a handle that denies receiving does not refuse peeking ones."""

SHARED_STRICTLY: Final[ShareTable] = frozenset(
    (there, new)
    for there in ReaderKind
    for new in ReaderKind
    if QueueShareMode.DENY_RECEIVE in (there.value[0], new.value[0])
)
"""A handle that denies receiving is the only reader. [MS-MQMP] 3.1.4.17."""


@attrs.define(eq=False)
class OpenQueueDescriptor:
    """An open handle of one queue, or of several to send to. [MS-MQDMPR] 3.1.1.16.

    @ivar handle: Handle, unique on this queue manager while it runs.
    @ivar context_value: ContextValue, the same.
    @ivar names: the opened format names; a parent has several.
    @ivar is_multiple: Multiple, whether it is a parent, which has no queue but C{children}.
    @ivar children: OpenQueueDescriptorCollection, one for each of C{names}, in their order.
    @ivar cursors: CursorCollection, as handles in the order in which they were opened.
    @ivar waiting: WaitingMessageReadOperationCollection, as tags in the order in which they came.
    @ivar is_open: it was not closed.
    """

    handle: int
    context_value: int
    access: QueueAccessType
    share_mode: QueueShareMode
    names: tuple[FormatName, ...]
    is_multiple: bool = False
    remote_read_state: RemoteReadState = RemoteReadState.NONE
    opened: Queue | None = attrs.field(default=None, repr=False)
    children: list[OpenQueueDescriptor] = attrs.field(factory=list, repr=False)
    cursors: dict[int, None] = attrs.field(factory=dict, repr=False)
    waiting: dict[Hashable, None] = attrs.field(factory=dict, repr=False)
    is_open: bool = True

    @property
    def queue(self) -> Queue | None:
        """QueueReference; C{None} for a parent, and after the queue was deleted (3.1.7.1.4)."""
        return None if self.opened is None or self.opened.is_deleted else self.opened

    @property
    def format_name(self) -> str:
        """FormatName; several are separated by commas."""
        return ",".join(map(str, self.names))

    @property
    def reader_kind(self) -> ReaderKind | None:
        """Its kind for the check of share modes."""
        return ReaderKind.of(self.access, self.share_mode)
