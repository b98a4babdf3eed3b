"""A store that is read on another machine: by the control endpoint of its server, with TLS and a token."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.pipeline.reading.opening import open_store, shown_location
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.storage.readers import RowDamaged, open_reader
from tests.estates.processes import TIMERS, Member, home, started
from tests.pipeline.stores import ORDERS, estate, packet, spoil_log, write_log, write_sqlite
from tests.servers.certificates import make_credentials
from tests.servers.own_address import own_address

TOKEN = "0123456789abcdef0123456789abcdef"
READER = "fedcba9876543210fedcba9876543210"
MONITOR = "00112233445566778899aabbccddeeff"
PORT = 1843
EVERYTHING = (0, 1 << 64)
MANY = 1 << 62


class RemoteServer:
    """A server on a store that was written before, with a control endpoint for other machines.

    @param damaged: the content that is damaged in each row of the record log that has it.
    @ivar location: how a reader reaches it.
    """

    def __init__(self, running: ExitStack, backend: str, number: int, damaged: bytes = b"") -> None:
        directory = home(running)
        self.address = own_address(number)
        credentials = make_credentials(address=self.address)
        authority, chain, key = (directory / name for name in ("ca.pem", "chain.pem", "key.pem"))
        authority.write_bytes(credentials.authority)
        chain.write_bytes(credentials.certificate)
        key.write_bytes(credentials.key)
        key.chmod(0o600)
        tokens = directory / "tokens"
        tokens.write_text(f"spark reader {READER}\nwatch monitor {MONITOR}\n")
        tokens.chmod(0o600)
        self.token = directory / "token"
        self.use(READER)
        settings = (
            f'{TIMERS}[storage]\nbackend = "{backend}"\n[listen]\nremote_control ='
            f" 'ssl:{PORT}:interface={self.address}:privateKey={key}:certKey={chain}'\n"
            f"[security]\ncontrol_token_file = '{tokens}'\n"
        )
        self.member = Member(directory, "ALPHA", self.address, settings=settings)
        write = write_log if backend == "log" else write_sqlite
        write(self.member.data, estate()[1:])
        if damaged:
            spoil_log(self.member.data, damaged)
        [_] = started(running, [self.member])
        self.location = f"ssl:{self.address}:{PORT}:tokenFile={self.token}:caFile={authority}"

    def use(self, token: str) -> None:
        """Let readers show this token."""
        self.token.write_text(f"{token}\n")
        self.token.chmod(0o600)


class RemoteReaderContract:
    """What a remote reader answers is what a reader on the machine answers."""

    backend = ""
    number = 0

    def setUp(self) -> None:
        running = ExitStack()
        self.addCleanup(running.close)  # type: ignore[attr-defined]
        self.server = RemoteServer(running, self.backend, self.number)

    def test_equal_answers(self) -> None:
        """Every call has the same answer, on queues with and without messages."""
        near, far = open_reader(str(self.server.member.data)), open_store(self.server.location)
        self.addCleanup(near.close)  # type: ignore[attr-defined]
        same = self.assertEqual  # type: ignore[attr-defined]
        same(far.identifier(), near.identifier())
        found = {one.identifier: one for one in far.queues()}
        for one in near.queues():
            other = found.pop(one.identifier)
            same(
                (other.path, other.type, other.log, other.quota, other.parent),
                (one.path, one.type, one.log, one.quota, one.parent),
            )
        same(found, {})
        queues = [one.identifier for one in near.queues()]
        same(far.event_bounds(), near.event_bounds())
        same(far.events(0, MANY), near.events(0, MANY))
        same(
            (far.log_end(), far.event_since(1_700_000_003.0)),
            (near.log_end(), near.event_since(1_700_000_003.0)),
        )
        for rows, size in ((3, None), (None, 900), (100, None)):
            same(far.log_after(queues, 2, rows, size), near.log_after(queues, 2, rows, size))
        for queue in (*queues, UUID(int=99)):
            for how in (
                {"since": None, "until": None, "bodies": True},
                {"since": 1_700_000_003.0, "until": 1_700_000_010.0, "bodies": False},
            ):
                for ours, theirs in (
                    (far.messages(queue, *EVERYTHING, **how), near.messages(queue, *EVERYTHING, **how)),
                    (far.log(queue, 2, 9, **how), near.log(queue, 2, 9, **how)),
                ):
                    same(([*ours.rows], ours.next), ([*theirs.rows], theirs.next))
            same(far.message_rows(queue, 0), near.message_rows(queue, 0))
            same(far.message_cuts(queue, *EVERYTHING, 7), near.message_cuts(queue, *EVERYTHING, 7))
            same(far.log_cuts(queue, 0, MANY, 7), near.log_cuts(queue, 0, MANY, 7))
            same(far.log_bounds(queue), near.log_bounds(queue))
            same(far.log_since(queue, 1_700_000_005.0), near.log_since(queue, 1_700_000_005.0))

    def test_equal_rows(self) -> None:
        """The data source has the same rows over the network."""
        names = names_of(EXPORTED_COLUMNS)
        for stream in ("queue", "log", "dead_letter"):
            batches = []
            for location in (str(self.server.member.data), self.server.location):
                options = read_options({"path": location, "stream": stream})
                scan = StoreScan(options, wanted_columns(names, options), stream)
                pages = [page for part in scan.slices() for page in scan.pages(part)]
                batches.append([message_batch(page, names).to_pylist() for page in pages if page])
            self.assertEqual(batches[0], batches[1])  # type: ignore[attr-defined]
            self.assertTrue(batches[0])  # type: ignore[attr-defined]


class LogTests(RemoteReaderContract, SynchronousTestCase):
    """The record log."""

    backend = "log"
    number = 61

    def test_refusals(self) -> None:
        """A wrong token, a role that may not look at messages, and what no reader gets are one line."""
        store = open_store(self.server.location)
        for token, reason in ((MONITOR, "MQ_ERROR_ACCESS_DENIED"), (TOKEN, "MQ_ERROR_ACCESS_DENIED")):
            self.server.use(token)
            error = self.assertRaises(StorageError, store.identifier)
            self.assertIn(f"ssl:{self.server.address}:{PORT}: cannot read: {reason}", str(error))
            self.assertNotIn("\n", str(error))
            self.assertNotIn(token, str(error))
        self.server.use(READER)
        self.server.member.stop()
        self.assertIn("no queue manager answers at", str(self.assertRaises(StorageError, store.log_end)))
        self.assertNotIn("token", shown_location(self.server.location))


class SqliteTests(RemoteReaderContract, SynchronousTestCase):
    """SQLite."""

    backend = "sqlite"
    number = 62


class DamageTests(SynchronousTestCase):
    """A store with a damaged entry of a message log."""

    def setUp(self) -> None:
        running = ExitStack()
        self.addCleanup(running.close)
        self.server = RemoteServer(running, "log", 64, packet(5, priority=5))

    def offsets(self, **options: str) -> list[int]:
        """The offsets of the log that the data source reads."""
        found = read_options({"path": self.server.location, "stream": "log", **options})
        scan = StoreScan(found, wanted_columns(("offset", "value"), found), "log")
        return [row.offset for part in scan.slices() for page in scan.pages(part) for row in page]

    def test_damaged_row(self) -> None:
        """It is named, or left out if the loss of data is accepted, as on the machine of the store."""
        error = self.assertRaises(RowDamaged, self.offsets)
        self.assertEqual(5, error.number)
        self.assertIn(f"ssl:{self.server.address}:{PORT}: ", str(error))
        self.assertIn("bytes are damaged", str(error))
        self.assertEqual([*range(1, 5), *range(6, 21)], self.offsets(failOnDataLoss="false"))

    def test_sizes_without_packets(self) -> None:
        """What needs no packet of a queue is answered although one is damaged."""
        near, far = open_reader(str(self.server.member.data)), open_store(self.server.location)
        self.addCleanup(near.close)
        expected = near.message_rows(ORDERS.identifier, 0)
        self.assertEqual(expected, far.message_rows(ORDERS.identifier, 0))
