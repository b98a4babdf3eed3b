"""Remote readers of a store: one thread, a bound on waiting calls, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.trial.unittest import TestCase

from msmq.control.protocol.refusals import StoredRowUnreadable, read_refusal, refusal
from msmq.interfaces.stored_rows import StoredRowsAnswer
from msmq.service.stored_rows import WAITING, StoredRows, location_of_store
from msmq.structures.status import MQError
from tests.pipeline.stores import ORDERS, estate, packet, spoil_log, write_log

READING = {"begin": 0, "end": 1 << 64, "since": None, "until": None, "bodies": True}


class StoredRowsTests(TestCase):
    """Calls of remote readers."""

    def rows(self, location: Path | None) -> StoredRows:
        """Those of a store; its thread ends with the test."""
        rows = StoredRows(location, reactor)
        self.addCleanup(rows.stop)
        return rows

    async def refused(self, call: Deferred[StoredRowsAnswer]) -> str:
        """The reason of a refusal."""
        with self.assertRaises(MQError) as caught:
            await call
        return str(caught.exception)

    async def test_waiting(self) -> None:
        """A call beyond the limit is refused; those before it are answered, and then others."""
        rows = self.rows(write_log(Path(self.mktemp()).absolute(), estate()) / "msmq.log")
        calls = [rows.ask("log_end", {}) for _ in range(WAITING)]
        said = await self.refused(rows.ask("log_end", {}))
        self.assertIn(f"the limit of {WAITING} concurrent calls of remote readers is reached", said)
        self.assertEqual([one.value for one in await gatherResults(calls)], [21] * WAITING)
        page = await rows.ask("log", {"queue": ORDERS.identifier, **READING})
        self.assertIsNotNone(page.rows)

    async def test_stopped(self) -> None:
        """A call that arrives while the server stops is refused, and starts no thread again."""
        rows = self.rows(write_log(Path(self.mktemp()).absolute(), estate()) / "msmq.log")
        call = rows.ask("log_end", {})
        rows.stop()
        self.assertEqual(21, (await call).value)
        self.assertIn("the server stops", await self.refused(rows.ask("log_end", {})))

    async def test_no_store(self) -> None:
        """A store that cannot be read is a refusal, and so is one without files."""
        missing = Path(self.mktemp()).absolute()
        self.assertIn("there is no such store", await self.refused(self.rows(missing).ask("queues", {})))
        said = await self.refused(self.rows(None).ask("queues", {}))
        self.assertIn("the store of this server has no files: connect to its database", said)

    async def test_damaged_row(self) -> None:
        """A page with a damaged row is refused with the number of the row, so that others can be read."""
        data = write_log(Path(self.mktemp()).absolute(), estate())
        spoil_log(data, packet(5, priority=5))
        rows = self.rows(data / "msmq.log")
        with self.assertRaises(StoredRowUnreadable) as caught:
            await rows.ask("log", {"queue": ORDERS.identifier, **READING})
        self.assertEqual(5, caught.exception.number)
        again = read_refusal(json.dumps(refusal(caught.exception)).encode("ascii"), "")
        assert isinstance(again, StoredRowUnreadable)
        self.assertEqual((5, str(caught.exception)), (again.number, str(again)))
        page = await rows.ask("log", {"queue": ORDERS.identifier, **READING, "end": 5})
        self.assertIsNotNone(page.rows)

    async def test_unknown_queue(self) -> None:
        """A queue that does not exist has no rows."""
        rows = self.rows(write_log(Path(self.mktemp()).absolute(), estate()) / "msmq.log")
        self.assertEqual((await rows.ask("log_bounds", {"queue": UUID(int=99)})).value, (1, 1))

    def test_location(self) -> None:
        """The files of a store are where its description has them; other stores have none."""
        data = Path("/data")
        for description, expected in (
            ("sqlite", "/data/msmq.sqlite"),
            ("sqlite:a/b.sqlite", "/data/a/b.sqlite"),
            ("log:/elsewhere", "/elsewhere"),
            ("memory", None),
            ("postgresql://host/db", None),
        ):
            found = location_of_store(description, data)
            self.assertEqual(None if found is None else str(found), expected)
