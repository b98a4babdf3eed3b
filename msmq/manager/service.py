"""The queue manager as a Twisted service, and the Python API of an application that embeds it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from zope.interface import implementer

import msmq.version
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.queue_manager import Explanation, IQueueManager, ITransaction, Place
from msmq.interfaces.routing import IRouter
from msmq.interfaces.session import ISessions
from msmq.interfaces.storage import IMessageStore, LogExtent
from msmq.interfaces.subscribing import QueueManagerEvent, Subscriber
from msmq.manager.ack_sessions import AckSessions
from msmq.manager.administration import Administration
from msmq.manager.arriving import Arrivals
from msmq.manager.departing import Departures
from msmq.manager.describing import (
    describe_counts,
    describe_holdings,
    describe_losses,
    describe_outgoing,
    describe_queue,
    describe_session,
)
from msmq.manager.events import EventLog
from msmq.manager.flow import FlowControl
from msmq.manager.forwarding import Forwarding
from msmq.manager.integration import Integration
from msmq.manager.message_log import MessageLogs
from msmq.manager.open_queue import OpenQueue
from msmq.manager.opening import Opening
from msmq.manager.order_acks import OrderAcks
from msmq.manager.outbox import Outbox
from msmq.manager.ownership import check_owner, claim
from msmq.manager.peers import Peers
from msmq.manager.performing import Performer
from msmq.manager.public_names import PublicNames, UnknownPublicQueue
from msmq.manager.reads import Reads
from msmq.manager.reporting import Reports
from msmq.manager.reservation import Reservation
from msmq.manager.searching import Search
from msmq.manager.sending import Sender
from msmq.manager.sequences import Sequences
from msmq.manager.state import QueueManagerState
from msmq.manager.subscriptions import Subscriptions
from msmq.manager.targets import Target, destinations, outgoing_queue, own_queue, readable_queue
from msmq.manager.transactions import TransactionHandle, Transactions, move
from msmq.manager.transfer import Transfer
from msmq.manager.turns import Turns
from msmq.manager.wakeup import Wakeup
from msmq.manager.ways import Ways
from msmq.queues.descriptor import QueueAccessType, QueueShareMode
from msmq.queues.directory.local import HostIdentity
from msmq.queues.message import Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.snapshot import Snapshot
from msmq.queues.transaction import Transaction, TransactionState
from msmq.routing.describing import describe_route, describe_topology, find_ends
from msmq.session.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import format_guid

DEFAULT_EVENTS: Final = 100_000
"""Events that the event log keeps."""


@implementer(IQueueManager)
class QueueManagerService(Service):
    """[MS-MQDMPR] 3.1.1.1: one queue manager; add it to the services of an application.

    Every method that answers with an awaitable raises L{MQError} when it refuses.
    The store has to be opened with L{open} before the service is started and before anything is
    asked of it.

    @param model: the queues.
    @param store: keeps what has to survive.
    @param sessions: makes the sessions; whoever listens gives it to the session endpoint.
    @param send_insecure_nacks: [MS-MQQB] 3.1.7.15 SendInsecureNacks: whether strangers are told that a
        queue is missing or closed to them.
    @param dead_letter_over_quota: [MS-MQQB] 3.1.5.8.8: whether a message that its queue has no room for
        becomes a dead letter here if its sender asks for one.
    @param report_messages: [MS-MQQB] 3.1.5.8.9, [MS-MQMQ] note 23: whether reports of traced messages are
        sent.
    @param session_settings: what the behaviour notes of [MS-MQQB] leave open; the defaults without.
    @param events: how many events the event log keeps.
    @param addresses: tells where the queue manager listens, for L{status}.
    @param directory: where it is published, with its public queues; without one it is in workgroup mode.
    @param routing_server: [MS-MQDMPR] 3.1.1.1 RoutingServer: whether messages between others pass here.
    @param router: finds the ways of messages to other queue managers; by default the directory is asked.
    @param beside: calls a function where it holds up nobody.
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
        reactor: IReactorTime,
        clock: IClock,
        computer_name: str,
        dns_name: str,
        addresses: Callable[[], Sequence[str]] = tuple,
        send_insecure_nacks: bool = False,
        report_messages: bool = False,
        dead_letter_over_quota: bool = True,
        events: int = DEFAULT_EVENTS,
        session_settings: SessionSettings | None = None,
        new_identifier: Callable[[], uuid.UUID] = uuid.uuid4,
        directory: IDirectory | None = None,
        router: IRouter | None = None,
        routing_server: bool = False,
        beside: Callable[..., Deferred[Any]] = deferToThread,
    ) -> None:
        self.model = model
        self.store = store
        self._sessions = sessions
        self._clock = clock
        self._reactor = reactor
        self._computer_name = computer_name
        self._dns_name = dns_name
        self._addresses = addresses
        self._new_identifier = new_identifier
        performer = self._performer = Performer(model, store, reactor, clock)
        self._events = EventLog(performer, events)
        outbox = self._outbox = Outbox(performer, send_insecure=send_insecure_nacks)
        self._reports = Reports(performer, outbox)
        self._departures = Departures(performer, outbox, self._events)
        settings = SessionSettings() if session_settings is None else session_settings
        self._sequences = Sequences(performer, self._events, settings, reactor)
        self._turns = Turns(performer, settings)
        self._peers = Peers(model.identifier, clock, trusts=settings.trust_identifiers)
        acks = AckSessions(self._peers)
        self._order_acks = OrderAcks(performer, outbox, self._turns, acks)
        self._administration = Administration(
            performer, self._departures, outbox, self._events, reactor, new_identifier
        )
        self._integration: Integration | None = None
        self._public: PublicNames | None = None
        if directory is not None:
            host = HostIdentity(computer_name, qualified_computer_name=dns_name)
            integration = Integration(
                performer, self._administration, directory, reactor, host, routing_server=routing_server
            )
            self._integration = integration
            self._public = integration.public_names(clock)
            outbox.learn = self._public.learn
            model.find_public = self._public.find
            if router is None:
                router = integration.router(reactor, clock, lambda: self._ways.changed(), beside)
        self._router = router
        self._ways = Ways(model.identifier, router, reactor)
        forwarding = Forwarding(performer, lambda: routing_server or self._is_routing_server())
        arrivals = Arrivals(performer, outbox, self._events, self._turns, self._sequences, forwarding)
        arrivals.keeps_refused = dead_letter_over_quota
        self._departures.on_left = self._sequences.left
        self._transfer = Transfer(
            performer,
            sessions,
            outbox,
            arrivals,
            self._sequences,
            self._peers,
            acks,
            self._ways,
            _nobody if self._public is None else self._public.owner_of,
        )
        forwarding.make_room = self._transfer.make_room
        if self._public is not None:
            self._public.on_found = self._transfer.owner_found
        if report_messages:
            arrivals.on_reached = self._reports.arrived
            self._transfer.on_sent = self._reports.departed
        self._wakeup = Wakeup(reactor, clock, self._deadline, self._expire)
        self._sequences.on_change = self._turns.on_change = self._wakeup.look
        self._transactions = Transactions(performer, outbox, self._sequences)
        self._search = Search(performer, outbox, self._events, self._transactions, reactor, new_identifier)
        self._logs = MessageLogs(performer, outbox, self._transactions, reactor, new_identifier)
        self._flow = FlowControl(performer, reactor)
        self._sender = Sender(model.identifier, outbox, self._transactions, new_identifier)
        self._opening = Opening(
            performer, Reads(performer, outbox), self._sender, self._transactions, self._administration
        )
        self._subscriptions = Subscriptions()
        self._transactions.on_ended = self._transaction_ended
        self.state = QueueManagerState.STOPPED

    # Life

    @property
    def _work(self) -> QueueManagerService:
        """Itself, as long as it does anything.

        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE before L{open} and after L{stopService}.
        """
        self._performer.check_running()
        return self

    async def open(self) -> None:
        """Open the store and take over what it holds."""
        self.state = QueueManagerState.INITIALIZING
        try:
            snapshot = await self.store.open()
            await check_owner(self.store, snapshot, self.model.identifier)
            self.model.restore(snapshot, self._clock.now())
            self._sequences.load(snapshot.state)
            self._turns.load(snapshot.state)
            self._performer.start()
            await self._claim(snapshot)
            if self._integration is not None:
                await self._integration.open(snapshot.state)
            if self._router is not None:
                # It may take its time: until it has read the enterprise, what needs a way waits.
                self._router.open().addErrback(
                    lambda failure: self.log.failure("the router could not be opened", failure)
                )
        except BaseException:
            self._performer.stop()
            self.state = QueueManagerState.STOPPED
            raise

    async def _claim(self, snapshot: Snapshot) -> None:
        try:
            await self._performer.commit(claim(self.store, snapshot, self.model.identifier))
        except MQError as error:
            # A store without space opens all the same; the next start does it.
            self.log.error("whose the store is was not stored: {error}", error=error)

    def startService(self) -> None:
        """Begin to send what waits."""
        Service.startService(self)
        self.state = QueueManagerState.READY
        self._outbox.start()
        self._logs.start()
        self._wakeup.look()
        # What has expired while nobody looked leaves now.
        self._performer.perform(())
        self._transfer.bring_online()
        self._subscriptions.tell(QueueManagerEvent.STARTED)

    def stopService(self) -> Deferred[None]:
        """End the sessions and the waits, then close the store."""
        Service.stopService(self)
        self.state = QueueManagerState.STOPPING
        self._logs.stop()
        self._wakeup.stop()
        self._sequences.stop()
        self._flow.stop()
        self._transfer.stop()
        self._performer.stop()
        closed: Deferred[Any] = succeed(None) if self._router is None else self._router.close()
        integration = self._integration
        if integration is not None:
            closed.addBoth(lambda _: integration.stop())
        closed.addErrback(lambda failure: self.log.failure("the directory was not closed", failure))
        return closed.addCallback(lambda _: self.store.close()).addBoth(self._stopped)

    def _stopped(self, result: Any) -> Any:
        self.state = QueueManagerState.STOPPED
        self._subscriptions.tell(QueueManagerEvent.STOPPED)
        return result

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """[MS-MQDMPR] 3.1.4: tell somebody of what happens to the queue manager, over any number of starts.

        @return: ends that.
        """
        return self._subscriptions.add(subscriber)

    def _transaction_ended(self, transaction: Transaction) -> None:
        ended = QueueManagerEvent.TRANSACTION_ABORTED
        if transaction.state is TransactionState.COMMITTED:
            ended = QueueManagerEvent.TRANSACTION_COMMITTED
        self._subscriptions.tell(ended, transaction.identifier)

    @property
    def connection_active(self) -> bool:
        """[MS-MQDMPR] 3.1.1.1 ConnectionActive: whether other queue managers can reach this one."""
        return self.state is QueueManagerState.READY and not self._sessions.is_offline

    def take_offline(self) -> None:
        """[MS-MQDMPR] 3.1.4.12 Take Offline: end the sessions, and let none begin.

        What is sent to others waits; local queues work as always. A restart is online.
        """
        self._work._transfer.take_offline()
        self._subscriptions.tell(QueueManagerEvent.TAKEN_OFFLINE)

    def bring_online(self) -> None:
        """[MS-MQDMPR] 3.1.4.13 Bring Online: take part in sessions again, and send what waits."""
        self._work._transfer.bring_online()
        self._subscriptions.tell(QueueManagerEvent.BROUGHT_ONLINE)

    def _is_routing_server(self) -> bool:
        """Whether the directory says so of this queue manager."""
        return self._integration is not None and self._integration.access.local.object.routing_server

    def _deadline(self) -> float | None:
        deadlines = (self._sequences.deadline, self._turns.deadline)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _expire(self) -> None:
        now = self._clock.now()
        self._sequences.expire(now)
        self._order_acks.expire(now)
        self._turns.history.expire(now)

    # What it is

    def status(self) -> dict[str, Any]:
        """What it is and how it does; the keys of C{msmq status}."""
        return {
            "identifier": format_guid(self.model.identifier),
            "name": self._computer_name,
            "dns_name": self._dns_name,
            "version": msmq.version.VERSION,
            "state": self.state.value,
            "addresses": list(self._addresses()),
            **describe_holdings(self.model),
            "sessions": len(self._sessions.connections),
            "storage": self.store.name,
            "durable": bool(self.store.durable),
            "packets": describe_counts(self._sessions.counts),
            "refused": dict(self._transfer.arrivals.refused),
            "expired": dict(self._departures.expired),
            "reports": {"sent": self._reports.sent, "discarded": self._reports.discarded},
            "throttled": self.model.storage.throttled,
            "connection_active": self.connection_active,
            **describe_losses(self.model),
            "events_dropped": self._events.dropped,
        }

    async def route(self, source: str, destination: str) -> dict[str, Any]:
        """[MS-MQBR] the way of a message from one queue manager to another, as far as it is known here.

        @param source: its name, its qualified name or its GUID; so is C{destination}.
        @raise MQError: MQ_ERROR_NO_DS without a directory, MQ_ERROR_MACHINE_NOT_FOUND for who is not in it.
        """
        router = self._work._known_router()
        ends = find_ends(router.topology, source, destination)
        return describe_route(router.topology, await router.route(*ends))

    async def topology(self) -> dict[str, Any]:
        """[MS-MQBR] 3.1.1.1 the enterprise, as routing knows it.

        @raise MQError: MQ_ERROR_NO_DS without a directory.
        """
        return describe_topology(self._work._known_router().topology)

    def _known_router(self) -> IRouter:
        if self._router is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "there is no directory, so no enterprise is known")
        return self._router

    def queues(self) -> list[dict[str, Any]]:
        """Every queue of its own, in the order in which they were made."""
        return [describe_queue(self.model, queue) for queue in self._work.model.queues()]

    def queue(self, path: str) -> dict[str, Any]:
        """One queue, by its path or format name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return describe_queue(self.model, own_queue(self._work.model, path))

    def system_queues(self) -> list[dict[str, Any]]:
        """The machine journal and the dead-letter queues."""
        return [describe_queue(self.model, queue) for queue in self._work.model.names.system_queues()]

    def outgoing(self) -> list[dict[str, Any]]:
        """Every outgoing queue."""
        return [describe_outgoing(queue) for queue in self._work.model.outgoing_queues()]

    def outgoing_queue(self, name: str) -> dict[str, Any]:
        """One outgoing queue, by its format name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return describe_outgoing(outgoing_queue(self._work.model, name))

    def pause_outgoing(self, name: str) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.7.2.3 Pause Queue: send nothing more from an outgoing queue, until it is resumed.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_OPERATION for a queue of its own.
        """
        queue = outgoing_queue(self._work.model, name)
        self._transfer.pause(queue)
        return describe_outgoing(queue)

    def resume_outgoing(self, name: str) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.7.2.4 Resume Queue: send again from an outgoing queue that was paused.

        @raise MQError: as L{pause_outgoing}.
        """
        queue = outgoing_queue(self._work.model, name)
        self._transfer.resume(queue)
        return describe_outgoing(queue)

    def sessions(self) -> list[dict[str, Any]]:
        """Every session that has a connection, in both directions."""
        return [
            {**describe_session(connection), **self._peers.describe(connection)}
            for connection in self._sessions.connections
        ]

    # Queues

    async def create_queue(
        self,
        path: str,
        *,
        transactional: bool = False,
        journal: bool = False,
        log: bool = False,
        quota: int | None = None,
        journal_quota: int | None = None,
        label: str = "",
        authenticate: bool = False,
        privacy: str = "optional",
        log_age: int = 0,
        log_size: int | None = None,
    ) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.7.1.3 Create Queue; answers what L{queue} would.

        @param path: C{.\\private$\\orders}.
        @raise MQError: as L{Administration.create}.
        """
        return await self._work._administration.create(
            path,
            transactional=transactional,
            journal=journal,
            log=log,
            quota=quota,
            journal_quota=journal_quota,
            label=label,
            authenticate=authenticate,
            privacy=privacy,
            log_age=log_age,
            log_size=log_size,
        )

    async def set_queue(self, path: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.1.2 give a queue other properties; answers what L{queue} would.

        @raise MQError: as L{Administration.set}.
        """
        return await self._work._administration.set(path, properties)

    async def purge_queue(self, path: str) -> int:
        """[MS-MQDMPR] 3.1.7.1.7 Purge Queue: remove what is in it now, and answer how many these were.

        @raise MQError: as L{Administration.purge}.
        """
        return await self._work._administration.purge(path)

    async def delete_queue(self, path: str) -> None:
        """[MS-MQDMPR] 3.1.7.1.4 Delete Queue, with all that is in it; its readers are told.

        @raise MQError: as L{Administration.delete}.
        """
        await self._work._administration.delete(path)

    # Messages

    async def send(
        self, destination: str, messages: Sequence[Message], *, transaction: ITransaction | None = None
    ) -> list[MessageIdentifier]:
        """[MS-MQDMPR] 3.1.7.1.9: take these messages, all or none, and answer one identifier each.

        Done once everything recoverable is on disk. What belongs to a transaction is there when that
        commits; transactional messages without one are sent in one of their own.

        @param destination: a format name, several with commas, or the path of a local queue.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_ILLEGAL_FORMATNAME and its like for names;
            MQ_ERROR_INSUFFICIENT_RESOURCES over a quota; MQ_ERROR_TRANSACTION_SEQUENCE if the transaction
            has ended; or as L{Outbox.check}.
        """
        return await self._sender.send(await self._targets(destination), messages, transaction)

    async def _targets(self, destination: str) -> list[Target]:
        """The queues that a destination means; public ones of others are looked for, if need be."""
        while True:
            try:
                return destinations(self._work.model, destination, self._clock.now())
            except UnknownPublicQueue as unknown:
                if self._public is None:
                    raise
                await self._public.learn(unknown.name)

    async def reserve(
        self,
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transaction: ITransaction | None = None,
    ) -> Reservation:
        """[MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.15: lock what is there, or wait for the first message.

        Cancelling the wait loses nothing.

        @param queue: the path or format name of a queue of this queue manager.
        @param count: the most messages; there may be fewer.
        @param timeout: seconds; C{None} waits without a limit, 0 does not wait.
        @param peek: look only; the messages stay where they are, for everyone.
        @param transaction: decides about the messages; the reservation does not.
        @raise MQError: MQ_ERROR_IO_TIMEOUT if nothing came, MQ_ERROR_QUEUE_DELETED while waiting,
            MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a remote queue,
            MQ_ERROR_TRANSACTION_USAGE for a transaction on a queue that is not transactional,
            MQ_ERROR_TRANSACTION_SEQUENCE if the transaction has ended.
        """
        return await self._work._opening.reserve(queue, count, timeout, peek, transaction)

    async def receive(
        self, queue: str, *, timeout: float | None = None, transaction: ITransaction | None = None
    ) -> UserMessageView:
        """Receive one message: reserved, and removed for good before it is answered.

        In a transaction it is removed when that commits.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout, transaction=transaction)
        await reservation.confirm()
        return reservation.messages[0].view

    async def peek(self, queue: str, *, timeout: float | None = None) -> UserMessageView:
        """Look at the first message without taking it.

        @raise MQError: as L{reserve}.
        """
        reservation = await self.reserve(queue, timeout=timeout, peek=True)
        return reservation.messages[0].view

    # Open queues

    def open_queue(
        self,
        name: str,
        access: QueueAccessType = QueueAccessType.RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> OpenQueue:
        """[MS-MQDMPR] 3.1.7.1.5 Open Queue.

        @param name: the path or format name of a queue of this queue manager, or for sending of any;
            several with commas for sending. Outgoing queues can be opened by administrators too.
        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_SHARING_VIOLATION,
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, MQ_ERROR_UNSUPPORTED_ACCESS_MODE, or that the name is
            malformed.
        """
        return self._work._opening.open(name, access, share_mode)

    # Transactions

    def begin(self) -> TransactionHandle:
        """[MS-MQDMPR] 3.1.7.1.8 Create Transaction: an internal one."""
        return self._work._transactions.begin(self._new_identifier())

    def enlist(self, identifier: uuid.UUID) -> TransactionHandle:
        """Take part in a transaction of a distributed transaction coordinator: refused, as there is none.

        @raise MQError: MQ_ERROR_DTC_CONNECT.
        """
        return self._work._transactions.enlist(identifier)

    def transactions(self) -> list[dict[str, Any]]:
        """Every transaction that has not ended, in the order in which they began."""
        return list(map(self._transactions.describe, self._work.model.transacting.transactions))

    def transaction(self, identifier: uuid.UUID) -> dict[str, Any]:
        """One transaction, with what it does.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """
        core = self._work._transactions.find(identifier)
        return {
            **self._transactions.describe(core),
            "messages": self._transactions.describe_messages(core),
        }

    async def abort_transaction(self, identifier: uuid.UUID) -> None:
        """[MS-MQDMPR] 3.1.4.5 Abort a transaction, whoever has it.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it is ending.
        """
        await self._work._transactions.abort(self._transactions.find(identifier))

    # Single messages

    async def move(
        self, message: MessageIdentifier, target: str, *, transaction: ITransaction | None = None
    ) -> None:
        """[MS-MQDMPR] 3.1.7.1.16 Move Message, found by its identifier.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND, MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
            MQ_ERROR_INVALID_PARAMETER for queues that have nothing to do with each other,
            MQ_ERROR_TRANSACTION_USAGE for a transactional move into a system queue.
        """
        queue = readable_queue(self._work.model, target, self._clock.now())
        queue.users += 1
        try:
            position = await self._search.available(message, queue)
            source = position.queue
            if transaction is None:
                await move(self._performer, self.model.move(position, queue))
            else:
                self.model.transacting.lock_and_move(self._transactions.core(transaction), position, queue)
        finally:
            queue.users -= 1
            self._performer.forget_empty((queue,))
        self._performer.forget_empty((source,))

    async def dead_letters(self, limit: int = 1000) -> list[Place]:
        """What lies in both dead-letter queues, the first C{limit} of each."""
        return await self._work._search.dead_letters(limit)

    def each_dead_letter(self, limit: int = 1000) -> AsyncIterator[Place]:
        """The same one by one, so that the packets of all of them need not be in memory."""
        return self._work._search.each_dead_letter(limit)

    async def requeue(self, message: MessageIdentifier) -> MessageIdentifier:
        """Send a dead letter again to the queue that it was for, and remove it, in one step.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND if it is no dead letter, or as L{send}.
        """
        return await self._work._search.requeue(message)

    async def explain(self, message: MessageIdentifier) -> Explanation:
        """All that is known of a message: where it is, what happened to it, and what is odd of its sender."""
        explanation = await self._work._search.explain(message)
        notices = list(self._peers.notices(message))
        return attrs.evolve(explanation, events=[*explanation.events, *notices]) if notices else explanation

    # Message logs

    async def log_extent(self, path: str) -> LogExtent:
        """What the message log of a queue holds.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the store failed.
        """
        return await self._logs.extent(own_queue(self._work.model, path))

    async def replay(
        self,
        path: str,
        into: str,
        *,
        first: int = 0,
        last: int | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> int:
        """Send copies of what the message log of a queue holds, and answer how many these were.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or as L{send}; what was sent before stays sent.
        """
        queue = own_queue(self._work.model, path)
        return await self._logs.replay(queue, into, first=first, last=last, since=since, until=until)


def _nobody(identifier: uuid.UUID) -> uuid.UUID | None:
    """Without a directory nobody knows who has a public queue."""
    return None
