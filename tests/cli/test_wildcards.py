"""Wildcards in names of queues."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.wildcards import is_pattern, matches


class WildcardTests(SynchronousTestCase):
    """C{*} and C{?}, as the cmdlets of Windows have them."""

    def test_matches(self) -> None:
        """A pattern matches the whole name or its last part, without case; brackets are characters."""
        orders, beta = ".\\private$\\Orders", "DIRECT=OS:BETA\\private$\\orders"
        for pattern, name, is_match in (
            ("ord*", orders, True),
            ("order?", orders, True),
            ("rders", orders, False),
            ("*", orders, True),
            (".\\PRIVATE$\\o*", orders, True),
            ("private$\\*", orders, False),
            ("DIRECT=OS:*", beta, True),
            ("*beta\\*", beta, True),
            ("q[1]*", ".\\private$\\q[1]x", True),
            ("q[1]*", ".\\private$\\q1", False),
        ):
            with self.subTest(pattern=pattern, name=name):
                self.assertIs(matches(name, pattern), is_match)
        self.assertFalse(is_pattern("q[1]"))
