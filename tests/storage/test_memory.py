"""The store in memory keeps the contract."""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageStore
from msmq.storage.memory import MemoryMessageStore
from tests.contracts.message_store import MessageStoreContract


class MemoryMessageStoreTests(MessageStoreContract, TestCase):
    """What everybody runs who configured nothing else."""

    def setUp(self) -> None:
        self.store = MemoryMessageStore()

    def make_store(self) -> IMessageStore:
        return self.store

    def test_is_not_durable(self) -> None:
        """It does not claim to survive a restart, so recoverable messages are not entrusted to it."""
        self.assertFalse(MemoryMessageStore().durable)


class DurableMemoryMessageStoreTests(MessageStoreContract, TestCase):
    """The same for tests of restarts, in which the object stands for the disk."""

    def setUp(self) -> None:
        self.store = MemoryMessageStore(durable=True)

    def make_store(self) -> IMessageStore:
        return self.store
