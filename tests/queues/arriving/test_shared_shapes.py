"""Messages that share one shape are enqueued together, with the same result as one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutMessage, single_changes
from msmq.queues.arriving import admission
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA
from tests.queues.builders import NOW, ORDERS, create, delete, model

ADMIN = parse_format_name("DIRECT=OS:BETA\\private$\\admin")


@attrs.frozen(kw_only=True)
class Case:
    """Messages with these properties, sent to a queue of a model.

    @ivar size: of each body.
    """

    message: dict[str, Any] = attrs.field(factory=dict)
    count: int = 3
    size: int = 10
    sent_time: int = NOW.unix_seconds
    queue: Callable[[QueueManagerModel], Queue] = create
    prepare: Callable[[QueueManagerModel, Queue], None] = lambda alpha, queue: None

    def packets(self) -> list[bytes]:
        """The packets, with consecutive numbers."""
        return [
            build_packet(
                Message(body=bytes([number % 256]) * self.size, **self.message),
                ORDERS,
                source=ALPHA,
                message_id=number,
                sent_time=self.sent_time,
            )
            for number in range(self.count)
        ]

    def views(self, *, is_shared: bool) -> list[UserMessageView]:
        """The messages; with one shape, or each with its own."""
        packets = self.packets()
        shape = UserMessageView(packets[0]).shape
        return [
            UserMessageView.shaped(packet, shape) if is_shared else UserMessageView(packet)
            for packet in packets
        ]


def outgoing(alpha: QueueManagerModel) -> Queue:
    """A queue for another computer."""
    return alpha.outgoing(parse_format_name("DIRECT=OS:BETA\\private$\\orders"), NOW)


def logged(alpha: QueueManagerModel) -> Queue:
    """A queue with a message log."""
    queue = create(alpha)
    alpha.altered(alpha.alter_queue(queue, NOW, log=True))
    return queue


def subqueue(alpha: QueueManagerModel) -> Queue:
    """A subqueue."""
    return alpha.collection.subqueue(create(alpha), "sub", NOW)


def deadletter(alpha: QueueManagerModel) -> Queue:
    """A queue of the system."""
    return alpha.system_queue(QueueSuffix.DEADLETTER)


def small(kilobytes: int) -> Callable[[QueueManagerModel], Queue]:
    """A queue with a quota."""
    return lambda alpha: create(alpha, quota=kilobytes)


def express_memory(size: int) -> Callable[[QueueManagerModel, Queue], None]:
    """Express messages have this many bytes of memory."""

    def prepare(alpha: QueueManagerModel, queue: Queue) -> None:
        alpha.storage.express_limit = size

    return prepare


def limit(size: int) -> Callable[[QueueManagerModel, Queue], None]:
    """All queues together have this many bytes."""

    def prepare(alpha: QueueManagerModel, queue: Queue) -> None:
        alpha.storage.limit = size

    return prepare


RECOVERABLE: dict[str, Any] = {"delivery": Delivery.RECOVERABLE}
TRANSACTIONAL: dict[str, Any] = {"transactional": True}
SIZE = len(Case().packets()[0])
RECOVERABLE_SIZE = len(Case(message=RECOVERABLE).packets()[0])
TRANSACTIONAL_SIZE = len(Case(message=TRANSACTIONAL).packets()[0])

CASES = {
    "express": Case(),
    "recoverable": Case(message=RECOVERABLE),
    "transactional": Case(message=TRANSACTIONAL),
    "urgent": Case(message={"priority": 7}),
    "urgent and recoverable": Case(message={**RECOVERABLE, "priority": 7}),
    "transactional and urgent": Case(message={**TRANSACTIONAL, "priority": 7}),
    "mortal": Case(message={"time_to_be_received": 60}),
    "mortal and recoverable": Case(message={**RECOVERABLE, "time_to_be_received": 60}),
    "acknowledged": Case(message={**RECOVERABLE, "acknowledge": Acknowledge(1), "admin_queue": ADMIN}),
    "with dead letters": Case(message={**RECOVERABLE, "dead_letter": True}),
    "acknowledged with dead letters": Case(
        message={**RECOVERABLE, "dead_letter": True, "acknowledge": Acknowledge(1), "admin_queue": ADMIN}
    ),
    "journaled": Case(message={**RECOVERABLE, "journal": True}),
    "journaled later": Case(message={**TRANSACTIONAL, "journal": True}),
    "journaled in transit": Case(message={"journal": True}, queue=outgoing),
    "outgoing": Case(message=RECOVERABLE, queue=outgoing),
    "outgoing and mortal": Case(message={"time_to_reach_queue": 60}, queue=outgoing),
    "outgoing and just in time": Case(
        message={"time_to_reach_queue": 60}, sent_time=NOW.unix_seconds - 60, queue=outgoing
    ),
    "outgoing and late": Case(
        message={"time_to_reach_queue": 60}, sent_time=NOW.unix_seconds - 61, queue=outgoing
    ),
    "logged": Case(message=RECOVERABLE, queue=logged),
    "subqueue": Case(message=TRANSACTIONAL, queue=subqueue),
    "system queue": Case(message=TRANSACTIONAL, queue=deadletter),
    "two": Case(message=RECOVERABLE, count=2),
    "full change": Case(message=RECOVERABLE, count=4),
    "one more": Case(message=RECOVERABLE, count=5),
    "three changes": Case(message=RECOVERABLE, count=10),
    "quota that fits": Case(size=1024 - SIZE + 10, queue=small(3)),
    # A body is padded to a multiple of four bytes.
    "quota that is too small": Case(size=1025 - SIZE + 12, queue=small(3)),
    "machine quota that fits": Case(prepare=limit(3 * SIZE)),
    "machine quota that is too small": Case(prepare=limit(3 * SIZE - 1)),
    "transactional in a machine quota": Case(message=TRANSACTIONAL, prepare=limit(3 * TRANSACTIONAL_SIZE)),
    "transactional beyond it": Case(message=TRANSACTIONAL, prepare=limit(3 * TRANSACTIONAL_SIZE - 1)),
    "memory that fits": Case(prepare=express_memory(3 * SIZE)),
    "memory that is too small": Case(prepare=express_memory(3 * SIZE - 1)),
    "recoverable without memory": Case(message=RECOVERABLE, prepare=express_memory(0)),
    "deleted": Case(prepare=delete),
}

REFUSED = {
    "outgoing and late",
    "quota that is too small",
    "machine quota that is too small",
    "transactional beyond it",
    "deleted",
}
"""The cases some of whose messages are refused."""


def shown(positions: Sequence[MessagePosition]) -> list[object]:
    """All that positions have."""
    return [
        (
            each.lookup_id,
            each.queue.definition.path,
            each.packet,
            each.size,
            each.arrived,
            each.state,
            each.kept,
            each.due,
            each.aborts,
            each.moves,
            each.is_cached,
            each.insertion,
            each.event_only,
        )
        for each in positions
    ]


def counted(alpha: QueueManagerModel, queue: Queue) -> list[object]:
    """All that is counted, and what is in the queue."""
    storage = alpha.storage
    return [
        (storage.used, storage.messages, storage.express, storage.cached, storage.journaled),
        (queue.total_bytes, queue.subqueue_bytes, queue.is_stored),
        None if queue.parent is None else queue.parent.subqueue_bytes,
        {number: shown([position]) for number, position in queue.positions.items()},
    ]


class AdmissionTests(SynchronousTestCase):
    """Messages that come in."""

    def setUp(self) -> None:
        self.patch(admission, "RUN", 4)

    def result(self, case: Case, *, is_shared: bool) -> list[object]:
        """All that an admission answers, and what it has changed."""
        alpha = model()
        queue = case.queue(alpha)
        case.prepare(alpha, queue)
        arrived = alpha.admit([(queue, view) for view in case.views(is_shared=is_shared)], NOW)
        found = [
            arrived.changes,
            arrived.overflow,
            [(queue.definition.path, shown(positions)) for queue, positions in arrived.groups.items()],
            shown(arrived.mortal),
            [(refusal.index, refusal.view.packet, refusal.status) for refusal in arrived.refusals],
            [number for _, number in arrived.journaled],
            shown(arrived.copies),
            counted(alpha, queue),
        ]
        alpha.commit(arrived, NOW)
        return [*found, shown(queue.peek(1000)), alpha.deadline(NOW), queue.arrived_count]

    def test_as_one_by_one(self) -> None:
        """The changes, the positions, the refusals and the counts are the same, whatever the messages are."""
        for name, case in CASES.items():
            with self.subTest(name):
                together = self.result(case, is_shared=True)
                apart = self.result(case, is_shared=False)
                self.assertEqual(together, apart)
                self.assertEqual(bool(together[4]), name in REFUSED)

    def test_several_queues_and_shapes(self) -> None:
        """Each message is stored in its queue, at its place, wherever queue or shape change in a batch."""
        alpha = model()
        first, second = create(alpha), create(alpha, "other")
        case = Case(message=RECOVERABLE, count=7)
        for queues in (
            [first, first, second, second, first, second, second],
            [first] * 5 + [second] * 2,
            [first] + [second] * 6,
        ):
            for is_shared in (True, False):
                views = case.views(is_shared=is_shared)
                arrived = alpha.admit(list(zip(queues, views, strict=True)), NOW)
                stored: dict[tuple[UUID, int], bytes] = {}
                for change in single_changes(arrived.changes):
                    if isinstance(change, PutMessage):
                        stored[change.queue, change.lookup_id] = change.packet
                expected = {
                    (each.queue.definition.identifier, each.lookup_id): each.packet
                    for each in arrived.positions
                }
                self.assertEqual(stored, expected)
                numbers = sorted(number for _, number in expected)
                self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(views))))
                for queue, number, view in zip(queues, numbers, views, strict=True):
                    self.assertEqual(queue.positions[number].packet, view.packet)
                alpha.withdraw(arrived)


class TransactionTests(SynchronousTestCase):
    """Messages that a transaction sends."""

    def result(self, case: Case, *, is_shared: bool) -> list[object]:
        """What sending and a commit answer, and what they have changed."""
        alpha = model()
        queue = case.queue(alpha)
        case.prepare(alpha, queue)
        transacting = alpha.transacting
        transaction: Transaction = transacting.transactions.create(UUID(int=1), NOW.wall)
        views = case.views(is_shared=is_shared)
        refusals = transacting.send(transaction, [(queue, view) for view in views], NOW)
        found = [
            [(refusal.index, refusal.view.packet, refusal.status) for refusal in refusals],
            [(each.definition.path, one) for each, one in transacting.uncommitted().items()],
            counted(alpha, queue),
            {position.owner for position in queue.positions.values()} <= {transaction},
        ]
        commitment = transacting.commit(transaction, lambda queue, positions: [], NOW)
        alpha.committed(commitment, NOW)
        return [
            *found,
            commitment.changes,
            shown(queue.peek(1000)),
            counted(alpha, queue),
            alpha.deadline(NOW),
        ]

    def test_as_one_by_one(self) -> None:
        """The refusals, the positions, the counts and the changes of the commit are the same."""
        for name, case in CASES.items():
            with self.subTest(name):
                together = self.result(case, is_shared=True)
                apart = self.result(case, is_shared=False)
                self.assertEqual(together, apart)
                self.assertEqual(bool(together[0]), name in REFUSED)
