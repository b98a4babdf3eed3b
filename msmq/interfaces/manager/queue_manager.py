"""The interfaces of a queue manager, by their callers: messaging, administration, access, inspection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID

from zope.interface import Attribute, Interface

from msmq.interfaces.drains import IDrains
from msmq.interfaces.manager.access_administration import IAccessAdministration
from msmq.interfaces.manager.message_administration import IMessageAdministration
from msmq.interfaces.manager.open_queues import IOpenQueue
from msmq.interfaces.manager.open_queues import IReservation as IReservation
from msmq.interfaces.manager.open_queues import ITransaction as ITransaction
from msmq.interfaces.manager.queue_properties import QueueProperties
from msmq.interfaces.manager.received_messages import (
    ExplainedRoute,
    Explanation,
    LoggedMessage,
    MessageLocation,
    MessagePage,
    ReceivedMessage,
)
from msmq.interfaces.manager.service_values import IServiceValues, ValuesOfMessages
from msmq.interfaces.manager.summaries import (
    ManagerStatus,
    MessageFlow,
    OutgoingQueueSummary,
    PublicQueueSummary,
    QueueSummary,
    QuotaSummary,
    SessionSummary,
    StoreSummary,
    TransactionDetails,
    TransactionSummary,
)
from msmq.interfaces.storage import LogExtent, StoredEvent
from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.routing.topology import Topology
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView


class IMessaging(Interface):
    """Applications send, receive and move messages, with transactions or without.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    is_durable: bool = Attribute("""Whether recoverable messages are accepted, since the store is durable.""")

    def send(
        destination: str,
        messages: Sequence[Message],
        *,
        transaction: ITransaction | None = None,
        keys: Sequence[str | None] | None = None,
        values: ValuesOfMessages | None = None,
    ) -> Awaitable[Sequence[MessageIdentifier]]:
        """Accept these messages, and return one identifier each, in order.

        Transactional messages without a transaction are sent in a new one.

        @param destination: a format name, several with commas, or the path of a local queue.
        @param keys: for each message a key, or C{None}; with a key that was used before nothing is sent, and
        the first identifier is returned.
        @param values: the changes of L{IServiceValues} that are stored in the commit of the messages, given
        their identifiers: a crash leaves both or none. It is called before the commit, which may still fail,
        and also if nothing is sent since all keys were used. Not with C{transaction}.
        @return: done once every recoverable message is on disk; messages in a transaction are not visible
        before its commit.
        """

    def reserve(
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transaction: ITransaction | None = None,
        size: int | None = None,
        after: int = -1,
    ) -> Awaitable[IReservation]:
        """Lock up to C{count} available messages, or wait for the first one.

        Cancelling the wait loses no message.

        @param timeout: seconds; C{None} waits without a limit.
        @param count: the maximum number of messages; there may be fewer.
        @param peek: return the messages without locking them.
        @param transaction: confirms or releases the messages in place of the reservation.
        @param size: bytes that the packets of the messages may have together, so that they fit into memory;
            a single one may have more.
        @param after: to peek, the LookupIdentifier after which to begin; -1 for the front of the queue.
        @raise MQError: C{MQ_ERROR_IO_TIMEOUT} if nothing came.
        """

    def begin() -> ITransaction:
        """Begin a transaction."""

    def enlist(identifier: UUID) -> ITransaction:
        """Take part in a transaction with an external coordinator.

        @raise MQError: MQ_ERROR_DTC_CONNECT there is no coordinator.
        """

    def move(
        message: MessageIdentifier, target: str, *, transaction: ITransaction | None = None
    ) -> Awaitable[None]:
        """Move a message between a queue and its subqueues, or into a system queue.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND, MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
            MQ_ERROR_INVALID_PARAMETER for unrelated queues.
        """


