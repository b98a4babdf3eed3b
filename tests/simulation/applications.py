"""Applications of a simulated estate: what they do, recorded as a history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.history_checker.recorder import Recorder

if TYPE_CHECKING:
    from msmq.manager.applications.reservation import Reservation
    from tests.simulation.host import Host

PAYMENTS, LETTERS, MISSING, ADMIN, KEPT = "payments", "letters", "missing", "admin", "kept"
QUEUES: Final = (PAYMENTS, LETTERS)
"""Where applications receive; the first is transactional."""

WISHES: Final = (
    Acknowledge.NONE,
    Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
    Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL,
    Acknowledge.NEGATIVE_RECEIVE,
    Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
)
SIZES: Final = (0, 40, 700, 0, 3000)


class Aborted(Exception):
    """The application aborts its transaction."""


@attrs.define
class Batch:
    """Messages that were sent together.

    @ivar first_id: the MessageID of the first, once it is known.
    """

    guid: bytes
    first: int
    count: int
    first_id: int | None = None


@attrs.frozen
class Sending:
    """Messages that are being sent, and the operation that does."""

    destination: str
    messages: Sequence[Message]
    batch: Batch
    operation: int


class Applications:
    """All applications of an estate.

    @ivar batches: by the number of its first message.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._record = recorder
        self._next = 1
        self.batches: dict[int, Batch] = {}

    # Sending

    def send(
        self,
        sender: Host,
        receiver: Host,
        queue: str,
        count: int,
        reach: int | None,
        received: int | None,
        is_express: bool,
        size: int | None = None,
        answered: Host | None = None,
    ) -> None:
        """Send messages, without waiting for anything."""
        sending = self.begin_send(
            sender,
            receiver,
            queue,
            count,
            reach,
            received,
            is_express=is_express,
            size=size,
            answered=answered,
        )
        sender.begin(self._send(sender, sending))

    def begin_send(
        self,
        sender: Host,
        receiver: Host,
        queue: str,
        count: int,
        reach: int | None = None,
        received: int | None = None,
        *,
        is_express: bool = False,
        size: int | None = None,
        answered: Host | None = None,
        **facts: Any,
    ) -> Sending:
        """New messages for a queue of a host, and the operation that sends them.

        @param size: bytes of each body; by default it depends on the number of the message.
        @param answered: the host of the administration queue; by default the sender.
        @param facts: more of the operation.
        """
        is_transactional = queue == PAYMENTS
        first, self._next = self._next, self._next + count
        numbers = range(first, first + count)
        batch = self.batches[first] = Batch(sender.guid.bytes_le, first, count)
        delivery = Delivery.EXPRESS if is_express and not is_transactional else Delivery.RECOVERABLE
        admin = parse_format_name(sender.world.format_name(sender, answered or sender, ADMIN))
        messages = [
            Message(
                body=body_of(number, size),
                application_tag=number,
                transactional=is_transactional,
                delivery=delivery,
                journal=number % 3 == 0,
                dead_letter=number % 2 == 0,
                acknowledge=WISHES[number % len(WISHES)],
                admin_queue=admin if WISHES[number % len(WISHES)] else None,
                time_to_reach_queue=INFINITE if reach is None else reach,
                time_to_be_received=INFINITE if received is None else received,
            )
            for number in numbers
        ]
        limits = [name for name, limit in (("reach", reach), ("receive", received)) if limit is not None]
        operation = self._record.begin(
            "send",
            sender=sender.name,
            queue=f"{receiver.name} {queue}",
            messages=[(f"{number}", digest_of(body_of(number, size))) for number in numbers],
            transactional=is_transactional,
            recoverable=delivery is Delivery.RECOVERABLE,
            # TimeToBeReceived counts on the way too.
            limits=["reach", *limits] if received is not None and reach is None else limits,
            **(_asked(messages) if sender.world.plan.handling is not None else {}),
            **facts,
        )
        return Sending(sender.world.format_name(sender, receiver, queue), messages, batch, operation)

    def begin_again(
        self, sender: Host, receiver: Host, queue: str, view: UserMessageView, **facts: Any
    ) -> Sending:
        """A new message that has the properties of another one, and the operation that sends it."""
        number, self._next = self._next, self._next + 1
        batch = self.batches[number] = Batch(sender.guid.bytes_le, number, 1)
        is_own = view.source_queue_manager == batch.guid
        operation = self._record.begin(
            "send",
            sender=sender.name,
            queue=f"{receiver.name} {queue}",
            messages=[(f"{number}", digest_of(body_of(number)))],
            transactional=view.is_transactional,
            recoverable=view.is_recoverable,
            limits=[] if view.time_to_be_received == INFINITE else ["reach", "receive"],
            journal=[f"{number}"] if view.journal and is_own else [],
            proof={},
            **facts,
        )
        return Sending(sender.world.format_name(sender, receiver, queue), (), batch, operation)

    async def _send(self, sender: Host, sending: Sending) -> None:
        life = sender.life
        try:
            identifiers = await sender.service.send(sending.destination, sending.messages)
        except MQError:
            if life == sender.life and not sender.system.is_unclear:
                self._record.end(sending.operation, "refused")
            return
        if life == sender.life:
            sending.batch.first_id = identifiers[0].ordinal
            self._record.end(sending.operation, "done")

    # Receiving

    def receive(self, host: Host, queue: str, count: int, timeout: float, result: str, held: float) -> None:
        """Receive messages, hold them for a time, and confirm or release them."""
        is_transaction = result in ("transaction", "abort") and queue == PAYMENTS
        operation = self._record.begin("receive", queue=f"{host.name} {queue}")
        receive = self._transact if is_transaction else self._receive
        host.begin(
            receive(host, queue, count, timeout, result in ("confirm", "transaction"), held, operation)
        )

    async def _receive(
        self, host: Host, queue: str, count: int, timeout: float, is_kept: bool, held: float, operation: int
    ) -> None:
        life = host.life
        result = "refused"
        is_unclear = False
        try:
            reservation = await host.service.reserve(path_of(queue), count=count, timeout=timeout)
            if life != host.life:
                return
            self.shown(operation, reservation)
            result = "returned"
            await pause(host, held)
            if is_kept:
                await reservation.confirm()
                result = "done"
            else:
                reservation.release()
        except MQError:
            is_unclear = result == "returned" and host.system.is_unclear
        if life == host.life and not is_unclear:
            self._record.end(operation, result)

    async def _transact(
        self, host: Host, queue: str, count: int, timeout: float, is_kept: bool, held: float, operation: int
    ) -> None:
        life = host.life
        result = "refused"
        is_unclear = False
        try:
            async with host.service.begin() as transaction:
                reservation = await host.service.reserve(
                    path_of(queue), count=count, timeout=timeout, transaction=transaction
                )
                if life != host.life:
                    return
                self.shown(operation, reservation)
                result = "returned"
                await pause(host, held)
                if not is_kept:
                    raise Aborted
            result = "done"
        except Aborted:
            pass
        except MQError:
            is_unclear = result == "returned" and host.system.is_unclear
        if life == host.life and not is_unclear:
            self._record.end(operation, result)

    def shown(self, operation: int, reservation: Reservation) -> None:
        """Record the messages that an operation has received."""
        views = [message.view for message in reservation.messages]
        self._record.shown(operation, map(self.look, views))

    def look(self, view: UserMessageView) -> tuple[str, str]:
        """The label of a message and the digest of its body; its identifier is noted."""
        number = view.application_tag
        self.identify(number, view.source_queue_manager, view.message_id)
        return f"{number}", digest_of(bytes(view.body))

    def identify(self, number: int, source: bytes, message_id: int) -> None:
        """The MessageID of a message is known; one that was drained has another source."""
        for batch in self.batches.values():
            is_in = batch.first <= number < batch.first + batch.count
            if is_in and batch.first_id is None and source == batch.guid:
                batch.first_id = message_id - (number - batch.first)

    def labels(self) -> dict[bytes, str]:
        """The labels of messages by SourceQueueManager and MessageID, of all that are known."""
        found: dict[bytes, str] = {}
        for batch in self.batches.values():
            if batch.first_id is not None:
                for index in range(batch.count):
                    identity = batch.guid + (batch.first_id + index).to_bytes(4, "little")
                    found[identity] = f"{batch.first + index}"
        return found


