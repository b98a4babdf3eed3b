"""Running the command inside the test's own process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli import main


@attrs.frozen
class Ended:
    """Result of a command: exit status and output."""

    status: int
    output: str
    errors: str

    @property
    def objects(self) -> list[Any]:
        """The output as lines of JSON."""
        return [json.loads(line) for line in self.output.splitlines()]


class CommandRunner(SynchronousTestCase):
    """Runs the command, with nothing but what a test gives it."""

    def msmq(self, *arguments: str, input: bytes = b"") -> Ended:
        """Run the command."""
        output = io.TextIOWrapper(io.BytesIO(), "utf-8")
        errors = io.StringIO()
        self.patch(sys, "stdin", io.TextIOWrapper(io.BytesIO(input), "utf-8"))
        self.patch(sys, "stdout", output)
        self.patch(sys, "stderr", errors)
        status = main(arguments)
        output.flush()
        written = output.buffer
        assert isinstance(written, io.BytesIO)
        return Ended(status, written.getvalue().decode("utf-8"), errors.getvalue())


class CommandTestCase(CommandRunner):
    """The command without a server."""

    def assert_refused(self, arguments: Sequence[str], status: int, *words: str) -> None:
        """It ends with this status, one line that names these things, and nothing on standard output."""
        ended = self.msmq(*arguments)
        self.assertEqual((ended.status, ended.output), (status, ""), ended.errors)
        self.assertEqual(ended.errors.count("\n"), 1, ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)
