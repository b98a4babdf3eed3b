"""A queue manager with a queue that keeps a journal, for tests of copies."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA
from tests.queues.builders import NOW, ORDERS
from tests.queues.simulation import Alpha

SECONDS = 5


def asking(
    body: bytes = b"",
    *,
    source: UUID = BETA,
    dead_letter: bool = True,
    journal: bool = False,
    recoverable: bool = True,
    transactional: bool = False,
    destination: str | None = None,
    sent_time: int = NOW.unix_seconds,
    time_to_reach_queue: int = SECONDS,
) -> UserMessageView:
    """A message that expires after some seconds, and whose sender wants copies of it."""
    message = Message(
        body=body,
        priority=5,
        delivery=Delivery.RECOVERABLE if recoverable else Delivery.EXPRESS,
        transactional=transactional,
        journal=journal,
        dead_letter=dead_letter,
        time_to_reach_queue=time_to_reach_queue,
        time_to_be_received=SECONDS,
    )
    name = ORDERS if destination is None else parse_format_name(destination)
    return UserMessageView(build_packet(message, name, source=source, message_id=9, sent_time=sent_time))


class CopyCase(SynchronousTestCase):
    """ALPHA with a queue that keeps a journal."""

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create(journal=True)

    @property
    def journal(self) -> Queue:
        """The journal of the queue."""
        assert self.queue.journal is not None
        return self.queue.journal

    def system(self, suffix: QueueSuffix) -> Queue:
        """A queue of the system."""
        return self.alpha.model.system_queue(suffix)

    def dead_letters(self, suffix: QueueSuffix = QueueSuffix.DEADLETTER) -> list[tuple[bytes, int]]:
        """The messages in a dead-letter queue, and the reasons."""
        positions = self.system(suffix).peek(99)
        return [(self.alpha.body(each), self.alpha.view(each).message_class) for each in positions]

    def outgoing(self) -> OutgoingQueue:
        """The messages that wait to be sent to BETA."""
        return self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)

    def receive(self, queue: Queue | None = None, count: int = 1) -> None:
        """Receive the first messages."""
        self.alpha.confirm(self.alpha.receive(self.queue if queue is None else queue, count))

    def tearDown(self) -> None:
        self.alpha.store.drain()
        self.alpha.check()
        self.alpha.check_store()
