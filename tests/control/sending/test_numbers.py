"""Numbers that nothing could hold are refused by name, wherever the control API takes one."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from msmq.control.protocol.records import StreamRecord
from tests.control.support import DEAD_LETTERS, ORDERS, Answer, ControlTestCase, resource

NUMBERS: tuple[Any, ...] = (
    *(-1, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30, 10**400, -(10**400)),
    *(1e300, 1.5, True, None, [], {}),
)
TEXTS = (
    *("-1", str(1 << 64), "9" * 20, "9" * 400, "9" * 5000),
    *("\u0663", "1e400", "nan", "inf", "0x10", " 1", ""),
)


class NumberTests(ControlTestCase):
    """Every number of every request."""

    def check(self, answer: Answer, what: object) -> None:
        """It was done, or refused with a sentence, and nothing broke."""
        self.assertLess(answer.status, 500, (what, answer.body[:300]))
        if answer.status >= 400 and answer.is_whole:
            detail = answer.json["detail"]
            self.assertNotIn("Exceeds the limit", detail, what)
            self.assertNotIn("too large to convert", detail, what)
            self.assertLess(len(detail), 2100, what)

    def test_properties_of_queues(self) -> None:
        """When one is made, and when one is changed."""
        for name in ("quota", "journal_quota", "log_age", "log_size"):
            for number, value in enumerate((*NUMBERS, *TEXTS)):
                path = f".\\private$\\{name}{number}"
                body = {"path": path, name: value}
                self.check(self.post("/v1/queues", body), body)
                body = {name: value}
                patched = self.call("PATCH", resource("queues", ORDERS), json.dumps(body).encode())
                self.check(patched, body)

    def test_properties_of_messages(self) -> None:
        """As query parameters, and in records."""
        for name in (
            "body_type",
            "priority",
            "time_to_reach_queue",
            "time_to_be_received",
            "application_tag",
        ):
            for value in TEXTS:
                answer = self.call("POST", "/v1/messages", b"x", destination=ORDERS, **{name: value})
                self.check(answer, (name, value))
            for value in NUMBERS:
                self.check(
                    self.send_records(StreamRecord({"destination": ORDERS, name: value})), (name, value)
                )
        for value in NUMBERS:
            self.check(
                self.send_records(StreamRecord({"destination": ORDERS, "extension_size": value})), value
            )

    def test_reading(self) -> None:
        """How many, how long, and which part of a log."""
        for value in TEXTS:
            for name in ("count", "timeout"):
                caller = self.receive(peek="true", **{"timeout": 0, name: value})
                if caller.is_answered:
                    self.check(caller.answer, (name, value))
            self.check(self.call("GET", "/v1/deadletters", limit=value), value)
            caller = self.caller()
            caller.ask("GET", "/v1/messages", queue=ORDERS, timeout=value)
            if caller.is_answered:
                self.check(caller.answer, value)
        for value in (*NUMBERS, *TEXTS):
            for name in ("from", "to"):
                body = {"into": ORDERS, name: value}
                self.check(self.post(resource("queues", ORDERS, "replay"), body), body)

    def test_names_with_numbers(self) -> None:
        """Identifiers, format names and receipts."""
        guid = "12345678-1234-1234-1234-123456789012"
        for digits in ("-1", "9" * 20, "9" * 400, "9" * 5000, "\u0663", "F" * 5000):
            identifier = f"{{{guid}}}\\{digits}"
            self.check(self.call("GET", resource("messages", identifier)), digits)
            self.check(self.post(resource("messages", identifier, "move"), {"queue": DEAD_LETTERS}), digits)
            self.check(self.call("POST", resource("deadletters", identifier, "requeue")), digits)
            answer = self.call("POST", "/v1/messages", b"", destination=ORDERS, correlation_id=identifier)
            self.check(answer, digits)
            self.check(self.call("POST", f"/v1/receipts/x/{quote(digits)}"), digits)
            for name in (f"PRIVATE={guid}\\{digits}", f"DIRECT=TCP:127.0.0.1:{digits}\\private$\\x"):
                self.check(self.call("POST", "/v1/messages", b"", destination=name), name)
                self.check(self.call("GET", resource("queues", name)), name)

    def test_receipts(self) -> None:
        """Receipts of an open stream."""
        self.put(b"x")
        stream = self.receive(count=2).answer.records[-1].header["stream"]
        for digits in ("-1", "9" * 400, "9" * 5000, "\u0663", "1.0", "0"):
            self.check(self.call("POST", f"/v1/receipts/{stream}/{quote(digits)}"), digits)

    def test_certificates(self) -> None:
        """Days."""
        for value in (*NUMBERS, *TEXTS):
            self.check(self.post("/v1/certificates", {"days": value}), value)

    def test_numbers_that_json_cannot_have(self) -> None:
        """More digits than any parser accepts."""
        body = b'{"path": ".\\\\private$\\\\x", "quota": ' + b"9" * 5000 + b"}"
        self.check(self.call("POST", "/v1/queues", body), "quota")
