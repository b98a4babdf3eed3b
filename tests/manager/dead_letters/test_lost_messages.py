"""Messages that the store no longer has, found damaged for example."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.internet.defer import Deferred, fail

from msmq.interfaces.storage import DamagedMessageKept
from msmq.manager.administration.unread_removals import KEPT_RETRY
from msmq.persistence.changes import RemoveMessages
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.status import MQError
from tests.builders import BETA
from tests.manager.support import DEADLETTER, FaultyStore, ManagerTestCase


class LostMessageTests(ManagerTestCase):
    """A message that cannot be had costs those behind it nothing."""

    def lose(self, place: int) -> None:
        """Have the store lose one of three messages, after a restart has emptied memory."""
        self.put(self.orders, b"1", b"2", b"3")
        ids = [message.lookup_id for message in self.messages(self.orders)]
        self.restart()
        [identifier] = [one.identifier for one in self.service.inspection.queues() if one.path == self.orders]
        self.successResultOf(self.store.commit([RemoveMessages(identifier, (ids[place],))]))

    def test_received(self) -> None:
        """The others are received, in their order, and the event log has the one."""
        for place, left in ((0, [b"2", b"3"]), (1, [b"1", b"3"]), (2, [b"1", b"2"])):
            self.lose(place)
            self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders)], left)
            self.assertEqual(self.count(self.orders), 0)
            self.assertIn("the store no longer has it", self.events()[-1].reason)

    def test_received_one_by_one(self) -> None:
        """The same for a reader that receives one at a time, and waits."""
        self.lose(0)
        found = [self.run_to_end(self.service.receive(self.orders)) for _ in range(2)]
        self.assertEqual([bytes(message.body) for message in found], [b"2", b"3"])
        waiting = self.deferred(self.service.receive(self.orders))
        self.put(self.orders, b"4")
        self.assertEqual(bytes(self.successResultOf(waiting).body), b"4")

    def test_looked_at(self) -> None:
        """So it is when they are only looked at."""
        self.lose(1)
        self.assertEqual(self.seen(self.orders), [b"1", b"3"])
        self.assertEqual(self.count(self.orders), 2)


class QuarantineStore(FaultyStore):
    """A store on a full disk, which cannot put damaged messages into quarantine.

    @ivar kept: the LookupIdentifiers of these messages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[int] = set()

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        for each in lookup_ids:
            if each in self.kept:
                return fail(DamagedMessageKept(queue, each))
        return super().read(queue, lookup_ids)


