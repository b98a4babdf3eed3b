"""The queue manager as a Twisted service, and the Python API of an application that embeds it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Unpack
from uuid import UUID

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from msmq.background import completed, undivided
from msmq.interfaces.manager.queue_manager import IQueueManager, ITransaction
from msmq.interfaces.manager.queue_properties import QueueProperties
from msmq.interfaces.manager.service_values import ValuesOfMessages
from msmq.interfaces.manager.subscription import QueueManagerEvent, Subscriber
from msmq.interfaces.manager.summaries import (
    ManagerStatus,
    OutgoingQueueSummary,
    QueueSummary,
    QuotaSummary,
    SessionSummary,
)
from msmq.interfaces.sessions import ISessions
from msmq.interfaces.storage import IMessageStore
from msmq.manager.administration.inspection import ManagerInspection
from msmq.manager.administration.open_sessions import open_session
from msmq.manager.applications.arguments import check_transaction
from msmq.manager.applications.checked_calls import checked
from msmq.manager.applications.message_log import LogPart
from msmq.manager.applications.open_queue import OpenQueue
from msmq.manager.applications.reservation import Reservation
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.subscriptions import Subscriptions
from msmq.manager.applications.targets import outgoing_queue, own_queue
from msmq.manager.applications.transactions import TransactionHandle
from msmq.manager.assembly.parts import Parts
from msmq.manager.lifecycle import ManagerLifecycle
from msmq.manager.live_settings import LiveSettings
from msmq.manager.manager_settings import EnterpriseSettings, ManagerRuntime, ManagerSecurity, TransferPolicy
from msmq.manager.membership.membership import Membership
from msmq.manager.securing.access_administration import AccessAdministration
from msmq.manager.securing.restricted_manager import RestrictedQueueManager
from msmq.manager.states import ServiceState
from msmq.persistence.changes import AppendEvent
from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.session.effects import CloseReason
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView


@implementer(IQueueManager)
class QueueManagerService(Service):
    """One queue manager. [MS-MQDMPR] 3.1.1.1.

    Every method that answers with an awaitable raises L{MQError} when it refuses.
    L{Server<msmq.Server>} makes it, and so does a L{MemoryQueueManager<msmq.testing.MemoryQueueManager>}; as
    C{manager} of either it is open and started. A program uses its methods and names it as a type: the types
    of the arguments below are internal.
    The store has to be opened with L{open} before the service is started and before anything is
    asked of it.

    @param model: the queues.
    @param store: stores queues, messages and state.
    @param sessions: creates the sessions; passed to the session endpoint.
    @param runtime: its reactor, clock and threads.
    @param policy: how messages are transferred, reported and recorded.
    @param enterprise: its names, and its membership in an enterprise.
    @param security: trusted peers, access control, signatures and encryption.
    @param send_keys: the stored message keys.
    @param addresses: the addresses at which it listens, for C{msmq status}.
    @ivar access: the access rights and the certificates.
    @ivar inspection: the state of queues, sessions, transactions and the queue manager.
    @ivar message_administration: removes, moves, copies and requeues messages of its queues.
    @ivar drains: moves the messages of queues to other queue managers.
    @ivar service_values: what services of the same server keep in the store.
    @ivar state: [MS-MQDMPR] 3.1.1.1 QueueManagerState.
    """

    name = "msmq"
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        *,
        model: QueueManagerModel,
        store: IMessageStore,
        sessions: ISessions,
        runtime: ManagerRuntime,
        policy: TransferPolicy,
        enterprise: EnterpriseSettings,
        security: ManagerSecurity,
        send_keys: SendKeys,
        addresses: Callable[[], Sequence[str]],
    ) -> None:
        self._subscriptions = Subscriptions()
        parts = Parts(
            model=model,
            store=store,
            sessions=sessions,
            runtime=runtime,
            policy=policy,
            enterprise=enterprise,
            security=security,
            send_keys=send_keys,
            transactions=self._subscriptions,
        )
        self._parts = parts
        self._life = ManagerLifecycle(parts)
        self.access = AccessAdministration(parts.core.performer, parts.security)
        self.inspection = ManagerInspection(parts, enterprise.host, addresses, self)
        self.message_administration = parts.applications.message_administration
        self.drains = parts.applications.drains
        self.service_values = parts.core.service_values
        self.model = model
        self.store = store
        self.state = ServiceState.STOPPED
        self._clock = runtime.clock
        self._new_identifier = runtime.new_identifier

    # Life

    @property
    def _work(self) -> Parts:
        """Its parts, while it is open.

        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE before L{open} and after L{stopService}.
        """
        self._parts.core.performer.check_running()
        return self._parts

    async def open(self) -> None:
        """Open the store and load its contents."""
        self.state = ServiceState.INITIALIZING
        try:
            await self._life.open()
        except BaseException:
            self.state = ServiceState.STOPPED
            raise

    def startService(self) -> None:
        """Queue Manager Started: begin to send pending messages. [MS-MQQB] 3.1.4.1."""
        Service.startService(self)
        self.state = ServiceState.READY
        self._life.start()
        if suspicion := self._parts.transfer.outgoing_holds.suspicion:
            self.note("clone_suspected", f"{suspicion}; nothing is sent to other queue managers")
        self._subscriptions.notify(QueueManagerEvent.STARTED)

    def stopService(self) -> Deferred[None]:
        """Queue Manager Stopped: end the sessions and all waits, then close the store. [MS-MQQB] 3.1.4.2."""
        Service.stopService(self)
        self.state = ServiceState.STOPPING
        return self._life.stop().addBoth(self._stopped)

    def _stopped(self, result: Any) -> Any:
        self.state = ServiceState.STOPPED
        self._subscriptions.notify(QueueManagerEvent.STOPPED)
        return result

    def configure(self, settings: LiveSettings) -> None:
        """Apply other settings while it runs; messages and sessions stay."""
        settings.apply(self._parts)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Subscribe to events of the queue manager, across starts. [MS-MQDMPR] 3.1.4.

        @return: ends the subscription.
        """
        return self._subscriptions.add(subscriber)

    def take_offline(self) -> None:
        """Take Offline: end the sessions, and refuse new ones. [MS-MQDMPR] 3.1.4.12.

        Messages to others wait; local queues are not affected. After a restart it is online.
        """
        self._work.transfer.messages.take_offline()
        self._subscriptions.notify(QueueManagerEvent.TAKEN_OFFLINE)

    def bring_online(self) -> None:
        """Bring Online: accept and dial sessions again, and send pending messages. [MS-MQDMPR] 3.1.4.13."""
        self._work.transfer.messages.bring_online()
        self._subscriptions.notify(QueueManagerEvent.BROUGHT_ONLINE)

    @property
    def connection_active(self) -> bool:
        """ConnectionActive: whether other queue managers can reach this one. [MS-MQDMPR] 3.1.1.1."""
        return self.state is ServiceState.READY and not self._parts.core.sessions.is_offline

    def trusts(self, address: str) -> bool:
        """Whether unauthenticated messages are accepted from this address, by the configuration or a gate."""
        return self._parts.security.trusted_peers.admits(address)

    @property
    def membership(self) -> Membership | None:
        """Enterprise, sites and directory servers; C{None} without a directory."""
        integration = self._parts.integration
        return None if integration is None else integration.membership

    # IMessaging

    @property
    def is_durable(self) -> bool:
        """See L{IMessaging.is_durable<msmq.interfaces.manager.queue_manager.IMessaging>}."""
        return bool(self.store.durable)

    async def send(
        self,
        destination: str,
        messages: Sequence[Message],
        *,
        transaction: ITransaction | None = None,
        keys: Sequence[str | None] | None = None,
        values: ValuesOfMessages | None = None,
    ) -> list[MessageIdentifier]:
        """Accept these messages, all or none, and return one identifier each. [MS-MQDMPR] 3.1.7.1.9.

        See L{IMessaging.send}. A key belongs to its destination, and is kept across restarts.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_FORMATNAME and its like for names;
            MQ_ERROR_INSUFFICIENT_RESOURCES over a quota; MQ_ERROR_TRANSACTION_SEQUENCE if the transaction
            has ended; MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if another one holds a key; or as
            L{Outbox.check}.
        """
        parts = self._work
        return await parts.applications.sender.send(
            lambda: parts.outgoing.destinations.find(destination),
            messages,
            transaction,
            keys,
            None if values is None else self.service_values.with_messages(values),
        )

    async def reserve(
        self,
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transaction: ITransaction | None = None,
        size: int | None = None,
        after: int = -1,
    ) -> Reservation:
        """Lock available messages, or wait for the first one. [MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.15.

        See L{IMessaging.reserve}.

        @param queue: the path or format name of a queue of this queue manager.
        @param timeout: seconds; C{None} waits without a limit, 0 does not wait.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if nothing came, MQ_ERROR_QUEUE_DELETED while waiting,
            MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a remote queue,
            MQ_ERROR_TRANSACTION_USAGE for a transaction on a queue that is not transactional,
            MQ_ERROR_TRANSACTION_SEQUENCE if the transaction has ended.
        """
        return await self._work.applications.opening.reserve(
            queue, count, timeout, peek, transaction, size, after
        )

    async def receive(
        self, queue: str, *, timeout: float | None = None, transaction: ITransaction | None = None
    ) -> UserMessageView:
        """Receive one message: locked, and durably removed before it is returned.

        In a transaction it is removed when that commits.
        Cancelling ends the wait; once the removal is being stored it has no effect, and the message is
        returned.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout, transaction=transaction)
        await completed(reservation.confirm())
        return reservation.messages[0].view

    async def peek(self, queue: str, *, timeout: float | None = None) -> UserMessageView:
        """Peek at the first message without removing it.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout, peek=True)
        return reservation.messages[0].view

    # Open queues

    @checked
    async def format_name(self, destination: str) -> str:
        """The format names of a destination of L{send}, separated by commas.

        Remote public queues and the members of distribution lists are looked up in the directory, for which
        L{open_queue} does not wait.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS for a path while the directory is
        unreachable, or that the name is not a valid destination.
        """
        return ",".join(
            str(target.name) for target in await self._work.outgoing.destinations.find(destination)
        )

    def open_queue(
        self,
        name: str,
        access: QueueAccessType = QueueAccessType.RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> OpenQueue:
        """Open Queue. [MS-MQDMPR] 3.1.7.1.5.

        @param name: the path or format name of a queue of this queue manager, or for sending of any;
            several with commas for sending. Outgoing queues can be opened by administrators too.
            A remote public queue is opened by its format name, and looked up when it is sent to;
            L{format_name} returns that of a path.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS, MQ_ERROR_SHARING_VIOLATION,
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, MQ_ERROR_UNSUPPORTED_ACCESS_MODE, or that the name is
            malformed.
        """
        return self._work.applications.opening.open(name, access, share_mode)

    def begin(self) -> TransactionHandle:
        """Create Transaction: an internal one. [MS-MQDMPR] 3.1.7.1.8."""
        return self._work.applications.transactions.begin(self._new_identifier())

    @checked
    def enlist(self, identifier: uuid.UUID) -> TransactionHandle:
        """Enlist in a transaction of a coordinator: always MQ_ERROR_DTC_CONNECT, since DTC is not
        supported.
        """
        return self._work.applications.transactions.enlist(identifier)

    @checked
    async def move(
        self, message: MessageIdentifier, target: str, *, transaction: ITransaction | None = None
    ) -> None:
        """Move Message; see L{IMessaging.move} and L{Search.move}. [MS-MQDMPR] 3.1.7.1.16."""
        check_transaction(transaction)
        await self._work.applications.search.move(message, target, transaction)

    # IAdministration

    @checked
    async def create_queue(self, path: str, **properties: Unpack[QueueProperties]) -> QueueSummary:
        """Create Queue; returns the same as L{queue}. [MS-MQDMPR] 3.1.7.1.3.

        @raise MQError: as L{Administration.create}.
        """
        return await self._work.applications.administration.create(path, **properties)

    def observe_queues(self, observer: Callable[[Queue], object]) -> None:
        """See L{Administration.observe}."""
        self._parts.applications.administration.observe(observer)

    @checked
    async def set_queue(self, path: str, properties: Mapping[str, Any]) -> QueueSummary:
        """Change the properties of a queue; returns the same as L{queue}. [MS-MQDMPR] 3.1.1.2.

        @raise MQError: as L{Administration.set}.
        """
        return await self._work.applications.administration.set(path, properties)

    @checked
    async def purge_queue(self, path: str, *, through: int | None = None) -> int:
        """Purge Queue: remove the messages in it now, and return their number. [MS-MQDMPR] 3.1.7.1.7.

        @raise MQError: as L{Administration.purge}.
        """
        return await self._work.applications.administration.purge(path, through)

    @checked
    async def pause_queue(self, path: str) -> QueueSummary:
        """See L{IAdministration.pause_queue} and L{Administration.set_paused}."""
        return await self._work.applications.administration.set_paused(path, True)

    @checked
    async def resume_queue(self, path: str) -> QueueSummary:
        """See L{IAdministration.resume_queue} and L{Administration.set_paused}."""
        return await self._work.applications.administration.set_paused(path, False)

    @checked
    async def delete_queue(self, path: str) -> None:
        """Delete Queue, with all that is in it; its waiting readers fail. [MS-MQDMPR] 3.1.7.1.4.

        @raise MQError: as L{Administration.delete}.
        """
        await self._work.applications.administration.delete(path)

    @checked
    async def abort_transaction(self, identifier: UUID) -> None:
        """See L{IAdministration.abort_transaction}. [MS-MQDMPR] 3.1.4.5.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it is ending.
        """
        transactions = self._work.applications.transactions
        await transactions.abort(transactions.find(identifier))

    @checked
    async def requeue(self, message: MessageIdentifier) -> MessageIdentifier:
        """See L{IAdministration.requeue}.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND if it is not a dead letter, or as L{send}.
        """
        return await self._work.applications.search.requeue(message)

    @checked
    async def replay(
        self,
        path: str,
        into: str,
        *,
        first: int = 0,
        last: int | None = None,
        since: float | None = None,
        until: float | None = None,
        in_clear: bool = False,
    ) -> int:
        """Send copies of the entries of a queue's message log, and return their number.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or as L{send}; copies sent before stay sent.
        """
        logs = self._work.applications.logs
        queue = own_queue(self.model, path)
        return await logs.replay(queue, into, LogPart(first, last, since, until), in_clear)

    @checked
    async def purge_outgoing(self, name: str, *, through: int | None = None) -> int:
        """See L{IAdministration.purge_outgoing}.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or as L{purge_queue}.
        """
        parts = self._work
        return await parts.applications.administration.purge_messages(
            outgoing_queue(self.model, name), through
        )

    @checked
    def retry_outgoing(self, name: str) -> OutgoingQueueSummary:
        """See L{IAdministration.retry_outgoing}."""
        return self._work.transfer.outgoing_holds.retry_now(name)

    def retry_all_outgoing(self) -> list[OutgoingQueueSummary]:
        """See L{IAdministration.retry_all_outgoing}."""
        return self._work.transfer.outgoing_holds.retry_all_now()

    @checked
    def close_session(self, identifier: UUID) -> SessionSummary:
        """See L{IAdministration.close_session}."""
        summary = self.inspection.session(identifier)
        open_session(self._parts.core.sessions, identifier).close(CloseReason.OPERATOR)
        return summary

    @checked
    def pause_outgoing(self, name: str) -> Deferred[OutgoingQueueSummary]:
        """Pause Queue: see L{OutgoingHolds.pause}. [MS-MQDMPR] 3.1.7.2.3."""
        return undivided(self._work.transfer.outgoing_holds.pause(name))

    @checked
    def resume_outgoing(self, name: str) -> Deferred[OutgoingQueueSummary]:
        """Resume Queue: see L{OutgoingHolds.resume}. [MS-MQDMPR] 3.1.7.2.4."""
        return undivided(self._work.transfer.outgoing_holds.resume(name))

    @checked
    def redirect_outgoing(self, name: str, to: str | None) -> Deferred[OutgoingQueueSummary]:
        """See L{IAdministration.redirect_outgoing} and L{OutgoingRedirects.redirect}."""
        return undivided(self._redirect(name, to))

    async def _redirect(self, name: str, to: str | None) -> OutgoingQueueSummary:
        redirects = self._work.transfer.outgoing_redirects
        queue = await (redirects.end(name) if to is None else redirects.redirect(name, to))
        return self._parts.transfer.outgoing_holds.summarize(queue)

    def keep_identity(self) -> ManagerStatus:
        """See L{IAdministration.keep_identity}."""
        self._work.transfer.outgoing_holds.keep_identity()
        return self.inspection.status()

    @checked
    async def set_quotas(self, changes: Mapping[QuotaKind, int | None]) -> QuotaSummary:
        """See L{IAdministration.set_quotas}."""
        return await self._work.applications.administration.set_quotas(changes)

    def pause_all_outgoing(self) -> Deferred[list[OutgoingQueueSummary]]:
        """See L{IAdministration.pause_all_outgoing}."""
        return undivided(self._work.transfer.outgoing_holds.hold_all(True))

    def resume_all_outgoing(self) -> Deferred[list[OutgoingQueueSummary]]:
        """See L{IAdministration.resume_all_outgoing}."""
        return undivided(self._work.transfer.outgoing_holds.hold_all(False))

    @checked
    def pause_next_hop(self, host: str) -> Deferred[list[OutgoingQueueSummary]]:
        """See L{IAdministration.pause_next_hop}; messages use other gates if possible."""
        return undivided(self._work.transfer.outgoing_holds.hold_next_hop(host, True))

    @checked
    def resume_next_hop(self, host: str) -> Deferred[list[OutgoingQueueSummary]]:
        """See L{IAdministration.resume_next_hop}."""
        return undivided(self._work.transfer.outgoing_holds.hold_next_hop(host, False))

    @checked
    def note(
        self, event: str, reason: str, *, queue: str = "", message: MessageIdentifier | None = None
    ) -> None:
        """See L{IAdministration.note}."""
        identity = b"" if message is None else message.to_bytes()
        now = self._clock.now().wall
        self._parts.core.events.record(AppendEvent(now, identity, event, reason, queue=queue))

    @checked
    async def acting_as(self, principal: str) -> RestrictedQueueManager:
        """The queue manager restricted to the rights of one principal.

        @param principal: a SID or a name.
        @raise MQError: MQ_ERROR_COULD_NOT_GET_USER_SID for an unknown principal, MQ_ERROR_ILLEGAL_OPERATION
            without access control.
        """
        permissions = self.access.permissions
        sid = await permissions.sid_of(principal)
        parts = self._work
        return RestrictedQueueManager(
            self,
            parts.core,
            parts.outgoing.destinations,
            parts.applications,
            parts.security.messages,
            permissions,
            sid,
        )
