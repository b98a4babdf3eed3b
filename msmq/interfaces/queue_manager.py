"""The interfaces of a queue manager, by their callers: messaging, administration, access, inspection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID

import attrs
from zope.interface import Attribute, Interface

from msmq.interfaces.access_administration import IAccessAdministration
from msmq.interfaces.message_administration import IMessageAdministration
from msmq.interfaces.queue_properties import QueueProperties
from msmq.interfaces.storage import LogExtent, StoredEvent
from msmq.interfaces.summaries import (
    ManagerStatus,
    OutgoingQueueSummary,
    PublicQueueSummary,
    QueueSummary,
    SessionSummary,
    TransactionDetails,
    TransactionSummary,
)
from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.reports import Hop
from msmq.routing.route import Route
from msmq.routing.topology import Topology
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.deliveries.records import DeliveryRecord


@attrs.frozen
class ReceivedMessage:
    """A message in a queue of this queue manager.

    @ivar view: the packet as it arrived.
    @ivar lookup_id: its position in the queue ([MS-MQDMPR] 3.1.1.12 LookupIdentifier).
    @ivar arrived: when it came into the queue, in seconds since 1970-01-01 UTC.
    @ivar aborts: AbortCount, in how many transactions it was received that were aborted.
    @ivar moves: MoveCount, how often it was moved.
    """

    view: UserMessageView = attrs.field(repr=False)
    lookup_id: int
    arrived: float
    aborts: int = 0
    moves: int = 0


@attrs.frozen
class MessagePage:
    """Some messages of a queue, in its order.

    @ivar messages: those that could be read.
    @ivar unreadable: why others could not, by their LookupIdentifiers.
    @ivar last: the LookupIdentifier behind which the next page begins.
    @ivar is_end: nothing was behind it.
    """

    messages: Sequence[ReceivedMessage]
    unreadable: Mapping[int, str]
    last: int
    is_end: bool


class IReservation(Interface):
    """Messages that one reader has locked until it confirms or releases them.

    The reservation of a peek holds nothing: it only shows, and both decisions do nothing. So they do
    where a transaction decides.
    """

    messages: Sequence[ReceivedMessage] = Attribute("At least one message, in the order of the queue.")

    def confirm() -> Awaitable[None]:
        """Remove the messages; done once the removal is stored.

        @raise msmq.structures.status.MQError: it could not be; the messages return to the queue.
        """

    def release() -> None:
        """Return the messages to their positions in the queue; no effect once confirmed or released."""

    def reject() -> None:
        """Reject the messages, which are removed; no effect once confirmed or released.

        Who sent them is told, and has a dead letter, if it asked for that.
        """


class ITransaction(Interface):
    """What is sent, received and moved together, or not at all.

    As an asynchronous context manager it commits when the block ends, and aborts when the block raises.
    """

    identifier: UUID = Attribute("TransactionIdentifier.")

    state: str = Attribute("C{active}, C{prepared}, C{committing}, C{committed} or C{aborted}.")

    def commit() -> Awaitable[None]:
        """[MS-MQDMPR] 3.1.4.4: do all of it; done once it is on disk.

        @raise msmq.structures.status.MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended; if the store
            failed the transaction is still there, to be committed again or aborted.
        """

    def abort() -> Awaitable[None]:
        """[MS-MQDMPR] 3.1.4.5 abort: sent messages are discarded, received ones return to their positions.

        @raise msmq.structures.status.MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended.
        """


@attrs.frozen
class MessageLocation:
    """Where a message is.

    @ivar queue: the path, or of an outgoing queue the format name.
    @ivar state: what can be done with it there: C{available}, C{locked} and others.
    @ivar transaction: the transaction that holds it, if one does.
    """

    queue: str
    state: str
    message: ReceivedMessage
    transaction: UUID | None = None


@attrs.frozen
class FoundReport:
    """A report about a traced message, in a queue of this queue manager.

    @ivar queue: the path of that queue.
    @ivar view: the report itself; its source is the queue manager that reports.
    @ivar hop: its content.
    """

    queue: str
    view: UserMessageView = attrs.field(repr=False)
    hop: Hop


@attrs.frozen
class Explanation:
    """What is known of a message.

    @ivar places: where it is, journals and dead-letter queues included.
    @ivar events: what happened to it, the oldest first.
    @ivar reports: the content of its report messages, as far as they are here and in memory, the oldest
        first.
    @ivar deliveries: its hand-overs to other queue managers, and the acknowledgements that came back, the
        oldest first; each record is about this message alone. They are among C{events} too.
    @ivar records_since: the time of the oldest record of a hand-over, seconds since 1970-01-01 UTC; C{None}
        if there is none.
    @ivar is_known: whether anything about it is known.
    @ivar summary: what all that comes to, in one sentence.
    """

    identifier: MessageIdentifier
    places: Sequence[MessageLocation]
    events: Sequence[AppendEvent]
    reports: Sequence[FoundReport] = ()
    deliveries: Sequence[DeliveryRecord] = ()
    records_since: float | None = None
    is_known: bool = True
    summary: str = ""


@attrs.frozen
class ExplainedRoute:
    """The route of a message, and the topology that it was computed from."""

    topology: Topology = attrs.field(repr=False)
    route: Route


class IMessaging(Interface):
    """Applications send, receive and move messages, with transactions or without.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    is_durable: bool = Attribute("""Whether recoverable messages are taken: the store keeps them.""")

    def send(
        destination: str,
        messages: Sequence[Message],
        *,
        transaction: ITransaction | None = None,
        keys: Sequence[str | None] | None = None,
    ) -> Awaitable[Sequence[MessageIdentifier]]:
        """Take these messages, and answer one identifier each, in their order.

        Transactional messages without a transaction are sent in one of their own.

        @param destination: a format name, several with commas, or the path of a local queue.
        @param keys: for each message a text, or C{None}; one that comes again sends nothing, and is answered
            with the first identifier.
        @return: done once every recoverable message is on disk; of what belongs to a transaction, nothing
            is there before its commit.
        """

    def reserve(
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transaction: ITransaction | None = None,
    ) -> Awaitable[IReservation]:
        """Lock what is there, up to C{count} messages, or wait for the first.

        Cancelling the wait loses nothing.

        @param timeout: seconds; C{None} waits without a limit.
        @param count: the most messages; there may be fewer.
        @param peek: look only; the messages stay where they are, for everyone.
        @param transaction: decides about the messages; the reservation does not.
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
        """Create a queue and answer what L{queue} would."""

    def set_queue(path: str, properties: Mapping[str, Any]) -> Awaitable[QueueSummary]:
        """Give a queue other properties and answer what L{queue} would.

        @param properties: those of C{create_queue} that are to change; C{transactional} cannot.
        """

    def purge_queue(path: str) -> Awaitable[int]:
        """Remove all messages that are in a queue, and answer how many these were.

        Those that readers hold are removed too, whatever the readers decide, and are not counted.
        """

    def delete_queue(path: str) -> Awaitable[None]:
        """Remove a queue and all that is in it."""

    def abort_transaction(identifier: UUID) -> Awaitable[None]:
        """Abort any transaction."""

    def requeue(message: MessageIdentifier) -> Awaitable[MessageIdentifier]:
        """Send a dead letter again to the queue that it was for, and remove it, in one step."""

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
        """Send copies of what the message log of a queue holds, and answer how many these were.

        @param into: a destination, as of L{send}.
        @param first: the smallest sequence number, as C{last} is the largest.
        @param since: the earliest arrival, as C{until} is the latest, seconds since 1970-01-01 UTC.
        @param in_clear: send all of them unencrypted, even if their senders requested encryption.
        """

    def purge_outgoing(name: str) -> Awaitable[int]:
        """Remove all messages from an outgoing queue, and answer how many these were.

        Their senders get the negative acknowledgement and the dead letter that they requested. Those that
        were sent and are not acknowledged yet are removed too, and are not counted; the receiver may have
        them.
        """

    def retry_outgoing(name: str) -> OutgoingQueueSummary:
        """Dial the next hop of an outgoing queue now, if it waits for the next attempt; answers with it."""

    def retry_all_outgoing() -> Sequence[OutgoingQueueSummary]:
        """The same for every outgoing queue that waits; answers with these."""

    def pause_outgoing(name: str) -> Awaitable[OutgoingQueueSummary]:
        """Send nothing more to a format name until it is resumed, over restarts too."""

    def resume_outgoing(name: str) -> Awaitable[OutgoingQueueSummary]:
        """Send again from an outgoing queue that was paused; answers with it."""

    def redirect_outgoing(name: str, to: str | None) -> Awaitable[OutgoingQueueSummary]:
        """Send what is sent to a direct name to another address, over restarts too; answers with its queue.

        @param to: an IP address or the name of a computer; C{None} ends it.
        """

    def pause_all_outgoing() -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """Send nothing to other queue managers, over restarts too; answers with every outgoing queue."""

    def resume_all_outgoing() -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """End that; what is paused by name or by next hop stays paused."""

    def pause_next_hop(host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """Send nothing to one next hop, over restarts too; answers with the outgoing queues that go there.

        @param host: an address, the name of a computer, or the GUID of a queue manager.
        """

    def resume_next_hop(host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        """End that."""

    def note(event: str, reason: str, *, queue: str = "", message: MessageIdentifier | None = None) -> None:
        """Append to the event log, without waiting for the store.

        @param event: a word.
        @param reason: a text for people.
        @param message: the message that the event is about, under which C{explain} finds it; by default the
            event is about the queue manager.
        """


class IInspection(Interface):
    """Operators and monitoring read the state; nothing is changed.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    def status() -> ManagerStatus:
        """What it is and how it does."""

    def queues() -> Sequence[QueueSummary]:
        """Every queue of its own."""

    def queue(path: str) -> QueueSummary:
        """One queue, by its path or format name."""

    def system_queues() -> Sequence[QueueSummary]:
        """The machine journal and the dead-letter queues; L{queues} has none of them."""

    def log_extent(path: str) -> Awaitable[LogExtent]:
        """What the message log of a queue holds."""

    def public_queues(
        *, label: str | None = None, application_type: UUID | None = None, path: str | None = None
    ) -> Awaitable[Sequence[PublicQueueSummary]]:
        """[MS-MQDMPR] 3.1.7.1.21 the public queues of the enterprise that match all that is given.

        @param label: without regard to case, as is C{path}; C{*} and C{?} stand for any characters.
        @return: in order of their paths.
        """

    def outgoing() -> Sequence[OutgoingQueueSummary]:
        """Every outgoing queue."""

    def outgoing_queue(name: str) -> OutgoingQueueSummary:
        """One outgoing queue, by its format name."""

    def sessions() -> Sequence[SessionSummary]:
        """Every session, in both directions."""

    def transactions() -> Sequence[TransactionSummary]:
        """Every transaction that has not ended."""

    def transaction(identifier: UUID) -> TransactionDetails:
        """One of them, with its messages, the first thousand.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """

    def browse(queue: str, *, after: int = -1, count: int = 100) -> Awaitable[MessagePage]:
        """Look at messages that could be received, or sent, at any depth of a queue; nothing is locked.

        @param queue: the path or format name of a queue of this queue manager, or the format name of an
            outgoing queue.
        @param after: the LookupIdentifier behind which to begin; -1 for the front of the queue.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND.
        """

    def read_message(queue: str, lookup_id: int) -> Awaitable[ReceivedMessage]:
        """One message by its LookupIdentifier, also one that a reader or a session holds.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_MESSAGE_NOT_FOUND.
        """

    def dead_letters(limit: int = 1000) -> Awaitable[Sequence[MessageLocation]]:
        """What lies in both dead-letter queues, the first C{limit} of each."""

    def each_dead_letter(limit: int = 1000) -> AsyncIterator[MessageLocation]:
        """The same one by one, so that the packets of all of them need not be in memory."""

    def events(after: int = 0, limit: int = 1000) -> Awaitable[Sequence[StoredEvent]]:
        """Entries of the event log, the oldest first.

        @param after: only entries with larger numbers; 0 for all.
        """

    def explain(message: MessageIdentifier) -> Awaitable[Explanation]:
        """All that is known of a message; nothing known is not an error."""

    def route(source: str, destination: str, down: Sequence[str] = ()) -> Awaitable[ExplainedRoute]:
        """The route of a message between two queue managers, by name or GUID, with the reason of each hop.

        @param down: queue managers that are down, by name or GUID: what becomes of the message meanwhile.

        MQ_ERROR_NO_DS without a directory; MQ_ERROR_MACHINE_NOT_FOUND for a queue manager that is not in it.
        """

    def topology() -> Awaitable[Topology]:
        """The sites, links and queue managers of the enterprise, as routing knows them.

        MQ_ERROR_NO_DS without a directory.
        """


class IQueueManager(IMessaging, IAdministration):
    """A whole queue manager, for a caller that needs all five groups, as the control API does.

    A part that needs less takes the smaller interface.
    """

    access: IAccessAdministration = Attribute("The access rights and the certificates.")

    message_administration: IMessageAdministration = Attribute("Changes of messages that are in queues.")

    inspection: IInspection = Attribute("The state of queues, sessions, transactions and of the whole.")
