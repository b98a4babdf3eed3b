"""The progress of a purge, as a client of the control API reports it."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError, Status

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"


class PurgeProgressClientTests(SynchronousTestCase):
    """A server that answers the request of a purge with these lines, and closes the connection."""

    def answered(self, *lines: bytes) -> ControlClient:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = Path(directory.name) / "control.sock"
        listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(listening.close)
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(0x10000)
                connection.sendall(HEAD + b"".join(line + b"\n" for line in lines))

        serving = Thread(target=serve)
        serving.start()
        self.addCleanup(serving.join)
        return ControlClient(path)

    def test_progress(self) -> None:
        """The observer gets the messages that are left; the result is that of the last line."""
        client = self.answered(b'{"messages": 2}', b'{"messages": 1}', b'{"purged": 2}')
        seen: list[int] = []
        self.assertEqual(client.purge_queue("orders", seen.append), {"purged": 2})
        self.assertEqual(seen, [2, 1])

    def test_observer_that_fails(self) -> None:
        """What the observer raises is raised as it is: the connection is not lost."""
        client = self.answered(b'{"messages": 2}', b'{"purged": 2}')
        closed = BrokenPipeError("the reader of the output has ended")

        def observe(left: int) -> None:
            raise closed

        with self.assertRaises(BrokenPipeError) as caught:
            client.purge_queue("orders", observe)
        self.assertIs(caught.exception, closed)

    def test_answer_that_ends_early(self) -> None:
        """Without the last line the connection was lost."""
        client = self.answered(b'{"messages": 2}')
        with self.assertRaises(MQError) as caught:
            client.purge_queue("orders", lambda left: None)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.assertIn("the answer ended early", str(caught.exception))