class IAdministration(Interface):
    """Operators change queues, outgoing traffic and messages, and add to the event log.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    def create_queue(path: str, **properties: Unpack[QueueProperties]) -> Awaitable[QueueSummary]:
        """Create a queue; returns its summary."""

    def set_queue(path: str, properties: Mapping[str, Any]) -> Awaitable[QueueSummary]:
        """Change the properties of a queue; returns its summary.

        @param properties: those of C{create_queue} that are to change; C{transactional} cannot.
        """

    def purge_queue(path: str, *, through: int | None = None) -> Awaitable[int]:
        """Remove all messages in a queue, and return their number.

        Messages that readers hold are removed too, whether confirmed or released, and are not counted.

        @param through: the SequentialID of the newest message to remove; C{None} for the newest there is.
        """

    def pause_queue(path: str) -> Awaitable[QueueSummary]:
        """Pause the reading of a queue and its subqueues until it is resumed, across restarts too.

        Receives wait as in an empty queue; peeks find the messages, and senders are accepted.
        Transactions and reservations that hold messages are not affected.
        """

    def resume_queue(path: str) -> Awaitable[QueueSummary]:
        """End L{pause_queue}: waiting receives get the messages that are there."""

    def delete_queue(path: str) -> Awaitable[None]:
        """Delete a queue and all messages in it.

        @raise msmq.structures.status.DeletionPending: the queue is deleted, and the store has not removed it
            yet; the removal is retried.
        """

    def abort_transaction(identifier: UUID) -> Awaitable[None]:
        """Abort any transaction."""

    def requeue(message: MessageIdentifier) -> Awaitable[MessageIdentifier]:
        """Send a dead letter to its original queue again, and remove it, atomically."""

    def replay(
        path: str,
        into: str,
        *,
        first: int = 0,
        last: int | None = None,
        since: float | None = None,
        until: float | None = None,
        in_clear: bool = False,
    ) -> Awaitable[int]:
        """Send copies of entries in a queue's message log, and return their number.

        @param into: a destination, as of L{IMessaging.send}.
        @param first: the first sequence number; C{last} is the last.
        @param since: the earliest arrival time; C{until} is the latest; seconds since 1970-01-01 UTC.
        @param in_clear: send all of them unencrypted, even if their senders requested encryption.
        """

    def purge_outgoing(name: str, *, through: int | None = None) -> Awaitable[int]:
        """Remove all messages from an outgoing queue, and answer how many these were.

        Their senders get the negative acknowledgement and the dead letter that they requested. Those that
        were sent and are not acknowledged yet are removed too, and are not counted; the receiver may have
        them.

        @param through: as of L{purge_queue}.
        """

    def retry_outgoing(name: str) -> OutgoingQueueSummary:
        """Dial the next hop of an outgoing queue now, if it waits for the next attempt; answers with it.

        @raise MQError: MQ_ERROR_ILLEGAL_OPERATION if it is paused.
        """

    def retry_all_outgoing() -> Sequence[OutgoingQueueSummary]:
        """The same for every outgoing queue that waits; answers with these."""

    def pause_outgoing(name: str) -> Awaitable[OutgoingQueueSummary]:
        """Pause sending to a format name until it is resumed, across restarts too."""

    def resume_outgoing(name: str) -> Awaitable[OutgoingQueueSummary]:
        """Resume a paused outgoing queue, and return it."""

    def redirect_outgoing(name: str, to: str | None) -> Awaitable[OutgoingQueueSummary]:
        """Redirect a direct name to another address, across restarts too; returns its queue.

        @param to: an IP address or the name of a computer; C{None} ends it.
        """

    def close_session(identifier: UUID) -> SessionSummary:
        """End a session and its connection; returns its last state.

        Messages that the peer has not acknowledged return to their queues. A session that this queue manager
        has dialled is dialled again while messages wait for it, and the peer may connect again.

        @raise msmq.structures.status.MQError: MQ_ERROR_INVALID_HANDLE it has ended, or there was none.
        """

    def keep_identity() -> ManagerStatus:
        """Decide that this queue manager, which may be a clone, is the original: it sends again."""

    def set_quotas(changes: Mapping[QuotaKind, int | None]) -> Awaitable[QuotaSummary]:
        """Set quotas of all queues together in kilobytes, until they are set again, across restarts too.

        Messages beyond a quota stay; new ones are refused.

        @param changes: 0xFFFFFFFF sets no limit; C{None} returns to the value of the configuration.
        """

    def pause_all_outgoing() -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """Pause sending to all other queue managers, across restarts too; returns every outgoing queue."""

    def resume_all_outgoing() -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """End L{pause_all_outgoing}; pauses by name or next hop stay."""

    def pause_next_hop(host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """Pause sending to one next hop, across restarts too; returns its outgoing queues.

        @param host: an address, the name of a computer, or the GUID of a queue manager.
        """

    def resume_next_hop(host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """End L{pause_next_hop}."""

    def note(event: str, reason: str, *, queue: str = "", message: MessageIdentifier | None = None) -> None:
        """Append to the event log, without waiting for the store.

        @param event: the name of the event.
        @param reason: a text for people.
        @param message: the message of the event, by which C{explain} finds it; by default the event is about
        the queue manager.
        """


class IInspection(Interface):
    """Operators and monitoring read the state; nothing is changed.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    def status() -> ManagerStatus:
        """The identity and state of the queue manager."""

    def now() -> float:
        """The time by the clock of the queue manager, in seconds since 1970-01-01 UTC."""

    def store() -> StoreSummary:
        """The size of the store, the free space, and the durations of commits."""

    def flow() -> Iterator[MessageFlow | None]:
        """The figures of all local queues together, for a caller that pauses in between.

        @return: yields C{None} after each slice of the queues, and the figures last. Queues that are created
            meanwhile are left out.
        """

    def queues() -> Sequence[QueueSummary]:
        """Every local queue."""

    def each_queue() -> Iterator[QueueSummary]:
        """The same, one at a time, for a caller that pauses in between.

        Queues that are created after the call are left out, and so are those that are deleted meanwhile.
        """

    def queue(path: str) -> QueueSummary:
        """One queue, by its path or format name."""

    def system_queues() -> Sequence[QueueSummary]:
        """The machine journal and the dead-letter queues; L{queues} has none of them."""

    def log_extent(path: str) -> Awaitable[LogExtent]:
        """The extent of a queue's message log."""

    def logged(path: str, after: int = 0, count: int = 1000) -> Awaitable[Sequence[LoggedMessage]]:
        """Messages in a queue's message log, the oldest first.

        @param after: only entries with larger sequence numbers.
        @param count: at most so many, and at most 1000.
        @raise MQError: MQ_ERROR_UNSUPPORTED_OPERATION if the queue has no message log.
        """

    def public_queues(
        *, label: str | None = None, application_type: UUID | None = None, path: str | None = None
    ) -> Awaitable[Sequence[PublicQueueSummary]]:
        """The public queues of the enterprise that match all criteria. [MS-MQDMPR] 3.1.7.1.21.

        @param label: case-insensitive, as is C{path}; C{*} and C{?} are wildcards.
        @return: in order of their paths.
        """

    def outgoing() -> Sequence[OutgoingQueueSummary]:
        """Every outgoing queue."""

    def each_outgoing() -> Iterator[OutgoingQueueSummary]:
        """The same, one at a time; see L{each_queue}."""

    def outgoing_queue(name: str) -> OutgoingQueueSummary:
        """One outgoing queue, by its format name."""

    def sessions() -> Sequence[SessionSummary]:
        """Every session, in both directions."""

    def session(identifier: UUID) -> SessionSummary:
        """One session.

        @raise MQError: MQ_ERROR_INVALID_HANDLE it has ended, or there was none.
        """

    def each_session() -> Iterator[SessionSummary]:
        """The same, one at a time, for a caller that pauses in between: those that end then are included."""

    def transactions() -> Sequence[TransactionSummary]:
        """Every transaction that has not ended."""

    def transaction(identifier: UUID) -> TransactionDetails:
        """One transaction, with its first thousand messages.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """

    def browse(queue: str, *, after: int = -1, count: int = 100) -> Awaitable[MessagePage]:
        """Browse available messages at any depth of a queue, without locking them.

        Damaged messages that stay in the queue until what is left of them is in quarantine are named too.

        @param queue: the path or format name of a queue of this queue manager, or the format name of an
            outgoing queue.
        @param after: the LookupIdentifier after which to begin; -1 for the front of the queue.
        @param count: the most messages of the page, and the most of those damaged ones.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND.
        """

    def read_message(queue: str, lookup_id: int) -> Awaitable[ReceivedMessage]:
        """One message by its LookupIdentifier, also one that a reader or a session holds.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_MESSAGE_NOT_FOUND.
        """

    def dead_letters(limit: int = 1000) -> Awaitable[Sequence[MessageLocation]]:
        """The messages in both dead-letter queues, the first C{limit} of each."""

    def each_dead_letter(limit: int = 1000) -> AsyncIterator[MessageLocation]:
        """The same one by one, so that the packets of all of them need not be in memory."""

    def events(after: int = 0, limit: int = 1000) -> Awaitable[Sequence[StoredEvent]]:
        """Entries of the event log, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        """

    def explain(message: MessageIdentifier) -> Awaitable[Explanation]:
        """Everything known about a message; an unknown message is not an error."""

    def route(source: str, destination: str, down: Sequence[str] = ()) -> Awaitable[ExplainedRoute]:
        """The route of a message between two queue managers, by name or GUID, with the reason of each hop.

        @param down: queue managers that are down, by name or GUID; the result shows what happens to the
        message meanwhile.

        MQ_ERROR_NO_DS without a directory; MQ_ERROR_MACHINE_NOT_FOUND for an unknown queue manager.
        """

    def topology() -> Awaitable[Topology]:
        """The sites, links and queue managers of the enterprise, as routing knows them.

        MQ_ERROR_NO_DS without a directory.
        """

    def unreached_members() -> Collection[UUID]:
        """The queue managers that were not reached when this one last tried, by their identifiers."""


