"""C{msmq outgoing retry-now}, paused queues, and C{msmq session}."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any

import attrs

from msmq.cli.options import Settings
from msmq.control.client.client import ControlClient
from msmq.queues.arriving.message import Message
from msmq.settings import SessionSettings
from tests.builders import BETA
from tests.cli.served import MemoryLocation, ServedCommandTestCase
from tests.control.support import ORDERS
from tests.nodes.support import Node

PAUSED, OTHER = (f"DIRECT=TCP:127.0.0.{host}\\private$\\q" for host in (8, 9))
TO_ALPHA = f"DIRECT=TCP:127.0.0.2{ORDERS[1:]}"
TO_BETA = f"DIRECT=TCP:127.0.0.3{ORDERS[1:]}"


class RetryTests(ServedCommandTestCase):
    """Two outgoing queues, one of them paused."""

    def setUp(self) -> None:
        super().setUp()
        for name in (PAUSED, OTHER):
            self.run_to_end(self.service.send(name, [Message(body=b"1")]))
        self.clock.advance(0)
        self.assertEqual(self.msmq("outgoing", "pause", PAUSED).status, 0)

    def test_one(self) -> None:
        """The command says in one line that it is paused, and which command resumes it."""
        resuming = f"msmq outgoing resume '{PAUSED}'"
        self.assert_ended(["outgoing", "retry-now", PAUSED], 1, "is paused", resuming)
        self.assertEqual(self.msmq("outgoing", "retry-now", OTHER).status, 0)

    def test_pattern(self) -> None:
        """With a pattern, those that wait are retried, and the paused one is named."""
        ended = self.msmq("outgoing", "retry-now", "DIRECT=TCP:*", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], [OTHER])
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("is paused", ended.errors)
        self.assert_ended(["outgoing", "retry-now", "DIRECT=OS:*"], 1, "no outgoing queue matches")

    def test_name_with_a_wildcard(self) -> None:
        """A name that has a wildcard itself is that queue alone."""
        star = "DIRECT=TCP:127.0.0.9\\private$\\*"
        self.run_to_end(self.service.send(star, [Message(body=b"1")]))
        self.clock.advance(0)
        for command in ("retry-now", "pause", "resume"):
            ended = self.msmq("outgoing", command, star, "--json")
            self.assertEqual([queue["format_name"] for queue in ended.objects], [star], ended.errors)

    def test_all(self) -> None:
        """Those that are paused are left out, and counted on standard error."""
        ended = self.msmq("outgoing", "retry-now", "--all", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], [OTHER])
        self.assertEqual((ended.status, ended.errors.count("\n")), (0, 1))
        self.assertIn("1 paused outgoing queue(s) left out", ended.errors)
        self.assertEqual(self.msmq("outgoing", "resume", PAUSED).status, 0)
        self.assertEqual(self.msmq("outgoing", "retry-now", "--all").errors, "")


@attrs.frozen
class ObservedLocation(MemoryLocation):
    """Calls something before each request."""

    before: Callable[[], None]

    def connection(self) -> http.client.HTTPConnection:
        self.before()
        return super().connection()


class SessionCloseTests(ServedCommandTestCase):
    """Two sessions with BETA, one in each direction."""

    def setUp(self) -> None:
        super().setUp()
        self.beta = Node(self.network, self.clock, "BETA", BETA, SessionSettings())
        self.beta.start()
        self.addCleanup(self.beta.service.stopService)
        self.run_to_end(self.beta.service.create_queue(ORDERS))
        self.put(b"1", queue=TO_BETA)
        self.beta_sends(b"2")
        self.clock.advance(1)
        self.assertEqual(len(self.sessions()), 2)

    def beta_sends(self, body: bytes) -> None:
        self.run_to_end(self.beta.service.send(TO_ALPHA, [Message(body=body)]))

    def sessions(self) -> list[Any]:
        """Those that are open."""
        return [each for each in self.call("GET", "/v1/sessions").json if each["state"] == "OPEN"]

    def end_before(self, request: int, count: int) -> None:
        """Let the first sessions end by themselves before a request of the command, counted from 1."""
        requests = 0

        def before() -> None:
            nonlocal requests
            requests += 1
            if requests == request:
                for session in self.service.inspection.sessions()[:count]:
                    self.service.close_session(session.identifier)

        client = ControlClient(ObservedLocation(self.site, self.clock, before))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)

    def test_an_address(self) -> None:
        """Every session with the address is closed, however it is written."""
        ended = self.msmq("session", "close", "::ffff:127.0.0.3", "--json")
        self.assertEqual((ended.status, len(ended.objects)), (0, 2), ended.errors)
        self.assertEqual(self.sessions(), [])

    def test_one_that_ends_meanwhile(self) -> None:
        """The others are closed and printed."""
        self.end_before(2, 1)
        ended = self.msmq("session", "close", "127.0.0.3", "--json")
        self.assertEqual((ended.status, len(ended.objects), ended.errors), (0, 1, ""))
        self.assertEqual(self.sessions(), [])

    def test_all_end_meanwhile(self) -> None:
        """It is said that there is none."""
        self.end_before(2, 2)
        self.assert_ended(["session", "close", "127.0.0.3"], 1, "MQ_ERROR_INVALID_HANDLE", "has ended")