def _asked(messages: Sequence[Message]) -> dict[str, Any]:
    """The copies and acknowledgements that messages ask for, as facts of the operation that sends them."""
    proof = {
        f"{message.application_tag}": "received"
        if message.acknowledge & Acknowledge.POSITIVE_RECEIVE
        else "reached"
        for message in messages
        if message.acknowledge & (Acknowledge.POSITIVE_RECEIVE | Acknowledge.POSITIVE_ARRIVAL)
    }
    return {"journal": [f"{each.application_tag}" for each in messages if each.journal], "proof": proof}


async def drain(host: Host, path: str) -> list[ReceivedMessage]:
    """Receive all that is in a queue.

    @raise MQError: the host stopped.
    """
    found: list[ReceivedMessage] = []
    while host.service.inspection.queue(path).messages:
        try:
            reservation = await host.service.reserve(path, count=200, timeout=0)
        except MQError as error:
            if error.status != Status.MQ_ERROR_IO_TIMEOUT:
                raise
            # What was left was damaged, and is being removed.
            await pause(host, 1.0)
            continue
        await reservation.confirm()
        found += reservation.messages
    return found


async def pause(host: Host, seconds: float) -> None:
    """Wait; without an end if the host loses its power."""
    if seconds:
        passed: Deferred[None] = Deferred()
        host.host.callLater(seconds, passed.callback, None)
        await passed


def path_of(queue: str) -> str:
    """The path of a queue; the names of system queues are paths."""
    return queue if queue.startswith(".") else f".\\private$\\{queue}"


def body_of(number: int, size: int | None = None) -> bytes:
    """The body of a message."""
    return b"%06d" % number + b"." * (SIZES[number % len(SIZES)] if size is None else size)


def digest_of(body: bytes) -> str:
    """The digest of a body."""
    return f"{crc32(body):08x}"
