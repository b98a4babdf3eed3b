"""Open queues and cursors, as embedding applications use them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from zope.interface import implementer

from msmq.background import completed
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.open_queues import IOpenQueue, IQueueCursor, ITransaction
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.manager.administration.queue_administration import Administration
from msmq.manager.applications.arguments import check_read, check_transaction
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.reads import Read, Reads
from msmq.manager.applications.reservation import Reservation
from msmq.manager.applications.sender import MessageSender
from msmq.manager.applications.targets import SendTarget
from msmq.manager.applications.transactions import Transactions, check_usage, move
from msmq.manager.membership.public_names import PublicName, UnknownPublicQueue
from msmq.manager.performer import Performer
from msmq.queues.arriving.message import Message
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.reading.cursor import Cursor, CursorState
from msmq.queues.reading.descriptor import OpenQueueDescriptor, QueueOperation
from msmq.queues.reading.descriptors import OpenQueueDescriptors
from msmq.queues.reading.seek import MessageSeekAction
from msmq.quoting import kind_of
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from typing import Self


@implementer(IOpenQueue)
class OpenQueue:
    """A queue, or several to send to, open with one access mode until it is closed. [MS-MQDMPR] 3.1.1.16.

    As an asynchronous context manager it closes when the block ends.
    Everything raises L{MQError}: MQ_ERROR_INVALID_HANDLE once it is closed, MQ_ERROR_ACCESS_DENIED for an
    operation outside its access mode, MQ_ERROR_QUEUE_NOT_AVAILABLE once the queue is deleted.
    """

    def __init__(
        self,
        descriptor: OpenQueueDescriptor,
        performer: Performer,
        sender: MessageSender,
        reads: Reads,
        transactions: Transactions,
        administration: Administration,
        destinations: Destinations,
    ) -> None:
        self._descriptor = descriptor
        self._performer = performer
        self._sender = sender
        self._reads = reads
        self._transactions = transactions
        self._administration = administration
        self._destinations = destinations

    @property
    def format_name(self) -> str:
        """The name that it was opened by; several with commas."""
        return self._descriptor.format_name

    @property
    def is_open(self) -> bool:
        """Whether it is still open."""
        return self._descriptor.is_open

    @property
    def _descriptors(self) -> OpenQueueDescriptors:
        return self._performer.model.descriptors

    async def send(
        self,
        messages: Sequence[Message],
        *,
        transaction: ITransaction | None = None,
        keys: Sequence[str | None] | None = None,
    ) -> list[MessageIdentifier]:
        """Take these messages, all or none; as L{QueueManagerService.send}. [MS-MQDMPR] 3.1.7.1.9.

        @raise MQError: for a public queue that the directory does not have also
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, and MQ_ERROR_QUEUE_NOT_FOUND for one that it assigns to
            this queue manager.
        """
        return await self._sender.send(self._targets, messages, transaction, keys)

    async def _targets(self) -> list[SendTarget]:
        """The destinations of its messages; remote public queues are looked up if necessary."""
        learned: set[PublicName] | None = None
        while True:
            self._descriptors.queues_for(self._descriptor, QueueOperation.SEND)
            try:
                return self._destinations.all(self._descriptor.names)
            except UnknownPublicQueue as unknown:
                learned = await self._destinations.learn(unknown, learned)

    async def reserve(
        self,
        *,
        count: int = 1,
        timeout: float | None = None,
        transaction: ITransaction | None = None,
    ) -> Reservation:
        """Lock up to C{count} available messages, or wait for the first. [MS-MQDMPR] 3.1.7.1.10.

        @param timeout: seconds; C{None} waits without a limit.
        @param transaction: confirms or releases the messages in place of the reservation.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if nothing came, MQ_ERROR_OPERATION_CANCELLED if it was closed.
        """
        check_read(count, timeout, None, 0)
        core = self._core(transaction)
        now = self._performer.clock.now()
        deadline = None if timeout is None else now.monotonic + timeout
        return await self._reads.run(
            lambda lock: self._descriptors.receive(
                self._descriptor,
                tag=lock.tag,
                now=lock.now,
                count=count,
                deadline=deadline,
                owner=lock.owner,
                on_taken=lock.on_taken,
            ),
            is_peek=False,
            transaction=core,
        )

    async def receive(
        self, *, timeout: float | None = None, transaction: ITransaction | None = None
    ) -> ReceivedMessage:
        """Receive one message; it is durably removed before it is returned, or when the transaction commits.

        Cancelling ends the wait; once the removal is being stored it has no effect, and the message is
        returned.

        @raise MQError: as L{reserve}.
        """
        return await _one(await self.reserve(timeout=timeout, transaction=transaction))

    async def peek(self, *, timeout: float | None = None) -> ReceivedMessage:
        """Peek at the first message, or wait for one. [MS-MQDMPR] 3.1.7.1.15.

        @raise MQError: as L{reserve}.
        """
        check_read(1, timeout, None, 0)
        deadline = None if timeout is None else self._performer.clock.now().monotonic + timeout
        reservation = await self._reads.run(
            lambda lock: self._descriptors.peek(
                self._descriptor, tag=lock.tag, now=lock.now, deadline=deadline
            ),
            is_peek=True,
        )
        return reservation.messages[0]

    async def read(
        self,
        lookup_id: int = 0,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        *,
        peek: bool = False,
        transaction: ITransaction | None = None,
    ) -> ReceivedMessage:
        """[MS-MQDMPR] 3.1.7.1.13: the message with a LookupIdentifier, or the next or previous one, without
        waiting.

        @param lookup_id: ignored for FIRST and LAST.
        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND; of CURRENT also MQ_ERROR_TRANSACTION_USAGE for a message
            that is locked, and MQ_ERROR_MESSAGE_ALREADY_RECEIVED.
        """
        core = None if peek else self._core(transaction)
        reservation = await self._reads.run(
            lambda lock: self._descriptors.read_by_lookup_identifier(
                self._descriptor,
                lookup_id,
                action,
                tag=lock.tag,
                now=lock.now,
                peek=peek,
                owner=None if peek else lock.owner,
                on_taken=lock.on_taken,
            ),
            is_peek=peek,
            transaction=core,
        )
        return reservation.messages[0] if peek else await _one(reservation)

    async def move(
        self, lookup_id: int, target: IOpenQueue, *, transaction: ITransaction | None = None
    ) -> None:
        """Move a message of this queue to a queue that is open for moving. [MS-MQDMPR] 3.1.7.1.16.

        @raise LocalProtocolError: C{target} is not an open queue of a queue manager.
        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND, MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
            MQ_ERROR_INVALID_PARAMETER for unrelated queues.
        """
        if not isinstance(target, OpenQueue):
            raise LocalProtocolError(f"target is {kind_of(target)}; it has to be what open_queue returns")
        model = self._performer.model
        [source] = self._descriptors.queues_for(self._descriptor, QueueOperation.RECEIVE)
        [into] = self._descriptors.queues_for(target._descriptor, QueueOperation.MOVE)
        source.pack()
        position = source.positions.get(lookup_id)
        if position is None:
            raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"{self.format_name} has no message {lookup_id}")
        core = self._core(transaction)
        if core is None:
            await move(self._performer, model.move(position, into))
        else:
            model.transacting.lock_and_move(core, position, into)

    async def purge(self) -> int:
        """Remove the messages in it now, and return their number. [MS-MQDMPR] 3.1.7.1.7."""
        [queue] = self._descriptors.queues_for(self._descriptor, QueueOperation.PURGE)
        return await self._administration.purge_messages(queue)

    def cursor(self) -> QueueCursor:
        """Open Cursor, in front of all messages. [MS-MQDMPR] 3.1.7.1.1."""
        cursor = self._descriptors.open_cursor(self._descriptor)
        if cursor is None:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, f"{self.format_name} was deleted")
        return QueueCursor(self, cursor, self._performer, self._reads)

    def close(self) -> None:
        """End its cursors and pending reads; closing again does nothing. [MS-MQDMPR] 3.1.7.1.6."""
        queue = self._descriptor.queue
        self._performer.perform(self._descriptors.close(self._descriptor))
        if queue is not None:
            self._performer.forget_empty((queue,))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _core(self, transaction: ITransaction | None) -> Transaction | None:
        if transaction is None:
            return None
        check_transaction(transaction)
        queue = self._descriptor.queue
        if queue is not None:
            check_usage(self.format_name, queue)
        return self._transactions.core(transaction)


@implementer(IQueueCursor)
class QueueCursor:
    """Cursor: a position in a queue that moves from message to message. [MS-MQDMPR] 3.2.

    As an asynchronous iterator it peeks at one message after the other until the last one; the current
    message may be received by another reader meanwhile.
    As an asynchronous context manager it closes when the block ends.
    """

    def __init__(self, queue: OpenQueue, cursor: Cursor, performer: Performer, reads: Reads) -> None:
        self._cursor = cursor
        self._performer = performer
        self._reads = reads
        self._queue = queue

    async def peek(self, *, timeout: float | None = 0) -> ReceivedMessage:
        """Peek the message at its position, or the first after it. [MS-MQDMPR] 3.1.7.1.15.

        @param timeout: seconds to wait for one; C{None} without a limit.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if there is none, MQ_ERROR_MESSAGE_ALREADY_RECEIVED if the
            message at its position is locked.
        """
        return await self._peek_at_cursor(timeout, is_next=False)

    async def peek_next(self, *, timeout: float | None = 0) -> ReceivedMessage:
        """The next message. [MS-MQDMPR] 3.1.7.1.14.

        @raise MQError: MQ_ERROR_IO_TIMEOUT if there is none, MQ_ERROR_ILLEGAL_CURSOR_ACTION if there was no
        peek before, or a message was received since.
        """
        return await self._peek_at_cursor(timeout, is_next=True)

    async def _peek_at_cursor(self, timeout: float | None, *, is_next: bool) -> ReceivedMessage:
        check_read(1, timeout, None, 0)
        descriptors = self._performer.model.descriptors
        descriptor, cursor = self._cursor.descriptor, self._cursor
        deadline = None if timeout is None else self._performer.clock.now().monotonic + timeout
        read: Read
        if is_next:
            read = lambda lock: descriptors.peek_next(  # noqa: E731
                descriptor, cursor, tag=lock.tag, now=lock.now, deadline=deadline
            )
        else:
            read = lambda lock: descriptors.peek(  # noqa: E731
                descriptor, cursor=cursor, tag=lock.tag, now=lock.now, deadline=deadline
            )
        reservation = await self._reads.run(read, is_peek=True)
        return reservation.messages[0]

    async def receive(
        self, *, timeout: float | None = 0, transaction: ITransaction | None = None
    ) -> ReceivedMessage:
        """Receive the message at its position, or the first after it. [MS-MQDMPR] 3.1.7.1.10.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND if there is none and the read does not wait,
        MQ_ERROR_IO_TIMEOUT
            if none came, MQ_ERROR_MESSAGE_ALREADY_RECEIVED if the message at its position is locked.
        """
        check_read(1, timeout, None, 0)
        deadline = None if timeout is None else self._performer.clock.now().monotonic + timeout
        reservation = await self._reads.run(
            lambda lock: self._performer.model.descriptors.receive(
                self._cursor.descriptor,
                cursor=self._cursor,
                tag=lock.tag,
                now=lock.now,
                deadline=deadline,
                owner=lock.owner,
                on_taken=lock.on_taken,
            ),
            is_peek=False,
            transaction=self._queue._core(transaction),
        )
        return await _one(reservation)

    def close(self) -> None:
        """Close Cursor; a waiting read with it ends. [MS-MQDMPR] 3.1.7.1.2."""
        self._performer.perform(self._performer.model.descriptors.close_cursor(self._cursor))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        try:
            # After a receive, and at the end, there is no current position.
            return await (self.peek_next() if self._cursor.state is CursorState.READ else self.peek())
        except MQError as error:
            if error.status is Status.MQ_ERROR_IO_TIMEOUT:
                raise StopAsyncIteration from None
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _one(reservation: Reservation) -> ReceivedMessage:
    """The one message of a reservation, durably received unless a transaction decides about it.

    Its caller would never see a message whose removal is stored after a cancellation.
    """
    await completed(reservation.confirm())
    return reservation.messages[0]
