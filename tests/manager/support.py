"""A queue manager on a store that fails, or takes its time, when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail

from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.storage import StorageError, StorageFull
from msmq.manager.service import QueueManagerService
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.nodes.support import Node, NodesTestCase

BROKEN = StorageError("the disk is on fire")
FULL = StorageFull("there is no space")

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
DEADLETTER = ".\\system$;deadletter"
DEADXACT = ".\\system$;deadxact"
JOURNAL = ".\\system$;journal"


class FaultyStore(MemoryMessageStore):
    """A disk that keeps what was committed, however often queue managers stop and start on it.

    @ivar error: with which commits fail; C{None} if they do not.
    @ivar is_hit: which batches fail then.
    @ivar unreadable: with which reads fail; C{None} if they do not.
    @ivar is_slow: everything waits for L{finish}, in its order.
    @ivar reads: how many times packets were asked for.
    """

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.error: BaseException | None = None
        self.is_hit: Callable[[Sequence[Change]], bool] = lambda changes: True
        self.unreadable: BaseException | None = None
        self.is_slow = False
        self.reads = 0
        self._waiting: deque[tuple[Callable[[], Deferred[Any]], Deferred[Any]]] = deque()
        self._lost: list[object] = []

    def names(self) -> list[str]:
        """The named values that it has."""
        return list(self._contents.snapshot().state)

    def paths(self) -> list[str]:
        """The paths of the queues that it has."""
        return [definition.path for definition in self._contents.snapshot().queues]

    def fail_commit(self, number: int, error: BaseException = BROKEN, *, of: type = object) -> None:
        """Let one commit fail, the first from now if the number is 1.

        @param of: only those count that hold such a change.
        """
        left = number

        def is_hit(changes: Sequence[Change]) -> bool:
            nonlocal left
            left -= any(isinstance(change, of) for change in changes)
            if left == 0:
                left = -1
                return True
            return False

        self.error, self.is_hit = error, is_hit

    def break_down(self, error: BaseException = BROKEN) -> None:
        """Let every commit fail."""
        self.error, self.is_hit = error, lambda changes: True

    def recover(self) -> None:
        """Fail no more."""
        self.error = self.unreadable = None

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""

        def commit() -> Deferred[None]:
            if self.error is not None and self.is_hit(changes):
                return fail(self.error)
            return MemoryMessageStore.commit(self, changes)

        return self._in_turn(commit)

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        self.reads += 1

        def read() -> Deferred[Sequence[bytes]]:
            if self.unreadable is not None:
                return fail(self.unreadable)
            return MemoryMessageStore.read(self, queue, lookup_ids)

        return self._in_turn(read)

    def _in_turn(self, work: Callable[[], Deferred[Any]]) -> Deferred[Any]:
        if not self.is_slow:
            return work()
        done: Deferred[Any] = Deferred()
        self._waiting.append((work, done))
        return done

    def finish(self, count: int = 1_000_000) -> None:
        """Perform pending operations and their consequences, up to this number."""
        while self._waiting and count:
            count -= 1
            work, done = self._waiting.popleft()
            work().addBoth(done.callback)

    @property
    def is_busy(self) -> bool:
        """Whether operations are pending."""
        return bool(self._waiting)

    def catch_up(self) -> None:
        """Do what waits, and be slow no more."""
        self.is_slow = False
        self.finish()

    def lose(self) -> None:
        """The machine dies: pending commits are not done, and get no result.

        Their waiters are kept: collected, they would be cancelled, and in a dead process nothing is cleaned
        up.
        """
        self.is_slow = False
        self._lost.extend(self._waiting)
        self._waiting.clear()
        super().close()

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        self.catch_up()
        return super().close()


class ManagerTestCase(NodesTestCase):
    """ALPHA with a queue C{orders}, a transactional queue C{payments}, and an administration queue.

    @ivar limits: those of the queue manager.
    @ivar dead: ALPHA in its lives that ended with a crash.
    """

    limits: dict[str, Any] = {}  # noqa: RUF012

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.store = self.make_store()
        self.dead: list[Node] = []
        self.begin()
        self.addCleanup(lambda: self.service.stopService())
        self.orders = self.queue(self.alpha)
        self.payments = self.queue(self.alpha, "payments", transactional=True)
        self.admin = self.queue(self.alpha, "admin")

    def make_store(self) -> FaultyStore:
        """The disk that ALPHA uses."""
        return FaultyStore()

    def begin(self) -> None:
        """Let ALPHA begin a life, on what earlier lives have left."""
        self.alpha = self.node("ALPHA", ALPHA, store=self.store, **self.limits)
        self.alpha.start()

    @property
    def service(self) -> QueueManagerService:
        """ALPHA's."""
        return self.alpha.service

    def restart(self, *, seconds: float = 0, crash: bool = False) -> None:
        """End ALPHA's life, in order or not, and begin another one some seconds later."""
        if crash:
            self.network.crash(self.alpha.address)
            self.store.lose()
            self.dead.append(self.alpha)
        else:
            self.successResultOf(self.service.stopService())
            self.alpha.deaf()
        self.clock.advance(seconds)
        self.begin()

    def put(self, queue: str, *bodies: bytes, **properties: Any) -> list[MessageIdentifier]:
        """Send recoverable messages, to a transactional queue transactional ones."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        properties.setdefault("transactional", queue == self.payments)
        if properties.get("acknowledge"):
            properties.setdefault("admin_queue", ADMIN)
        messages = [Message(body=body, **properties) for body in bodies]
        return self.run_to_end(self.service.send(queue, messages))

    def seen(self, queue: str) -> list[bytes]:
        """The bodies of the messages that can be received, which stay in the queue."""
        return [bytes(message.view.body) for message in self.messages(queue)]

    def messages(self, queue: str) -> Sequence[ReceivedMessage]:
        """The messages that can be received, which stay in the queue."""

        async def peek() -> Sequence[ReceivedMessage]:
            try:
                found = await self.service.reserve(queue, count=10_000, timeout=0, peek=True)
            except MQError as error:
                self.assertEqual(error.status, Status.MQ_ERROR_IO_TIMEOUT)
                return []
            return found.messages

        return self.run_to_end(peek())

    def count(self, queue: str) -> int:
        """The number of messages in a queue, in any state."""
        found = [*self.service.inspection.queues(), *self.service.inspection.system_queues()]
        main, _, part = queue.partition(";")
        for each in found:
            if each.path == queue:
                return int(each.messages)
            if each.path == main:
                if part == "journal":
                    return int(each.journal_messages)
                for subqueue in each.subqueues:
                    if subqueue.name == part:
                        return int(subqueue.messages)
        return 0

    def answers(self) -> list[tuple[MessageClass, bytes]]:
        """The acknowledgements that have come, received permanently."""
        views = self.take(self.alpha, self.admin)
        return [(MessageClass(view.message_class), bytes(view.body)) for view in views]

    def events(self) -> list[AppendEvent]:
        """The event log."""
        stored = self.successResultOf(self.store.read_events(0, 1_000_000))
        return [entry.event for entry in stored]

    def refused(self, work: Coroutine[Deferred[Any], Any, Any], status: Status) -> MQError:
        """Something is refused, at once."""
        error: MQError = self.failureResultOf(self.deferred(work), MQError).value
        self.assertEqual(error.status, status)
        return error


ASK_ALL = (
    Acknowledge.POSITIVE_ARRIVAL
    | Acknowledge.POSITIVE_RECEIVE
    | Acknowledge.NEGATIVE_ARRIVAL
    | Acknowledge.NEGATIVE_RECEIVE
)
