"""What several servers know about one message, on one page."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.control.protocol.joined_explanations import ServerExplanation, join_explanations
from msmq.control.server.factory import ControlSite, make_site
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.queues.arriving.message import Delivery
from msmq.structures.status import MQError, Status
from msmq.web import endpoint
from msmq.web.console import member_explanations
from msmq.web.console.member_explanations import (
    MOST_ASKED,
    MemberClient,
    MemberExplanations,
    MessageExplainer,
    member_client,
)
from msmq.web.console.message_timeline import message_timeline
from tests.cli.served import MemoryLocation
from tests.web.console.test_pages import ConsoleTestCase

T = TypeVar("T")
BETA = "DIRECT=OS:BETA\\private$\\orders"


def at_once(work: Callable[[], T]) -> Deferred[T]:
    """Work that does not block."""
    return maybeDeferred(work)


class EstateTestCase(ConsoleTestCase):
    """ALPHA's console asks BETA, and a server that does not answer."""

    def setUp(self) -> None:
        self.patch(endpoint, "MemberExplanations", self.members)
        super().setUp()

    def members(self, *_: object) -> MemberExplanations:
        """Those that the console asks."""
        return MemberExplanations({"OMEGA": "unix:/nowhere", "BETA": "beta"}, self.client_of, at_once)

    def client_of(self, where: str) -> MessageExplainer:
        """BETA, or a server that is down."""
        if where != "beta":
            return member_client("/no/token", where)
        return ControlClient(self.location())

    def location(self) -> MemoryLocation:
        """Where BETA is."""
        site: ControlSite = make_site(
            self.beta.service,
            configuration=NoServerConfiguration(),
            members=EstateMembers(("BETA",), {}, None),
            clock=self.clock.reactor,
        )
        return MemoryLocation(site, self.clock)


