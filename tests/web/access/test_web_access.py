"""The web endpoint for callers with tokens, with a session, and with neither."""

from __future__ import annotations

import json
import re
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote, urlencode

from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from msmq.control.authentication.roles import ROUTE_ROLES, Role
from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, StreamRecord
from msmq.control.server.resources.live_stream import PERIOD, STREAMS
from msmq.web import site
from msmq.web.access.request import WebRequest
from msmq.web.access.sessions import IDLE
from tests.control.callers.test_roles import TOKENS, example_path
from tests.control.callers.test_token_check import WRONG, token_file
from tests.control.support import Answer, resource
from tests.web.support import ORDERS, WebTestCase

PURGE = resource("queues", ORDERS, "purge")
ORIGIN = "http://127.0.0.2:15801"


class LocalReaderTests(WebTestCase):
    """A loopback endpoint without tokens."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue()

    def test_reads(self) -> None:
        """The API of the control socket is served, to be read."""
        self.assertEqual(self.get("/v1/status").json["name"], "ALPHA")
        self.assertEqual(self.get("/v1/queues").json[0]["path"], ORDERS)
        self.assertEqual(self.get("/v1/none").status, 404)
        self.assertEqual(self.get("/v1/status", "PUT").status, 405)

    def test_changes_nothing(self) -> None:
        """Every route that needs more than a reader is refused, with the setting that would admit it."""
        for (method, route), role in ROUTE_ROLES.items():
            if role > Role.READER:
                answer = self.get(example_path(route), method)
                self.assertEqual(
                    (answer.status, answer.json["error"]), (403, "MQ_ERROR_ACCESS_DENIED"), route
                )
                self.assertIn("[security] control_token_file is not set", answer.json["detail"])

    def test_protection(self) -> None:
        """Answers of the API are neither cached nor guessed at; another site gets none."""
        headers = self.get("/v1/status").headers
        self.assertEqual(
            (headers["Cache-Control"], headers["X-Content-Type-Options"]), ("no-store", "nosniff")
        )
        for name, value in (
            ("Host", "evil.example"),
            ("Origin", "http://evil.example"),
            ("Sec-Fetch-Site", "cross-site"),
        ):
            self.assertEqual(self.get("/v1/status", headers={name: value}).status, 403, name)
        self.assertEqual(self.get("/v1/status", headers={"Origin": ORIGIN}).status, 200)

    def test_headers_that_are_not_utf_8(self) -> None:
        """A header with other bytes is no value that is accepted, and each request is answered."""
        for name, status in (
            (b"Host", 403),
            (b"Origin", 403),
            (b"Sec-Fetch-Site", 403),
            (b"Cookie", 200),
            (b"X-CSRF-Token", 200),
            (b"Accept", 200),
            (b"Content-Type", 200),
        ):
            host = b"" if name == b"Host" else b"Host: 127.0.0.2:15801\r\n"
            protocol, transport = self.connect()
            protocol.dataReceived(b"GET /v1/status HTTP/1.1\r\n" + host + name + b": \xfb\xff\r\n\r\n")
            self.clock.advance(0)
            self.assertEqual(Answer(transport.value()).status, status, name)

    def test_no_login(self) -> None:
        """The page says that there is no login, and a login says so too."""
        self.assertIn(b"no login", self.get("/login").body)
        self.assertEqual(self.get("/login", "POST", body=b"token=x").status, 415)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.get("/login", "POST", form, b"token=x").status, 501)


class AnonymousCallerTests(WebTestCase):
    """A loopback endpoint without tokens, where [web] anonymous limits callers."""

    def read(self) -> list[int]:
        """The statuses of health, metrics, status, messages, and two pages."""
        paths = (
            "/health/live",
            "/v1/status",
            "/v1/queues",
            resource("queues", self.make_queue(), "messages"),
            "/queues",
        )
        browser = {"Accept": "text/html"}
        statuses = [self.get(path).status for path in paths]
        return [*statuses, self.get("/queues", headers=browser).status]

    def test_monitor(self) -> None:
        """A monitor reads metrics and the status, and neither queues nor messages."""
        self.anonymous = Role.MONITOR
        self.assertEqual(self.read(), [200, 200, 403, 403, 403, 403])
        self.assertEqual(self.get("/metrics").status, 200)
        self.assertIn("local monitor", self.get("/v1/queues").json["detail"])

    def test_none(self) -> None:
        """Without a role health alone is served, and a browser is not sent to a login that does not exist."""
        self.anonymous = None
        self.assertEqual(self.read(), [200, 401, 401, 401, 401, 401])
        self.assertEqual(self.get("/metrics").status, 401)
        self.assertIn("[web] anonymous", self.get("/queues").json["detail"])

    def test_change_applies_to_the_next_request(self) -> None:
        """A reload takes the role of a local caller away, from live figures too."""
        protocol, transport = self.connect()
        request = "GET /v1/stream?topics=overview HTTP/1.1\r\nHost: 127.0.0.2:15801\r\n\r\n"
        protocol.dataReceived(request.encode())
        self.clock.advance(PERIOD)
        self.assertFalse(Answer(transport.value()).is_whole)
        self.anonymous = Role.MONITOR
        self.clock.advance(PERIOD)
        self.assertTrue(Answer(transport.value()).is_whole)


class TokenCallerTests(WebTestCase):
    """An endpoint with a token of each role."""

    tokens = tuple(f"{role}'s {role} {token}" for role, token in TOKENS.items())

    def setUp(self) -> None:
        super().setUp()
        self.make_queue()

    def ask(self, role: Role, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request with the token of a role."""
        return self.get(path, method, {"Authorization": f"Bearer {TOKENS[role]}", **headers})

    def test_roles(self) -> None:
        """The roles are those of remote control, and the audit log has the token's name."""
        for role in Role:
            for path, method, least in (
                ("/v1/status", "GET", Role.MONITOR),
                ("/v1/queues", "GET", Role.READER),
                ("/queues", "GET", Role.READER),
                (PURGE, "POST", Role.OPERATOR),
                ("/v1/identity/keep", "POST", Role.ADMIN),
            ):
                self.assertEqual(
                    self.ask(role, path, method).status, 200 if role >= least else 403, (role, path)
                )
        events = self.ask(Role.READER, "/v1/events?where=event=='administered'").lines
        self.assertTrue(
            any("token operator's from 127.0.0.1: done: queue purge" in str(event) for event in events)
        )

    def test_without(self) -> None:
        """Without a token only health and metrics of a loopback endpoint are answered."""
        for path in ("/v1/status", "/v1/none", "/", "/none"):
            answer = self.get(path)
            self.assertEqual((answer.status, answer.json["error"]), (401, "MQ_ERROR_ACCESS_DENIED"), path)
            self.assertIn("Bearer", answer.headers["WWW-Authenticate"])
        for path in ("/health/live", "/health/ready", "/metrics", "/login", "/assets/console.css"):
            self.assertEqual(self.get(path).status, 200, path)
        wrong = {"Authorization": f"Bearer {WRONG}"}
        self.assertEqual(self.get("/health/live", headers=wrong).status, 200)
        self.assertEqual(self.get("/metrics", headers=wrong).status, 401)

    def test_guesses(self) -> None:
        """A host that goes on guessing is refused unread for a while, at the login too."""
        for number in range(6):
            wrong = {"Authorization": f"Bearer {WRONG}{number}"}
            self.assertEqual(self.get("/v1/status", headers=wrong).status, 401)
        answer = self.ask(Role.ADMIN, "/v1/status")
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "1"))
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.get("/login", "POST", form, f"token={TOKENS[Role.ADMIN]}".encode()).status, 429)
        self.clock.advance(1)
        self.assertEqual(self.ask(Role.ADMIN, "/v1/status").status, 200)

    def test_body_without_token(self) -> None:
        """No byte of a body is kept before the caller is known, except of a login."""
        protocol, _ = self.connect()
        head = f"POST {PURGE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
        protocol.dataReceived(head.encode() + b"x" * 10000)
        request: Any = protocol.requests[-1]
        self.assertEqual(request.content.getvalue(), b"")
        self.assertEqual((self.site.request_memory.used, self.site.reader_memory.used), (0, 0))

    def test_stream(self) -> None:
        """An operator sends a stream of records, in a body and over an upgraded connection; a reader none."""
        stream = StreamRecord({"destination": ORDERS}, b"x").to_bytes()
        for role, sent in ((Role.READER, 0), (Role.OPERATOR, 2)):
            shown = {"Authorization": f"Bearer {TOKENS[role]}"}
            answer = self.get("/v1/send", "POST", {"Content-Type": CONTENT_TYPE, **shown}, stream)
            self.assertEqual(answer.status, 200 if sent else 403)
            protocol, transport = self.connect()
            lines = [
                "GET /v1/send HTTP/1.1",
                "Host: 127.0.0.1",
                "Connection: Upgrade",
                f"Upgrade: {PROTOCOL}",
            ]
            lines += [f"{name}: {value}" for name, value in shown.items()]
            protocol.dataReceived("\r\n".join([*lines, "", ""]).encode())
            self.clock.advance(0)
            self.assertEqual(transport.value()[9:12], b"101" if sent else b"403")
            if sent:
                protocol.dataReceived(stream)
                self.clock.advance(0)
            self.assertEqual(self.ask(Role.READER, "/v1/queues").json[0]["messages"], sent)

    def test_connections(self) -> None:
        """Beyond the limit a connection without a known caller is closed, not one that waits with a token."""
        waiting, transport = self.connect()
        path = f"/v1/messages?queue={quote(ORDERS)}&timeout=300"
        shown = f"Authorization: Bearer {TOKENS[Role.ADMIN]}"
        waiting.dataReceived(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{shown}\r\n\r\n".encode())
        idle = [self.connect()[1] for _ in range(site.CONNECTIONS)]
        self.assertFalse(transport.disconnecting)
        self.assertEqual([one.disconnecting or one.disconnected for one in idle].count(True), 1)
        waiting.connectionLost(Failure(ConnectionDone()))


class SessionTests(WebTestCase):
    """A browser that logs in."""

    tokens = (f"night operator {TOKENS[Role.OPERATOR]}", f"desk reader {TOKENS[Role.READER]}")

    def setUp(self) -> None:
        super().setUp()
        self.make_queue()

    def post(self, path: str, cookie: str = "", **fields: str) -> Answer:
        """Send a form."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": ORIGIN, "Cookie": cookie}
        return self.get(path, "POST", headers, urlencode(fields).encode())

    def log_in(self, role: Role = Role.OPERATOR, following: str = "/queues") -> str:
        """The cookie of a new session."""
        answer = self.post("/login", token=TOKENS[role], next=following)
        self.assertEqual((answer.status, answer.headers["Location"]), (303, following))
        return answer.headers["Set-Cookie"].partition(";")[0]

    def csrf(self, cookie: str) -> str:
        """The CSRF token in a page."""
        found = re.search(
            rb'name="csrf" value="([^"]+)"', self.get("/queues", headers={"Cookie": cookie}).body
        )
        assert found is not None
        return found[1].decode()

    def test_cookie(self) -> None:
        """The cookie is out of reach of scripts and other sites, and is named for the port."""
        answer = self.post("/login", token=TOKENS[Role.READER])
        [(name, cookie)] = SimpleCookie(answer.headers["Set-Cookie"]).items()
        self.assertRegex(name, r"\Amsmq-\d+\Z")
        self.assertGreaterEqual(len(cookie.value), 43)
        self.assertEqual((cookie["httponly"], cookie["samesite"], cookie["path"]), (True, "Strict", "/"))
        self.assertEqual((cookie["secure"], cookie["domain"], cookie["max-age"]), ("", "", ""))

    def test_secure(self) -> None:
        """Over TLS the cookie is sent over TLS only, and no other host can set it."""
        self.patch(WebRequest, "is_secure", True)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        line = self.get("/login", "POST", headers, f"token={TOKENS[Role.READER]}".encode()).headers[
            "Set-Cookie"
        ]
        self.assertTrue(line.startswith("__Host-msmq-"), line)
        self.assertIn("; Secure", line)

    def test_browser(self) -> None:
        """A browser without a session is sent to the login, and from there to its page."""
        answer = self.get("/queue?path=a%5Cb", headers={"Accept": "text/html"})
        self.assertEqual(
            (answer.status, answer.headers["Location"]), (303, "/login?next=%2Fqueue%3Fpath%3Da%255Cb")
        )
        self.assertIn(b'value="/queue?path=a%5Cb"', self.get(answer.headers["Location"]).body)
        cookie = self.log_in(following="/queue?path=.%5Cprivate$%5Corders")
        self.assertIn(b"token night", self.get("/queues", headers={"Cookie": cookie}).body)
        self.assertEqual(self.get("/login?next=//evil.example").body.count(b"evil"), 0)

    def test_wrong_token(self) -> None:
        """A wrong token is refused in words, sets no cookie, and is not shown."""
        answer = self.post("/login", token=WRONG)
        self.assertEqual(answer.status, 401)
        self.assertIsNone(answer.headers["Set-Cookie"])
        self.assertIn(b"not in the token file", answer.body)
        self.assertNotIn(WRONG.encode(), answer.body)
        self.assertEqual(self.post("/login", token="x" * 5000).status, 400)

    def test_logout(self) -> None:
        """After the logout the cookie is worth nothing; the logout needs the CSRF token."""
        cookie = self.log_in()
        self.assertEqual(self.post("/logout", cookie).status, 403)
        self.assertEqual(self.post("/logout", cookie, csrf="wrong").status, 403)
        self.assertEqual(self.get("/queues", headers={"Cookie": cookie}).status, 200)
        answer = self.post("/logout", cookie, csrf=self.csrf(cookie))
        self.assertEqual((answer.status, answer.headers["Location"]), (303, "/login"))
        self.assertIn("Max-Age=0", answer.headers["Set-Cookie"])
        self.assertEqual(self.get("/queues", headers={"Cookie": cookie}).status, 401)

    def test_new_login(self) -> None:
        """A second login of a browser ends its first session."""
        first = self.log_in()
        second = self.post("/login", first, token=TOKENS[Role.READER]).headers["Set-Cookie"].partition(";")[0]
        self.assertEqual(self.get("/queues", headers={"Cookie": first}).status, 401)
        self.assertIn(b"token desk", self.get("/queues", headers={"Cookie": second}).body)

    def test_changes_of_the_api(self) -> None:
        """A session changes through the API only with its CSRF token, also by a GET that receives."""
        cookie = self.log_in()
        csrf = self.csrf(cookie)
        self.assertEqual(self.get("/v1/queues", headers={"Cookie": cookie}).status, 200)
        self.put(ORDERS, b"x", b"y")
        for method, path in (("POST", PURGE), ("GET", f"/v1/messages?queue={quote(ORDERS)}&timeout=0")):
            answer = self.get(path, method, {"Cookie": cookie})
            self.assertEqual(answer.status, 403)
            self.assertIn("X-CSRF-Token", answer.json["detail"])
            self.assertEqual(self.get(path, method, {"Cookie": cookie, "X-CSRF-Token": "wrong"}).status, 403)
        self.assertEqual(self.get("/v1/queues", headers={"Cookie": cookie}).json[0]["messages"], 2)
        answer = self.get(PURGE, "POST", {"Cookie": cookie, "X-CSRF-Token": csrf, "Origin": ORIGIN})
        self.assertEqual((answer.status, answer.json), (200, {"purged": 2}))
        other = self.csrf(self.log_in())
        self.assertEqual(self.get(PURGE, "POST", {"Cookie": cookie, "X-CSRF-Token": other}).status, 403)

    def test_removed_token(self) -> None:
        """A session ends with its token, and has its role."""
        cookie = self.log_in()
        headers = {"Cookie": cookie, "X-CSRF-Token": self.csrf(cookie)}
        token_file(self, f"night reader {TOKENS[Role.OPERATOR]}").rename(self.token_file)
        self.assertEqual(self.get("/v1/queues", headers=headers).status, 200)
        self.assertEqual(self.get(PURGE, "POST", headers).status, 403)
        token_file(self, f"desk reader {TOKENS[Role.READER]}").rename(self.token_file)
        self.assertEqual(self.get("/v1/queues", headers=headers).status, 401)
        token_file(self, f"night operator {TOKENS[Role.OPERATOR]}").rename(self.token_file)
        self.assertEqual(self.get("/v1/queues", headers=headers).status, 401, "it stays ended")

    def test_expired(self) -> None:
        """A session that is idle too long has ended."""
        cookie = self.log_in()
        self.clock.advance(IDLE)
        self.assertEqual(self.get("/v1/queues", headers={"Cookie": cookie}).status, 401)

    def stream(self, cookie: str, header: str = "Cookie") -> StringTransport:
        """The connection of a stream of live figures, which has begun."""
        protocol, transport = self.connect()
        lines = ["GET /v1/stream?topics=overview HTTP/1.1", "Host: 127.0.0.2:15801", f"{header}: {cookie}"]
        protocol.dataReceived("\r\n".join([*lines, "", ""]).encode())
        self.clock.advance(PERIOD)
        return transport

    def test_stream_of_ended_session(self) -> None:
        """The live figures of a session end with its logout, and do not prolong it."""
        cookie = self.log_in()
        transport = self.stream(cookie)
        self.post("/logout", cookie, csrf=self.csrf(cookie))
        self.clock.advance(PERIOD)
        self.assertTrue(Answer(transport.value()).is_whole)
        transport = self.stream(self.log_in())
        self.clock.advance(IDLE - 2 * PERIOD)
        self.assertFalse(Answer(transport.value()).is_whole)
        self.clock.advance(2 * PERIOD)
        self.assertTrue(Answer(transport.value()).is_whole)

    def test_streams_of_one_token(self) -> None:
        """The sessions of a token, and the requests that show it, have one share of the streams."""
        cookie = self.log_in()
        for _ in range(STREAMS * 3 // 4):
            self.assertEqual(Answer(self.stream(cookie).value()).status, 200)
        shown = self.stream(f"Bearer {TOKENS[Role.OPERATOR]}", "Authorization")
        self.assertEqual(Answer(shown.value()).status, 503)

    def test_stream_of_removed_token(self) -> None:
        """The live figures of a session end when its token is removed, or has another role."""
        transport = self.stream(self.log_in())
        self.assertFalse(Answer(transport.value()).is_whole)
        token_file(self, f"night reader {TOKENS[Role.OPERATOR]}").rename(self.token_file)
        self.clock.advance(PERIOD)
        self.assertTrue(Answer(transport.value()).is_whole)

    def test_bad_forms(self) -> None:
        """An invalid form is refused with its fault, and logs no user in."""
        form = "application/x-www-form-urlencoded"
        for kind, body, status in (
            ("application/json", json.dumps({"token": TOKENS[Role.READER]}).encode(), 415),
            (form, b"token=%ff", 400),
            (form, b"token=\xff", 400),
            (form, b"token=a&token=b", 400),
        ):
            answer = self.get("/login", "POST", {"Content-Type": kind}, body)
            self.assertEqual(answer.status, status, body)
            self.assertIsNone(answer.headers["Set-Cookie"])
