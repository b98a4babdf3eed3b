"""Open Queue and Close Queue; reads through handles. [MS-MQDMPR] 3.1.7.1.5 and 3.1.7.1.6.

This state is volatile: a restart ends all handles, cursors and reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator

from msmq.moment import Moment
from msmq.queues.collection import QueueCollection
from msmq.queues.effects import Effect, ReadFailed
from msmq.queues.queue import Queue
from msmq.queues.reading.cursor import Cursor
from msmq.queues.reading.descriptor import (
    SHARED,
    OpenQueueDescriptor,
    QueueAccessType,
    QueueOperation,
    QueueShareMode,
    ReaderKind,
    ShareTable,
)
from msmq.queues.reading.operations import OnTaken, WaitingReader
from msmq.queues.reading.queue_lookup import check_name, expand, find_queue
from msmq.queues.reading.readers import Readers
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.names.format_name import FormatName
from msmq.structures.status import MQError, Status


class OpenQueueDescriptors:
    """The handles of a queue manager.

    Opening raises an L{MQError}.  A read never does: it fails with L{ReadFailed} of its tag, for example with
    MQ_ERROR_INVALID_HANDLE for a closed handle, MQ_ERROR_ACCESS_DENIED for an operation for which the queue
    is not open, and MQ_ERROR_QUEUE_NOT_AVAILABLE for a deleted queue.
    """

    def __init__(self, collection: QueueCollection, readers: Readers, *, table: ShareTable = SHARED) -> None:
        """Begin without handles.

        @param collection: the queues that can be opened.
        @param table: which handles exclude which.
        """
        self._collection = collection
        self._readers = readers
        self._table = table
        self._open: dict[int, OpenQueueDescriptor] = {}
        self._cursors: dict[int, Cursor] = {}
        self._kinds: dict[Queue, dict[ReaderKind, int]] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        """The number of handles, including children."""
        return len(self._open)

    def __iter__(self) -> Iterator[OpenQueueDescriptor]:
        """The open handles, in the order of opening, including children."""
        return iter(self._open.values())

    # Open and close

    def open(
        self,
        names: Iterable[FormatName],
        access: QueueAccessType,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
        *,
        now: Moment,
    ) -> OpenQueueDescriptor:
        """Open Queue. [MS-MQDMPR] 3.1.7.1.5.

        A missing subqueue is created unless it is opened for sending, and a missing outgoing queue if it is
        opened for sending.

        @param names: one, or several (a multiple-element format name), which can be opened for sending only.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND; MQ_ERROR_SHARING_VIOLATION if another handle does not allow
            it; MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for an access that is impossible with such a name;
            MQ_ERROR_UNSUPPORTED_ACCESS_MODE if a sender denies receiving; MQ_ERROR_NO_DS for the public name
            of a remote queue.
        """
        expanded = expand(names)
        if len(expanded) > 1:
            return self._open_multiple(expanded, access, share_mode, now)
        [name] = expanded
        check_name(name, access, share_mode)
        queue = find_queue(self._collection, name, access, now)
        return self.open_queue(queue, name, access, share_mode)

    def open_queue(
        self,
        queue: Queue,
        name: FormatName,
        access: QueueAccessType,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> OpenQueueDescriptor:
        """The same for a queue that was resolved already.

        @raise MQError: as L{open}.
        """
        check_name(name, access, share_mode)
        if access is QueueAccessType.SEND and (queue.is_system or queue.is_subqueue):
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                f"{queue.definition.path}: messages cannot be sent to this queue",
            )
        kind = ReaderKind.of(access, share_mode)
        kinds = self._kinds.get(queue)
        if kind is not None and kinds is not None:
            for there in kinds:
                if (there, kind) in self._table:
                    raise MQError(
                        Status.MQ_ERROR_SHARING_VIOLATION,
                        f"{queue.definition.path} is open with {there.value[0].value}"
                        f" for {'receiving' if there.value[1] else 'peeking'}",
                    )
        descriptor = self._new((name,), access, share_mode)
        descriptor.opened = queue
        queue.descriptors.add(descriptor.handle)
        queue.users += 1
        if kind is not None:
            kinds = self._kinds.setdefault(queue, {})
            kinds[kind] = kinds.get(kind, 0) + 1
        return descriptor

    def _open_multiple(
        self,
        names: tuple[FormatName, ...],
        access: QueueAccessType,
        share_mode: QueueShareMode,
        now: Moment,
    ) -> OpenQueueDescriptor:
        if access is not QueueAccessType.SEND:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                "several queues can be opened together for sending only",
            )
        if share_mode is not QueueShareMode.DENY_NONE:
            raise MQError(
                Status.MQ_ERROR_UNSUPPORTED_ACCESS_MODE,
                "a queue that is opened for sending cannot deny receiving",
            )
        parent = self._new(names, access, share_mode)
        parent.is_multiple = True
        try:
            for name in names:
                parent.children.append(self.open([name], access, share_mode, now=now))
        except MQError:
            self.close(parent)
            raise
        return parent

    def _new(
        self, names: tuple[FormatName, ...], access: QueueAccessType, share_mode: QueueShareMode
    ) -> OpenQueueDescriptor:
        descriptor = OpenQueueDescriptor(
            next(self._numbers), next(self._numbers), access=access, share_mode=share_mode, names=names
        )
        self._open[descriptor.handle] = descriptor
        return descriptor

    def find(self, handle: int) -> OpenQueueDescriptor:
        """The open descriptor of this Handle.

        @raise MQError: MQ_ERROR_INVALID_HANDLE if there is none.
        """
        descriptor = self._open.get(handle)
        if descriptor is None:
            raise MQError(Status.MQ_ERROR_INVALID_HANDLE, f"no queue is open under the handle {handle}")
        return descriptor

    def close(self, descriptor: OpenQueueDescriptor) -> list[Effect]:
        """Close Queue, with its cursors; its waits end (readings 23 and 24). [MS-MQDMPR] 3.1.7.1.6.

        An empty subqueue may be deleted after that (L{msmq.queues.collection.QueueCollection.forget_empty}).
        Closing a closed handle has no effect.
        """
        if self._open.pop(descriptor.handle, None) is None:
            return []
        descriptor.is_open = False
        effects: list[Effect] = []
        for child in descriptor.children:
            effects += self.close(child)
        if descriptor.waiting:
            effects += self._readers.end_waiting(descriptor.waiting, Status.MQ_ERROR_OPERATION_CANCELLED)
        for handle in list(descriptor.cursors):
            effects += self.close_cursor(self._cursors[handle])
        queue, kind = descriptor.opened, descriptor.reader_kind
        if queue is not None:
            queue.descriptors.remove(descriptor.handle)
            queue.users -= 1
            if kind is not None:
                kinds = self._kinds[queue]
                kinds[kind] -= 1
                if not kinds[kind]:
                    del kinds[kind]
                if not kinds:
                    del self._kinds[queue]
        return effects

    # Cursors

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor | None:
        """Open Cursor, before all messages; C{None} if the queue is deleted. [MS-MQDMPR] 3.1.7.1.1.

        @raise MQError: MQ_ERROR_INVALID_HANDLE if the descriptor is closed, MQ_ERROR_ACCESS_DENIED if it is
            not open for reading.
        """
        queue = _usable(descriptor, QueueOperation.PEEK)
        if queue is Status.MQ_ERROR_QUEUE_NOT_AVAILABLE:
            return None
        if isinstance(queue, Status):
            raise _refused(descriptor, QueueOperation.PEEK, queue)
        cursor = Cursor(next(self._numbers), descriptor, queue)
        self._cursors[cursor.handle] = cursor
        descriptor.cursors[cursor.handle] = None
        return cursor

    def find_cursor(self, handle: int) -> Cursor:
        """The open cursor of this Handle.

        @raise MQError: MQ_ERROR_INVALID_HANDLE if there is none.
        """
        cursor = self._cursors.get(handle)
        if cursor is None:
            raise MQError(Status.MQ_ERROR_INVALID_HANDLE, f"there is no cursor of the handle {handle}")
        return cursor

    def close_cursor(self, cursor: Cursor) -> list[Effect]:
        """Close Cursor; a read that waits with it ends (reading 24). [MS-MQDMPR] 3.1.7.1.2."""
        if self._cursors.pop(cursor.handle, None) is None:
            return []
        effects = self._readers.end_waiting(cursor.waiting, Status.MQ_ERROR_OPERATION_CANCELLED)
        del cursor.descriptor.cursors[cursor.handle]
        cursor.close()
        return effects

    # Operations

    def queues_for(self, descriptor: OpenQueueDescriptor, operation: QueueOperation) -> list[Queue]:
        """The queue on which an operation is allowed; for a parent those of its children.

        @raise MQError: MQ_ERROR_INVALID_HANDLE, MQ_ERROR_ACCESS_DENIED or MQ_ERROR_QUEUE_NOT_AVAILABLE.
        """
        queues: list[Queue] = []
        for each in descriptor.children if descriptor.is_multiple else (descriptor,):
            queue = _usable(each, operation)
            if isinstance(queue, Status):
                raise _refused(each, operation, queue)
            queues.append(queue)
        return queues

    def receive(
        self,
        descriptor: OpenQueueDescriptor,
        *,
        tag: Hashable,
        now: Moment,
        cursor: Cursor | None = None,
        count: int = 1,
        deadline: float | None = None,
        owner: Hashable = None,
        allow_peek: bool = False,
        on_taken: OnTaken | None = None,
        size: int | None = None,
    ) -> list[Effect]:
        """Dequeue Message and Dequeue Message Begin. [MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.11.

        The messages are locked in any case.
        L{tests.queues.leaving.two_phase.dequeue_end} or the owning transaction confirms or releases them.

        @param tag: identifies this read in effects; no other waiting read may have it.
        @param count: the maximum number of messages; one with a cursor.
        @param deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.  With
            one that is not after C{now} it does not wait: it fails with MQ_ERROR_IO_TIMEOUT, with a cursor
            with MQ_ERROR_MESSAGE_NOT_FOUND (reading 35).
        @param owner: the owner of the locks on its messages, a transaction for example; by default the tag.
        @param allow_peek: AllowPeekWhenLocked of its messages.
        @param on_taken: as L{WaitingReader}.
        @param size: as L{WaitingReader}.
        """
        queue = _usable(descriptor, QueueOperation.RECEIVE, cursor)
        if isinstance(queue, Status):
            return [ReadFailed(tag, queue)]
        reader = WaitingReader(
            tag, queue, False, count, deadline, owner, allow_peek, on_taken, cursor, descriptor, size
        )
        return self._readers.read(reader, now)

    def peek(
        self,
        descriptor: OpenQueueDescriptor,
        *,
        tag: Hashable,
        now: Moment,
        cursor: Cursor | None = None,
        count: int = 1,
        deadline: float | None = None,
        size: int | None = None,
        after: int = -1,
    ) -> list[Effect]:
        """Peek Message, with a cursor the message at its position. [MS-MQDMPR] 3.1.7.1.15.

        The parameters are those of L{receive}; a read that may not wait fails with MQ_ERROR_IO_TIMEOUT here.

        @param after: as L{WaitingReader}.
        """
        queue = _usable(descriptor, QueueOperation.PEEK, cursor)
        if isinstance(queue, Status):
            return [ReadFailed(tag, queue)]
        reader = WaitingReader(
            tag, queue, True, count, deadline, cursor=cursor, descriptor=descriptor, size=size, after=after
        )
        return self._readers.read(reader, now)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        cursor: Cursor,
        *,
        tag: Hashable,
        now: Moment,
        deadline: float | None = None,
    ) -> list[Effect]:
        """Peek Next Message, with a cursor that has peeked a message already. [MS-MQDMPR] 3.1.7.1.14."""
        queue = _usable(descriptor, QueueOperation.PEEK, cursor)
        if isinstance(queue, Status):
            return [ReadFailed(tag, queue)]
        reader = WaitingReader(tag, queue, True, 1, deadline, cursor=cursor, descriptor=descriptor)
        return self._readers.read_by_cursor(reader, cursor, now, is_next=True)

    def read_by_lookup_identifier(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        *,
        tag: Hashable,
        now: Moment,
        peek: bool = False,
        owner: Hashable = None,
        allow_peek: bool = False,
        on_taken: OnTaken | None = None,
    ) -> list[Effect]:
        """Read Message By Lookup Identifier, which never waits. [MS-MQDMPR] 3.1.7.1.13.

        @param lookup_id: the message to which C{action} is relative; ignored for FIRST and LAST.
        @raise LocalProtocolError: a peek is to lock a message.
        """
        operation = QueueOperation.PEEK if peek else QueueOperation.RECEIVE
        queue = _usable(descriptor, operation)
        if isinstance(queue, Status):
            return [ReadFailed(tag, queue)]
        reader = WaitingReader(tag, queue, peek, 1, None, owner, allow_peek, on_taken, descriptor=descriptor)
        return self._readers.read_by_lookup_identifier(reader, lookup_id, action, now)


def _usable(
    descriptor: OpenQueueDescriptor, operation: QueueOperation, cursor: Cursor | None = None
) -> Queue | Status:
    """The queue on which an operation is allowed through this handle, or why it is not."""
    if not descriptor.is_open:
        return Status.MQ_ERROR_INVALID_HANDLE
    if cursor is not None and (not cursor.is_open or cursor.descriptor is not descriptor):
        return Status.MQ_ERROR_INVALID_HANDLE
    if operation not in descriptor.access.operations:
        return Status.MQ_ERROR_ACCESS_DENIED
    queue = descriptor.queue
    return Status.MQ_ERROR_QUEUE_NOT_AVAILABLE if queue is None else queue


def _refused(descriptor: OpenQueueDescriptor, operation: QueueOperation, status: Status) -> MQError:
    why = {
        Status.MQ_ERROR_INVALID_HANDLE: "it was closed",
        Status.MQ_ERROR_ACCESS_DENIED: f"it is open with {descriptor.access.value}",
        Status.MQ_ERROR_QUEUE_NOT_AVAILABLE: "it was deleted",
    }
    return MQError(status, f"{operation.value} on {descriptor.format_name}: {why[status]}")
