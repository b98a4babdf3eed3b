"""Files of express messages."""

from __future__ import annotations

from msmq.persistence.changes import MoveMessage, PutQueue
from msmq.storage.log.engine import GROUP_BYTES
from msmq.storage.log.writer import EXPRESS_BYTES
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from tests.storage.log.support import LogTestCase

MEBIBYTE = 1024 * 1024


class ExpressFilesTests(LogTestCase):
    """Express messages that pass through a store, and in which nothing else is written."""

    def files(self) -> list[str]:
        return sorted(path.name for path in self.home.glob("log/express-*"))

    def test_received_messages(self) -> None:
        """The files of messages that were received are deleted, though their removal writes nothing."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(3 * EXPRESS_BYTES // MEBIBYTE):
            self.commit(store, put(number, bytes(MEBIBYTE), is_express=True))
            self.commit(store, remove(number, is_express=True))
        self.let_be_quiet(store)
        self.settle_all(store)
        self.assertEqual(len(self.files()), 1)
        self.done(store.close())

    def test_moved_messages(self) -> None:
        """A moved message keeps its file, until it is received from the other queue."""
        store = self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        self.commit(store, put(1, b"moved", is_express=True))
        self.commit(
            store, MoveMessage(ORDERS.identifier, 1, BILLS.identifier, 2, None, 0, 0, is_express=True)
        )
        for number in range(10, 10 + 2 * EXPRESS_BYTES // MEBIBYTE):
            self.commit(store, put(number, bytes(MEBIBYTE), is_express=True))
            self.commit(store, remove(number, is_express=True))
        self.let_be_quiet(store)
        self.settle_all(store)
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(self.packets(store, BILLS.identifier, [2]), [b"moved"])
        self.commit(store, remove(2, queue=BILLS, is_express=True))
        self.let_be_quiet(store)
        self.settle_all(store)
        self.assertEqual(len(self.files()), 1)
        self.done(store.close())

    def test_many_at_once(self) -> None:
        """What is written at once is bounded, as for other messages: later batches wait for one part."""
        store = self.opened(PutQueue(ORDERS))
        before = store.counters.groups
        written = [
            store.commit([put(number, bytes(GROUP_BYTES // 2), is_express=True)]) for number in range(6)
        ]
        for each in written:
            self.done(each)
        self.assertEqual(store.counters.groups - before, 3)
        self.done(store.close())
