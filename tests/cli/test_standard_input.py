"""Which standard inputs C{send} takes the body from."""

from __future__ import annotations

import io
import os
import socket
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.messages.send import _is_redirected


class RedirectionTests(SynchronousTestCase):
    """A command that reads a terminal, or what a service manager gives it, would wait without end."""

    def redirected(self, descriptor: int) -> bool:
        with open(descriptor, encoding="utf-8", closefd=False) as standard_input:
            self.patch(sys, "stdin", standard_input)
            return _is_redirected()

    def test_pipes_files_and_sockets(self) -> None:
        """They end, so they are read."""
        reading, writing = os.pipe()
        here, there = socket.socketpair()
        path = Path(self.mktemp())
        path.write_bytes(b"x")
        file = os.open(path, os.O_RDONLY)
        try:
            for descriptor in (reading, here.fileno(), file):
                self.assertTrue(self.redirected(descriptor))
        finally:
            for descriptor in (reading, writing, file):
                os.close(descriptor)
            here.close()
            there.close()

    def test_devices(self) -> None:
        """A terminal and /dev/null are not read, and neither is what is closed or no file at all."""
        leader, terminal = os.openpty()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            for descriptor in (terminal, nothing):
                self.assertFalse(self.redirected(descriptor))
        finally:
            for descriptor in (leader, terminal, nothing):
                os.close(descriptor)
        for other in (None, io.StringIO("text")):
            self.patch(sys, "stdin", other)
            self.assertFalse(_is_redirected())
