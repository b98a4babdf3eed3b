"""Memory of messages: express ones up to a limit, and copies of stored packets up to another."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutMessage, PutQueue, PutState, RemoveMessages
from msmq.queues.position import PacketHolder
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.user_message_view import UserMessageView
from tests.queues.builders import arriving
from tests.queues.simulation import Alpha

ROOM = 1000
SIZE = arriving(b"x" * 300).size


def express(body: bytes, seconds: int = 0xFFFFFFFF, priority: int = 3) -> UserMessageView:
    """An express message of a bit more than 300 bytes; two of them fit, three do not."""
    return arriving(body.ljust(300, b"."), time_to_be_received=seconds, priority=priority)


def names(bodies: list[bytes]) -> list[bytes]:
    """The names that L{express} was called with."""
    return [body.rstrip(b".") for body in bodies]


class OverflowCase(SynchronousTestCase):
    """ALPHA with little memory."""

    def setUp(self) -> None:
        self.alpha = Alpha(express_memory=ROOM, packet_memory=0)
        self.queue = self.alpha.create(journal=True)
        self.store = self.alpha.store
        # The first message of a life reserves numbers.
        self.alpha.put(self.queue, b"first")
        self.alpha.confirm(self.alpha.receive(self.queue))
        assert self.queue.journal is not None
        self.alpha.purge(self.queue.journal)
        self.store.done.clear()

    def kept(self, queue: Queue | None = None) -> list[PacketHolder]:
        """Where each message is stored."""
        return [each.kept for each in (self.queue if queue is None else queue).peek(99)]

    def outgoing(self) -> Queue:
        """A queue that the store does not know before there is something in it."""
        return self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)

    def in_store(self, queue: Queue | None = None) -> int:
        """How many express messages the store has."""
        identifier = (self.queue if queue is None else queue).definition.identifier
        return len(self.store.contents.express.get(identifier, {}))

    def tearDown(self) -> None:
        self.store.drain()
        self.alpha.check()
        self.alpha.check_store()


class OverflowTests(OverflowCase):
    """Express messages beyond the memory limit."""

    def test_beyond_the_limit(self) -> None:
        """Messages beyond the limit go to the store as express ones; all are there in order."""
        admission = self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)))
        self.assertEqual(
            self.kept(),
            [PacketHolder.MEMORY, PacketHolder.MEMORY, PacketHolder.OVERFLOW, PacketHolder.OVERFLOW],
        )
        self.assertEqual(admission.changes, [], "no sender waits for it")
        [batch] = self.store.done
        self.assertTrue(all(isinstance(each, PutMessage) and each.is_express for each in batch))
        self.assertEqual(self.alpha.model.storage.express, 2 * SIZE)
        self.assertEqual(names(self.alpha.bodies(self.queue)), [b"0", b"1", b"2", b"3"])
        self.assertEqual([each.view is None for each in self.queue.peek(9)], [False, False, True, True])

    def test_there_at_once(self) -> None:
        """Readers get them before the store has them, and their packets with them."""
        self.store.is_slow = True
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)))
        self.assertTrue(all(each.view is not None for each in self.queue.peek(9)))
        held = self.alpha.receive(self.queue, 3)
        self.assertEqual(names([self.alpha.body(each) for each in held]), [b"0", b"1", b"2"])
        self.alpha.confirm(held)
        self.store.drain()
        self.assertEqual(self.in_store(), 1)

    def test_memory_is_reused(self) -> None:
        """When messages were received memory takes new ones."""
        self.queue = self.alpha.create("plain")
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(3)))
        self.alpha.confirm(self.alpha.receive(self.queue))
        self.alpha.put(self.queue, express(b"3"), express(b"4"))
        self.assertEqual(
            self.kept(),
            [PacketHolder.MEMORY, PacketHolder.OVERFLOW, PacketHolder.MEMORY, PacketHolder.OVERFLOW],
        )
        self.alpha.confirm(self.alpha.receive(self.queue, 9))
        self.assertEqual(self.in_store(), 0)

    def test_all_gone(self) -> None:
        """When everything was received, expired, purged or deleted, nothing is counted any more."""
        storage = self.alpha.model.storage
        ways = (
            lambda: self.alpha.confirm(self.alpha.receive(self.queue, 9)),
            lambda: self.alpha.later(9),
            lambda: self.alpha.purge(self.queue),
            lambda: self.alpha.delete(self.queue),
        )
        self.alpha.model.altered(self.alpha.model.alter_queue(self.queue, self.alpha.now, journal=False))
        self.store.contents.queues[self.queue.definition.identifier] = self.queue.definition
        for way in ways:
            self.alpha.put(
                self.queue,
                *(
                    arriving(b"x" * 300, time_to_be_received=5, sent_time=self.alpha.now.unix_seconds)
                    for _ in range(5)
                ),
            )
            self.assertGreater(storage.express, 0)
            way()
            self.assertEqual((storage.used, storage.express, storage.cached), (0, 0, 0))
            self.assertEqual(self.in_store(), 0)

    def test_a_store_that_fails(self) -> None:
        """Memory keeps the messages then, after any operations on them meanwhile."""
        self.store.is_slow = True
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(6)))
        first = self.alpha.receive(self.queue, 3)
        self.alpha.give_back(first[2:])
        self.store.fails = 1
        self.store.drain()
        self.assertEqual(self.kept(), [PacketHolder.MEMORY] * 4)
        self.assertEqual(self.alpha.model.storage.express, 6 * SIZE)
        self.assertEqual(self.alpha.model.storage.cached, 0)
        self.alpha.confirm(first[:2])
        self.store.is_slow = False
        held = self.alpha.receive(self.queue, 9)
        self.assertEqual(names([self.alpha.body(each) for each in held]), [b"2", b"3", b"4", b"5"])
        self.alpha.confirm(held)
        self.assertEqual(
            self.alpha.model.storage.express,
            self.queue.journal.total_bytes if self.queue.journal is not None else 0,
        )

    def test_a_store_that_fails_when_numbers_are_reserved(self) -> None:
        """A batch that waits for them keeps the packets that only memory has."""
        self.store.is_slow = True
        admission = self.alpha.put(
            self.queue, *(express(b"%d" % number) for number in range(3)), arriving(b"r", recoverable=True)
        )
        self.assertNotEqual(admission.changes, [])
        overflow = self.store.batches.popleft()
        self.store.drain()
        self.assertEqual(len(self.alpha.bodies(self.queue)), 4)
        overflow.failed()
        self.assertEqual(names(self.alpha.bodies(self.queue)), [b"0", b"1", b"2", b"r"])

    def test_a_batch_that_is_withdrawn(self) -> None:
        """A message that is withdrawn from its batch is neither in memory nor in the store."""
        self.store.is_slow = True
        self.alpha.put(
            self.queue, *(express(b"%d" % number) for number in range(4)), arriving(b"r", recoverable=True)
        )
        self.store.step()
        self.assertEqual(self.in_store(), 2)
        self.store.fails = 1
        self.store.drain()
        self.assertEqual((self.in_store(), self.queue.positions), (0, {}))
        self.assertEqual((self.alpha.model.storage.express, self.alpha.model.storage.cached), (0, 0))

    def test_a_queue_that_is_not_stored(self) -> None:
        """Whichever batch comes first has the queue with it, and both do."""
        outgoing = self.outgoing()
        views = (express(b"0"), express(b"1"), express(b"2"), arriving(b"r", recoverable=True))
        admission = self.alpha.model.admit([(outgoing, view) for view in views], self.alpha.now)
        for changes in (admission.changes, admission.overflow):
            self.assertEqual(
                [each for each in changes if isinstance(each, PutQueue)], [PutQueue(outgoing.definition)]
            )
            self.assertLess(
                [isinstance(each, PutQueue) for each in changes].index(True),
                [isinstance(each, PutMessage) for each in changes].index(True),
            )
        self.store.ask(admission.changes)
        self.store.ask(admission.overflow)
        self.alpha.model.overflowed(admission, is_stored=True)
        self.alpha.model.commit(admission, self.alpha.now)
        self.assertEqual(self.alpha.stored(outgoing), [b"r"])
        self.assertEqual(self.in_store(outgoing), 1)

    def test_a_queue_that_is_not_stored_and_a_store_that_fails(self) -> None:
        """Neither failure makes the store forget what it has, nor believe in what it has not."""
        outgoing = self.outgoing()
        views = (express(b"0"), express(b"1"), express(b"2"))
        self.store.is_slow = True
        self.alpha.put(outgoing, *views)
        self.store.fails = 1
        self.store.drain()
        self.assertTrue(outgoing.is_stored)
        self.assertEqual(names(self.alpha.bodies(outgoing)), [b"0", b"1", b"2"])
        self.alpha.put(outgoing, b"r")
        self.store.drain()
        self.assertEqual(self.alpha.stored(outgoing), [b"r"])

    def test_released_messages(self) -> None:
        """A message that a reader has, and returns, is at its position."""
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)))
        self.alpha.give_back(self.alpha.receive(self.queue, 4))
        self.assertEqual(names(self.alpha.bodies(self.queue)), [b"0", b"1", b"2", b"3"])
        self.assertEqual(self.alpha.model.storage.cached, 0)

    def test_moved(self) -> None:
        """It stays where it is stored, on disk or in memory, and is moved once."""
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(3)))
        target = self.alpha.subqueue(self.queue)
        for position in self.queue.peek(9):
            self.alpha.move(position, target)
        self.assertEqual(self.kept(target), [PacketHolder.MEMORY, PacketHolder.MEMORY, PacketHolder.OVERFLOW])
        self.assertEqual((self.in_store(), self.in_store(target)), (0, 1))
        self.assertEqual(names(self.alpha.bodies(target)), [b"0", b"1", b"2"])

    def test_moved_before_the_store_has_it(self) -> None:
        """Even if the store could not take it, it can be read where it was moved to."""
        target = self.alpha.subqueue(self.queue)
        self.store.is_slow = True
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(3)))
        self.alpha.move(self.queue.peek(9)[2], target)
        self.store.fails = 1
        self.store.drain()
        self.assertEqual(names(self.alpha.bodies(target)), [b"2"])
        self.assertEqual(self.in_store(target), 1)

    def test_journaled(self) -> None:
        """Its copy is an express message of the store too, whether the store had it in time or not."""
        journal = self.queue.journal
        assert journal is not None
        for is_slow, fails in ((False, 0), (True, 0), (True, 1)):
            self.store.is_slow = is_slow
            self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)))
            self.alpha.confirm(self.alpha.receive(self.queue, 4))
            self.store.fails = fails
            self.store.drain()
            self.store.is_slow = False
            self.assertEqual(names(self.alpha.bodies(journal)), [b"0", b"1", b"2", b"3"])
            self.assertEqual((self.in_store(), self.in_store(journal)), (0, 2))
            self.alpha.confirm(self.alpha.receive(journal, 4))

    def test_expired_as_dead_letters(self) -> None:
        """An expired message leaves the store, with an event of its own name."""
        self.alpha.put(self.queue, *(express(b"%d" % number, 5) for number in range(4)))
        self.alpha.later(9)
        self.assertEqual((self.in_store(), self.queue.positions), (0, {}))
        self.assertEqual({len(event.identity) for event in self.alpha.last_events[-4:]}, {20})
        self.assertEqual(self.alpha.model.system_queue(QueueSuffix.DEADLETTER).positions, {})

    def test_in_a_transaction(self) -> None:
        """An express message that is received in a transaction leaves with its commit, or is back."""
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)))
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, 4)
        self.alpha.abort(transaction)
        self.assertEqual({each.aborts for each in self.queue.peek(9)}, {1})
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, 4)
        self.alpha.commit(transaction)
        self.assertEqual((self.in_store(), self.queue.positions), (0, {}))

    def test_restart(self) -> None:
        """No express message survives, wherever it was.

        MQDMPR-3.1.1.12-17.
        """
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(4)), b"r")
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.alpha.bodies(self.queue), [b"r"])
        self.assertEqual(self.alpha.model.storage.express, 0)

    def test_no_limit(self) -> None:
        """Without a limit the store is not asked."""
        self.alpha = Alpha()
        self.queue = self.alpha.create()
        self.store = self.alpha.store
        self.alpha.put(self.queue, *(express(b"%d" % number) for number in range(50)))
        self.assertEqual(set(self.kept()), {PacketHolder.MEMORY})

    def test_no_memory(self) -> None:
        """With no memory at all every express message goes to the store."""
        self.alpha = Alpha(express_memory=0, packet_memory=0)
        self.queue = self.alpha.create()
        self.store = self.alpha.store
        self.alpha.put(self.queue, express(b"1"), express(b"2", priority=7))
        self.assertEqual(self.kept(), [PacketHolder.OVERFLOW] * 2)
        self.assertEqual(names(self.alpha.bodies(self.queue)), [b"2", b"1"])


class PacketMemoryTests(SynchronousTestCase):
    """Copies in memory of packets that the store has."""

    def setUp(self) -> None:
        self.alpha = Alpha(packet_memory=2 * SIZE + 10)
        self.queue = self.alpha.create()

    def put(self, count: int) -> None:
        """Admit this number of recoverable messages."""
        self.alpha.put(self.queue, *(arriving(b"x" * 300, recoverable=True) for _ in range(count)))

    def cached(self) -> list[bool]:
        """Which of the available messages can be read without the store."""
        return [each.view is not None for each in self.queue.peek(99)]

    def tearDown(self) -> None:
        self.alpha.check()
        self.alpha.check_store()

    def test_the_first_have_room(self) -> None:
        """The packets that are received first stay cached, the others are read on demand."""
        self.put(2)
        self.put(2)
        self.assertEqual(self.cached(), [True, True, False, False])
        self.assertEqual(self.alpha.model.storage.cached, 2 * SIZE)

    def test_room_comes_back(self) -> None:
        """The cache space of removed messages is used for later ones."""
        self.put(3)
        self.alpha.confirm(self.alpha.receive(self.queue, 2))
        self.assertEqual(self.alpha.model.storage.cached, 0)
        self.put(2)
        self.assertEqual(self.cached(), [False, True, True])

    def test_counts_after_every_removal(self) -> None:
        """When all messages are removed the counts are 0."""
        target = self.alpha.subqueue(self.queue)
        for way in (
            lambda: self.alpha.purge(self.queue),
            lambda: [*map(self.alpha.move, self.queue.peek(9), [target] * 9)],
            lambda: self.alpha.delete(self.queue),
        ):
            self.put(3)
            way()
            self.assertEqual(self.queue.positions, {})
        self.assertEqual(self.alpha.model.storage.cached, 0)

    def test_moved(self) -> None:
        """A packet is counted once, where the message is."""
        self.put(2)
        target = self.alpha.subqueue(self.queue)
        self.alpha.move(self.queue.peek(1)[0], target)
        self.assertEqual(self.alpha.model.storage.cached, 2 * SIZE)
        self.assertIsNotNone(target.peek(1)[0].view)

    def test_released_messages(self) -> None:
        """A packet that was read for a reader is kept if there is room, and else forgotten again."""
        self.put(4)
        held = self.alpha.receive(self.queue, 4)
        self.assertTrue(all(each.view is not None for each in held))
        self.alpha.give_back(held)
        self.assertEqual(self.cached().count(True), 2)
        self.assertEqual(self.alpha.model.storage.cached, 2 * SIZE)

    def test_restored(self) -> None:
        """After a start nothing is in memory, and everything can be read."""
        self.put(3)
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.cached(), [False] * 3)
        self.assertEqual(self.alpha.bodies(self.queue), [b"x" * 300] * 3)
        held: list[MessagePosition] = self.alpha.receive(self.queue)
        self.alpha.give_back(held)
        self.assertEqual(self.cached(), [True, False, False])

    def test_sent_in_a_transaction(self) -> None:
        """Committed messages count towards the limit too."""
        queue = self.alpha.create("t", transactional=True)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, queue, *(b"x" * 300 for _ in range(3)))
        self.assertEqual(self.alpha.model.storage.cached, 0)
        self.alpha.commit(transaction)
        self.assertEqual([each.view is not None for each in queue.peek(9)], [True, False, False])

    def test_uncommitted_packets_stay(self) -> None:
        """Packets that the store does not have yet stay in memory."""
        self.alpha = Alpha(packet_memory=0)
        self.queue = self.alpha.create()
        self.alpha.store.is_slow = True
        self.put(1)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"t")
        self.assertTrue(all(each.view is not None for each in self.queue.positions.values()))
        self.alpha.commit(transaction)
        self.assertTrue(all(each.view is not None for each in self.queue.positions.values()))
        self.alpha.store.drain()
        self.assertEqual(self.cached(), [False, False])

    def test_changes_of_express_messages(self) -> None:
        """A message that is removed is removed where it is kept."""
        self.alpha = Alpha(express_memory=0)
        self.queue = self.alpha.create()
        self.alpha.put(self.queue, express(b"e"), arriving(b"r", recoverable=True))
        self.alpha.confirm(self.alpha.receive(self.queue, 2))
        changes = [each for each in self.alpha.store.done[-1] if not isinstance(each, PutState)]
        self.assertEqual(len(changes), 2)
        self.assertEqual(
            {each.is_express for each in changes if isinstance(each, RemoveMessages)}, {True, False}
        )
