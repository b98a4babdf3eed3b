"""Coroutines that nothing awaits: each has an errback."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.sources import parsed_package

STARTERS = frozenset({"fromCoroutine", "ensureDeferred", "running", "shielded", "undivided", "maybeDeferred"})
"""The functions that begin work and return its Deferred."""


class BackgroundWorkTests(SynchronousTestCase):
    """An error of work that nothing awaits is logged when it happens, with what has failed."""

    def test_no_deferred_is_dropped(self) -> None:
        """No statement begins work and drops its Deferred; L{msmq.background.run_in_background} does it."""
        found = [f"{module}:{line}" for module, tree in parsed_package().items() for line in _dropped(tree)]
        self.assertEqual(found, [], "use run_in_background, or add a logged errback")

    def test_dropped_ones_are_found(self) -> None:
        """The bare statement is found, and no Deferred that is kept, awaited or has callbacks."""
        tree = ast.parse(
            "Deferred.fromCoroutine(work())\n"
            "running(work())\n"
            "running(work()).addErrback(log)\n"
            "kept = running(work())\n"
            "async def wait():\n"
            "    await running(work())\n"
            "    undivided(work())\n"
        )
        self.assertEqual(list(_dropped(tree)), [1, 2, 7])


def _dropped(tree: ast.Module) -> Iterator[int]:
    """The lines of statements that drop the Deferred of the work that they begin."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if (
                name in STARTERS
            ):
                yield node.lineno
