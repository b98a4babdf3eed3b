"""[MS-MQDMPR] 3.1.1: the kind of store makes no difference that users see."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Delivery
from tests.manager.support import ASK_ALL, DEADLETTER, DEADXACT, JOURNAL, ManagerTestCase

EVERYTHING_IN_MEMORY: dict[str, Any] = {}
EVERYTHING_IN_THE_STORE: dict[str, Any] = {"packet_memory": 0, "express_memory": 0}
SOME_OF_EACH: dict[str, Any] = {"packet_memory": 700, "express_memory": 300}


class SameBehaviourTests(ManagerTestCase):
    """One history of queue managers that keep their packets in different stores."""

    def live(self) -> list[object]:
        """Do a little of everything; answers with all that an application sees of it."""
        seen: list[object] = []
        for queue in (self.orders, self.payments):
            kept = {"dead_letter": True, "journal": True, "acknowledge": ASK_ALL}
            self.put(queue, b"1", b"2", **kept)
            self.put(queue, b"first", priority=7)
            identifiers = self.put(queue, b"moved", b"late", time_to_be_received=10, **kept)
            if queue == self.orders:
                self.put(queue, b"express", delivery=Delivery.EXPRESS, **kept)
            self.run_to_end(self.service.move(identifiers[0], f"{queue};aside"))
            seen.append(self.seen(queue))
            seen.append(bytes(self.run_to_end(self.service.receive(queue, timeout=0)).body))
            transaction = self.service.begin() if queue == self.payments else None
            if transaction is not None:
                self.run_to_end(self.service.receive(queue, timeout=0, transaction=transaction))
                self.run_to_end(transaction.abort())
            reservation = self.run_to_end(self.service.reserve(queue, timeout=0))
            seen.append((self.seen(queue), self.service.inspection.queue(queue).bytes))
            self.clock.advance(20)
            reservation.release()
            seen.append((self.seen(queue), self.seen(f"{queue};aside")))
            seen.append(self.answers())
        self.restart()
        for queue in (self.orders, self.payments, DEADLETTER, DEADXACT, JOURNAL):
            seen.append([(bytes(each.view.body), each.view.message_class) for each in self.messages(queue)])
        self.run_to_end(self.service.purge_queue(self.payments))
        seen.append([(event.event, event.reason, event.message_class) for event in self.events()])
        status = self.service.inspection.status()
        seen.append([status.messages, status.bytes, status.dead_letters])
        return seen

    def test_the_same(self) -> None:
        """MQDMPR-3.1.1-01: everything in memory, nothing of it, or a part, it comes to the same."""
        lives = []
        for limits in (EVERYTHING_IN_MEMORY, EVERYTHING_IN_THE_STORE, SOME_OF_EACH):
            self.limits = limits
            self.tearDown()
            self.doCleanups()
            self.setUp()
            lives.append(self.live())
        self.assertEqual(lives[0], lives[1])
        self.assertEqual(lives[0], lives[2])
        self.assertIn([b"first", b"1", b"2", b"late", b"express"], lives[0])
