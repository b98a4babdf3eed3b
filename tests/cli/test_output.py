"""Tables fit the terminal, and nothing is left out elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli import main
from msmq.cli.output import cut_text, fitted_columns, fitted_widths


class WidthTests(SynchronousTestCase):
    """The widths of columns."""

    def test_enough_room(self) -> None:
        """Columns that fit keep their widths, and so do all without a terminal."""
        self.assertEqual(fitted_widths([30, 10], [4, 4], 42), [30, 10])
        self.assertEqual(fitted_widths([300, 100], [4, 4], None), [300, 100])

    def test_widest_are_cut(self) -> None:
        """The widest columns give way, none below its title or eight characters."""
        self.assertEqual(fitted_widths([60, 10], [4, 4], 42), [30, 10])
        self.assertEqual(fitted_widths([60, 10], [20, 4], 20), [20, 8])

    def test_columns_that_do_not_fit(self) -> None:
        """Those on the right are left out before the first is cut below 24 characters, or a quarter."""
        titles = [4, 7, 13, 7, 8]
        self.assertEqual(fitted_columns([30, 7, 13, 7, 8], titles, None), [30, 7, 13, 7, 8])
        self.assertEqual(fitted_columns([30, 7, 13, 7, 8], titles, 80), [30, 7, 13, 7, 8])
        self.assertEqual(fitted_columns([60, 7, 13, 7, 8], titles, 86), [43, 7, 13, 7, 8])
        self.assertEqual(fitted_columns([30, 7, 13, 7, 8], titles, 40), [26, 7])
        self.assertEqual(fitted_columns([30, 7, 13, 7, 8], titles, 24), [19])
        self.assertEqual(fitted_columns([10, 7, 13, 7, 8], titles, 40), [10, 7, 13])
        self.assertEqual(fitted_columns([10], [4], 3), [8])

    def test_cut_text(self) -> None:
        """Both ends of a text stay, which in paths and identifiers tell them apart."""
        self.assertEqual(cut_text("abcdefghijklmnop", 9), "abc...nop")
        self.assertEqual(cut_text("abc", 9), "abc")


class ClosedOutputTests(SynchronousTestCase):
    """A standard output that is closed, as some supervisors start a command."""

    def test_verbs(self) -> None:
        """A verb that asks whether it is a terminal does its work."""
        lines = Path(self.mktemp())
        lines.write_bytes(b"1\n")
        for verb in (["top", "queues"], ["send", "Q", "--lines", str(lines)], ["queue", "list"]):
            errors = io.StringIO()
            self.patch(sys, "stdout", None)
            self.patch(sys, "stderr", errors)
            self.assertEqual(main([*verb, "--control", "/nonexistent/control.sock"]), 1)
            self.assertIn("MQ_ERROR_SERVICE_NOT_AVAILABLE", errors.getvalue())
