"""The rules for receivers of the documents, which the tests of the queue manager prove, hold for a broker."""

from __future__ import annotations

from tests.broker.support import BrokerMixin
from tests.nodes.acknowledgements import test_acknowledgements
from tests.nodes.arrivals import (
    test_receiver_rules,
    test_recoverable,
    test_scripted_receiver,
    test_transactional,
)


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
