"""Suggestions for what was misspelt."""

from __future__ import annotations

from msmq.spelling import closest
from tests.cli.served import ServedCommandTestCase
from tests.cli.support import CommandTestCase


class ClosestTests(CommandTestCase):
    """The distance up to which a word is a suggestion."""

    def test_closest(self) -> None:
        """One typing error in a short word, at most three in a long one; the least is first."""
        for word, known, found in (
            ("orders", ["others", "Order", "ordres"], "Order"),
            ("ordesr", ["orders"], "orders"),
            ("abc", ["xyz", "abd"], "abd"),
            ("--on", ["--body", "--no"], "--no"),
            ("abcdefg", ["abXdeYg"], None),
            ("abcdefgh", ["abXdeYgh"], "abXdeYgh"),
            ("abcdefghijklmnopqrst", ["abcdefghijklmnop"], None),
            ("", ["a"], "a"),
            ("x", [], None),
            ("a" * 500, ["a" * 499], "a" * 499),
            ("a" * 501, ["a" * 500], None),
        ):
            with self.subTest(word=word):
                self.assertEqual(closest(word, known), found)


class SuggestionTests(CommandTestCase):
    """Options and verbs."""

    def test_options(self) -> None:
        """An option of the same command that is spelt almost so is suggested, and no other."""
        for arguments, ending in (
            (["send", "x", "--bdoy", "1"], "'--bdoy'; did you mean --body?\n"),
            (["queue", "create", "x", "--qota", "1"], "'--qota'; did you mean --quota?\n"),
            (["queue", "list", "--qota"], "'--qota'.\n"),
            (["move", "--to", "x", "y"], "'--to'.\n"),
            (["receive", "x", "--delete"], "'--delete'.\n"),
            (["send", "x", "--time-to-live", "5"], "'--time-to-live'.\n"),
        ):
            with self.subTest(arguments=arguments):
                ended = self.msmq(*arguments)
                self.assertEqual((ended.status, ended.errors.count("\n")), (2, 1), ended.errors)
                self.assertTrue(ended.errors.endswith(ending), ended.errors)

    def test_verbs(self) -> None:
        """So are verbs."""
        for arguments, ending in (
            (["recieve", "x"], "'recieve'; did you mean receive?\n"),
            (["queue", "crate"], "'crate'; did you mean create?\n"),
            (["frobnicate"], "'frobnicate'.\n"),
        ):
            with self.subTest(arguments=arguments):
                self.assertTrue(self.msmq(*arguments).errors.endswith(ending))


class QueueSuggestionTests(ServedCommandTestCase):
    """Names of queues."""

    def test_queues(self) -> None:
        """A queue with almost the same name is suggested, and none that only shares characters."""
        self.make_queue("invoices")
        for name, ending in (
            ("invocies", "; did you mean .\\private$\\invoices?\n"),
            ("voices2", "does not exist\n"),
        ):
            ended = self.msmq("queue", "show", f".\\private$\\{name}")
            self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1), ended.errors)
            self.assertTrue(ended.errors.endswith(ending), ended.errors)

    def test_paths_without_backslashes(self) -> None:
        """A bare name, and a path whose backslashes the shell has removed, are refused with what to write."""
        ending = "; write a path with its backslashes, and with quotes in a shell: '.\\private$\\orders'\n"
        for arguments in (
            ["queue", "create", "bills"],
            ["queue", "show", ".private$orders"],
            ["queue", "set", "bills", "--label", "x"],
        ):
            with self.subTest(arguments=arguments):
                ended = self.msmq(*arguments)
                self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1), ended.errors)
                self.assertTrue(ended.errors.endswith(ending), ended.errors)
        self.assertNotIn("write a path", self.msmq("queue", "create", "DIRECT=x").errors)
