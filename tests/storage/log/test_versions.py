"""Logs of version 1 of the format, which later versions read and continue.

C{version-1.tar.gz} was written by the program of that time, and copied while it ran, so that its
last groups are behind its checkpoint.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from msmq.persistence.changes import AppendEvent, PutMessage, PutQueue, RemoveUnread
from msmq.persistence.snapshot import MessageColumns, Snapshot
from msmq.storage.log import LogMessageStore
from msmq.storage.log.core.format import SEGMENT_HEADER, read_segment_header
from msmq.storage.readers.log import LogStoreReader
from msmq.testing.contracts.store_contract import BILLS, ORDERS
from tests.storage.log.support import LogTestCase

VERSION_ONE = Path(__file__).with_name("version-1.tar.gz")
OURS = bytes(range(20))
LEFT = list(range(10, 40))
"""The messages of the first queue that were not removed."""


class VersionOneTests(LogTestCase):
    """A log that was written before."""

    def setUp(self) -> None:
        super().setUp()
        with tarfile.open(VERSION_ONE) as archive:
            archive.extractall(self.home)

    def versions(self) -> dict[int, int]:
        """The version of each segment by its generation."""
        headers = [
            read_segment_header(path.read_bytes()[:SEGMENT_HEADER])
            for path in (self.home / "log").glob("segment-*")
            if path.read_bytes()[:1] != b"\0"
        ]
        return {header.generation: header.version for header in headers}

    def reopened(self) -> tuple[LogMessageStore, Snapshot]:
        store = self.make_store()
        return store, self.done(store.open())

    def assert_old_content(self, store: LogMessageStore, snapshot: Snapshot) -> None:
        """All of it is there."""
        self.assertEqual(
            [queue.identifier for queue in snapshot.queues], [ORDERS.identifier, BILLS.identifier]
        )
        self.assertEqual(snapshot.state, {"name": b"value"})
        self.assertEqual(
            [(each[0], each[4], each[5]) for each in snapshot.messages[ORDERS.identifier]],
            [(number, number % 3, number % 2) for number in LEFT],
        )
        packets = self.packets(store, ORDERS.identifier, LEFT)
        self.assertEqual(packets, [b"%d " % number * 600 for number in LEFT])
        self.assertEqual(self.packets(store, BILLS.identifier, [100, 101]), [b"a" * 70, b"b" * 80])
        events = [found.event for found in self.done(store.read_events(0, 1))]
        self.assertEqual(events, [AppendEvent(5.0, OURS, "purged", "why", 7, "private$\\q")])
        [entry] = self.done(store.read_log(ORDERS.identifier, 0, 10))
        self.assertEqual((entry.lookup_id, entry.packet), (3, b"logged"))

    def test_read(self) -> None:
        """It opens with all that it holds; of its messages nothing is known but what they say."""
        store, snapshot = self.reopened()
        self.assert_old_content(store, snapshot)
        columns = snapshot.messages[ORDERS.identifier]
        assert isinstance(columns, MessageColumns)
        self.assertFalse(any(columns.event_only))
        self.done(store.close())

    def test_continued(self) -> None:
        """What is written from then on goes to segments of the present version, and is found by a start."""
        self.assertEqual(set(self.versions().values()), {1})
        store, _ = self.reopened()
        before = max(self.versions())
        message = PutMessage(ORDERS.identifier, 50, b"new" * 40, 1.0, event_only=True)
        self.commit(store, message)
        reported = AppendEvent(9.0, b"", "purged", "", 7, "private$\\q")
        self.commit(store, RemoveUnread(BILLS.identifier, (100, 101), reported))
        copy = self.copied(store)
        self.done(store.close())
        self.assertEqual({version for number, version in self.versions().items() if number <= before}, {1})
        self.assertEqual(self.versions()[before + 1], 2)
        for home in (copy, self.home):
            store = self.make_store(home)
            snapshot = self.done(store.open())
            self.assertNotIn(BILLS.identifier, snapshot.messages)
            self.assertEqual(self.packets(store, ORDERS.identifier, [*LEFT, 50])[-1], b"new" * 40)
            self.assertEqual(
                [found.event.event for found in self.done(store.read_events(0, 9))], ["purged"] * 3
            )
            self.done(store.close())

    def test_refused_switch(self) -> None:
        """A start that is followed by nothing leaves a log of version 1."""
        store, _ = self.reopened()
        self.done(store.close())
        self.assertEqual(set(self.versions().values()), {1})
        self.assert_old_content(*self.reopened())


class EventOnlyTests(LogTestCase):
    """What is known of messages whose removal unread needs no packet."""

    def test_kept(self) -> None:
        """It survives restarts, moves, counts and copies, apart from the counts themselves."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(3):
            message = PutMessage(
                ORDERS.identifier, number, bytes(100), 1.0, None, 2, 3, event_only=number != 1
            )
            self.commit(store, message)
        self.done(store.close())
        store, snapshot = self.make_store(), None
        snapshot = self.done(store.open())
        columns = snapshot.messages[ORDERS.identifier]
        assert isinstance(columns, MessageColumns)
        self.assertEqual([bool(each) for each in columns.event_only], [True, False, True])
        self.assertEqual([(each[4], each[5]) for each in columns], [(2, 3)] * 3)
        reader = LogStoreReader(self.home / "log")
        page = reader.messages(ORDERS.identifier, 0, 1 << 64, since=None, until=None, bodies=False)
        self.assertEqual([row[3] for row in page.rows], [3, 3, 3])
        self.done(store.close())
