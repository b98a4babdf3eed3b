"""Writes that reach the kernel at once, and in order."""

from __future__ import annotations

import contextlib
import socket
import sys
from types import SimpleNamespace
from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionLost
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from msmq.direct_write import unsent_bytes, write_now


class PollSet:
    """A reactor that counts how often a connection asked to be polled for writing.

    @ivar writers: the connections that it polls.
    """

    def __init__(self) -> None:
        self.writers: set[FileDescriptor] = set()
        self.changes = 0

    def addWriter(self, writer: FileDescriptor) -> None:
        self.writers.add(writer)
        self.changes += 1

    def removeWriter(self, writer: FileDescriptor) -> None:
        self.writers.discard(writer)
        self.changes += 1


class Connection(FileDescriptor):
    """A connection whose kernel accepts a limited number of bytes.

    @ivar accepted: what the kernel has, one entry for each call.
    @ivar space: bytes that it still accepts; C{None} once the connection is lost.
    """

    def __init__(self, reactor: Any, space: int | None) -> None:
        super().__init__(reactor)
        self.connected = 1
        self.accepted: list[bytes] = []
        self.space = space

    def writeSomeData(self, data: bytes) -> int | BaseException:
        if self.space is None:
            return ConnectionLost()
        part = bytes(data[: self.space])
        self.space -= len(part)
        if part:
            self.accepted.append(part)
        return len(part)


class EncryptedConnection(Connection):
    """A connection that encrypts what is written to it.

    @ivar hidden: what was written to it.
    """

    TLS = True

    def __init__(self, reactor: Any, space: int | None) -> None:
        super().__init__(reactor, space)
        self.hidden: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.hidden.append(data)


class DirectWriteTests(SynchronousTestCase):
    """Calls of the connection and the reactor."""

    def setUp(self) -> None:
        self.reactor = PollSet()

    def connection(self, space: int | None = 1000) -> Connection:
        return Connection(self.reactor, space)

    def test_accepted_at_once(self) -> None:
        """A write that the kernel accepts completely costs one call, and no change of the poll set."""
        connection = self.connection()
        write_now(connection, b"answer")
        self.assertEqual(connection.accepted, [b"answer"])
        self.assertEqual(self.reactor.changes, 0)

    def test_rest(self) -> None:
        """The rest that the kernel does not accept is written by the reactor, in order and once."""
        connection = self.connection(4)
        write_now(connection, b"answer")
        self.assertEqual(self.reactor.writers, {connection})
        connection.space = 1000
        connection.doWrite()
        self.assertEqual(b"".join(connection.accepted), b"answer")
        self.assertEqual(self.reactor.writers, set())

    def test_order(self) -> None:
        """Buffered data is written before later data."""
        connection = self.connection()
        connection.write(b"first ")
        write_now(connection, b"second")
        self.assertEqual(b"".join(connection.accepted), b"first second")

    def test_order_behind_a_full_kernel(self) -> None:
        """Data behind a partial write waits for its rest."""
        connection = self.connection(2)
        write_now(connection, b"first ")
        connection.space = 0
        write_now(connection, b"second")
        connection.space = 1000
        connection.doWrite()
        self.assertEqual(b"".join(connection.accepted), b"first second")

    def test_lost_connection(self) -> None:
        """An error is left to the reactor, which closes the connection."""
        connection = self.connection(None)
        write_now(connection, b"answer")
        self.assertEqual(self.reactor.writers, {connection})
        self.assertIsInstance(connection.doWrite(), ConnectionLost)

    def test_closed_connection(self) -> None:
        """No data is written to a connection that is closed, or is being closed."""
        for name in ("connected", "disconnecting", "_writeDisconnected"):
            connection = self.connection()
            setattr(connection, name, 0 if name == "connected" else 1)
            write_now(connection, b"answer")
            self.assertEqual(connection.accepted, [], name)

    def test_encrypted_connection(self) -> None:
        """Data for an encrypting connection never reaches the kernel in clear."""
        connection = EncryptedConnection(self.reactor, 1000)
        write_now(connection, b"secret")
        self.assertEqual((connection.hidden, b"".join(connection.accepted)), ([b"secret"], b""))

    def test_transport_without_descriptor(self) -> None:
        """Any other transport is written to as usual."""
        transport = StringTransport()
        write_now(transport, b"answer")
        self.assertEqual(transport.value(), b"answer")


class UnsentTests(SynchronousTestCase):
    """What was written and has not arrived."""

    def test_buffered(self) -> None:
        """What the kernel has not accepted, also through another transport."""
        connection = Connection(PollSet(), 1000)
        around = SimpleNamespace(transport=SimpleNamespace(transport=connection))
        self.assertEqual(unsent_bytes(connection), 0)
        write_now(connection, bytes(1500))
        for transport in (connection, around):
            self.assertEqual(unsent_bytes(transport), 500)
        connection.write(bytes(70))
        self.assertEqual(unsent_bytes(connection), 570)
        connection.space = 200
        connection.doWrite()
        self.assertEqual(unsent_bytes(around), 370)

    def test_without_a_file_descriptor(self) -> None:
        """Nothing is known of it."""
        endless = SimpleNamespace()
        endless.transport = endless
        for transport in (None, StringTransport(), endless):
            self.assertEqual(unsent_bytes(transport), 0)

    def test_in_the_kernel(self) -> None:
        """What the peer has not read, and its kernel has no space for."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        one = socket.create_connection(listening.getsockname())
        self.addCleanup(one.close)
        other, _ = listening.accept()
        self.addCleanup(other.close)
        one.setblocking(False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                written += one.send(bytes(1 << 16))
        connection = Connection(PollSet(), 0)
        connection.fileno = one.fileno  # type: ignore[method-assign]
        self.assertTrue(0 < unsent_bytes(connection) < written)
        while written:
            written -= len(other.recv(1 << 20))
        # What the peer sends acknowledges what it has received.
        other.send(b"x")
        one.setblocking(True)
        self.assertEqual(one.recv(1), b"x")
        self.assertEqual(unsent_bytes(connection), 0)

    def test_in_the_kernel_of_other_systems(self) -> None:
        """That of macOS shows it by an option of the socket; of others only what the process has is known."""
        options: list[tuple[int, int]] = []

        def getsockopt(level: int, option: int) -> int:
            options.append((level, option))
            return 42

        connection: Any = Connection(PollSet(), 0)
        connection.socket = SimpleNamespace(getsockopt=getsockopt)
        connection.write(bytes(8))
        for system, unsent in (("darwin", 50), ("freebsd14", 8)):
            self.patch(sys, "platform", system)
            self.assertEqual(unsent_bytes(connection), unsent)
        self.assertEqual(options, [(socket.SOL_SOCKET, 0x1024)])
