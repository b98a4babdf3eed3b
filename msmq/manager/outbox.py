"""Creates and enqueues outgoing messages, of applications and of the queue manager itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.background import undivided
from msmq.manager.acknowledgement_batch import AcknowledgementBatch, Answer, LaterAnswer
from msmq.manager.applications.destinations import Destinations
from msmq.manager.applications.targets import SendTarget
from msmq.manager.membership.public_names import UnknownPublicQueue
from msmq.manager.peers.final_acks import FinalAcks
from msmq.manager.peers.peer_queue_limits import PeerQueueLimits
from msmq.manager.performer import Performer
from msmq.manager.result_records import MessageResult
from msmq.manager.securing.signatures import Signer
from msmq.manager.waiting_results import WaitingResults
from msmq.persistence.changes import Change
from msmq.queues.arriving.acknowledgement import Acknowledgement, acknowledgement
from msmq.queues.arriving.admission import Admission, EnqueueRefusal, EnqueueStatus
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.send_run import templates_of
from msmq.queues.holdings import Storage, forget_queues
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.queue import Queue
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.message_class import MessageClass, is_application_class
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MessageTooLarge, MQError, Status
from msmq.wire.reader import Reader

_REFUSALS = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: "the quota of the queue is exceeded",
    EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED: "the quota of all queues is exceeded",
    EnqueueStatus.TIMED_OUT_IN_TRANSIT: "its time to reach the queue has expired",
    EnqueueStatus.QUEUE_DELETED: "the queue was deleted",
}

_QUOTAS = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: "the quota of the queue",
    EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED: "the quota of all queues",
}


def refuse(refusals: Sequence[EnqueueRefusal], count: int, storage: Storage) -> None:
    """Raise the error for the first refused message.

    @param storage: the limits of all queues together.
    @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES, as a L{MessageTooLarge} if it can never be sent; nothing
        if there is no refusal. A quota of 0 is about no message: it closes the queue until it is changed.
    """
    for refusal in refusals:
        what = f"message {refusal.index + 1} of {count} for {refusal.queue.definition.path}: "
        size, limit = refusal.view.size, _limit_of(refusal, storage)
        if limit and size > limit:
            raise MessageTooLarge(
                f"{what}{_QUOTAS[refusal.status]} is exceeded: its packet of {size} bytes is larger than"
                f" all of it, {limit} bytes"
            )
        is_full = refusal.status is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED and storage.throttled
        reason = "the store is full" if is_full else _REFUSALS[refusal.status]
        raise MQError(Status.MQ_ERROR_INSUFFICIENT_RESOURCES, what + reason)


def _limit_of(refusal: EnqueueRefusal, storage: Storage) -> int | None:
    """Bytes of the quota that refuses a message; C{None} if there is none, or the store is full."""
    match refusal.status:
        case EnqueueStatus.QUEUE_QUOTA_EXCEEDED:
            return refusal.queue.quota_bytes
        case EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED if not storage.throttled:
            return storage.limit
    return None


class Outbox:
    """Numbers messages, builds their packets, and puts them into local or outgoing queues.

    @param signer: adds sender identifiers to packets, and signs them.
    @param peer_queues: the limits on outgoing queues that are created for names that a peer chose.
    @param final_acks: the FinalAcks of transactional messages.
    @param send_insecure: [MS-MQQB] 3.1.7.15 SendInsecureNacks: whether negative acknowledgements that would
        reveal which queues exist are sent.
    @ivar acknowledgements: those sent since the process began: C{administration}, C{final} and C{order}. One
        counts once it is stored in its queue.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        destinations: Destinations,
        signer: Signer,
        peer_queues: PeerQueueLimits,
        final_acks: FinalAcks,
        *,
        send_insecure: bool,
    ) -> None:
        self._performer = performer
        self._destinations = destinations
        self._send_insecure = send_insecure
        self._signer = signer
        self._peer_queues = peer_queues
        self._final_acks = final_acks
        self._waiting = WaitingResults(
            performer,
            lambda results, ignores: self._batch(results).store(ignores_throttle=ignores),
        )
        self.acknowledgements: Counter[str] = Counter()

    def configure(self, *, send_insecure: bool) -> None:
        """Change SendInsecureNacks, for FinalAcks as well."""
        self._send_insecure = send_insecure
        self._final_acks.configure(send_insecure=send_insecure)

    async def put(
        self,
        targets: Sequence[SendTarget],
        messages: Sequence[Message],
        also: Callable[[int], Sequence[Change]] = lambda first: (),
    ) -> int:
        """Accept these messages for each target, all or none. [MS-MQDMPR] 3.1.7.1.9.

        Done once every recoverable message is on disk.

        @param also: changes to store with them; called with the first MessageID.
        @return: the first MessageID; the others are consecutive.
        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES over a quota, or that the store failed.
        """
        performer = self._performer
        performer.check_running()
        first, arrivals = self.build(targets, messages)
        admission = performer.model.admit(arrivals, performer.clock.now())
        try:
            refuse(admission.refusals, len(arrivals), performer.model.storage)
            added = also(first)
        except Exception:
            self._withdraw(admission)
            raise
        local: set[Queue] = set()
        for target in targets:
            if target.is_local:
                local.add(target.queue)
        answers = self.answers()
        if local:
            arrived = (view for queue, view in arrivals if queue in local)
            answers.add(arrived, MessageClass.ACK_REACH_QUEUE)
        consequences = [*answers.prepare(), *added]
        if admission.changes or admission.overflow or consequences:
            await undivided(self._store(admission, answers, consequences))
        else:
            self._show(admission, answers)
        return first

    async def _store(
        self,
        admission: Admission,
        answers: AcknowledgementBatch | None = None,
        consequences: Sequence[Change] = (),
    ) -> None:
        performer = self._performer
        try:
            await performer.commit([*admission.changes, *consequences])
        except Exception:
            self._withdraw(admission)
            if answers is not None:
                answers.withdraw()
            raise
        performer.overflow(admission)
        if (drained := performer.drained()) is not None:
            await drained
        self._show(admission, answers)

    def _withdraw(self, admission: Admission) -> None:
        self._performer.model.withdraw(admission)
        forget_queues(admission.overflow, admission.groups)

    def _show(self, admission: Admission, answers: AcknowledgementBatch | None) -> None:
        performer = self._performer
        now = performer.clock.now()
        effects = performer.model.commit(admission, now)
        if answers is not None:
            answers.show()
        # Effects in their queues come after their arrival.
        performer.perform(effects, now)

    def send_in(
        self,
        transaction: Transaction,
        targets: Sequence[SendTarget],
        messages: Sequence[Message],
        *,
        spare: int = 0,
    ) -> int:
        """Accept these messages for each target when a transaction commits. [MS-MQDMPR] 3.1.7.1.9.

        @param spare: bytes that they may take beyond QueueManagerQuota: they replace messages that leave.
        @return: the first MessageID; the others are consecutive. They are valid once it has committed.
        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES over a quota, MQ_ERROR_TRANSACTION_SEQUENCE if the
        transaction has ended; no message was accepted.
        """
        self._performer.check_running()
        first, arrivals = self.build(targets, messages)
        self._enqueue(transaction, arrivals, spare)
        return first

    async def send_in_open(
        self, transaction: Transaction, targets: Sequence[SendTarget], messages: Sequence[Message]
    ) -> int:
        """The same for a transaction that continues: the numbers are valid at once.

        They are not reused, whether it commits or not.

        @raise MQError: as L{send_in}, or that the store failed.
        """
        self._performer.check_running()
        transaction.check_active()
        first, arrivals = self.build(targets, messages)
        if changes := self._performer.model.reservations():
            await undivided(self._reserve(changes))
        self._enqueue(transaction, arrivals)
        return first

    def _enqueue(self, transaction: Transaction, arrivals: Sequence[Answer], spare: int = 0) -> None:
        performer = self._performer
        now = performer.clock.now()
        refused = performer.model.transacting.send(transaction, arrivals, now, spare=spare)
        refuse(refused, len(arrivals), performer.model.storage)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the results that waited for space when the process ended.

        @raise msmq.persistence.state_records.StateError: a value is damaged.
        """
        self._waiting.load(state)

    def start(self) -> None:
        """Send these, and reserve MessageIDs in advance, so that senders do not wait for that."""
        self._waiting.start()
        changes = self._performer.model.reservations()
        Deferred.fromCoroutine(self._reserve(changes)).addErrback(
            lambda failure: self.log.error("MessageIDs could not be reserved: {error}", error=failure.value)
        )

    def stop(self) -> None:
        """Store the results that wait for space, as far as there is some."""
        self._waiting.stop()

    async def _reserve(self, changes: Sequence[Change]) -> None:
        await self._performer.commit(changes)
        self._performer.model.stored(changes)

    def check(self, messages: Sequence[Message], targets: Iterable[SendTarget]) -> None:
        """Check that these queues accept such messages.

        @raise MQError: MQ_ERROR_TRANSACTION_USAGE for a kind of message that the queue does not accept;
            MQ_ERROR_UNSUPPORTED_OPERATION for a recoverable message without a durable store;
            MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a class of the system's own;
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a body to be encrypted for a direct name, which does
            not identify a key ([MS-MQQB] 5.1); MQ_ERROR_CERTIFICATE_NOT_PROVIDED for one that is not signed
            by a user, for a local queue that requires it.
        """
        store = self._performer.store
        is_durable = store.durable
        targets = list(targets)
        own = [target.queue.definition for target in targets if target.is_local]
        for message in templates_of(messages):
            if not is_durable and message.is_recoverable:
                raise MQError(
                    Status.MQ_ERROR_UNSUPPORTED_OPERATION,
                    f"a recoverable message needs a durable store; {store.name} does not survive a restart",
                )
            if message.message_class and not is_application_class(message.message_class):
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                    f"class {message.message_class:#06x} is reserved for queue managers; an application "
                    f"cannot send it",
                )
            if message.privacy_level and (direct := [each.name for each in targets if each.has_no_key]):
                raise MQError(
                    Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
                    f"{direct[0]} is a direct name, for which encryption is not possible; use PUBLIC= "
                    "or PRIVATE=",
                )
            for definition in own:
                if definition.transactional != message.transactional:
                    kind = (
                        "no transactional messages"
                        if message.transactional
                        else "transactional messages only"
                    )
                    raise MQError(Status.MQ_ERROR_TRANSACTION_USAGE, f"{definition.path} accepts {kind}")
                if definition.authenticate and not message.authentication_level:
                    raise MQError(
                        Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                        f"{definition.path} accepts only authenticated messages, and this one is not signed",
                    )
                if definition.authenticate and message.sender_identifier_type not in (None, SenderIdType.SID):
                    raise MQError(
                        Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                        f"{definition.path} accepts only authenticated messages, and this one has no "
                        "user as its sender",
                    )

    def build(
        self, targets: Sequence[SendTarget], messages: Sequence[Message]
    ) -> tuple[int, list[tuple[Queue, UserMessageView]]]:
        """Number messages and build their packets, for each target; also returns the first number.

        @raise MQError: one cannot be signed; as L{msmq.manager.securing.signatures.Signer.secure}.
        """
        model = self._performer.model
        first = model.take_message_ids(len(messages))
        sent_time = self._performer.clock.now().unix_seconds
        arrivals: list[tuple[Queue, UserMessageView]] = []
        signer = self._signer
        are_signed = signer.sends_sender
        for message in templates_of(messages):
            if message.authentication_level or message.sender_identifier_type:
                are_signed = True
        for target in targets:
            queue = target.queue
            packets = target.builder.views(messages, first, sent_time)
            if are_signed:
                packets = [
                    signer.secure(packet, message, target.is_local)
                    if message.authentication_level or message.sender_identifier_type or signer.sends_sender
                    else packet
                    for packet, message in zip(packets, messages, strict=True)
                ]
            arrivals += [(queue, packet) for packet in packets]
        return first, arrivals

    def answers(self) -> AcknowledgementBatch:
        """A batch for acknowledgements and reports, to be stored with the changes of their messages."""
        return AcknowledgementBatch(self._performer, self._answer, self._waiting, self.acknowledgements)

    def _batch(self, results: Sequence[MessageResult]) -> AcknowledgementBatch:
        """A batch of results of messages that have left before."""
        return AcknowledgementBatch(
            self._performer, self._answer, self._waiting, self.acknowledgements, results
        )

    async def send_own(self, name: FormatName, message: Message, source: bytes) -> None:
        """Send a message of this queue manager, such as a report, to a queue that a peer chose.

        @param source: the queue manager whose message names the queue.
        @raise MQError: that queue cannot be sent to, or takes transactional messages only; there are too
            many outgoing queues; or as L{put}.
        """
        await self.put([await self._learned(name, source)], [message])

    async def _learned(self, name: FormatName, source: bytes) -> SendTarget:
        """The queue that a peer chose; a public one is looked up if necessary."""
        try:
            return self._target(name, source)
        except UnknownPublicQueue as unknown:
            await self._destinations.learn(unknown)
            return self._target(name, source)

    def _later_answer(
        self, answer: Acknowledgement, view: UserMessageView, message_class: MessageClass, is_refusal: bool
    ) -> LaterAnswer:
        """An acknowledgement for a public queue that has to be looked up first."""

        async def send(record: int) -> None:
            target = await self._learned(answer.destination, source)
            self._performer.check_running()
            [(queue, packet)] = self.build([target], [answer.message])[1]
            result = MessageResult(queue, packet, about, message_class, not is_refusal, record=record)
            self._batch([result]).send()

        def dropped(failure: Failure, record: int) -> None:
            failure.trap(MQError)
            if record and self._performer.is_stopped:
                # The next start sends what is recorded.
                return
            self._waiting.drop_record(record)
            if (others := self._performer.peer_line("acknowledgement")) is not None:
                self.log.warn(
                    "acknowledgement of message {message} not sent: {error}{others}",
                    message=MessageIdentifier.read(Reader(about)),
                    error=failure.value,
                    others=others,
                )

        # The message, which may be large, does not stay in memory meanwhile.
        source, about = view.source_queue_manager, view.identity
        name, kept = answer.destination, None
        if answer.message.is_recoverable:
            performer = self._performer
            first, sent_time = performer.model.take_message_ids(1), performer.clock.now().unix_seconds
            [kept] = self._destinations.unplaced(name).views([answer.message], first, sent_time)
            if self._signer.sends_sender:
                kept = self._signer.secure(kept, answer.message, False)
        return LaterAnswer(
            name,
            kept,
            about,
            message_class,
            lambda record: Deferred.fromCoroutine(send(record)).addErrback(dropped, record),
        )

    async def put_packet(self, name: FormatName, packet: bytes, source: bytes = b"") -> None:
        """Send a packet of this queue manager to a remote queue.

        @param source: the queue manager on whose behalf it is sent; C{None} for this one.
        @raise MQError: there are too many outgoing queues, or the store failed.
        """
        model = self._performer.model
        now = self._performer.clock.now()
        self._require_room(name, source)
        view = UserMessageView(packet)
        # Peers can cause OrderAcks as they can refusals.
        spare = model.storage.spare_for(0, view.size)
        admission = model.admit([(model.outgoing(name, now), view)], now, spare=spare)
        try:
            refuse(admission.refusals, 1, model.storage)
        except MQError:
            self._withdraw(admission)
            raise
        await self._store(admission)

    def _answer(
        self, view: UserMessageView, message_class: MessageClass, is_refusal: bool, only_at: str | None
    ) -> Iterator[Answer | LaterAnswer]:
        """The administration acknowledgement, and the FinalAck. [MS-MQQB] 3.1.7.15 and 3.1.7.2.2."""
        model = self._performer.model
        if view.is_transactional:
            final_ack = self._final_acks.final_ack(view, message_class, is_refusal, only_at)
            if final_ack is not None and self._peer_queues.make(
                final_ack[0], view.source_queue_manager, only_at
            ):
                name, packet = final_ack
                yield model.outgoing(name, self._performer.clock.now()), UserMessageView(packet)
        answer = acknowledgement(
            view, message_class, queue_manager=model.identifier, send_insecure=self._send_insecure
        )
        if answer is not None:
            try:
                target = self._target(answer.destination, view.source_queue_manager)
            except UnknownPublicQueue:
                yield self._later_answer(answer, view, message_class, is_refusal)
            else:
                yield from self.build([target], [answer.message])[1]

    def _require_room(self, name: FormatName, source: bytes) -> None:
        if not self._peer_queues.make(name, source, None):
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                "the limit on outgoing queues, in total or on behalf of one host, is reached",
            )

    def _target(self, name: FormatName, source: bytes) -> SendTarget:
        if not self._performer.model.is_local(name):
            self._require_room(name, source)
        target = self._destinations.one(name)
        if target.is_local and target.queue.definition.transactional:
            raise MQError(Status.MQ_ERROR_TRANSACTION_USAGE, f"{name} accepts only transactional messages")
        return target
