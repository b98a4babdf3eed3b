"""Mistakes of a program that calls a record log, which fail alone."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent, Change, PutQueue, PutState, RemoveMessages
from msmq.storage.log.batches import PIECE
from msmq.testing.contracts.store_contract import ORDERS, put
from tests.storage.log.support import LogTestCase

WRONG = cast(Any, None)


class MistakesTests(LogTestCase):
    """Values of a wrong type, next to what others ask at the same time."""

    def test_batches(self) -> None:
        """A batch that cannot be measured fails; those before and after it are stored."""
        store = self.opened(PutQueue(ORDERS))
        many: list[Change] = [put(number) for number in range(1000, 1000 + PIECE)]
        wrong: list[list[Change]] = [
            [RemoveMessages(ORDERS.identifier, WRONG)],
            [*many, put(1, WRONG)],
            [*many, PutState("name", WRONG)],
            [*many, AppendEvent(1.0, b"", "event", WRONG)],
        ]
        for number, changes in enumerate(wrong):
            before, mistake, after = (
                store.commit([put(2 * number)]),
                store.commit(changes),
                store.commit([put(2 * number + 1)]),
            )
            self.refused(mistake, StorageError)
            self.done(before)
            self.done(after)
        self.assertEqual(len(self.packets(store, ORDERS.identifier, range(2 * len(wrong)))), 2 * len(wrong))
        self.done(store.close())

    def test_reads(self) -> None:
        """A read with a wrong argument fails, at rest and while a batch is pending, which is stored."""
        store = self.opened(PutQueue(ORDERS))
        for is_busy in (False, True):
            with self.subTest(is_busy=is_busy):
                written = [store.commit([put(1)])] if is_busy else []
                asked: list[Deferred[Any]] = [
                    store.read(ORDERS.identifier, [WRONG]),
                    store.read_log(ORDERS.identifier, 0, WRONG),
                ]
                for each in asked:
                    self.refused(each, StorageError)
                for each in written:
                    self.done(each)
        self.done(store.close())
