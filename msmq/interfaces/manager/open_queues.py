"""What a caller of a queue manager holds: reservations, transactions, open queues and cursors."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from types import TracebackType
from uuid import UUID

from zope.interface import Attribute, Interface

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.arriving.message import Message
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.message_class import MessageClass


class IReservation(Interface):
    """Messages that one reader has locked until it confirms or releases them.

    The reservation of a peek holds no locks, and confirming or releasing it has no effect; the same applies
    in a transaction.
    As an asynchronous context manager it confirms when the block ends, and releases when the block raises or
    is cancelled; a block that has confirmed, released or rejected it is left without effect.
    """

    messages: Sequence[ReceivedMessage] = Attribute("At least one message, in the order of the queue.")

    def drop_packets() -> None:
        """Keep no packets in memory that are in the store too; C{messages} is empty from now on."""

    def confirm() -> Awaitable[None]:
        """Remove the messages; done once the removal is stored.

        Each later call, also one during the first, has the result of the first.

        @raise msmq.structures.status.MQError: C{MQ_ERROR_QUEUE_DELETED}: the queue was deleted, and they
            were not received; or the removal failed, and the messages return to the queue.
        """

    def release() -> None:
        """Return the messages to their positions in the queue; no effect once confirmed or released."""

    def reject(message_class: MessageClass = MessageClass.NACK_RECEIVE_REJECTED, reason: str = "") -> None:
        """Reject the messages, which are removed; no effect once confirmed or released.

        Their senders get the negative acknowledgements and dead letters that they requested.

        @param message_class: of these.
        @param reason: a text for the event log.
        """

    def __aenter__() -> Awaitable[IReservation]:
        """Begin a block that processes the messages."""

    def __aexit__(
        kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        """Confirm at the end of the block, or release if it has raised.

        @raise msmq.structures.status.MQError: as L{confirm}.
        """


class ITransaction(Interface):
    """A transaction: sends, receives and moves that take effect atomically.

    As an asynchronous context manager it commits when the block ends, and aborts when the block raises; a
    block that has committed or aborted it is left without effect.
    """

    identifier: UUID = Attribute("TransactionIdentifier.")

    state: str = Attribute("C{active}, C{prepared}, C{committing}, C{committed} or C{aborted}.")

    def commit() -> Awaitable[None]:
        """Commit all operations; done once the commit is on disk. [MS-MQDMPR] 3.1.4.4.

        @raise msmq.structures.status.MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended;
            MQ_ERROR_QUEUE_DELETED if a queue from which it has received messages was deleted: their senders
            got NackQueueDeleted, and the transaction is aborted, unless it was prepared. If the store failed
            the transaction stays open, to be committed again or aborted.
        """

    def abort() -> Awaitable[None]:
        """Abort: sent messages are discarded, received ones return to their positions. [MS-MQDMPR] 3.1.4.5.

        @raise msmq.structures.status.MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended.
        """

    def __aenter__() -> Awaitable[ITransaction]:
        """Begin a block of the transaction."""

    def __aexit__(
        kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        """Commit at the end of the block, or abort if it has raised.

        @raise msmq.structures.status.MQError: as L{commit}; the transaction is aborted then, unless the store
            may have stored it.
        """


class IQueueCursor(Interface):
    """Cursor: a position in a queue that moves from message to message. [MS-MQDMPR] 3.2.

    As an asynchronous iterator it peeks at one message after the other until the last one; the current
    message may be received by another reader meanwhile.
    As an asynchronous context manager it closes when the block ends.
    """

    def peek(*, timeout: float | None = 0) -> Awaitable[ReceivedMessage]:
        """Peek the message at its position, or the first after it. [MS-MQDMPR] 3.1.7.1.15.

        @param timeout: seconds to wait for one; C{None} without a limit.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if there is none, MQ_ERROR_MESSAGE_ALREADY_RECEIVED if the
            message at its position is locked.
        """

    def peek_next(*, timeout: float | None = 0) -> Awaitable[ReceivedMessage]:
        """The next message. [MS-MQDMPR] 3.1.7.1.14.

        @raise MQError: MQ_ERROR_IO_TIMEOUT if there is none, MQ_ERROR_ILLEGAL_CURSOR_ACTION if there was no
            peek before, or a message was received since.
        """

    def receive(
        *, timeout: float | None = 0, transaction: ITransaction | None = None
    ) -> Awaitable[ReceivedMessage]:
        """Receive the message at its position, or the first after it. [MS-MQDMPR] 3.1.7.1.10.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND if there is none and the read does not wait,
            MQ_ERROR_IO_TIMEOUT if none came, MQ_ERROR_MESSAGE_ALREADY_RECEIVED if the message at its position
            is locked.
        """

    def close() -> None:
        """Close Cursor; a waiting read with it ends. [MS-MQDMPR] 3.1.7.1.2."""

    def __aiter__() -> IQueueCursor:
        """It is its own iterator."""

    def __anext__() -> Awaitable[ReceivedMessage]:
        """Peek at the next message.

        @raise StopAsyncIteration: there is none.
        """

    def __aenter__() -> Awaitable[IQueueCursor]:
        """Begin a block of the cursor."""

    def __aexit__(
        kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        """Close it."""


class IOpenQueue(Interface):
    """A queue, or several to send to, open with one access mode until it is closed. [MS-MQDMPR] 3.1.1.16.

    As an asynchronous context manager it closes when the block ends.
    Everything raises L{msmq.structures.status.MQError}: MQ_ERROR_INVALID_HANDLE once it is closed,
    MQ_ERROR_ACCESS_DENIED for an operation outside its access mode, MQ_ERROR_QUEUE_NOT_AVAILABLE once the
    queue is deleted.
    """

    format_name: str = Attribute("The name that it was opened by; several with commas.")

    is_open: bool = Attribute("Whether it is still open.")

    def send(
        messages: Sequence[Message],
        *,
        transaction: ITransaction | None = None,
        keys: Sequence[str | None] | None = None,
    ) -> Awaitable[Sequence[MessageIdentifier]]:
        """Accept these messages, all or none; as C{IMessaging.send}. [MS-MQDMPR] 3.1.7.1.9."""

    def reserve(
        *,
        count: int = 1,
        timeout: float | None = None,
        transaction: ITransaction | None = None,
    ) -> Awaitable[IReservation]:
        """Lock up to C{count} available messages, or wait for the first. [MS-MQDMPR] 3.1.7.1.10.

        @param timeout: seconds; C{None} waits without a limit.
        @param transaction: confirms or releases the messages in place of the reservation.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if nothing came, MQ_ERROR_OPERATION_CANCELLED if it was closed.
        """

    def receive(
        *, timeout: float | None = None, transaction: ITransaction | None = None
    ) -> Awaitable[ReceivedMessage]:
        """Receive one message; it is durably removed before it is returned, or when the transaction commits.

        Cancelling ends the wait; once the removal is being stored it has no effect, and the message is
        returned.

        @raise MQError: as L{reserve}.
        """

    def peek(*, timeout: float | None = None) -> Awaitable[ReceivedMessage]:
        """Peek at the first message, or wait for one. [MS-MQDMPR] 3.1.7.1.15.

        @raise MQError: as L{reserve}.
        """

    def read(
        lookup_id: int = 0,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        *,
        peek: bool = False,
        transaction: ITransaction | None = None,
    ) -> Awaitable[ReceivedMessage]:
        """The message with a LookupIdentifier, or the next or previous one, without waiting. [MS-MQDMPR]
        3.1.7.1.13.

        @param lookup_id: ignored for FIRST and LAST.
        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND; of CURRENT also MQ_ERROR_TRANSACTION_USAGE for a message
            that is locked, and MQ_ERROR_MESSAGE_ALREADY_RECEIVED.
        """

    def move(
        lookup_id: int, target: IOpenQueue, *, transaction: ITransaction | None = None
    ) -> Awaitable[None]:
        """Move a message of this queue to a queue that is open for moving. [MS-MQDMPR] 3.1.7.1.16.

        @param target: another open queue of the same queue manager.
        @raise LocalProtocolError: C{target} is not one.
        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND, MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
            MQ_ERROR_INVALID_PARAMETER for unrelated queues.
        """

    def purge() -> Awaitable[int]:
        """Remove the messages in it now, and return their number. [MS-MQDMPR] 3.1.7.1.7."""

    def cursor() -> IQueueCursor:
        """Open Cursor, in front of all messages. [MS-MQDMPR] 3.1.7.1.1."""

    def close() -> None:
        """End its cursors and pending reads; closing again does nothing. [MS-MQDMPR] 3.1.7.1.6."""

    def __aenter__() -> Awaitable[IOpenQueue]:
        """Begin a block of the open queue."""

    def __aexit__(
        kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        """Close it."""
