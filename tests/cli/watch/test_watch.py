"""C{msmq watch} and a server that stands still."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from importlib import import_module

from tests.cli.support import CommandTestCase


class HungServerTests(CommandTestCase):
    """A server that accepts a connection and never answers."""

    def test_no_answer(self) -> None:
        """It counts as unreachable after a while, which the screen shows as an alarm."""
        # The package has the command under this name.
        self.patch(import_module("msmq.cli.watch.watch"), "PATIENCE", 0.01)
        path = f"{tempfile.mkdtemp(prefix='msmq-test-')}/control.sock"
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
            hung.bind(path)
            hung.listen()
            self.assert_refused(
                ["--control", path, "watch", "--json"], 1, "MQ_ERROR_SERVICE_NOT_AVAILABLE", "timed out"
            )
