"""Messages that the store no longer has, found damaged for example."""

from __future__ import annotations

from msmq.persistence.changes import RemoveMessages
from tests.manager.support import ManagerTestCase


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
