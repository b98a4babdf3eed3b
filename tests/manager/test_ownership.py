"""A store belongs to one queue manager."""

from __future__ import annotations

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutState, RemoveState
from msmq.storage.memory import MemoryMessageStore
from msmq.wire.guid import braced
from tests.builders import ALPHA, BETA
from tests.manager.support import FULL, ManagerTestCase


class OwnershipTests(ManagerTestCase):
    """A store belongs to one queue manager."""

    def end(self) -> None:
        """End ALPHA's life in order."""
        self.successResultOf(self.service.stopService())
        self.alpha.deaf()

    def refusal(self) -> str:
        """The refusal of BETA, whose configuration names the store of ALPHA."""
        self.end()
        beta = self.node("BETA", BETA, store=self.store)
        opening = self.deferred(beta.service.open())
        return str(self.failureResultOf(opening, StorageError).value)

    def test_store_of_another_queue_manager(self) -> None:
        """It is refused with its owner's name, and its owner finds everything as it was."""
        self.put(self.orders, b"1")
        reported = self.refusal()
        self.assertIn(f"is that of queue manager {braced(ALPHA)}, and this is {braced(BETA)}", reported)
        self.begin()
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_store_of_an_earlier_version(self) -> None:
        """A store without an owner becomes that of the first queue manager that opens it."""
        self.end()
        self.successResultOf(self.store.open())
        self.successResultOf(self.store.commit([RemoveState("queue_manager")]))
        self.successResultOf(self.store.close())
        self.begin()
        self.assertIn(braced(ALPHA), self.refusal())

    def test_store_without_space(self) -> None:
        """A start does not fail because the owner cannot be stored; the next start does it."""
        self.store = type(self.store)()
        self.store.break_down(FULL)
        self.restart()
        self.assertTrue(self.service.inspection.status().throttled)
        self.store.recover()
        self.restart()
        self.assertIn(braced(ALPHA), self.refusal())

    def test_damaged_owner(self) -> None:
        """A value that is not an identifier is shown as it is."""
        self.successResultOf(self.store.commit([PutState("queue_manager", b"who?")]))
        self.assertIn("queue manager 77686f3f", self.refusal())

    def test_store_in_memory(self) -> None:
        """A store in memory has no other owner."""
        store = MemoryMessageStore()
        for name, identifier in (("BETA", BETA), ("GAMMA", ALPHA)):
            node = self.node(name, identifier, store=store)
            self.successResultOf(self.deferred(node.service.open()))
            self.successResultOf(node.service.stopService())