class IQueueManager(IMessaging, IAdministration):
    """A whole queue manager, for a caller that needs all five groups, as the control API does.

    A part that needs less takes the smaller interface.
    """

    access: IAccessAdministration = Attribute("The access rights and the certificates.")

    message_administration: IMessageAdministration = Attribute("Changes of messages that are in queues.")

    drains: IDrains = Attribute("Queues whose messages are moved to another queue manager.")

    service_values: IServiceValues = Attribute("What services of the same server keep in the store.")

    inspection: IInspection = Attribute("The state of queues, sessions, transactions and the queue manager.")

    def receive(
        queue: str, *, timeout: float | None = None, transaction: ITransaction | None = None
    ) -> Awaitable[UserMessageView]:
        """Receive one message: locked, and durably removed before it is returned.

        In a transaction it is removed when that commits.
        Cancelling ends the wait; once the removal is being stored it has no effect, and the message is
        returned.

        @raise MQError: as L{IMessaging.reserve}.
        """

    def peek(queue: str, *, timeout: float | None = None) -> Awaitable[UserMessageView]:
        """Peek at the first message without removing it.

        @raise MQError: as L{IMessaging.reserve}.
        """

    def format_name(destination: str) -> Awaitable[str]:
        """The format names of a destination of L{IMessaging.send}, separated by commas.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS for a path while the directory is
            unreachable, or that the name is not a valid destination.
        """

    def open_queue(
        name: str,
        access: QueueAccessType = QueueAccessType.RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> IOpenQueue:
        """Open a queue until it is closed. [MS-MQDMPR] 3.1.7.1.5.

        @param name: the path or format name of a queue of this queue manager, or for sending of any;
            several with commas for sending.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS, MQ_ERROR_SHARING_VIOLATION,
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, MQ_ERROR_UNSUPPORTED_ACCESS_MODE, or that the name is
            malformed.
        """
