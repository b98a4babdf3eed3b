"""Logs of a queue manager: every arrival in a message log, every removal in the event log."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import AppendEvent, AppendLog, Change, PutMessage, PutState, RemoveMessages
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.queues.builders import NOW, arriving
from tests.queues.simulation import Alpha


class LogCase(SynchronousTestCase):
    """ALPHA with a queue that keeps a message log."""

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create(log=True)

    def logged(self, queue: Queue | None = None) -> list[bytes]:
        """The entries of the message log."""
        identifier = (self.queue if queue is None else queue).definition.identifier
        entries = self.alpha.store.contents.logs.get(identifier, ())
        return [bytes(UserMessageView(entry.packet).body) for entry in entries]

    def batch(self) -> list[Change]:
        """The last batch that was stored, without numbers that were reserved."""
        return [change for change in self.alpha.store.done[-1] if not isinstance(change, PutState)]

    def tearDown(self) -> None:
        self.alpha.store.drain()
        self.alpha.check()
        self.alpha.check_store()


class MessageLogTests(LogCase):
    """QueueDefinition.log."""

    def test_in_the_batch_of_the_arrival(self) -> None:
        """A message and its entry are stored together, under the same LookupIdentifier."""
        view = arriving(b"1", recoverable=True)
        self.alpha.put(self.queue, view)
        [position] = self.queue.peek(9)
        identifier = self.queue.definition.identifier
        self.assertEqual(
            self.batch(),
            [
                PutMessage(identifier, position.lookup_id, view.packet, NOW.wall, event_only=True),
                AppendLog(identifier, position.lookup_id, view.packet, NOW.wall),
            ],
        )

    def test_express(self) -> None:
        """Express messages have entries as well, and come in when these are stored."""
        self.alpha.store.is_slow = True
        self.alpha.put(self.queue, arriving(b"e"))
        self.assertEqual(self.alpha.bodies(self.queue), [])
        self.alpha.store.drain()
        self.assertEqual((self.alpha.bodies(self.queue), self.logged()), ([b"e"], [b"e"]))
        self.assertEqual(self.alpha.stored(self.queue), [])

    def test_it_stays(self) -> None:
        """The entry of a message stays after the message is removed, in the order of arrival."""
        self.alpha.put(self.queue, b"1", arriving(b"2", priority=7), b"3")
        self.alpha.confirm(self.alpha.receive(self.queue))
        self.alpha.purge(self.queue)
        self.assertEqual(self.logged(), [b"1", b"2", b"3"])
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.logged(), [b"1", b"2", b"3"])

    def test_messages_that_are_not_accepted(self) -> None:
        """Refused messages have no entry, nor have those that could not be stored, or were returned."""
        small = self.alpha.create("small", log=True, quota=1)
        self.alpha.put(small, b"x" * 2000, b"fits")
        self.assertEqual(self.logged(small), [b"fits"])
        self.alpha.store.fails = 1
        self.alpha.put(self.queue, b"1")
        self.assertEqual(self.logged(), [])
        self.alpha.put(self.queue, b"2")
        self.alpha.give_back(self.alpha.receive(self.queue))
        self.assertEqual(self.logged(), [b"2"])

    def test_transactions(self) -> None:
        """The entries come with the commit; an abort, or a commit that fails, leaves none."""
        queue = self.alpha.create("t", transactional=True, log=True)
        for is_committed in (False, True):
            transaction = self.alpha.begin()
            self.alpha.send_in(transaction, queue, b"1", b"2")
            self.alpha.store.fails = 1
            self.alpha.commit(transaction)
            self.assertEqual(self.logged(queue), [])
            (self.alpha.commit if is_committed else self.alpha.abort)(transaction)
        self.assertEqual(self.logged(queue), [b"1", b"2"])
        self.assertEqual(
            [type(change) for change in self.batch()], [PutMessage, AppendLog, PutMessage, AppendLog]
        )
        packets = [change.packet for change in self.batch() if isinstance(change, PutMessage | AppendLog)]
        self.assertEqual(packets[0::2], packets[1::2], "with their places in the sequence")

    def test_moves(self) -> None:
        """A moved message has its entry from its arrival."""
        subqueue = self.alpha.subqueue(self.queue)
        self.alpha.put(self.queue, b"1")
        self.alpha.move(self.queue.peek(1)[0], subqueue)
        self.alpha.move(subqueue.peek(1)[0], self.queue)
        self.assertEqual((self.logged(), self.logged(subqueue)), ([b"1"], []))

    def test_switched_off(self) -> None:
        """A queue without a log has none."""
        plain = self.alpha.create("plain")
        self.alpha.put(plain, b"1")
        self.assertEqual(self.logged(plain), [])

    def test_deleted(self) -> None:
        """The log goes with its queue."""
        self.alpha.put(self.queue, b"1")
        self.alpha.delete(self.queue)
        self.assertEqual(self.alpha.store.contents.logs, {})


class EventTests(LogCase):
    """Each message that leaves unread leaves an event, in the batch in which the store forgets it."""

    def put(self, queue: Queue | None = None, *, seconds: int = 5) -> None:
        """One message that lives for some seconds."""
        self.alpha.put(
            self.queue if queue is None else queue,
            arriving(
                b"1",
                recoverable=True,
                time_to_be_received=seconds,
                time_to_reach_queue=seconds,
                sent_time=self.alpha.now.unix_seconds,
            ),
        )

    def check_last(self, event: str, message_class: MessageClass, queue: str) -> None:
        """Check that the last batch removed one message and logged it."""
        reported = [change for change in self.batch() if isinstance(change, AppendEvent)]
        self.assertEqual(
            [(each.event, each.message_class, each.queue, each.time) for each in reported],
            [(event, message_class, queue, self.alpha.now.wall)],
        )
        self.assertEqual(reported[0].identity[16:], (1).to_bytes(4, "little"))
        self.assertEqual(sum(isinstance(change, RemoveMessages) for change in self.batch()), 1)

    def test_every_removal(self) -> None:
        """With the class of the acknowledgement, and the queue in which it happened.

        MQDMPR-3.1.7.2.1-03
        """
        path = "private$\\orders"
        self.put()
        self.alpha.later(5)
        self.check_last("expired", MessageClass.NACK_RECEIVE_TIMEOUT, path)
        self.put()
        self.alpha.purge(self.queue)
        self.check_last("purged", MessageClass.NACK_Q_PURGED, path)
        self.put()
        held = self.alpha.receive(self.queue)
        self.alpha.purge(self.queue)
        self.alpha.give_back(held)
        self.check_last("purged", MessageClass.NACK_Q_PURGED, path)
        name = "DIRECT=OS:beta\\q"
        self.put(self.alpha.model.outgoing(parse_format_name(name), self.alpha.now))
        self.alpha.later(6)
        self.check_last("expired", MessageClass.NACK_REACH_QUEUE_TIMEOUT, name)
        self.put()
        self.alpha.delete(self.queue)
        self.alpha.store.done = self.alpha.store.done[:-1]
        self.check_last("deleted", MessageClass.NACK_Q_DELETED, path)

    def test_a_message_that_was_never_read(self) -> None:
        """After a start, too, the event has its identifier, for the packet is read for that."""
        self.put()
        self.alpha = self.alpha.restart()
        self.alpha.later(5)
        [event] = self.alpha.last_events
        self.assertEqual(len(event.identity), 20)

    def test_what_is_received(self) -> None:
        """It leaves no event, by whichever read it is received."""
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.confirm(self.alpha.receive(self.queue))
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.commit(transaction)
        self.assertEqual(self.alpha.events, [])

    def test_numbers_of_copies_are_reserved(self) -> None:
        """Once a batch has reserved numbers, the next ones need not do it again."""
        queue = self.alpha.create("kept", journal=True)
        for _ in range(3):
            self.alpha.put(queue, arriving(b"e"))
            self.alpha.confirm(self.alpha.receive(queue))
        batches = len(self.alpha.store.done)
        self.alpha.put(queue, arriving(b"e"))
        self.alpha.confirm(self.alpha.receive(queue))
        self.assertEqual(len(self.alpha.store.done), batches)
