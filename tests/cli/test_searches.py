"""The order of C{msmq queue browse --sort}, and what a search leaves out."""

from __future__ import annotations

import json
from typing import Any

import click
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.messages.browsing import sorted_messages
from msmq.queues.arriving.message import Delivery
from tests.cli.served import ServedCommandTestCase

ELSEWHERE = "DIRECT=OS:BETA\\private$\\q"


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


class LeftOutTests(ServedCommandTestCase):
    """What an expression cannot be applied to, and what cannot be read."""

    packet_memory = 0

    def setUp(self) -> None:
        super().setUp()
        for label in ("first", "second"):
            self.put(
                label.encode(),
                queue=ELSEWHERE,
                label=label,
                delivery=Delivery.RECOVERABLE,
                dead_letter=True,
                time_to_reach_queue=1,
            )
        self.clock.advance(2)

    def test_dead_letters(self) -> None:
        """Dead letters to which C{--where} could not be applied are reported, as those of any queue."""
        for verb in (["list"], ["list", "--group-by", "label"]):
            ended = self.msmq("deadletter", *verb, "--where", "priority > '3'", "--json")
            self.assertEqual((ended.status, ended.objects), (0, []), ended.errors)
            self.assertIn("2 message(s) could not be compared: ", ended.errors)
        found = self.msmq("deadletter", "list", "--where", "label == 'first'", "--json")
        self.assertEqual((len(found.objects), found.errors), (1, ""))

    def test_damaged_dead_letters(self) -> None:
        """Dead letters that the store cannot read are named, or counted."""
        [first, _] = self.msmq("deadletter", "list", "--json").objects
        self.disk.damaged.add(first["lookup_id"])
        ended = self.msmq("deadletter", "list", "--where", "priority >= `0`", "--json")
        self.assertEqual([each["label"] for each in ended.objects], ["second"], ended.errors)
        self.assertIn(f"message {first['lookup_id']} of .\\system$;deadletter cannot be read", ended.errors)
        ended = self.msmq("deadletter", "list", "--group-by", "label", "--json")
        self.assertEqual([each["label"] for each in ended.objects], ["second"], ended.errors)
        self.assertIn("1 dead letter(s) cannot be read, and are not counted", ended.errors)

    def test_kept(self) -> None:
        """A damaged message that waits for the quarantine is not reported as missing, and can be removed."""
        [first, _] = self.msmq("deadletter", "list", "--json").objects
        identifier, lookup_id = first["id"], str(first["lookup_id"])
        self.disk.kept.add(first["lookup_id"])
        for _ in range(2):
            for chosen in ((identifier,), (lookup_id, "--queue", ".\\system$;deadletter")):
                ended = self.msmq("message", "show", *chosen)
                self.assertEqual((ended.status, ended.output), (1, ""))
                self.assertIn("MQ_ERROR_MESSAGE_STORAGE_FAILED", ended.errors)
                self.assertIn("is damaged, and stays in the store", ended.errors)
                self.assertIn("segment 1, offset 0", ended.errors)
        known = json.loads(self.msmq("explain", identifier, "--json").output)
        [place] = known["unreadable"]
        self.assertEqual((place["lookup_id"], known["places"]), (first["lookup_id"], []))
        self.assertIn("segment 1, offset 0", self.msmq("explain", identifier).output)
        self.assertIn("segment 1, offset 0", self.msmq("explain", identifier, "--ask", ".").output)
        ended = self.msmq("message", "remove", identifier, "--yes")
        self.assertEqual(ended.status, 0, ended.errors)
        known = json.loads(self.msmq("explain", identifier, "--json").output)
        self.assertEqual(known["unreadable"], [])

    def test_events(self) -> None:
        """So are events."""
        ended = self.msmq("events", "--after", "0", "--where", "starts_with(sequence, '1')", "--json")
        self.assertEqual((ended.status, ended.objects), (0, []))
        self.assertIn("event(s) could not be compared: ", ended.errors)