class KeptMessageTests(ManagerTestCase):
    """A damaged message that the store keeps until what is left of it can be put into quarantine."""

    store: QuarantineStore

    def make_store(self) -> FaultyStore:
        """See L{ManagerTestCase.make_store}."""
        return QuarantineStore()

    def damage(self, *bodies: bytes) -> None:
        """Send messages, of which the first is damaged after a restart."""
        self.put(self.orders, *bodies)
        first = self.messages(self.orders)[0].lookup_id
        self.restart()
        self.store.kept = {first}

    def removed_from_store(self) -> None:
        """The store has put them into quarantine."""
        [identifier] = [one.identifier for one in self.service.inspection.queues() if one.path == self.orders]
        self.successResultOf(self.store.commit([RemoveMessages(identifier, tuple(self.store.kept))]))
        self.store.kept.clear()

    def test_skipped(self) -> None:
        """The others are received, and the store has it after a restart."""
        self.damage(b"1", b"2", b"3")
        self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders, 2)], [b"2", b"3"])
        self.clock.advance(10 * KEPT_RETRY)
        self.assertEqual(self.count(self.orders), 1)
        self.restart()
        self.store.kept.clear()
        self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders)], [b"1"])

    def test_quarantine(self) -> None:
        """It leaves its queue, with an event, when it is in quarantine."""
        self.damage(b"1")
        self.assertEqual(self.seen(self.orders), [])
        self.clock.advance(10 * KEPT_RETRY)
        before = len(self.events())
        self.removed_from_store()
        self.assertEqual(self.count(self.orders), 1)
        self.clock.advance(KEPT_RETRY)
        self.assertEqual(self.count(self.orders), 0)
        [event] = self.events()[before:]
        self.assertIn("the store no longer has it", event.reason)

    def test_readable_again(self) -> None:
        """It returns to its position if the disk can read it again."""
        self.damage(b"1", b"2")
        self.assertEqual(self.seen(self.orders), [b"2"])
        self.store.kept.clear()
        self.clock.advance(KEPT_RETRY)
        self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders)], [b"1", b"2"])

    def test_expired(self) -> None:
        """One that is found when it expires stays too; those that expire with it leave."""
        self.put(self.orders, b"1", b"2", time_to_be_received=10, dead_letter=True)
        first = self.messages(self.orders)[0].lookup_id
        self.restart()
        self.store.kept = {first}
        self.clock.advance(10 * KEPT_RETRY)
        self.assertEqual((self.count(self.orders), self.seen(self.orders)), (1, []))
        self.assertEqual(self.seen(DEADLETTER), [b"2"])
        self.removed_from_store()
        self.clock.advance(KEPT_RETRY)
        self.assertEqual(self.count(self.orders), 0)

    def test_expired_and_readable_again(self) -> None:
        """It becomes a dead letter if the disk can read it again."""
        self.put(self.orders, b"1", time_to_be_received=10, dead_letter=True)
        first = self.messages(self.orders)[0].lookup_id
        self.restart()
        self.store.kept = {first}
        self.clock.advance(2 * KEPT_RETRY)
        self.assertEqual(self.seen(DEADLETTER), [])
        self.store.kept.clear()
        self.clock.advance(KEPT_RETRY)
        self.clock.advance(1)
        self.assertEqual((self.count(self.orders), self.seen(DEADLETTER)), (0, [b"1"]))

    def test_several(self) -> None:
        """Each is tried, also if another one stays."""
        self.damage(b"1", b"2", b"3")
        first = min(self.store.kept)
        self.store.kept |= {first + 1}
        self.assertEqual(self.seen(self.orders), [b"3"])
        self.store.kept.discard(first + 1)
        self.clock.advance(2 * KEPT_RETRY)
        self.assertEqual(self.seen(self.orders), [b"2", b"3"])

    def test_several_of_a_deleted_queue(self) -> None:
        """They go together, also after one of another queue that stays."""
        bills = self.queue(self.alpha, "bills")
        self.put(bills, b"0")
        bill = self.messages(bills)[0].lookup_id
        self.damage(b"1", b"2", b"3")
        first = min(self.store.kept)
        self.store.kept |= {bill, first + 1, first + 2}
        self.assertEqual((self.seen(bills), self.seen(self.orders)), ([], []))
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(KEPT_RETRY)
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertEqual(self.count(bills), 1)

    def test_deleted_queue(self) -> None:
        """It goes with its queue."""
        self.damage(b"1")
        self.assertEqual(self.seen(self.orders), [])
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(KEPT_RETRY)
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertNotIn("private$\\orders", self.store.paths())

    def test_deleted_queue_among_others(self) -> None:
        """The deletion of a queue does not wait for the damaged messages of other queues."""
        self.put(self.admin, b"1", b"2", b"3")
        self.put(self.orders, b"1")
        found = [*self.messages(self.admin), *self.messages(self.orders)]
        self.restart()
        self.store.kept = {one.lookup_id for one in found}
        self.assertEqual((self.seen(self.admin), self.seen(self.orders)), ([], []))
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(KEPT_RETRY)
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertEqual(self.count(self.admin), 3)

    def test_purged(self) -> None:
        """A purge removes it too: it does not return when the disk can read it again."""
        for is_slow in (False, True):
            self.damage(b"1", b"2")
            self.assertEqual(self.seen(self.orders), [b"2"])
            self.store.is_slow = is_slow
            # In the second case it is read at the moment.
            self.clock.advance(KEPT_RETRY)
            purging = self.deferred(self.service.purge_queue(self.orders))
            self.store.catch_up()
            self.assertEqual(self.successResultOf(purging), 2)
            self.assertEqual(self.count(self.orders), 0)
            self.store.kept.clear()
            self.clock.advance(10 * KEPT_RETRY)
            self.assertEqual(self.seen(self.orders), [])
            self.restart()
            self.assertEqual(self.seen(self.orders), [])

    def test_browsed_and_removed(self) -> None:
        """A page names it, in its position, and an operator removes it, for good."""
        for is_failing in (False, True):
            self.damage(b"1", b"2", b"3")
            [first] = self.store.kept
            pages = [self.run_to_end(self.service.inspection.browse(self.orders))]
            pages.append(self.run_to_end(self.service.inspection.browse(self.orders, count=1)))
            for page in pages:
                self.assertIn("damaged", page.unreadable[first])
            self.assertEqual(len(pages[0].messages), 2)
            after = self.run_to_end(self.service.inspection.browse(self.orders, after=first, count=1))
            self.assertEqual((len(after.messages), after.unreadable), (1, {}))
            messages = self.service.message_administration
            if is_failing:
                self.store.break_down()
                removing = self.deferred(messages.remove(self.orders, [first]))
                self.failureResultOf(removing, MQError)
                self.store.recover()
                self.assertEqual(self.seen(self.orders), [b"2", b"3"])
            [removed] = self.run_to_end(messages.remove(self.orders, [first]))
            self.assertEqual((removed.lookup_id, removed.identifier), (first, None))
            self.store.kept.clear()
            self.clock.advance(10 * KEPT_RETRY)
            self.restart()
            self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders)], [b"2", b"3"])

    def test_several_pages(self) -> None:
        """A page names no more of them than it may have messages, and the next one goes on after them."""
        self.put(self.orders, b"1", b"2", b"3", b"4")
        self.store.kept = {message.lookup_id for message in self.messages(self.orders)[:3]}
        first = sorted(self.store.kept)
        self.restart()
        self.assertEqual(self.seen(self.orders), [b"4"])
        found: list[int] = []
        after, is_end = -1, False
        while not is_end:
            page = self.run_to_end(self.service.inspection.browse(self.orders, after=after, count=2))
            found += [*page.unreadable, *(message.lookup_id for message in page.messages)]
            self.assertLessEqual(len(page.unreadable), 2)
            after, is_end = page.last, page.is_end
        self.assertEqual((found[:3], len(found)), (first, 4))

    def test_outgoing_queue(self) -> None:
        """The transactional messages after it are sent, also while it cannot be put into quarantine."""
        self.put(r"DIRECT=TCP:127.0.0.3\private$\payments", b"1", b"2", b"3", transactional=True)
        waiting = self.service.open_queue(
            r"DIRECT=TCP:127.0.0.3\private$\payments", QueueAccessType.PEEK_ADMIN
        )
        first = self.run_to_end(waiting.peek()).lookup_id
        waiting.close()
        self.restart()
        self.store.kept = {first}
        beta = self.node("BETA", BETA, store=FaultyStore())
        beta.start()
        payments = self.queue(beta, "payments", transactional=True)
        for _ in range(60):
            self.clock.advance(10)
        self.assertEqual(self.bodies(beta, payments), [b"2", b"3"])
