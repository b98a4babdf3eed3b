"""A file that version 1 of the tables wrote is brought up to date.

C{version-1.sqlite.gz} was written by the program of that time: a local and an outgoing queue with
messages, and one of a queue that had just been removed.
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

from twisted.trial.unittest import TestCase

from msmq.persistence.changes import AppendEvent, AppendLog
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.persistence.snapshot import Snapshot
from msmq.storage.sqlite import SqliteMessageStore
from tests.storage.policies import policy_of

FILE = Path(__file__).resolve().parent.parent / "version-1.sqlite.gz"

ORDERS = QueueDefinition(
    identifier=UUID(int=0xA),
    path="private$\\orders",
    number=16,
    label="Orders",
    quota=1024,
    created=1_690_000_000,
)
REMOTE = QueueDefinition(
    identifier=UUID(int=0xD), path="DIRECT=OS:beta\\private$\\orders", type=QueueType.OUTGOING
)
SOURCE = UUID("11111111-2222-3333-4444-555555555555")
SENT = 1_700_000_000


class VersionOneTests(TestCase):
    """The real file, opened by this version."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"
        self.path.write_bytes(gzip.decompress(FILE.read_bytes()))

    async def opened(self) -> tuple[SqliteMessageStore, Snapshot]:
        store = SqliteMessageStore(self.path, policy_of(self.path))
        snapshot = await store.open()
        self.addCleanup(store.close)
        return store, snapshot

    async def test_everything_is_there(self) -> None:
        """Queues, state, and every message with its packet are what they were."""
        store, snapshot = await self.opened()
        self.assertEqual(list(snapshot.queues), [ORDERS, REMOTE])
        self.assertEqual(dict(snapshot.state), {"sequential_id": b"\5\0", "message_id": b"\t"})
        places = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
        self.assertEqual(places, [3 << 56 | 5, *(4 << 56 | number for number in (1, 2, 3, 4))])
        packets = await store.read(ORDERS.identifier, places)
        self.assertEqual([len(packet) for packet in packets], [22, 172, 9172, 172, 172])
        self.assertEqual(packets[0], b"too short for a packet")

    async def test_due_times_are_made_from_packets(self) -> None:
        """[MS-MQDMPR] 3.1.2.4 in a queue TimeToBeReceived counts, in transit TimeToReachQueue."""
        _, snapshot = await self.opened()
        self.assertEqual(
            [entry[3:] for entry in snapshot.messages[ORDERS.identifier]],
            [
                (None, 0, 0),
                (None, 0, 0),
                (SENT + 3600, 0, 0),
                (None, 0, 0),
                (0xFFFFFFFF + 0xFFFFFFFE, 0, 0),
            ],
        )
        # On its way a message is in time still at its limit itself.
        self.assertEqual(
            [entry[3:] for entry in snapshot.messages[REMOTE.identifier]],
            [(SENT + 60 + 1, 0, 0), (None, 0, 0)],
        )

    async def test_messages_are_found(self) -> None:
        """Each has got its identity; the one of a removed queue is not found."""
        store, _ = await self.opened()
        found = [await store.find(SOURCE.bytes_le + number.to_bytes(4, "little")) for number in (2, 7, 99)]
        self.assertEqual(
            [list(places) for places in found],
            [[(ORDERS.identifier, 4 << 56 | 2)], [(REMOTE.identifier, 4 << 56 | 7)], []],
        )

    async def test_logs_begin(self) -> None:
        """Tables that version 1 lacked are empty, and usable."""
        store, _ = await self.opened()
        await store.commit(
            [AppendLog(ORDERS.identifier, 1, b"packet", 1.0), AppendEvent(1.0, bytes(20), "refused")]
        )
        [entry] = await store.read_log(ORDERS.identifier, 0, 10)
        [event] = await store.read_events(0, 10)
        self.assertEqual((entry.sequence, entry.packet), (1, b"packet"))
        self.assertEqual((event.sequence, event.event.event), (1, "refused"))

    async def test_second_start(self) -> None:
        """Another start finds what the first one did, and the file as version 1 left it is next to it."""
        store, first = await self.opened()
        await store.close()
        _, second = await self.opened()
        self.assertEqual(first, second)
        backup = self.path.with_name("msmq.sqlite.schema-1")
        with closing(sqlite3.connect(backup)) as connection:
            self.assertEqual(connection.execute("PRAGMA user_version").fetchone(), (1,))
            self.assertEqual(connection.execute("SELECT count(*) FROM message").fetchone(), (8,))

    async def test_tables_are_those_of_a_new_file(self) -> None:
        """Readers of the file need not know its history."""
        store, _ = await self.opened()
        await store.close()
        path = self.path.with_name("new.sqlite")
        new = SqliteMessageStore(path, policy_of(path))
        await new.open()
        await new.close()
        self.assertEqual(_tables(self.path), _tables(new.path))


def _tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that is in the schema, and the columns of the tables."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT type || ' ' || name, name FROM sqlite_schema").fetchall()
        return {
            described: connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
            for described, name in names
        }
