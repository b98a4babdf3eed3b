"""Roles of tokens: what each may do with the control API."""

from __future__ import annotations

from typing import Any

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.control.authentication.roles import ROUTE_ROLES, Role, required_role
from msmq.control.authentication.token_check import TokenSite
from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, StreamRecord
from msmq.control.server.factory import ControlSite
from msmq.control.server.resources.live_stream import PERIOD
from tests.control.callers.test_token_check import authentication, token_file
from tests.control.support import ORDERS, Answer, Caller, ControlTestCase, resource

TOKENS = {role: f"{role}".ljust(32, "0") for role in Role}
NAMES = {
    "path": ".%5Cprivate$%5Cnone",
    "name": "DIRECT=OS:none%5Cprivate$%5Cnone",
    "message": "5c3fd0ae-6e3c-4d1c-8b34-2b45c1b1a0f1%5C7",
    "lookup_id": "7",
}


def routes(site: ControlSite) -> list[tuple[str, str]]:
    """The methods and routes of the API, HEAD and OPTIONS left out."""
    rules = site.resource._app.url_map.iter_rules()
    return [(method, rule.rule) for rule in rules for method in rule.methods - {"HEAD", "OPTIONS"}]


def example_path(route: str) -> str:
    """A path of a route, with names of objects that do not exist."""
    for kind in ("path:", "int:", ""):
        for name in (
            "path",
            "name",
            "message",
            "lookup_id",
            "fingerprint",
            "identifier",
            "stream",
            "receipt",
        ):
            route = route.replace(f"<{kind}{name}>", NAMES.get(name, "none"))
    return route


class RoleTableTests(SynchronousTestCase):
    """The table of routes and roles as values."""

    def test_unknown(self) -> None:
        """A route that the table does not have is for admins."""
        self.assertEqual(required_role("GET", "/v1/new"), Role.ADMIN)
        self.assertEqual(required_role("TRACE", "/v1/status"), Role.ADMIN)

    def test_head(self) -> None:
        """HEAD needs what GET does."""
        self.assertEqual(required_role("HEAD", "/v1/status"), Role.MONITOR)

    def test_changes(self) -> None:
        """A monitor or a reader cannot change anything."""
        for (method, route), role in ROUTE_ROLES.items():
            if role <= Role.READER:
                self.assertTrue(method == "GET" or route in ("/v1/acl", "/v1/store"), route)


class RoleTests(ControlTestCase):
    """A token of each role at the remote control endpoint."""

    def setUp(self) -> None:
        super().setUp()
        lines = [f"{role}'s {role} {token}" for role, token in TOKENS.items()]
        self.file = token_file(self, *lines)
        self.guarded: Any = TokenSite(
            self.site, authentication(self.file, self.clock.reactor), self.clock.reactor
        )

    def ask(self, role: Role, method: str, path: str, body: bytes | None = None, **headers: str) -> Caller:
        """One request with the token of a role."""
        caller = Caller(self.guarded, self.clock)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        caller.ask(method, path, body, {"Authorization": f"Bearer {TOKENS[role]}", **named})
        return caller

    def answer(self, role: Role, method: str, path: str, body: bytes | None = None) -> Answer:
        """Its answer."""
        return self.ask(role, method, path, body).answer

    def test_every_route(self) -> None:
        """Each route is in the table, and refuses exactly the roles below the one that it has there."""
        found = routes(self.site)
        self.assertEqual(set(found) ^ set(ROUTE_ROLES), set())
        for method, route in found:
            for role in Role:
                answer = self.answer(role, method, example_path(route), b"{}" if method != "GET" else None)
                if role >= ROUTE_ROLES[method, route]:
                    # What is asked for does not exist, or is asked for wrongly.
                    self.assertNotIn(answer.status, (401, 403), route)
                    continue
                self.assert_refused(
                    answer,
                    403,
                    "MQ_ERROR_ACCESS_DENIED",
                    f"token {role}'s has the role {role}",
                    f"needs {ROUTE_ROLES[method, route]}",
                )

    def test_sufficient(self) -> None:
        """A role that suffices is not refused, and the socket needs none."""
        purge = resource("queues", ORDERS, "purge")
        for role, method, path in (
            (Role.MONITOR, "GET", "/v1/status"),
            (Role.MONITOR, "HEAD", "/v1/status"),
            (Role.READER, "GET", "/v1/queues"),
            (Role.OPERATOR, "POST", purge),
            (Role.ADMIN, "POST", "/v1/identity/keep"),
        ):
            for each in Role:
                status = self.ask(each, method, path).transport.value().split(b" ", 2)[1]
                self.assertEqual(status, b"200" if each >= role else b"403", (each, path))
        self.assertEqual(self.call("POST", purge).status, 200)

    def test_log(self) -> None:
        """The log has refused callers with what they requested, in a few lines a minute."""
        lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        for number in range(9):
            self.ask(Role.READER, "POST", f"/v1/queues/a%E2%80%AEb{number}/purge")
        self.clock.advance(30)
        self.ask(Role.READER, "POST", "/v1/identity/keep")
        found = [line for line in lines if "is refused" in line]
        self.assertEqual(len(found), 3, found)
        self.assertIn("token reader's from ", found[0])
        self.assertIn("has the role reader; POST /v1/queues/a%E2%80%AEb0/purge needs operator", found[0])
        self.assertIn("7 more since the last such line", found[2])

    def test_unknown_paths(self) -> None:
        """A path or method that does not exist is reported as such, to every role."""
        self.assertEqual(self.answer(Role.MONITOR, "GET", "/v1/none").status, 404)
        self.assertEqual(self.answer(Role.MONITOR, "PUT", "/v1/status").status, 405)

    def test_streams(self) -> None:
        """No message of a stream is sent for a reader, in a body or over an upgraded connection."""
        stream = StreamRecord({"destination": ORDERS}, b"x").to_bytes()
        for role, bodies in ((Role.READER, []), (Role.OPERATOR, [b"x", b"x"])):
            caller = self.ask(role, "POST", "/v1/send", stream, Content_Type=CONTENT_TYPE)
            self.assertEqual(caller.answer.status, 200 if bodies else 403)
            caller = self.ask(role, "GET", "/v1/send", Connection="Upgrade", Upgrade=PROTOCOL)
            self.assertEqual(caller.transport.value().split(b" ", 2)[1], b"101" if bodies else b"403")
            if bodies:
                caller.feed(stream)
            self.assertEqual(self.bodies(), bodies)

    def test_lasting_response(self) -> None:
        """A stream of live figures ends when the role of its token changes."""
        caller = self.ask(Role.OPERATOR, "GET", "/v1/stream?topics=overview")
        self.clock.advance(PERIOD)
        self.assertFalse(caller.answer.is_whole)
        token_file(self, f"operator's reader {TOKENS[Role.OPERATOR]}").rename(self.file)
        self.clock.advance(PERIOD)
        self.assertTrue(caller.answer.is_whole)

    def test_changed_role(self) -> None:
        """A role that is changed in the file counts for the next request."""
        self.assertEqual(self.answer(Role.READER, "POST", "/v1/identity/keep").status, 403)
        token_file(self, f"desk admin {TOKENS[Role.READER]}").rename(self.file)
        self.assertEqual(self.answer(Role.READER, "POST", "/v1/identity/keep").status, 200)
        self.assertEqual(self.answer(Role.ADMIN, "GET", "/v1/status").status, 401)
