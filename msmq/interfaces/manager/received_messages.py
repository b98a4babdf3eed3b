"""Messages of a queue manager as it returns them, and everything known about one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.reports import Hop
from msmq.routing.route import Route
from msmq.routing.topology import Topology
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.deliveries.records import DeliveryRecord


@attrs.frozen
class ReceivedMessage:
    """A message in a queue of this queue manager.

    @ivar view: the packet as it arrived.
    @ivar lookup_id: its position in the queue ([MS-MQDMPR] 3.1.1.12 LookupIdentifier).
    @ivar arrived: when it arrived in the queue, in seconds since 1970-01-01 UTC.
    @ivar aborts: AbortCount, the number of aborted transactions that received it.
    @ivar moves: MoveCount, how often it was moved.
    @ivar queue: the path of its queue; empty except in a broker.
    @ivar attempt: how often a broker has processed it since it took it out of its queue, this time included.
    """

    view: UserMessageView = attrs.field(repr=False)
    lookup_id: int
    arrived: float
    aborts: int = 0
    moves: int = 0
    queue: str = ""
    attempt: int = 1

    @property
    def identifier(self) -> MessageIdentifier:
        """The identifier of the message, by which a program knows one that it gets a second time."""
        return self.view.identifier

    @property
    def body(self) -> bytes:
        """The body, as its sender wrote it."""
        return bytes(self.view.body)

    @property
    def extension(self) -> bytes:
        """PROPID_M_EXTENSION, in which frameworks keep headers."""
        return bytes(self.view.extension)

    @property
    def label(self) -> str:
        """The label."""
        return self.view.label

    @property
    def expires(self) -> float:
        """When its TimeToBeReceived ends, in seconds since 1970-01-01 UTC; infinity for never."""
        limit = self.view.time_to_be_received
        return math.inf if limit == INFINITE else float(self.view.sent_time + limit)


@attrs.frozen
class MessagePage:
    """A page of messages of a queue, in order.

    @ivar messages: those that could be read.
    @ivar unreadable: why others could not, by their LookupIdentifiers.
    @ivar last: the LookupIdentifier after which the next page begins.
    @ivar is_end: there are no more messages.
    """

    messages: Sequence[ReceivedMessage]
    unreadable: Mapping[int, str]
    last: int
    is_end: bool


@attrs.frozen
class MessageLocation:
    """A queue that holds a message.

    @ivar queue: the path, or of an outgoing queue the format name.
    @ivar state: its state there: C{available}, C{locked} and others.
    @ivar transaction: the transaction that holds it, if any.
    """

    queue: str
    state: str
    message: ReceivedMessage
    transaction: UUID | None = None


@attrs.frozen
class UnreadableLocation:
    """A queue that holds a damaged message, which stays until what is left of it is in quarantine.

    @ivar queue: as of L{MessageLocation}.
    @ivar arrived: seconds since 1970-01-01 UTC.
    @ivar reason: what is damaged, and where its bytes are.
    """

    queue: str
    lookup_id: int
    arrived: float
    reason: str


@attrs.frozen
class LoggedMessage:
    """A message in the message log of a queue.

    @ivar arrived: seconds since 1970-01-01 UTC.
    """

    sequence: int
    arrived: float
    view: UserMessageView = attrs.field(repr=False)


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
    """Everything known about a message.

    @ivar places: the queues that hold it, including journals and dead-letter queues.
    @ivar events: what happened to it, the oldest first.
    @ivar reports: its report messages that are in queues here and in memory, the oldest first.
    @ivar deliveries: its delivery records: hand-overs to other queue managers and their acknowledgements, the
    oldest first, each reduced to this message. They are among C{events} too.
    @ivar records_since: the time of the oldest delivery record that is kept, seconds since 1970-01-01 UTC;
    C{None} if there is none.
    @ivar is_known: whether there is a copy or a record of it.
    @ivar summary: the result in one sentence.
    @ivar unreadable: the queues that hold it damaged.
    """

    identifier: MessageIdentifier
    places: Sequence[MessageLocation]
    events: Sequence[AppendEvent]
    reports: Sequence[FoundReport] = ()
    deliveries: Sequence[DeliveryRecord] = ()
    records_since: float | None = None
    is_known: bool = True
    summary: str = ""
    unreadable: Sequence[UnreadableLocation] = ()


@attrs.frozen
class ExplainedRoute:
    """The route of a message, and the topology that it was computed from."""

    topology: Topology = attrs.field(repr=False)
    route: Route
