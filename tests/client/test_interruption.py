"""A consumer whose wait is interrupted by an exception of the application, such as that of a signal."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from threading import Thread, main_thread
from types import FrameType

from twisted.trial.unittest import SynchronousTestCase

from msmq.client import Client
from msmq.control.client.streams import ReceiveStream
from msmq.control.protocol.records import StreamRecord

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: msmq-records\r\n\r\n"
MESSAGE = StreamRecord({"id": "{A}\\1", "extension_size": 0}, b"body").to_bytes()
RECEIPT = StreamRecord({"receipt": 1, "stream": "s", "messages": 1}).to_bytes()


class Interrupted(Exception):
    """Raised by the handler of a signal."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise, if the thread waits for messages."""
    while frame is not None:
        if frame.f_code is ReceiveStream.__iter__.__code__:
            raise Interrupted
        frame = frame.f_back


class InterruptionTests(SynchronousTestCase):
    """A server that sends a batch in two parts, on the first connection with a signal between them."""

    def setUp(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, directory)
        self.path = directory / "control.sock"
        self.listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listening.close)
        self.listening.bind(os.fspath(self.path))
        self.listening.listen()
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))

    def serve(self) -> None:
        for is_first in (True, False):
            try:
                connection, _ = self.listening.accept()
            except OSError:
                # The test has ended.
                return
            with connection:
                request = b""
                while not request.endswith(b"\r\n\r\n"):
                    request += connection.recv(4096)
                connection.sendall(SWITCHING + MESSAGE + (b"" if is_first else RECEIPT))
                # A signal between two waits would have no effect, so it is sent until the client disconnects.
                connection.settimeout(0.01)
                with contextlib.suppress(ConnectionError):
                    while True:
                        if is_first:
                            signal.pthread_kill(main_thread().ident or 0, signal.SIGUSR1)
                        with contextlib.suppress(TimeoutError):
                            if not connection.recv(4096):
                                break

    def test_next_batch(self) -> None:
        """The exception is raised; the next call gets the whole batch, on a new connection."""
        server = Thread(target=self.serve)
        server.start()
        self.addCleanup(server.join)
        self.addCleanup(self.listening.shutdown, socket.SHUT_RDWR)
        with Client(self.path).consume(r".\private$\orders") as consumer:
            self.assertRaises(Interrupted, consumer.next_batch)
            batch = consumer.next_batch()
            self.assertEqual([message.body for message in batch], [b"body"])
