# Generated from msmq/interfaces/queue_manager.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
import math
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID
import attrs
from zope.interface import Attribute, Interface
from msmq.interfaces.access_administration import IAccessAdministration
from msmq.interfaces.message_administration import IMessageAdministration
from msmq.interfaces.queue_properties import QueueProperties
from msmq.interfaces.storage import LogExtent, StoredEvent
from msmq.interfaces.summaries import ManagerStatus, OutgoingQueueSummary, PublicQueueSummary, QueueSummary, QuotaSummary, SessionSummary, TransactionDetails, TransactionSummary
from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.reports import Hop
from msmq.queues.machine_quota import QuotaKind
from msmq.routing.route import Route
from msmq.routing.topology import Topology
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.deliveries.records import DeliveryRecord

@attrs.frozen
class ReceivedMessage:
    view: UserMessageView = attrs.field(repr=False)
    lookup_id: int
    arrived: float
    aborts: int = 0
    moves: int = 0
    queue: str = ''
    attempt: int = 1

    @property
    def identifier(self) -> MessageIdentifier:
        ...

    @property
    def body(self) -> bytes:
        ...

    @property
    def label(self) -> str:
        ...

    @property
    def expires(self) -> float:
        ...

@attrs.frozen
class MessagePage:
    messages: Sequence[ReceivedMessage]
    unreadable: Mapping[int, str]
    last: int
    is_end: bool

class IReservation(Interface, _Protocol):

    @property
    def messages(self) -> Sequence[ReceivedMessage]:
        ...

    def confirm(self) -> Awaitable[None]:
        ...

    def release(self) -> None:
        ...

    def reject(self, message_class: MessageClass=MessageClass.NACK_RECEIVE_REJECTED, reason: str='') -> None:
        ...

class ITransaction(Interface, _Protocol):

    @property
    def identifier(self) -> UUID:
        ...

    @property
    def state(self) -> str:
        ...

    def commit(self) -> Awaitable[None]:
        ...

    def abort(self) -> Awaitable[None]:
        ...

@attrs.frozen
class MessageLocation:
    queue: str
    state: str
    message: ReceivedMessage
    transaction: UUID | None = None

@attrs.frozen
class FoundReport:
    queue: str
    view: UserMessageView = attrs.field(repr=False)
    hop: Hop

@attrs.frozen
class Explanation:
    identifier: MessageIdentifier
    places: Sequence[MessageLocation]
    events: Sequence[AppendEvent]
    reports: Sequence[FoundReport] = ()
    deliveries: Sequence[DeliveryRecord] = ()
    records_since: float | None = None
    is_known: bool = True
    summary: str = ''

@attrs.frozen
class ExplainedRoute:
    topology: Topology = attrs.field(repr=False)
    route: Route

class IMessaging(Interface, _Protocol):

    @property
    def is_durable(self) -> bool:
        ...

    def send(self, destination: str, messages: Sequence[Message], *, transaction: ITransaction | None=None, keys: Sequence[str | None] | None=None) -> Awaitable[Sequence[MessageIdentifier]]:
        ...

    def reserve(self, queue: str, *, count: int=1, timeout: float | None=None, peek: bool=False, transaction: ITransaction | None=None) -> Awaitable[IReservation]:
        ...

    def begin(self) -> ITransaction:
        ...

    def enlist(self, identifier: UUID) -> ITransaction:
        ...

    def move(self, message: MessageIdentifier, target: str, *, transaction: ITransaction | None=None) -> Awaitable[None]:
        ...

