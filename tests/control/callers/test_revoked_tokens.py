"""Requests that last longer than the token of their caller."""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.internet.address import IPv4Address

from msmq.control.authentication.token_check import TokenSite
from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, StreamRecord
from msmq.control.server.http.admission import PERIOD
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.message_search import PAGE
from tests.control.callers.test_token_check import OTHER, TOKEN, authentication, token_file
from tests.control.support import ORDERS, Caller, ControlTestCase, resource, slow_comparisons

SHOWN = {"Authorization": f"Bearer {TOKEN}"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": PROTOCOL, **SHOWN}
DENIED = "MQ_ERROR_ACCESS_DENIED"


def record(body: bytes) -> bytes:
    return StreamRecord({"destination": ORDERS, "delivery": "recoverable"}, body).to_bytes()


class RevokedTokenTests(ControlTestCase):
    """The token of a caller is removed from the file while its request lasts."""

    limits = attrs.evolve(ControlLimits(), receive_batch=1)

    def setUp(self) -> None:
        super().setUp()
        self.file = token_file(self, f"night operator {TOKEN}")
        self.guarded = TokenSite(self.site, authentication(self.file, self.clock.reactor), self.clock.reactor)

    def revoke(self) -> None:
        self.file.write_text(f"morning operator {OTHER}\n")

    def remote(self, method: str, path: str, headers: dict[str, str], **parameters: Any) -> Caller:
        caller = Caller(self.guarded, self.clock, IPv4Address("TCP", "192.0.2.1", 50000))
        caller.ask(method, path, headers=headers, **parameters)
        return caller

    def test_send_connection(self) -> None:
        """What arrives on an open connection afterwards is refused, and the connection ends."""
        caller = self.remote("GET", "/v1/send", UPGRADE)
        caller.feed(record(b"1"))
        self.revoke()
        caller.feed(record(b"2"))
        self.assertEqual(self.bodies(), [b"1"])
        data = caller.transport.value()
        self.assertIn(DENIED.encode(), data)
        self.assertIn(b"was removed, has expired or has another role", data)
        self.assertTrue(caller.transport.disconnecting)

    def test_token_of_another_line(self) -> None:
        """A token stays valid on open connections when another one is removed, also one without a name."""
        self.file.write_text(f"{OTHER}\n{TOKEN}\n")
        sending = self.remote("GET", "/v1/send", UPGRADE)
        receiving = self.remote("GET", "/v1/messages", SHOWN, queue=ORDERS)
        self.file.write_text(f"{TOKEN}\n")
        self.clock.advance(PERIOD)
        sending.feed(record(b"1"))
        self.clock.advance(0)
        self.assertFalse(sending.transport.disconnecting)
        self.assertEqual(receiving.answer.status, 200)

    def test_send_body(self) -> None:
        """What arrives of a body afterwards is refused."""
        caller = self.remote(
            "POST", "/v1/send", {"Content-Type": CONTENT_TYPE, "Content-Length": "1000", **SHOWN}
        )
        first = record(b"1")
        caller.feed(first)
        self.revoke()
        caller.feed(record(b"2").ljust(1000 - len(first), b" "))
        self.assertEqual(self.bodies(), [b"1"])
        self.assertEqual((caller.answer.status, caller.answer.lines[-1]["error"]), (403, DENIED))

    def test_receive_that_waits(self) -> None:
        """A receive that waits gets no message that arrives afterwards; it stays in its queue."""
        single = self.remote("GET", "/v1/messages", SHOWN, queue=ORDERS)
        stream = self.remote("POST", "/v1/receive", SHOWN, queue=ORDERS)
        self.revoke()
        self.put(b"secret")
        self.clock.advance(0)
        for caller in (single, stream):
            self.assert_refused(caller.answer, 403, DENIED, "was removed, has expired or has another role")
        self.assertEqual(self.bodies(), [b"secret"])

    def test_receive_that_goes_on_waiting(self) -> None:
        """A receive to which nothing comes ends too, within some seconds."""
        single = self.remote("GET", "/v1/messages", SHOWN, queue=ORDERS)
        stream = self.remote("POST", "/v1/receive", SHOWN, queue=ORDERS)
        self.clock.advance(PERIOD)
        self.assertFalse(single.is_answered or stream.is_answered)
        self.revoke()
        self.clock.advance(PERIOD)
        for caller in (single, stream):
            self.assert_refused(caller.answer, 403, DENIED, "was removed, has expired or has another role")

    def test_unconfirmed_messages(self) -> None:
        """What a reader holds without confirming it returns to the queue within some seconds, also if the
        stream waits for its confirmations alone.
        """
        for count in (1, 9):
            self.file.write_text(f"night operator {TOKEN}\n")
            self.put(b"1")
            caller = self.remote("GET", "/v1/receive", UPGRADE, queue=ORDERS, count=count)
            self.revoke()
            self.assertEqual(self.take(), [])
            for _ in range(2):
                self.clock.advance(PERIOD)
            self.assertEqual(self.take(), [b"1"])
            self.assertIn(DENIED.encode(), caller.transport.value())
            self.assertTrue(caller.transport.disconnecting)

    def test_idle_send_connection(self) -> None:
        """A connection on which nothing is sent ends too, and with it the transaction that it has begun."""
        queue = self.make_queue(transactional=True)
        caller = self.remote("GET", "/v1/send", UPGRADE)
        whole = {"destination": queue, "transactional": True, "one_transaction": True}
        caller.feed(StreamRecord(whole, b"1").to_bytes())
        self.assertEqual(self.service.inspection.status().uncommitted, 1)
        self.revoke()
        self.clock.advance(PERIOD)
        self.assertEqual(self.service.inspection.status().uncommitted, 0)
        self.assertIn(DENIED.encode(), caller.transport.value())
        self.assertTrue(caller.transport.disconnecting)

    def test_receive_stream(self) -> None:
        """A stream ends before its next messages; those that were delivered can be confirmed on it."""
        for peek in ("false", "true"):
            self.file.write_text(f"night operator {TOKEN}\n")
            self.put(b"1")
            caller = self.remote("GET", "/v1/receive", UPGRADE, queue=ORDERS, count=9, peek=peek)
            caller.feed(StreamRecord({"confirm": 1}).to_bytes())
            self.revoke()
            self.put(b"secret")
            self.clock.advance(0)
            data = caller.transport.value()
            self.assertNotIn(b"secret", data)
            self.assertEqual(DENIED.encode() in data, peek == "false", data)
            self.assertTrue(caller.transport.disconnecting)
            self.take()

    def test_transaction(self) -> None:
        """A transaction is aborted: its messages return."""
        queue = self.make_queue(transactional=True)
        self.put(b"1", queue=queue, transactional=True)
        caller = self.remote("GET", "/v1/receive", UPGRADE, queue=queue, count=2, transactional="true")
        self.revoke()
        self.put(b"secret", queue=queue, transactional=True)
        self.clock.advance(0)
        self.assertNotIn(b"secret", caller.transport.value())
        self.assertIn(DENIED.encode(), caller.transport.value())
        self.assertEqual(self.bodies(queue), [b"1", b"secret"])

    def test_events(self) -> None:
        """The event log is followed no longer."""
        caller = self.remote("GET", "/v1/events", SHOWN, follow="true")
        self.revoke()
        self.make_queue("secret")
        self.clock.advance(2)
        self.assertEqual(caller.answer.lines[-1]["error"], DENIED)
        self.assertNotIn(b"secret", caller.answer.body)

    def begun(self, method: str, path: str, body: bytes = b"") -> Caller:
        """A request of which only the first part is performed before the token is removed."""
        caller = Caller(self.guarded, self.clock, IPv4Address("TCP", "192.0.2.1", 50000))
        head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\nAuthorization: Bearer {TOKEN}"
        caller.protocol.dataReceived(head.encode() + b"\r\n\r\n" + body)
        self.revoke()
        self.clock.advance(0)
        return caller

    def test_browsing(self) -> None:
        """The messages of the next page are not shown, nor those behind a search."""
        self.put(*[b"seen"] * PAGE, b"secret")
        for filtered in ("", "&where=label%3D%3D'x'"):
            self.file.write_text(f"night operator {TOKEN}\n")
            caller = self.begun("GET", resource("queues", ORDERS, "messages") + f"?limit=1000{filtered}")
            self.assertEqual(caller.answer.lines[-1]["error"], DENIED)
            self.assertNotIn(b"secret", caller.answer.body)

    def test_dead_letters(self) -> None:
        """Dead letters, and the groups of them, are not shown any more."""
        self.put(*[b"seen"] * PAGE, b"secret", dead_letter=True, time_to_be_received=1)
        self.clock.advance(2)
        groups = self.begun("GET", "/v1/deadletters/groups?by=label")
        self.assertEqual(groups.answer.lines[-1]["error"], DENIED)
        self.file.write_text(f"night operator {TOKEN}\n")
        listed = self.begun("GET", "/v1/deadletters?limit=1000")
        self.assertFalse(listed.answer.is_whole)
        self.assertNotIn(b"secret", listed.answer.body)
        self.assertTrue(listed.transport.disconnected)

    def test_message_changes(self) -> None:
        """Messages after the present slice are not changed, and the audit log has how many were."""
        self.make_queue("other")
        self.put(*[b"x"] * (PAGE + 1))
        wanted = {"all": True, "queue": ".\\private$\\other"}
        caller = self.begun("POST", resource("queues", ORDERS, "messages/move"), json.dumps(wanted).encode())
        self.assertEqual((caller.answer.lines[-1]["error"], caller.answer.lines[-1]["done"]), (DENIED, PAGE))
        self.assertEqual(len(self.bodies()), 1)

    def test_slow_search_of_message_changes(self) -> None:
        """Messages are not changed that a search finds whose comparisons last for longer than the token."""
        slow_comparisons(self, self.clock)
        self.make_queue("other")
        self.put(b"1", b"2", b"3")
        wanted = {"where": "body_size > `0`", "queue": ".\\private$\\other"}
        caller = self.begun("POST", resource("queues", ORDERS, "messages/move"), json.dumps(wanted).encode())
        for _ in range(10):
            self.clock.advance(1)
        self.assert_refused(caller.answer, 403, DENIED, "was removed, has expired or has another role")
        self.assertEqual(self.bodies(), [b"1", b"2", b"3"])

    def test_slow_search_of_events(self) -> None:
        """Entries of the event log are compared one at a time for all requests of a caller, and are not shown
        when their comparisons last for longer than the token.
        """
        for reason in ("first", "second", "secret"):
            self.service.note("tested", reason)
        self.clock.advance(0)
        slow_comparisons(self, self.clock)
        first, second = (
            self.remote("GET", path, SHOWN, where="event != 'x'", **parameters)
            for path, parameters in (("/v1/events", {}), ("/v1/stream", {"topics": "events"}))
        )
        self.clock.advance(0)
        self.assertIn(b"first", first.answer.body)
        self.assertNotIn(b"first", second.answer.body)
        self.revoke()
        for _ in range(20):
            self.clock.advance(1)
        self.assertEqual(first.answer.lines[-1]["error"], DENIED)
        self.assertTrue(second.answer.is_whole)
        for caller in (first, second):
            self.assertNotIn(b"secret", caller.answer.body)

    def test_body_that_comes_later(self) -> None:
        """A request is not performed if its token was removed before its body had arrived."""
        self.put(b"kept")
        for path, query in (
            (resource("queues", ORDERS, "purge"), {}),
            ("/v1/messages", {"destination": ORDERS}),
        ):
            self.file.write_text(f"night operator {TOKEN}\n")
            caller = self.remote("POST", path, {"Content-Length": "2", **SHOWN}, **query)
            caller.feed(b"{")
            self.revoke()
            caller.feed(b"}")
            self.assert_refused(caller.answer, 403, DENIED, "was removed, has expired or has another role")
        self.assertEqual(self.bodies(), [b"kept"])

    def test_valid_token(self) -> None:
        """A file that is written again with the token ends nothing."""
        caller = self.remote("GET", "/v1/send", UPGRADE)
        self.file.write_text(f"morning operator {OTHER}\nnight operator {TOKEN}\n")
        caller.feed(record(b"1"))
        self.assertEqual(self.bodies(), [b"1"])
