"""Syntax errors of TOML texts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.toml.document import DocumentError, parse_document


class SyntaxErrorTests(SynchronousTestCase):
    """What L{parse_document} says about a text that is not TOML."""

    def test_problems(self) -> None:
        """The column, the key or the table, and what to write; a value is not printed, it may be a secret."""
        text = 'Invalid value in column 8: a text needs quotes, as in key = "text"'
        for content, line, problem in (
            ("name = ALPHA\n", 1, text),
            ("\r\nname = ALPHA\r\n", 2, text),
            ("name = /var/msmq # here", 1, text),
            ("name = True # so", 1, "Invalid value in column 8: write true or false"),
            ("name = off", 1, "Invalid value in column 8: write true or false"),
            ("name =\n", 1, "Invalid value in column 7: a value is missing"),
            ("name = # none\n", 1, "Invalid value in column 8: a value is missing"),
            ("name = =\n", 1, "Invalid value in column 8"),
            ('[a]\nb = 1\n"b" = 2\n', 3, "Cannot overwrite a value: the key '\"b\"' is set above"),
            ("[a]\nb = 1\n[a]\nc = 2\n", 3, "the table [a] is written twice, or is a key above"),
            ("a = 1\n[a]\n", 2, "the table [a] is written twice, or is a key above"),
            ("a = 1\n[[a]]\n", 2, "the table [[a]] is written twice, or is a key above"),
            ('path = "C:\\data"', 1, "Unescaped '\\' in a string in column 13"),
            ("name = [1,\n", 2, "Invalid value at the end of the file"),
        ):
            with self.subTest(content=content):
                error = self.assertRaises(DocumentError, parse_document, content)
                self.assertEqual((error.line, error.problem), (line, f"is not TOML: {problem}"))
