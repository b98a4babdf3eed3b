"""The rules for receivers of the documents, which the tests of the queue manager prove, hold for a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.broker import program
from msmq.storage.memory import MemoryMessageStore
from tests.broker.support import BrokerMixin
from tests.builders import BETA
from tests.nodes.acknowledgements import test_acknowledgements
from tests.nodes.arrivals import (
    test_receiver_rules,
    test_recoverable,
    test_scripted_receiver,
    test_transactional,
)
from tests.nodes.support import Node, NodesTestCase


class OnDemandTests(BrokerMixin, NodesTestCase):
    """The limit on queues that messages create."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """A queue manager on a disk."""
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def order(self, *names: str) -> list[str]:
        """Send a message to each of these queues; returns the queues that there are."""
        for name in names:
            self.send(self.alpha, f"DIRECT=OS:BETA\\private$\\{name}", name.encode())
            self.clock.advance(5)
        return sorted(each.path.rpartition("\\")[2] for each in self.beta.service.inspection.queues())

    def test_limit(self) -> None:
        """It holds over restarts, and a deleted queue does not count."""
        self.patch(program, "ON_DEMAND", 2)
        self.assertEqual(self.order("a", "b", "c", "a"), ["a", "b"])
        self.successResultOf(self.beta.service.stopService())
        self.beta.deaf()
        self.beta = self.node("BETA", BETA, store=self.beta.store)
        self.beta.start()
        self.assertEqual(self.order("c", "b"), ["a", "b"])
        self.assertEqual(self.bodies(self.beta, ".\\private$\\b"), [b"b"])
        self.run_to_end(self.beta.service.delete_queue(".\\private$\\a"))
        self.take(self.beta, ".\\private$\\a")
        self.assertEqual(self.order("c", "d"), ["b", "c"])
        self.assertEqual(self.bodies(self.beta, ".\\private$\\c"), [b"c"])


class BrokerTransferTests(BrokerMixin, test_transactional.TransferTests):
    """Transactional messages arrive once, in order, and leave their sender with the OrderAck."""


class BrokerLossTests(BrokerMixin, test_transactional.LossTests):
    """So too while connections break and processes die."""


class BrokerFateTests(BrokerMixin, test_transactional.FateTests):
    """FinalAcks report the fate of a message."""

    def test_the_queue_is_not_there(self) -> None:
        """A broker for every queue creates it, of the kind that its first message needs."""
        self.begin(b"1", dead_letter=True)
        self.begin(b"2")
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\orders"), [b"1", b"2"])
        self.clock.advance(10)
        self.assertEqual(self.take(self.alpha, test_transactional.DEADXACT), [])
        self.assertEqual(self.waiting(), 0)


class BrokerDurableStoreTests(BrokerMixin, test_recoverable.DurableStoreTests):
    """Recoverable messages are acknowledged once they are stored."""


class BrokerOrderTests(BrokerMixin, test_scripted_receiver.OrderTests):
    """Duplicates, gaps and OrderAcks of a stream."""


class BrokerRecoverableTests(BrokerMixin, test_receiver_rules.RecoverableTests):
    """Recoverable messages are counted once, stored, and named."""


class BrokerRefusalTests(BrokerMixin, test_scripted_receiver.RefusalTests):
    """Refusals of a broker, and their acknowledgements."""

    creates = False


class BrokerScriptedFateTests(BrokerMixin, test_scripted_receiver.FateTests):
    """The FinalAcks in bytes."""


class BrokerAcknowledgementTests(BrokerMixin, test_acknowledgements.AcknowledgementTests):
    """Administration acknowledgements, positive and negative."""

    creates = False
