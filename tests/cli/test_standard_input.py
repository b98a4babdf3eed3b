"""Which standard inputs C{send} takes the body from."""

from __future__ import annotations

import io
import os
import socket
import subprocess
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


class ClosedTests(SynchronousTestCase):
    """A standard input that is closed, as some supervisors start a command."""

    def test_verbs(self) -> None:
        """A verb that is to read it says so in one line."""
        for arguments in (
            ["send", "Q", "--body-file", "-"],
            ["send", "Q", "--lines", "-"],
            ["decode"],
            ["apply", "-", "--control", "/nonexistent/control.sock"],
            ["message", "copy", "1", "--queue", "Q", "--to", "Q", "--edit", "-"],
            ["enterprise", "leave", "X", "--directory", "ldaps://127.0.0.1/dc=x", "--bind-dn", "cn=x"],
        ):
            with self.subTest(arguments=arguments):
                ended = subprocess.run(
                    ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "msmq.cli", *arguments],
                    capture_output=True,
                    check=False,
                )
                self.assertEqual((ended.returncode, ended.stdout), (2, b""), ended.stderr)
                self.assertTrue(ended.stderr.endswith(b": standard input is closed\n"), ended.stderr)
                self.assertEqual(ended.stderr.count(b"\n"), 1)
