"""How errors, log lines and events quote what callers and peers have chosen."""

from __future__ import annotations

import ast
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import msmq
from msmq.quoting import LONGEST_QUOTED, LONGEST_SHOWN, quoted, shown

DEVELOPERS = {
    "decoding/hex_text.py": "a character, which may be a quotation mark or white space",
    "storage/log/failures.py": "an exception of the operating system",
    "storage/records.py": "an exception of the standard library",
}
"""The files of which an error may show a value as Python writes it, and what that value is."""


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

    def test_limit_of_the_caller(self) -> None:
        """A caller may set a higher limit, towards which escaped characters count too."""
        self.assertEqual(len(shown("x" * 5000, 1000)), 1003)
        self.assertEqual(shown("\0\ud800\u00fc", 1000), "\\x00\\ud800\u00fc")
        self.assertEqual(len(shown("\0" * 5000, 1000)), 1003)


class QuotedTests(SynchronousTestCase):
    """A refused value in an error."""

    def test_values(self) -> None:
        """A path keeps single backslashes, so that it can be pasted into a command."""
        for value, expected in (
            (".\\private$\\orders", "'.\\private$\\orders'"),
            ("o'neill", '"o\'neill"'),
            ('o\'neill "x"', "'o'neill \"x\"'"),
            ("\x1b[2J\n", "'\\x1b[2J\\n'"),
            ("", "''"),
            (7, "7"),
            (None, "None"),
            ("x" * 1000, f"'{'x' * LONGEST_QUOTED}...'"),
        ):
            self.assertEqual(quoted(value), expected)

    def test_no_error_doubles_backslashes(self) -> None:
        """No text of the package shows a value as Python writes it, unless only developers see it."""
        package = Path(msmq.__file__).parent
        found = {
            str(path.relative_to(package))
            for path in package.rglob("*.py")
            # What has no such conversion need not be parsed.
            if "!r" in (text := path.read_text(encoding="utf-8"))
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
        }
        self.assertEqual(found, set(DEVELOPERS))
