"""What is printed of an object, in a log or a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.admission import EnqueueRefusal, EnqueueStatus
from msmq.queues.creation import Deletion
from msmq.queues.effects import ReadCompleted
from msmq.queues.leaving.departure_kinds import Departure, DepartureCommit, Removal
from msmq.queues.leaving.relocation import Relocation
from msmq.queues.leaving.transaction import Abortion, Commitment, TransactionState
from msmq.queues.ordered_positions import CHUNK_LENGTH, OrderedPositions
from msmq.queues.outgoing import ConnectionHistoryEntry
from msmq.queues.queue import MessagePosition
from msmq.queues.queue_positions import RemovedPositions
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.management import ConnectionStatus
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from tests.queues.builders import NOW, ORDERS, arriving
from tests.queues.simulation import Alpha

MANY = 500
"""Entries of collections, which would make a printed form long."""

LONGEST = 1500

OTHERS = re.compile(
    r"\b(Queue|OutgoingQueue|MessagePosition|OrderedPositions|OpenQueueDescriptor|ExpiringMessages"
    r"|Enqueue|Removal|Relocation|Departure|ConnectionHistoryEntry|Uncommitted)\("
    r"|object at|<function|<bound|<UserMessageView"
)
"""Other objects in a printed form."""


class PrintedFormTests(SynchronousTestCase):
    """Each object is printed without the messages, queues and packets that it refers to.

    These may be millions, and refer to each other.
    """

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create()
        self.subqueue = self.alpha.subqueue(self.queue)
        self.outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:BETA\\private$\\q"), NOW)
        self.alpha.put(self.queue, *(b"%d" % number for number in range(MANY)))
        self.positions = self.queue.peek(MANY)

    def check(self, objects: Iterable[object], besides: object = None) -> None:
        """See that objects are printed alone, and in a few words.

        @param besides: another object that may be among the words.
        """
        for each in objects:
            name, _, text = repr(each).replace(repr(besides), "").partition("(")
            self.assertIsNone(OTHERS.search(text), f"{name}: {text[:LONGEST]}")
            self.assertLess(len(text), LONGEST, name)

    def test_queues_and_messages(self) -> None:
        """A queue, an outgoing queue, a message, and the index of messages."""
        empty = self.alpha.create("empty")
        for number in range(MANY):
            self.alpha.read(empty, wait=True)
            self.alpha.model.descriptors.open([ORDERS], QueueAccessType.PEEK, now=NOW)
            self.outgoing.history.append(ConnectionHistoryEntry(ConnectionStatus.ESTABLISHED, number))
        locked = self.queue.take(1, "reader")
        self.queue.allow_peek(locked)
        self.alpha.put(self.subqueue, *(b"" for _ in range(2 * CHUNK_LENGTH)))
        index = OrderedPositions[MessagePosition]()
        for position in self.subqueue.peek(2 * CHUNK_LENGTH):
            index.add(position)
        self.assertTrue(index.ripe)
        self.check((self.queue, self.subqueue, empty, self.outgoing, self.queue.journal))
        self.check((locked[0], index))

    def test_readers(self) -> None:
        """A handle, a cursor, a waiting read, and its result."""
        model = self.alpha.model
        receiver = model.descriptors.open([ORDERS], QueueAccessType.RECEIVE, now=NOW)
        cursor = model.descriptors.open_cursor(receiver)
        for tag in range(MANY):
            cursor = model.descriptors.open_cursor(receiver)
            model.descriptors.receive(receiver, tag=f"reader {tag}", now=NOW, count=2)
        model.descriptors.receive(receiver, tag="last", now=NOW, on_taken=lambda positions: None)
        sender = model.descriptors.open([ORDERS, self.outgoing.destination], QueueAccessType.SEND, now=NOW)
        self.assertEqual(len(sender.children), 2)
        result = ReadCompleted("tag", self.positions)
        self.check((receiver, sender, cursor, model.readers.waiting("last"), result))

    def test_departures(self) -> None:
        """Messages that leave, with their copies, and a queue that is deleted."""
        departure = Departure(self.queue, self.positions, MessageClass.NACK_Q_PURGED)
        removal = Removal(self.positions, (), (departure,), self.positions, self.positions)
        self.check((departure, removal, Relocation([(each, each) for each in self.positions])))
        self.check((DepartureCommit(departure, (), self.positions),), departure)
        self.check((Deletion(self.queue, (), (), (), RemovedPositions(self.positions)),), self.queue)

    def test_refusals(self) -> None:
        """A message that was not enqueued."""
        status = EnqueueStatus.QUEUE_QUOTA_EXCEEDED
        self.check((EnqueueRefusal(0, self.queue, arriving(b"secret"), status),))

    def test_transactions(self) -> None:
        """A transaction, its commit and its abort."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, *(b"%d" % number for number in range(MANY)))
        self.assertTrue(transaction.uncommitted)
        many, queues = self.positions, {self.queue, self.subqueue}
        removal, relocation = Removal(many, ()), Relocation()
        departures = [Departure(self.queue, many, MessageClass.NACK_Q_PURGED)]
        sent = {self.queue: many}
        before = TransactionState.ACTIVE
        commitment = Commitment(transaction, before, [], sent, many, many, removal, relocation, many, queues)
        self.check((transaction, Abortion(many, many, [], departures, queues)))
        self.check((commitment,), transaction)
