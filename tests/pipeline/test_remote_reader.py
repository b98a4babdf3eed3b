"""A store that is read on another machine: by the control endpoint of its server, with TLS and a token."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from itertools import count
from socketserver import UnixStreamServer
from threading import Thread
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.control.protocol.refusals import invalid, refusal, too_many
from msmq.interfaces.storage import StorageError
from msmq.pipeline.reading import remote
from msmq.pipeline.reading.opening import open_store, shown_location
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.remote import RemoteStoreReader
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.storage.readers import RowDamaged, open_reader
from msmq.storage.readers.pages_in_arrow import encoded_page
from msmq.structures.status import MQError
from tests.estates.processes import TIMERS, Member, home, started
from tests.pipeline.stores import (
    ARRIVED,
    ORDERS,
    estate,
    lookup_id,
    packet,
    spoil_log,
    write_log,
    write_sqlite,
)
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
        many = [
            *queues,
            *map(UUID, (f"{number:032x}" for number in range(1 << 99, (1 << 99) + 10_000 - len(queues)))),
        ]
        same(far.log_after(many, 2, 3), near.log_after(queues, 2, 3))
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


class AnsweringServer:
    """A control socket with given answers.

    @param answer: returns the status and the body of the response to a call of a reader.
    """

    def __init__(self, running: ExitStack, answer: Callable[[dict[str, Any]], tuple[int, bytes]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                call = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, body = answer(call)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Nothing is logged."""

        self.path = home(running) / "control.sock"
        server = running.enter_context(UnixStreamServer(str(self.path), Handler))
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.callback(thread.join)
        running.callback(server.shutdown)


def busy_server(running: ExitStack, refusals: int) -> AnsweringServer:
    """One that refuses some calls, as a server does while others wait, and answers the rest.

    @param refusals: how many.
    """
    left = [refusals]

    def answer(call: dict[str, Any]) -> tuple[int, bytes]:
        left[0] -= 1
        if left[0] < 0:
            return 200, json.dumps({"value": 21}).encode()
        return 503, json.dumps(refusal(too_many("calls of remote readers", 16))).encode()

    return AnsweringServer(running, answer)


class EarlierServerTests(SynchronousTestCase):
    """Servers of earlier versions, which do not know each call."""

    def test_sizes_of_messages(self) -> None:
        """They are those of the packets that a server sends which has no call for them alone."""
        rows = [(lookup_id(number), ARRIVED, 0, 0, None, packet(number)) for number in (1, 2)]

        def answer(call: dict[str, Any]) -> tuple[int, bytes]:
            if call["call"] == "messages":
                return 200, encoded_page("messages", rows, call["begin"] + 7)
            return 400, json.dumps(refusal(invalid(f"call is one of messages, not {call['call']}"))).encode()

        running = ExitStack()
        self.addCleanup(running.close)
        store = open_store(f"unix:{AnsweringServer(running, answer).path}")
        page = store.message_rows(ORDERS.identifier, 5)
        self.assertEqual([(*row[:5], len(row[5])) for row in rows], [*page.rows])
        self.assertEqual(12, page.next)


class UnansweredTests(SynchronousTestCase):
    """Servers that have too many calls, or do not answer."""

    def setUp(self) -> None:
        self.running = ExitStack()
        self.addCleanup(self.running.close)

    def test_busy_server(self) -> None:
        """A call beyond those that may wait is repeated until it is answered."""
        pauses: list[float] = []
        client = ControlClient(busy_server(self.running, 7).path)
        store = RemoteStoreReader(client, "there", sleep=pauses.append)
        self.assertEqual(21, store.log_end())
        self.assertEqual([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0], pauses)

    def test_server_that_stays_busy(self) -> None:
        """It is an error after a time, with the reason."""
        client = ControlClient(busy_server(self.running, 100).path)
        ticks = count(0.0, 250.0)
        store = RemoteStoreReader(client, "there", monotonic=lambda: next(ticks), sleep=lambda _: None)
        self.assertIn(
            "there: cannot read: MQ_ERROR_INSUFFICIENT_RESOURCES: the limit of 16 concurrent calls",
            str(self.assertRaises(StorageError, store.log_end)),
        )

    def test_server_that_hangs(self) -> None:
        """A server that accepts a connection and says nothing is an error after a time."""
        self.patch(remote, "PATIENCE", 0.01)
        path = home(self.running) / "control.sock"
        listening = self.running.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(path))
        listening.listen()
        store = open_store(f"unix:{path}")
        self.assertIn("timed out", str(self.assertRaises(StorageError, store.log_end)))

    def test_hung_server_of_the_sink(self) -> None:
        """A server that accepts messages and does not answer is lost after the time limit of the client."""
        path = home(self.running) / "control.sock"
        listening = self.running.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(path))
        listening.listen()

        def accept() -> None:
            connection = self.running.enter_context(listening.accept()[0])
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n")

        accepting = Thread(target=accept)
        accepting.start()
        self.addCleanup(accepting.join)
        client = ControlClient(path, patience=0.01)
        sent = client.send([StreamRecord({"destination": "orders"}, b"x")], pipelined=True)
        error = self.assertRaises(MQError, list, sent)
        self.assertIn(f"{path} was lost: it neither read nor answered anything for 0.01 s", str(error))
