"""The order of C{msmq queue browse --sort}."""

from __future__ import annotations

from typing import Any

import click
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.messages.browsing import sorted_messages


class SortTests(SynchronousTestCase):
    """Messages by their keys."""

    found: tuple[dict[str, Any], ...] = (
        {"id": "a", "priority": 3, "label": "x", "body": "2"},
        {"id": "b", "priority": 7, "label": None, "body_base64": "AA=="},
        {"id": "c", "priority": 3, "label": "a", "body": "1", "transaction": {}},
    )

    def order(self, keys: str) -> str:
        """The identifiers in their order."""
        return "".join(message["id"] for message in sorted_messages(list(self.found), keys))

    def test_order(self) -> None:
        """Several keys, each in its direction; a message without a value comes last."""
        for keys, order in (
            ("label", "cab"),
            ("-label", "acb"),
            ("-priority", "bac"),
            ("-priority, label", "bca"),
            ("priority,-label", "acb"),
            ("body", "cab"),
        ):
            with self.subTest(keys=keys):
                self.assertEqual(self.order(keys), order)
        self.assertEqual(sorted_messages([], "anything"), [])

    def test_wrong_key(self) -> None:
        """A key that no message has is named, with those that there are."""
        wrong = self.assertRaises(click.UsageError, self.order, "-prio")
        self.assertIn("--sort prio: a message has no such key; it has id, priority", wrong.message)
        self.found = ({"id": "a", "transaction": {}}, {"id": "b", "transaction": {}})
        self.assertRaises(click.UsageError, self.order, "transaction")