class EstateExplanationTests(EstateTestCase):
    """Answers of several servers on one page."""

    def test_joined(self) -> None:
        """A message that was handed over has its acknowledgement here and its position at BETA."""
        self.run_now(self.beta.service.create_queue(".\\private$\\orders"))
        self.put(BETA, b"1", label="sent", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.clock.advance(60)
        [sent] = self.run_now(self.beta.service.inspection.browse(".\\private$\\orders")).messages
        address = f"/explain?message={quote(str(sent.view.identifier))}"
        alone = self.page(address).text
        self.assertIn("also ask BETA, OMEGA", alone)
        self.assertNotIn("no queue manager answers", alone)
        page = self.page(f"{address}&others=true").text
        self.assertIn("BETA", page)
        self.assertIn("private$\\orders: available", " ".join(page.split()))
        self.assertIn("no queue manager answers at /nowhere", page)
        self.assertIn("session acknowledgement", page)

    def test_unknown(self) -> None:
        """A message that no server knows is said to be unknown, by each."""
        address = "/explain?message=" + quote("{A1FA0000-0000-4000-8000-000000000001}\\1")
        page = self.page(f"{address}&others=true").text
        self.assertIn("BETA", page)

    def test_answers_without_end(self) -> None:
        """An answer that is too long, or takes too long, is given up."""
        client, message = MemberClient(self.location()), "{A1FA0000-0000-4000-8000-000000000001}\\1"
        self.assertFalse(client.explain(message)["known"])
        for name, limit, reason in (
            ("LONGEST", 10, "its response has more than 10 bytes"),
            ("WHOLE", -1.0, "its response takes longer than"),
        ):
            patched = self.patch(member_explanations, name, limit)
            error = self.assertRaises(MQError, client.explain, message)
            patched.restore()
            self.assertIn(reason, error.detail)


class NotConfiguredTests(ConsoleTestCase):
    """A console without a token for other servers."""

    def test_nothing_is_asked(self) -> None:
        """The page does not offer it, and C{others} queries no other server."""
        address = "/explain?message=" + quote("{A1FA0000-0000-4000-8000-000000000001}\\1")
        self.assertNotIn("also ask", self.page(address).text)
        self.assertIn("ALPHA", self.page(f"{address}&others=true").text)


def explained(*times: str, **message: Any) -> dict[str, Any]:
    """The answer of a server with an event at each of these times."""
    events = [
        {"time": time, "event": "expired", "class_name": None, "queue": "q", "reason": "late"}
        for time in times
    ]
    delivery = {
        "time": "2026-01-01T00:00:02Z",
        "acknowledgement": "order",
        "queue": None,
        "address": "192.0.2.1",
        "class_name": None,
    }
    return {
        "known": bool(times),
        "summary": "here",
        "message": {"id": "m", **message},
        "events": events,
        "places": [],
        "unreadable": [],
        "deliveries": [delivery],
        "reports": [],
    }


class JoinTests(SynchronousTestCase):
    """Answers of servers as one timeline."""

    def test_order(self) -> None:
        """Entries of several servers are in the order of their times, whatever their kind."""
        joined = join_explanations(
            "m",
            [
                ServerExplanation("ALPHA", explained("2026-01-01T00:00:03Z"), None),
                ServerExplanation("BETA", None, "it is down"),
                ServerExplanation("GAMMA", explained("2026-01-01T00:00:01Z", label="L"), None),
            ],
        )
        self.assertEqual(joined["message"], {"id": "m", "label": "L"})
        self.assertTrue(joined["known"])
        found = [(entry.server, entry.title) for entry in message_timeline(joined)]
        self.assertEqual(
            found,
            [
                ("GAMMA", "expired"),
                ("ALPHA", "order acknowledgement"),
                ("GAMMA", "order acknowledgement"),
                ("ALPHA", "expired"),
            ],
        )
        self.assertEqual(
            [(each["server"], each["known"], each["error"]) for each in joined["servers"]],
            [("ALPHA", True, None), ("BETA", None, "it is down"), ("GAMMA", True, None)],
        )

    def test_origin(self) -> None:
        """An entry is of the server that has answered, whatever it says itself."""
        known = explained("2026-01-01T00:00:01Z")
        known["events"][0]["server"] = "ALPHA"
        joined = join_explanations("m", [ServerExplanation("GAMMA", known, None)])
        self.assertEqual([each["server"] for each in joined["events"]], ["GAMMA"])


class OtherAnswerTests(EstateTestCase):
    """A server answers something else, as one of another kind or version would."""

    answer: Mapping[str, Any] = {}

    def client_of(self, where: str) -> MessageExplainer:
        """BETA, or a server with another answer."""
        return super().client_of(where) if where == "beta" else OtherExplainer(self.answer)

    def test_reason(self) -> None:
        """The page has the reason for that server, and the answers of the others."""
        address = "/explain?others=true&message=" + quote("{A1FA0000-0000-4000-8000-000000000001}\\1")
        whole = explained("2026-01-01T00:00:00Z")
        for answer, reason in (
            ({}, "known is missing"),
            ({**whole, "reports": [{}]}, "time is missing in reports"),
            ({**whole, "events": None}, "events is of another type"),
            (explained("yesterday"), "'yesterday' is not a time"),
            (explained("0001-01-01T00:00:00+14:00"), "is not a time"),
        ):
            self.answer = answer
            page = self.page(address).text
            self.assertRegex(page, f"its answer is not an explanation: .*{reason}")
            self.assertIn("BETA", page)


@attrs.frozen
class OtherExplainer:
    """A server with one answer."""

    answer: Mapping[str, Any]

    def explain(self, message: str) -> dict[str, Any]:
        """The answer."""
        return dict(self.answer)


class MemberLimitTests(SynchronousTestCase):
    """How many servers are asked, and for how long."""

    def test_number(self) -> None:
        """At most so many servers are asked, a few at the same time."""
        waiting: list[Deferred[object]] = []

        def start(work: Callable[[], T]) -> Deferred[T]:
            done: Deferred[Any] = Deferred()
            waiting.append(done)
            return done.addCallback(lambda _: work())

        def refuse(_: str) -> MessageExplainer:
            raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "down")

        members = {f"M{number:03}": "e" for number in range(MOST_ASKED + 8)}
        asked = MemberExplanations(members, refuse, start).ask("m")
        self.assertEqual(len(waiting), member_explanations.AT_ONCE)
        started = 0
        while started < len(waiting):
            waiting[started].callback(None)
            started += 1
        answers = self.successResultOf(asked)
        self.assertEqual([answer.server for answer in answers], [f"M{each:03}" for each in range(MOST_ASKED)])
        self.assertTrue(all(answer.error and "down" in answer.error for answer in answers))

    def test_readers_that_leave(self) -> None:
        """A reader that disconnects has no further server queried, and those that are being queried count."""
        waiting: list[Deferred[object]] = []

        def start(work: Callable[[], T]) -> Deferred[T]:
            done: Deferred[Any] = Deferred()
            waiting.append(done)
            # The work goes on in its thread, whatever becomes of this Deferred.
            result: Deferred[T] = Deferred()
            done.addCallback(lambda _: work()).chainDeferred(result)
            return result

        def refuse(_: str) -> MessageExplainer:
            raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "down")

        members = {f"M{number:03}": "e" for number in range(MOST_ASKED)}
        explanations = MemberExplanations(members, refuse, start)
        for _ in range(3):
            left = explanations.ask("m")
            left.cancel()
            self.failureResultOf(left)
            self.assertEqual(len(waiting), member_explanations.AT_ONCE)
        following = explanations.ask("m")
        self.assertEqual(len(waiting), member_explanations.AT_ONCE)
        started = 0
        while started < len(waiting):
            waiting[started].callback(None)
            started += 1
        self.assertEqual(started, member_explanations.AT_ONCE + MOST_ASKED)
        self.assertEqual(len(self.successResultOf(following)), MOST_ASKED)

    def test_a_server_that_hangs(self) -> None:
        """A server that accepts a connection and does not answer is given up."""
        self.patch(member_explanations, "PATIENCE", 0.05)
        path = Path(os.path.relpath(self.mktemp()))
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            client = member_client("/no/token", f"unix:{path}")
            error = self.assertRaises(MQError, client.explain, "{A1FA0000-0000-4000-8000-000000000001}\\1")
        self.assertIs(error.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)

    def test_a_head_without_end(self) -> None:
        """A server whose answer never gets past its head is given up."""
        self.patch(member_explanations, "WHOLE", 0.05)
        path = Path(os.path.relpath(self.mktemp()))

        def answer(server: socket.socket) -> None:
            with server.accept()[0] as connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            answering = threading.Thread(target=answer, args=(server,))
            answering.start()
            self.addCleanup(answering.join)
            client = member_client("/no/token", f"unix:{path}")
            error = self.assertRaises(MQError, client.explain, "{A1FA0000-0000-4000-8000-000000000001}\\1")
        self.assertIn("its response takes longer than", error.detail)

    def test_a_wrong_endpoint(self) -> None:
        """An endpoint that cannot be used is named."""
        error = self.assertRaises(MQError, member_client, "/no/token", "ssl:nowhere")
        self.assertIn("ssl:nowhere", error.detail)
