"""A program that reads the file while a server writes it, as C{docs/design/storage.md} describes it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

from twisted.trial.unittest import TestCase

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutQueue,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_contract import BILLS, HIGHEST, ORDERS, identity, packet_of, put, remove
from tests.storage.policies import policy_of
from tests.storage.sqlite.sqlite_queries import STORED_EVENTS, STORED_LOG, STORED_MESSAGES

SOURCE = UUID("11111111-2222-3333-4444-555555555555")
PACKETS = f"SELECT packet FROM ({STORED_MESSAGES})"
PACKET = packet_of(SOURCE, 5, b"body")


class ReaderTests(TestCase):
    """Other programs use our queries, and a connection that cannot write."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    async def opened(self, *changes: Change) -> SqliteMessageStore:
        store = SqliteMessageStore(self.path, policy_of(self.path))
        await store.open()
        self.addCleanup(store.close)
        await store.commit([PutQueue(ORDERS), PutQueue(BILLS), *changes])
        return store

    def rows(self, statement: str, how: str = "mode=ro") -> list[tuple[object, ...]]:
        """The rows that another program sees."""
        with closing(sqlite3.connect(f"{self.path.as_uri()}?{how}", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    async def test_messages(self) -> None:
        """Every durable message is a row; a LookupIdentifier has 2^63 subtracted."""
        await self.opened(
            put(HIGHEST, PACKET, due=7, aborts=1, moves=2),
            put(1, b"bill", queue=BILLS),
            put(2, is_express=True),
        )
        self.assertEqual(
            self.rows(f"{STORED_MESSAGES} ORDER BY queue"),
            [
                (
                    ORDERS.identifier.bytes,
                    HIGHEST - (1 << 63),
                    len(PACKET),
                    1_700_000_000.25,
                    7,
                    1,
                    2,
                    identity(SOURCE, 5),
                    PACKET,
                ),
                (BILLS.identifier.bytes, 1 - (1 << 63), 4, 1_700_000_000.25, None, 0, 0, b"", b"bill"),
            ],
        )

    async def test_queues(self) -> None:
        """The definition of a queue is JSON."""
        await self.opened()
        [(record,), _] = self.rows("SELECT definition FROM queue WHERE identifier IS NOT NULL ORDER BY id")
        assert isinstance(record, bytes)
        self.assertEqual(json.loads(record)["path"], ORDERS.path)

    async def test_message_log(self) -> None:
        """A log is read on from a number, and what was trimmed is not seen from then on."""
        queue = ORDERS.identifier
        store = await self.opened(*(AppendLog(queue, 9, b"%d" % number, number) for number in range(2000)))
        after = f"SELECT sequence, packet FROM ({STORED_LOG}) WHERE sequence > 1997 ORDER BY sequence"
        self.assertEqual(self.rows(after), [(1998, b"1997"), (1999, b"1998"), (2000, b"1999")])
        await store.commit([TrimLog(queue, before=1999.0), AppendLog(BILLS.identifier, 1, b"bill", 5.0)])
        self.assertEqual(
            self.rows(f"SELECT sequence, queue, arrived FROM ({STORED_LOG}) ORDER BY sequence"),
            [(2000, queue.bytes, 1999.0), (2001, BILLS.identifier.bytes, 5.0)],
        )
        await store.commit([RemoveQueue(queue)])
        self.assertEqual(self.rows(f"SELECT sequence FROM ({STORED_LOG})"), [(2001,)])

    async def test_events(self) -> None:
        """So are events; text that is not Unicode text is a BLOB."""
        store = await self.opened(
            AppendEvent(1.0, b"", "started"),
            AppendEvent(2.0, identity(SOURCE, 5), "expired", "in time", 0x8003, "private$\\\ud83d"),
        )
        await store.commit([TrimEvents(1)])
        self.assertEqual(
            self.rows(STORED_EVENTS),
            [
                (
                    2,
                    2.0,
                    identity(SOURCE, 5),
                    "expired",
                    "in time",
                    0x8003,
                    "private$\\\ud83d".encode("utf-8", "surrogatepass"),
                )
            ],
        )

    async def test_readers_delay_no_commit(self) -> None:
        """During a long read messages are stored and removed; the reader sees one snapshot."""
        store = await self.opened(put(1, b"one"))
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
            reading = connection.execute(PACKETS)
            await store.commit([put(2, b"two"), remove(1)])
            self.assertEqual(reading.fetchall(), [(b"one",)])
            self.assertEqual(connection.execute(PACKETS).fetchall(), [(b"two",)])

    async def test_after_a_stop(self) -> None:
        """A file that no server has open is read unchanged."""
        store = await self.opened(put(1, b"one"))
        await store.close()
        self.assertEqual(self.rows(PACKETS, "immutable=1"), [(b"one",)])