class IAdministration(Interface, _Protocol):

    def create_queue(self, path: str, **properties: Unpack[QueueProperties]) -> Awaitable[QueueSummary]:
        ...

    def set_queue(self, path: str, properties: Mapping[str, Any]) -> Awaitable[QueueSummary]:
        ...

    def purge_queue(self, path: str) -> Awaitable[int]:
        ...

    def pause_queue(self, path: str) -> Awaitable[QueueSummary]:
        ...

    def resume_queue(self, path: str) -> Awaitable[QueueSummary]:
        ...

    def delete_queue(self, path: str) -> Awaitable[None]:
        ...

    def abort_transaction(self, identifier: UUID) -> Awaitable[None]:
        ...

    def requeue(self, message: MessageIdentifier) -> Awaitable[MessageIdentifier]:
        ...

    def replay(self, path: str, into: str, *, first: int=0, last: int | None=None, since: float | None=None, until: float | None=None, in_clear: bool=False) -> Awaitable[int]:
        ...

    def purge_outgoing(self, name: str) -> Awaitable[int]:
        ...

    def retry_outgoing(self, name: str) -> OutgoingQueueSummary:
        ...

    def retry_all_outgoing(self) -> Sequence[OutgoingQueueSummary]:
        ...

    def pause_outgoing(self, name: str) -> Awaitable[OutgoingQueueSummary]:
        ...

    def resume_outgoing(self, name: str) -> Awaitable[OutgoingQueueSummary]:
        ...

    def redirect_outgoing(self, name: str, to: str | None) -> Awaitable[OutgoingQueueSummary]:
        ...

    def keep_identity(self) -> ManagerStatus:
        ...

    def set_quotas(self, changes: Mapping[QuotaKind, int | None]) -> Awaitable[QuotaSummary]:
        ...

    def pause_all_outgoing(self) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        ...

    def resume_all_outgoing(self) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        ...

    def pause_next_hop(self, host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        ...

    def resume_next_hop(self, host: str) -> Awaitable[Sequence[OutgoingQueueSummary]]:
        ...

    def note(self, event: str, reason: str, *, queue: str='', message: MessageIdentifier | None=None) -> None:
        ...

class IInspection(Interface, _Protocol):

    def status(self) -> ManagerStatus:
        ...

    def queues(self) -> Sequence[QueueSummary]:
        ...

    def each_queue(self) -> Iterator[QueueSummary]:
        ...

    def queue(self, path: str) -> QueueSummary:
        ...

    def system_queues(self) -> Sequence[QueueSummary]:
        ...

    def log_extent(self, path: str) -> Awaitable[LogExtent]:
        ...

    def public_queues(self, *, label: str | None=None, application_type: UUID | None=None, path: str | None=None) -> Awaitable[Sequence[PublicQueueSummary]]:
        ...

    def outgoing(self) -> Sequence[OutgoingQueueSummary]:
        ...

    def each_outgoing(self) -> Iterator[OutgoingQueueSummary]:
        ...

    def outgoing_queue(self, name: str) -> OutgoingQueueSummary:
        ...

    def sessions(self) -> Sequence[SessionSummary]:
        ...

    def each_session(self) -> Iterator[SessionSummary]:
        ...

    def transactions(self) -> Sequence[TransactionSummary]:
        ...

    def transaction(self, identifier: UUID) -> TransactionDetails:
        ...

    def browse(self, queue: str, *, after: int=-1, count: int=100) -> Awaitable[MessagePage]:
        ...

    def read_message(self, queue: str, lookup_id: int) -> Awaitable[ReceivedMessage]:
        ...

    def dead_letters(self, limit: int=1000) -> Awaitable[Sequence[MessageLocation]]:
        ...

    def each_dead_letter(self, limit: int=1000) -> AsyncIterator[MessageLocation]:
        ...

    def events(self, after: int=0, limit: int=1000) -> Awaitable[Sequence[StoredEvent]]:
        ...

    def explain(self, message: MessageIdentifier) -> Awaitable[Explanation]:
        ...

    def route(self, source: str, destination: str, down: Sequence[str]=()) -> Awaitable[ExplainedRoute]:
        ...

    def topology(self) -> Awaitable[Topology]:
        ...

class IQueueManager(IMessaging, IAdministration, _Protocol):

    @property
    def access(self) -> IAccessAdministration:
        ...

    @property
    def message_administration(self) -> IMessageAdministration:
        ...

    @property
    def inspection(self) -> IInspection:
        ...
