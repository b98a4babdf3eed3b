"""Texts of peers in the log and in events."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.log_summaries import LONGEST_SHOWN, shown


class ShownTests(SynchronousTestCase):
    """One line, which can be pasted, and never longer than the limit."""

    def test_texts(self) -> None:
        """A name stays as it is; what a terminal obeys is escaped, and what is too long is cut."""
        for text, expected in (
            ("DIRECT=OS:beta\\private$\\orders", "DIRECT=OS:beta\\private$\\orders"),
            ("caf\u00e9 'x' \"y\"", "caf\u00e9 'x' \"y\""),
            ("a\nb\x1b[2J\u202e", "a\\nb\\x1b[2J\\u202e"),
            ("", ""),
            ("x" * 1000, "x" * LONGEST_SHOWN + "..."),
        ):
            self.assertEqual(shown(text), expected)
