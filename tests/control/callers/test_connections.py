"""Connections of the control socket and of remote control have limits, which idle ones do not hold."""

from __future__ import annotations

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.logger import LogLevel, capturedLogs, formatEvent

from msmq.control.authentication.token_check import TokenSite
from msmq.control.server.http.limits import ControlLimits
from tests.control.callers.test_token_check import OTHER, TOKEN, authentication, token_file
from tests.control.support import ORDERS, Caller, ControlTestCase


class ConnectionLimitTests(ControlTestCase):
    """Three connections are allowed."""

    limits = ControlLimits(connections=3)

    def waiting(self) -> Caller:
        """A connection whose request waits for a message."""
        caller = self.caller()
        caller.ask("POST", "/v1/receive", queue=ORDERS, timeout="60")
        return caller

    def test_the_idlest_makes_way(self) -> None:
        """The connection that has been without a request for longest is closed for a new one."""
        callers = [self.caller() for _ in range(3)]
        for caller in (callers[1], callers[0], callers[2]):
            caller.ask("GET", "/v1/status")
        newcomer = self.caller()
        self.assertEqual([caller.transport.disconnected for caller in callers], [False, True, False])
        newcomer.ask("GET", "/v1/status")
        self.assertEqual(newcomer.answer.status, 200)

    def test_requests_are_not_ended_for_others(self) -> None:
        """While each connection has a request, a further one is closed, until one ends."""
        callers = [self.waiting() for _ in range(3)]
        for _ in range(3):
            self.assertIsNone(self.site.buildProtocol(UNIXAddress(None)))
        self.assertFalse(any(caller.transport.disconnected for caller in callers))
        callers[0].hang_up()
        self.caller().ask("GET", "/v1/status")


class TokenConnectionTests(ControlTestCase):
    """Four connections of remote control are allowed, with tokens of two programs."""

    limits = ControlLimits(connections=4)

    def setUp(self) -> None:
        super().setUp()
        file = token_file(self, f"prometheus monitor {TOKEN}", f"root admin {OTHER}")
        clock = self.clock.reactor
        self.guarded = TokenSite(self.site, authentication(file, clock), clock)

    def ask(self, token: str, path: str = "/v1/status", caller: Caller | None = None) -> Caller:
        """A request with a token, on a connection of its own unless there is one."""
        caller = caller or Caller(self.guarded, self.clock, IPv4Address("TCP", "192.0.2.1", 50000))
        caller.ask("GET", path, headers={"Authorization": f"Bearer {token}"})
        return caller

    def lost(self, callers: list[Caller]) -> list[bool]:
        return [caller.transport.disconnected for caller in callers]

    def test_the_idlest_of_its_own(self) -> None:
        """A program closes its own connection that is idle longest, and none of another one."""
        root = self.ask(OTHER)
        callers = [self.ask(TOKEN) for _ in range(3)]
        self.ask(TOKEN, caller=callers[0])
        self.assertEqual(self.ask(TOKEN).answer.status, 200)
        self.assertEqual(self.lost(callers), [False, True, False])
        self.assertFalse(root.transport.disconnected)

    def test_streams(self) -> None:
        """A program that holds all of them with requests is refused more, and makes way for another one."""
        streams = [self.ask(TOKEN, "/v1/stream?topics=overview") for _ in range(4)]
        answer = self.ask(TOKEN).answer
        self.assertEqual(
            (answer.status, answer.json["error"]), (503, "MQ_ERROR_INSUFFICIENT_RESOURCES"), answer.json
        )
        self.assertNotIn("www-authenticate", answer.headers)
        self.assertEqual(self.lost(streams), [False] * 4)
        with capturedLogs() as events:
            self.assertEqual([self.ask(OTHER).answer.status for _ in range(2)], [200, 200])
        self.assertEqual(self.lost(streams), [False, False, True, True])
        self.assertEqual(
            [formatEvent(event) for event in events if event["log_level"] is LogLevel.warn],
            [
                "remote control: a request of token prometheus from 192.0.2.1 is ended for a connection of"
                " token root: 4 are in use, and token prometheus has the most"
            ],
        )
        self.assertEqual(self.ask(TOKEN).answer.status, 503)

    def test_ended(self) -> None:
        """A connection that has ended makes room, and so does one whose caller shows no valid token."""
        streams = [self.ask(TOKEN, "/v1/stream?topics=overview") for _ in range(3)]
        self.ask("0" * 40, caller=self.ask(TOKEN))
        self.assertEqual(self.ask(TOKEN).answer.status, 200)
        streams[0].hang_up()
        self.assertEqual([self.ask(TOKEN).answer.status for _ in range(2)], [200, 200])


class PipeliningTests(ControlTestCase):
    """Clients that send further requests before the first is answered."""

    REQUEST = b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def test_one_request_an_iteration(self) -> None:
        """Of many requests that come at once each is answered in its own iteration of the reactor."""
        caller = self.caller()
        caller.protocol.dataReceived(self.REQUEST * 50)
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 "), 1)
        caller.protocol.dataReceived(self.REQUEST[:20])
        caller.protocol.dataReceived(self.REQUEST[20:])
        self.clock.advance(0)
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 "), 51)
        caller.ask("GET", "/v1/status")
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 "), 52)

    def test_a_body_between(self) -> None:
        """A body in the middle belongs to its request."""
        caller = self.caller()
        body = b"{}"
        post = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        caller.feed(self.REQUEST + post + body + self.REQUEST)
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 "), 3)
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 "), 2)

    def test_the_client_goes_away(self) -> None:
        """A connection that ends has no more requests."""
        caller = self.caller()
        caller.protocol.dataReceived(self.REQUEST * 3)
        caller.hang_up()
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 "), 1)
