"""A change of segments that the disk refuses, and what follows it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue
from msmq.storage.log import LogMessageStore
from msmq.storage.log.core.format import FIRST, GROUP_MAGIC
from msmq.storage.log.core.records import KEY, Kind
from msmq.storage.log.files import find_segments
from msmq.storage.log.system import LocalSystem
from msmq.testing.contracts.store_contract import ORDERS, put, remove
from tests.storage.log.support import SEGMENT, LogTestCase, running_log

_SEALED = KEY.pack(Kind.SEALED, KEY.size, 0, 0)[:12]


class RefusesSeals(LocalSystem):
    """A disk on which the record that ends a segment cannot be written.

    @ivar left: how many of these writes fail.
    """

    left = 0

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LocalSystem.write}."""
        is_seal = buffers[0].startswith(GROUP_MAGIC) and any(_SEALED in each for each in buffers[1:])
        if self.left and is_seal:
            self.left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(descriptor, buffers, offset, flags)


class FailedChangeTests(LogTestCase):
    """A segment that was begun, and to which the log could not continue."""

    large = bytes(range(256)) * 1000

    def store_after(self, failures: int) -> LogMessageStore:
        """A store that has continued in a larger segment than those that were begun before it."""
        system = RefusesSeals()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, put(1, bytes(SEGMENT - FIRST - 8000)))
        system.left = failures
        self.refused(store.commit([put(2, bytes(9000))]), StorageError)
        for _ in range(failures - 1):
            self.refused(store.commit([put(3, 2 * self.large)]), StorageError)
        self.commit(store, put(3, 4 * self.large if failures > 1 else self.large))
        self.commit(store, put(4, bytes(9000)))
        return store

    def assert_kept(self, store: LogMessageStore, failures: int) -> None:
        large = 4 * self.large if failures > 1 else self.large
        self.assertEqual(self.packets(store, ORDERS.identifier, [3, 4]), [large, bytes(9000)])

    def test_larger_segment_meanwhile(self) -> None:
        """The next start finds the messages in the larger segment, after a kill and after a stop."""
        for failures in (1, 2, 3):
            with self.subTest(failures=failures):
                self.setUp()
                store = self.store_after(failures)
                self.assert_kept(store, failures)
                again = self.make_store(self.copied(store))
                self.done(again.open())
                self.assert_kept(again, failures)
                self.done(again.close())
                self.done(store.close())
                store = self.opened()
                self.assert_kept(store, failures)
                self.done(store.close())

    def test_files_that_were_begun(self) -> None:
        """They are used for what comes next, or deleted: none is left over in the directory."""
        store = self.store_after(3)
        for number in range(10, 200):
            self.commit(store, put(number, bytes(SEGMENT // 4)), remove(number - 1))
            self.settle(store)
        self.let_be_quiet(store)
        usual = [one.header for one in find_segments(self.home / "log") if one.size == SEGMENT]
        # The log has gone on from generation 1 to 4.
        old = [header.generation for header in usual if header is not None and header.generation in (2, 3)]
        self.assertEqual(old, [])
        sizes = [one.size for one in find_segments(self.home / "log") if one.size != SEGMENT]
        self.assertEqual(len(sizes), 1)
        self.done(store.close())

    def test_log_that_went_back(self) -> None:
        """A log that continued in the segment of the lower generation, as earlier versions did, is whole."""
        system = RefusesSeals()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, put(1, bytes(SEGMENT - FIRST - 8000)))
        system.left = 1
        self.refused(store.commit([put(2, bytes(9000))]), StorageError)
        supply = running_log(store).engine.supply
        begun, supply._begun = supply._begun, []
        self.commit(store, put(3, self.large))
        supply._begun = begun
        self.commit(store, put(4, bytes(9000)))
        self.assertEqual(running_log(store).engine.position.generation, 2)
        self.done(store.close())
        store = self.opened()
        self.assert_kept(store, 1)
        self.done(store.close())
