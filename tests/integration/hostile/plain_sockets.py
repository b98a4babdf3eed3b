"""A whole server in a process of its own, and peers that are nothing but sockets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from tests.builders import ALPHA, establish, parameters
from tests.patience import DEADLINE
from tests.servers.prepared import PreparedProcess

SESSION_PORT = 1801
PING_PORT = 3527
ORDERS = ".\\private$\\orders"

# Nothing listens on it; the socket that is bound to it has the address alone.
_RESERVATION_PORT = 1800


def own_address(test: SynchronousTestCase) -> str:
    """An address of 127.0.0.80 to 127.0.0.89 that this test has to itself, until it ends."""
    for number in range(80, 90):
        address = f"127.0.0.{number}"
        reservation = socket.socket()
        try:
            reservation.bind((address, _RESERVATION_PORT))
        except OSError:
            reservation.close()
            continue
        test.addCleanup(reservation.close)
        return address
    raise test.failureException("every address is taken")


class ServerProcess:
    """C{twistd msmq} on an address of its own, with the queue C{orders}.

    @param log_lines: the key of C{[limits]}.

    When the test ends the server is stopped, and has to stop cleanly, without a traceback in its log.

    @ivar client: its control API.
    @ivar identifier: its QueueManager.Identifier.
    """

    def __init__(
        self, test: SynchronousTestCase, address: str, configuration: str = "", *, log_lines: int = 100_000
    ) -> None:
        self._test = test
        self.address = address
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        test.addCleanup(shutil.rmtree, directory)
        file = directory / "msmq.toml"
        file.write_text(configuration, encoding="utf-8")
        # Tests look for the line of each session, and count by the window of the documents.
        lines = directory / "conf.d" / "lines.toml"
        lines.parent.mkdir()
        lines.write_text(f"[limits]\nlog_lines = {log_lines}\nwindow_size = 64\n", encoding="utf-8")
        self.data = directory / "data"
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._ended = False
        self._process = PreparedProcess(
            [
                os.fspath(Path(sys.executable).with_name("twistd")),
                *("-n", "--pidfile=", "msmq", "--config", os.fspath(file)),
                *("--data", os.fspath(self.data), "--address", address, "--storage", "memory"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        test.addCleanup(self.stop)
        self.wait_for("store memory")
        self.client = ControlClient(self.data / "control.sock")
        self.identifier = UUID(self.client.status()["identifier"])
        self.client.create_queue(ORDERS, {})

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._grown:
                self._lines.append(line)
                self._grown.notify_all()
        with self._grown:
            self._ended = True
            self._grown.notify_all()

    @property
    def log(self) -> str:
        """All that it has said so far."""
        with self._grown:
            return "".join(self._lines)

    def logged(self, text: str) -> int:
        """How many lines of the log hold this text."""
        with self._grown:
            return sum(text in line for line in self._lines)

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until this number of lines of its log contain the text."""
        with self._grown:
            self._grown.wait_for(
                lambda: self._ended or sum(text in line for line in self._lines) >= count, DEADLINE
            )
            found = sum(text in line for line in self._lines)
            if found < count:
                raise self._test.failureException(
                    f"{found} of {count} lines with {text!r} in:\n{''.join(self._lines[-100:])}"
                )

    def stop(self) -> None:
        """Stop it as an operator does, and look at what it has said."""
        self._process.terminate()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for trouble in ("Traceback", "Unhandled", "Unable to format", "Error"):
            self._test.assertEqual([line for line in self._lines if trouble in line], [])
        self._test.assertIn("Server Shut Down.", self._lines[-1])

    @property
    def resident(self) -> int:
        """The bytes of memory that it occupies."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def name(self, queue: str = "orders") -> str:
        """A direct name of one of its private queues, as packets carry it."""
        return f"TCP:{self.address}\\private$\\{queue}"

    def send(self, destination: str, *bodies: bytes, **properties: object) -> list[str]:
        """Have it send messages; gives their identifiers."""
        header = {"destination": destination, **properties}
        return list(self.client.send([StreamRecord(header, body) for body in bodies]))

    def receive(self, count: int = 1, queue: str = ORDERS) -> list[Delivered]:
        """Receive this number of messages from a queue, waiting for them."""
        found: list[Delivered] = []
        with self.client.receive(queue, count=count, timeout=DEADLINE) as stream:
            for item in stream:
                if isinstance(item, Receipt):
                    item.confirm()
                else:
                    found.append(item)
        self._test.assertEqual(len(found), count)
        return found

    def bodies(self, count: int = 1, queue: str = ORDERS) -> list[bytes]:
        """The bodies of this number of messages, received from a queue."""
        return [message.body for message in self.receive(count, queue)]

    def outgoing(self) -> dict[str, Any]:
        """Its one outgoing queue."""
        [queue] = self.client.outgoing()
        return queue

    def connect(self) -> PlainPeer:
        """A connection to its session port."""
        peer = PlainPeer(socket.create_connection((self.address, SESSION_PORT), DEADLINE))
        self._test.addCleanup(peer.close)
        return peer

    def open(self, *, window_size: int = 64, ack_timeout: int = 20000, client: UUID = ALPHA) -> PlainPeer:
        """A connection that has gone through the handshake."""
        peer = self.connect()
        peer.send(establish(client), parameters(500, ack_timeout, window_size))
        peer.read(572)
        self._test.assertEqual(peer.read(32), parameters(500, ack_timeout, 64))
        return peer


class PlainPeer:
    """One end of a connection, in the hands of a test."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection

    def send(self, *packets: bytes) -> None:
        """Write these bytes in one go; the other end may have closed meanwhile."""
        try:
            self.socket.sendall(b"".join(packets))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def read(self, size: int) -> bytes:
        """Exactly this number of bytes, or those before the end."""
        data = bytearray()
        while len(data) < size:
            chunk = self._receive(size - len(data))
            if not chunk:
                break
            data += chunk
        return bytes(data)

    def read_to_end(self) -> bytes:
        """All data until the other end closes the connection."""
        data = bytearray()
        while chunk := self._receive(65536):
            data += chunk
        return bytes(data)

    def _receive(self, size: int) -> bytes:
        try:
            return self.socket.recv(size)
        except ConnectionResetError:
            # It closed with something of ours unread.
            return b""

    def finish(self) -> None:
        """Say that nothing more follows, and go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


class PlainListener:
    """A session port that is nothing but a socket."""

    def __init__(self, test: SynchronousTestCase, address: str) -> None:
        self._test = test
        self.address = address
        self._socket = socket.create_server((address, SESSION_PORT))
        self._socket.settimeout(DEADLINE)
        test.addCleanup(self._socket.close)

    def accept(self) -> PlainPeer:
        """The next connection that comes."""
        connection, _ = self._socket.accept()
        peer = PlainPeer(connection)
        self._test.addCleanup(peer.close)
        return peer
