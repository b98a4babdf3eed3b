"""A queue manager sends to a peer while its store is slow, fails, or cannot read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.storage import MessageNotStored, StorageError
from msmq.queues.arriving.message import Message
from tests.nodes.outgoing.senders import TO_GAMMA, SlowStoreTestCase
from tests.nodes.scripted import (
    ACK_RECEIVE,
    JOURNAL,
    Heard,
    final_ack,
    order_ack,
)
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node


class StoreTests(SlowStoreTestCase):
    """No message is visible before it is stored."""

    def test_nothing_leaves_before_it_is_stored(self) -> None:
        """The number of a message is on disk before its first byte is on the wire (MQQB-3.1.1.3.2-01)."""
        sending = self.deferred(self.alpha.service.send(TO_GAMMA, [Message(body=b"1", transactional=True)]))
        self.clock.advance(1.5)
        self.assertEqual(self.peers, [])
        self.clock.advance(1)
        self.successResultOf(sending)
        # The next hop of a message is stored as well, before it is sent to another one.
        self.assertEqual(self.peer.messages, [])
        self.clock.advance(2)
        self.assertEqual(self.numbers(), [(1, 0)])

    def test_a_final_acknowledgement_is_acknowledged_when_its_message_has_gone(self) -> None:
        """A FinalAck is not sent twice, so the session names it only when its effect is stored."""
        sending = self.deferred(
            self.alpha.service.send(TO_GAMMA, [Message(body=b"1", transactional=True, journal=True)])
        )
        self.clock.advance(5)
        self.successResultOf(sending)
        self.tell(order_ack(self.sequence(), 1))
        self.clock.advance(5)
        self.tell(final_ack(Heard(self.peer.messages[0].packet)))
        self.clock.advance(1)
        self.assertTrue(all(flags == 0 for _, _, flags, *_ in self.peer.acks))
        self.clock.advance(10)
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))

    def test_a_final_acknowledgement_that_comes_while_the_store_fails(self) -> None:
        """It is not lost: its message is found although it could not be moved yet.

        And it is not acknowledged before its effect is stored.
        """
        messages = [
            Message(body=b"1", transactional=True),
            Message(body=b"2", transactional=True, journal=True),
        ]
        sending = self.deferred(self.alpha.service.send(TO_GAMMA, messages))
        self.clock.advance(5)
        self.successResultOf(sending)
        _, wanted = self.peer.messages
        assert isinstance(self.alpha.store, SlowStore)
        self.alpha.store.trouble = StorageError("the disk is on fire")
        self.tell(order_ack(self.sequence(), 2))
        self.clock.advance(3)
        self.tell(final_ack(wanted))
        self.clock.advance(1)
        self.assertTrue(all(flags == 0 for _, _, flags, *_ in self.peer.acks))
        self.alpha.store.trouble = None
        self.clock.advance(20)
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 1)
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_a_repeated_final_acknowledgement_waits_for_the_first(self) -> None:
        """The sender of a FinalAck forgets it when it is acknowledged: that waits for the result of a copy
        that came before, on a session that has ended, and is still being stored.
        """
        sending = self.deferred(
            self.alpha.service.send(TO_GAMMA, [Message(body=b"1", transactional=True, journal=True)])
        )
        self.clock.advance(5)
        self.successResultOf(sending)
        [wanted] = self.peer.messages
        assert isinstance(self.alpha.store, SlowStore)
        self.alpha.store.trouble = StorageError("the disk is on fire")
        self.tell(final_ack(wanted))
        self.clock.advance(3)
        self.peer.hang_up()
        again = self.dial("ALPHA")
        again.send(final_ack(wanted))
        self.clock.advance(3)
        self.assertTrue(all(flags == 0 for _, _, flags, *_ in again.acks))
        self.alpha.store.trouble = None
        self.clock.advance(20)
        self.assertEqual(again.acks[-1][1:3], (1, 1))
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 1)


class UnreadablePacketTests(SlowStoreTestCase):
    """A FinalAck comes when the packet of its message, which is only in the store, cannot be read."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, packet_memory=0, **kwargs)

    def waits_unreadable(self, error: StorageError, message_class: int = ACK_RECEIVE) -> None:
        """A message of which a copy is wanted waits for its FinalAck, which comes when its packet cannot be
        read.
        """
        messages = [Message(body=b"1", transactional=True, journal=True, dead_letter=True)]
        sending = self.deferred(self.alpha.service.send(TO_GAMMA, messages))
        self.clock.advance(20)
        self.successResultOf(sending)
        self.tell(order_ack(self.sequence(), 1))
        self.clock.advance(20)
        assert isinstance(self.alpha.store, SlowStore)
        self.alpha.store.unreadable = error
        self.tell(final_ack(Heard(self.peer.messages[0].packet), message_class))
        self.clock.advance(20)

    def test_a_final_acknowledgement_that_comes_while_packets_cannot_be_read(self) -> None:
        """Its message waits until it can be read, and is then journaled."""
        self.waits_unreadable(StorageError("the disk is on fire"))
        self.assertTrue(all(flags == 0 for _, _, flags, *_ in self.peer.acks))
        assert isinstance(self.alpha.store, SlowStore)
        self.alpha.store.unreadable = None
        self.clock.advance(20)
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 1)
        self.flushLoggedErrors()

    def test_a_negative_final_acknowledgement_of_a_message_that_is_damaged(self) -> None:
        """The event log says that there is no dead letter."""
        self.waits_unreadable(MessageNotStored(self.alpha.model.identifier, 1), 0x8009)
        reading = self.alpha.store.read_events(0, 10)
        self.clock.advance(20)
        [entry] = self.successResultOf(reading)
        self.assertEqual(entry.event.event, "failed")
        self.assertIn("the dead letter was not kept, since the store no longer has the", entry.event.reason)
        self.flushLoggedErrors()

    def test_a_final_acknowledgement_of_a_message_that_is_damaged(self) -> None:
        """It leaves without a copy, with a line in the log; the session stays open."""
        self.waits_unreadable(MessageNotStored(self.alpha.model.identifier, 1))
        self.assertEqual(self.peer.acks[-1][1:3], (1, 1))
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 0)
        self.assertFalse(self.peer.is_lost)
        self.assertEqual(self.waiting(self.alpha), 0)
        self.flushLoggedErrors()
