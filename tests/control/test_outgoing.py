"""Outgoing queues through the control API: the next attempt, retrying at once, purging."""

from __future__ import annotations

import json
from datetime import datetime

from twisted.logger import capturedLogs

from msmq.queues.arriving.message import Delivery
from tests.control.support import DEAD_LETTERS, ControlTestCase, resource

NAME = "DIRECT=TCP:127.0.0.9\\private$\\q"


class RetryTests(ControlTestCase):
    """C{POST /v1/outgoing/NAME/retry} and C{/v1/outgoing/retry}."""

    def next_attempt(self) -> float | None:
        """In how many seconds the next hop is dialled."""
        due = self.call("GET", resource("outgoing", NAME)).json["next_attempt"]
        now = self.clock.now().wall
        return None if due is None else round(datetime.fromisoformat(due).timestamp() - now, 3)

    def test_next_attempt(self) -> None:
        """It is shown while a retry is pending; the waits double, and begin anew when an operator retries."""
        self.put(b"1", queue=NAME)
        self.clock.advance(0)
        first = self.next_attempt()
        assert first is not None
        self.clock.advance(first)
        self.clock.advance(0)
        self.assertEqual(self.next_attempt(), 2 * first)
        self.clock.advance(first / 2)
        with capturedLogs() as logged:
            answer = self.call("POST", resource("outgoing", NAME, "retry"), b"")
        self.assertEqual((answer.status, answer.json["format_name"]), (200, NAME))
        self.assertEqual(self.next_attempt(), first)
        [line] = [event["line"] for event in logged if "outcome" in event]
        self.assertIn(f"outgoing retry-now {NAME}", line)

    def test_retry_all(self) -> None:
        """All that wait are dialled, and listed."""
        self.put(b"1", queue=NAME)
        self.clock.advance(0)
        answer = self.call("POST", "/v1/outgoing/retry", b"")
        self.assertEqual([queue["format_name"] for queue in answer.json], [NAME])

    def test_paused(self) -> None:
        """A paused queue is not dialled: the refusal names the commands that resume it, for each pause."""
        self.put(b"1", queue=NAME)
        self.clock.advance(0)
        address = "127.0.0.9"
        for name, body, command in (
            ("by name", None, f"msmq outgoing resume '{NAME}'"),
            ("all", {"all": True}, "msmq outgoing resume --all"),
            ("next hop", {"next_hop": address}, f"msmq outgoing resume --next-hop {address}"),
        ):
            with self.subTest(pause=name):
                path = "/v1/outgoing/{}" if body else resource("outgoing", NAME, "{}")
                sent = b"" if body is None else json.dumps(body).encode()
                self.assertEqual(self.call("POST", path.format("pause"), sent).status, 200)
                answer = self.call("POST", resource("outgoing", NAME, "retry"), b"")
                self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_OPERATION", NAME, "is paused", command)
                self.assertEqual(self.call("POST", path.format("resume"), sent).status, 200)
        self.assertEqual(self.call("POST", resource("outgoing", NAME, "retry"), b"").status, 200)

    def test_unknown_name(self) -> None:
        """There is nothing to dial for a name that has no queue."""
        answer = self.call("POST", resource("outgoing", NAME, "retry"), b"")
        self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND")


class PurgeTests(ControlTestCase):
    """C{POST /v1/outgoing/NAME/purge}."""

    def test_purge(self) -> None:
        """The messages leave, with dead letters where their senders requested them; others stay."""
        self.put(b"1", b"2", queue=NAME, dead_letter=True, delivery=Delivery.RECOVERABLE)
        self.put(b"3", queue="DIRECT=TCP:127.0.0.8\\private$\\q")
        answer = self.call("POST", resource("outgoing", NAME, "purge"), b"", progress="true")
        self.assertEqual(answer.json, {"purged": 2})
        self.assertEqual(self.bodies(DEAD_LETTERS), [b"1", b"2"])
        left = {queue["format_name"]: queue["messages"] for queue in self.call("GET", "/v1/outgoing").json}
        self.assertEqual(left.pop(NAME, 0), 0)
        self.assertEqual(list(left.values()), [1])
