"""The numbers of messages are never given twice, in whatever order batches are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msmq.errors import LocalProtocolError
from msmq.interfaces.storage import StorageFull
from msmq.manager.performer import Performer, PerformerListener
from msmq.manager.result_records import PREFIX
from msmq.persistence.changes import Change, MoveMessage, PutState, RemoveState
from msmq.queues import counters
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from tests.builders import BETA
from tests.manager.support import BROKEN, ManagerTestCase
from tests.nodes.support import Node

BLOCK = 64
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class RetriedBoundTests(ManagerTestCase):
    """A queue manager that reserves its LookupIdentifiers in small blocks, on a store that fails once."""

    def begin(self) -> None:
        self.patch(counters, "SEQUENTIAL_BLOCK", BLOCK)
        super().begin()

    def test_late_retry(self) -> None:
        """A batch that is stored after later ones does not store its earlier bound: after a restart no
        number is repeated, and no message replaced.
        """
        beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        beta.start()
        self.queue(beta)
        failed: list[Sequence[Change]] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            """The first delivery whose journal copy takes a number of another block."""
            is_delivery = any(isinstance(change, MoveMessage) for change in changes)
            names = {change.name for change in changes if isinstance(change, PutState)}
            if not failed and is_delivery and "sequential_id" in names:
                failed.append(changes)
                return True
            return False

        self.store.error, self.store.is_hit = BROKEN, is_hit
        for _ in range(2 * BLOCK):
            if not failed:
                copied = Message(body=b"copied", delivery=Delivery.RECOVERABLE, journal=True)
                self.run_to_end(self.service.send(TO_BETA, [copied]))
                self.clock.advance(0.1)
        self.assertTrue(failed)
        bodies = [b"%d" % number for number in range(4 * BLOCK)]
        self.put(self.orders, *bodies[: 3 * BLOCK])
        self.clock.advance(5)
        self.store.recover()
        self.restart()
        self.put(self.orders, *bodies[3 * BLOCK :])
        self.restart()
        self.assertEqual([message.view.body for message in self.messages(self.orders)], bodies)

    def test_without_records(self) -> None:
        """The same for a batch that is stored without the records of its results, for which there is no
        space.
        """
        bounds: list[int] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            values = {change.name: change.value for change in changes if isinstance(change, PutState)}
            is_full = f"{PREFIX}9" in values
            if not is_full and "sequential_id" in values:
                bounds.append(int.from_bytes(values["sequential_id"], "little"))
            return is_full

        self.store.error, self.store.is_hit = StorageFull("no space"), is_hit
        model, reactor = self.alpha.model, self.clock.reactor
        performer = Performer(model, self.store, reactor, self.clock, cast(PerformerListener, None))
        performer.start()
        self.put(self.orders, *[b"x"] * BLOCK)
        earlier = PutState("sequential_id", bounds[-1].to_bytes(8, "little"))
        self.store.is_slow = True
        changes: list[Change] = [RemoveState("x"), PutState(f"{PREFIX}9", b"x"), earlier]
        removing = self.deferred(performer.commit(changes))
        sending = [
            self.deferred(self.service.send(self.orders, [Message(body=b"x", delivery=Delivery.RECOVERABLE)]))
            for _ in range(2 * BLOCK)
        ]
        self.store.finish()
        self.store.catch_up()
        self.successResultOf(removing)
        for each in sending:
            self.successResultOf(each)
        self.assertEqual(bounds[-1], max(bounds))
        self.assertTrue(performer.is_left_out(f"{PREFIX}9"))


class WithdrawnNumbersTests(ManagerTestCase):
    """A commit that fails between the numbers of two queues."""

    def test_other_messages_go_on(self) -> None:
        """The numbers of its first queue are withdrawn: what is sent there later does not wait for them."""
        beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        beta.start()
        there = self.queue(beta, "payments", transactional=True)
        here = self.queue(self.alpha, "refunds", transactional=True)
        name = "DIRECT=TCP:127.0.0.3\\private$\\payments"
        transaction = self.service.begin()
        for queue in (name, here):
            message = Message(body=b"never", transactional=True)
            self.run_to_end(self.service.send(queue, [message], transaction=transaction))
        take, model = self.alpha.model.take_message_ids, self.alpha.model

        def refuse(count: int) -> int:
            raise LocalProtocolError("all identifiers are used")

        model.take_message_ids = refuse
        self.failureResultOf(self.deferred(transaction.commit()), LocalProtocolError)
        model.take_message_ids = take
        self.run_to_end(transaction.abort())
        self.run_to_end(self.service.send(name, [Message(body=b"later", transactional=True)]))
        self.clock.advance(5)
        self.assertEqual(self.bodies_at(beta, there), [b"later"])

    def bodies_at(self, node: Node, queue: str) -> list[bytes]:
        """What is in a queue of another queue manager."""
        page = self.run_to_end(node.service.inspection.browse(queue))
        return [bytes(message.view.body) for message in page.messages]
