"""The control API behind a guard: no request is processed without the token, and few unauthenticated
callers are kept.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.control.authentication.guess_limit import FORGOTTEN, FREE, HOSTS, LONGEST, TokenGuessLimit
from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import (
    TokenAuthentication,
    TokenRequired,
    TooManyGuesses,
)
from msmq.control.authentication.token_check import PATIENCE, TokenSite
from msmq.control.authentication.token_file import TokenFile
from msmq.control.authentication.tokens import ApiToken, TokenError, read_own_token, read_tokens
from msmq.control.protocol.records import CONTENT_TYPE, PROTOCOL, StreamRecord
from tests.control.support import ORDERS, Caller, ControlTestCase

TOKEN = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
WRONG = TOKEN[:-1] + "g"


def unnamed(token: str) -> str:
    """How a token without a name is shown."""
    return f"unnamed token {sha256(token.encode()).hexdigest()[:8]}"


def token_file(test: Any, *lines: str, mode: int = 0o600) -> Path:
    """A file with these lines."""
    path = Path(test.mktemp())
    path.write_text("\n".join(lines) + "\n")
    path.chmod(mode)
    return path


class TokenFileTests(SynchronousTestCase):
    """Valid and invalid token files."""

    def refused(self, path: Path, *words: str) -> None:
        text = str(self.assertRaises(TokenError, read_tokens, path))
        for word in (str(path), *words):
            self.assertIn(word, text)
        self.assertNotIn(TOKEN[:31], text)

    def test_refusals(self) -> None:
        """A file that cannot be used is named, and nothing of its content is shown."""
        self.refused(Path("/nonexistent/token"), "No such file")
        self.refused(token_file(self, ""), "no token")
        self.refused(token_file(self, TOKEN[:31]), "32 to 512")
        self.refused(token_file(self, TOKEN, TOKEN + "ü"), "token 2")
        self.refused(token_file(self, TOKEN[:16] + " " + TOKEN[16:]), "visible")
        self.refused(token_file(self, TOKEN * 17), "32 to 512")
        self.refused(token_file(self, *[TOKEN * 10] * 100), "16384")
        self.refused(token_file(self, TOKEN, mode=0o604), "is readable by every user", "chmod 600")
        self.refused(token_file(self, TOKEN, mode=0o602), "is writable by every user", "chmod 600")
        self.refused(
            token_file(self, f"night operator {TOKEN}", f"desk reader {OTHER}", f"day admin {TOKEN}"),
            "token 3 (token day) is the same as token 1 (token night)",
        )
        self.refused(Path("a\0b"))

    def test_secret(self) -> None:
        """A token does not show where it is printed."""
        path = token_file(self, TOKEN)
        [token] = read_tokens(path)
        for shown in (repr(token), str(token), repr(TokenFile(path)), f"{[token]}"):
            self.assertNotIn(TOKEN, shown)
        self.assertEqual(token.authorization, f"Bearer {TOKEN}")
        self.assertIsInstance(token, ApiToken)

    def test_accepts(self) -> None:
        """Any of the tokens, as HTTP shows it, and nothing else."""
        tokens = authentication(token_file(self, "", f"  {TOKEN} ", OTHER), Clock())
        for number, shown in enumerate((f"Bearer {TOKEN}", f"bearer  {OTHER} ", f"BEARER {TOKEN}")):
            self.assertTrue(tokens.bearer([shown.encode()], f"192.0.2.{number}").name, shown)
        for number, shown in enumerate(
            ("", TOKEN, f"Basic {TOKEN}", f"Bearer {WRONG}", f"Bearer {TOKEN}{OTHER}", "Bearer ")
        ):
            self.assertRaises(TokenRequired, tokens.bearer, [shown.encode()], f"192.0.3.{number}")
        both = [f"Bearer {TOKEN}".encode(), f"Bearer {OTHER}".encode()]
        self.assertRaises(TokenRequired, tokens.bearer, both, "192.0.2.1")

    def test_roles(self) -> None:
        """A role stands between name and token; a line of earlier versions, without one, is an admin's,
        unless its name is that of a role.
        """
        for words, role in (
            ("", Role.ADMIN),
            ("billing ", Role.ADMIN),
            ("monitor ", Role.MONITOR),
            ("prometheus monitor ", Role.MONITOR),
            ("desk reader ", Role.READER),
            ("night\toperator ", Role.OPERATOR),
            ("admin reader ", Role.READER),
            ("root admin ", Role.ADMIN),
        ):
            [token] = read_tokens(token_file(self, words + TOKEN))
            self.assertEqual(token.role, role, words)
        for words in ("night Operator", "night operators", f"night {OTHER}"):
            self.refused(token_file(self, f"{words} {TOKEN}"), "the role of token 1 must be monitor, reader")

    def test_token_with_two_roles(self) -> None:
        """A line that gives a token a second role is a fault of the file, which then admits no caller."""
        path = token_file(self, f"desk reader {TOKEN}")
        tokens = TokenFile(path)
        token_file(self, f"desk reader {TOKEN}", f"root admin {TOKEN}").rename(path)
        self.assertIsNone(tokens.holder_with(sha256(TOKEN.encode()).digest()))
        self.assertRaises(TokenError, TokenFile, path)

    def test_token_twice(self) -> None:
        """A token that is there twice, with the same name and role, is no fault, as in earlier versions."""
        for lines in (
            (TOKEN, OTHER, TOKEN),
            (f"night {TOKEN}", f"night  admin {TOKEN}"),
            (f"desk reader {TOKEN}", f"desk reader {TOKEN}"),
        ):
            path = token_file(self, *lines)
            self.assertEqual(len(read_tokens(path)), len(lines))
            self.assertIsNotNone(TokenFile(path).holder_with(sha256(TOKEN.encode()).digest()))
        self.refused(
            token_file(self, TOKEN, f"night {TOKEN}"), "token 2 (token night) is the same as token 1"
        )

    def test_digest(self) -> None:
        """A line with the digest of a token accepts the token, and never the digest itself."""
        digest = f"sha256:{sha256(TOKEN.encode()).hexdigest()}"
        tokens = authentication(token_file(self, f"desk reader {digest}"), Clock())
        found = tokens.bearer([f"Bearer {TOKEN}".encode()], "192.0.2.1")
        self.assertEqual((found.name, found.role), ("token desk", Role.READER))
        for wrong in (digest, digest.upper(), digest.removeprefix("sha256:")):
            self.assertRaises(TokenRequired, tokens.bearer, [f"Bearer {wrong}".encode()], "192.0.2.1")
        path = token_file(self, f"desk reader {digest}")
        error = self.assertRaises(TokenError, read_own_token, path)
        self.assertIn("has the digest of token desk; a client needs the token itself", str(error))
        self.refused(
            token_file(self, f"desk reader {digest[:-1]}"), "token 1 must have 64 hexadecimal digits"
        )
        self.refused(
            token_file(self, f"desk reader {digest}", f"night reader {TOKEN}"),
            "token 2 (token night) is the same",
        )

    def test_expiry(self) -> None:
        """A token is refused from its expiry on, also on what it has opened, with its name in the log; it is
        not a guess.
        """
        clock = Clock()
        path = token_file(self, f"desk reader {TOKEN} expires=1970-01-02", f"night reader {OTHER}")
        tokens = authentication(path, clock)
        found = tokens.bearer([f"Bearer {TOKEN}".encode()], "192.0.2.1")
        clock.advance(86_399)
        self.assertIsNotNone(tokens.still(found.digest))
        clock.advance(1)
        self.assertIsNone(tokens.still(found.digest))
        lines: list[str] = []
        observer = _Observer(lines)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        for _ in range(FREE + 2):
            error = self.assertRaises(TokenRequired, tokens.bearer, [f"Bearer {TOKEN}".encode()], "192.0.2.9")
            self.assertIn("expired on 1970-01-02 00:00 UTC", str(error))
        self.assertIsNotNone(tokens.bearer([f"Bearer {OTHER}".encode()], "192.0.2.9"))
        [line] = lines
        self.assertIn("{token} from {peer} is refused: it expired on {date}", line)
        self.assertNotIn(TOKEN, line)
        for text, end in (
            ("1970-01-02T01:00:00", 90_000.0),
            ("1970-01-02T01:00:00Z", 90_000.0),
            ("1970-01-02T01:00:00+01:00", 86_400.0),
        ):
            [token] = read_tokens(token_file(self, f"{TOKEN} expires={text}"))
            self.assertEqual((token.expires, token.role), (end, Role.ADMIN))
        for text in ("", "soon", "2027-13-01", "90d"):
            self.refused(
                token_file(self, f"desk reader {TOKEN} expires={text}"), "expires of token 1 must be"
            )
        self.refused(token_file(self, "expires=2027-01-01"), "32 to 512")

    def test_replaced(self) -> None:
        """A token that is replaced counts at once; while the file cannot be used, none does."""
        path = token_file(self, TOKEN)
        tokens = TokenFile(path)

        def is_valid(text: str) -> bool:
            return tokens.holder_with(sha256(text.encode()).digest()) is not None

        def replace(text: str) -> None:
            new = token_file(self, text)
            new.rename(path)

        replace(OTHER)
        self.assertEqual([is_valid(text) for text in (TOKEN, OTHER)], [False, True])
        path.unlink()
        self.assertFalse(is_valid(OTHER))
        replace("short")
        self.assertFalse(is_valid("short"))
        replace(TOKEN)
        self.assertTrue(is_valid(TOKEN))


class GuessTests(SynchronousTestCase):
    """Wrong tokens of one host are slowed."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.file = token_file(self, TOKEN, OTHER)
        self.tokens = authentication(self.file, self.clock)
        self.guesses = count()

    def wait(self, host: str, token: str = "") -> int:
        """The seconds that a token, or else another guess, has to wait; 0 if it was read."""
        token = token or f"{WRONG}{next(self.guesses)}"
        try:
            self.tokens.holder(token.encode(), host)
        except TooManyGuesses as error:
            return error.seconds
        except TokenRequired:
            pass
        return 0

    def test_slower(self) -> None:
        """After five wrong tokens a host waits a second, then two, and at most a minute; others do not."""
        for _ in range(FREE):
            self.assertEqual(self.wait("192.0.2.1"), 0)
        waits = []
        for _ in range(9):
            self.assertEqual(self.wait("192.0.2.1"), 0)
            waits.append(self.wait("192.0.2.1"))
            self.assertEqual(self.wait("192.0.2.1", TOKEN), waits[-1], "a valid token is not read either")
            self.clock.advance(waits[-1])
        self.assertEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60])
        self.assertEqual(self.wait("192.0.2.2"), 0)
        self.clock.advance(FORGOTTEN + 1)
        self.assertEqual([self.wait("192.0.2.1") for _ in range(FREE)], [0] * FREE)

    def test_network(self) -> None:
        """The addresses of one IPv6 network are one host."""
        for number in range(FREE + 1):
            self.wait(f"2001:db8::{number:x}")
        self.assertEqual(self.wait("2001:db8::ffff"), 1)

    def test_neighbour(self) -> None:
        """A token that was valid from a host stays so while others guess there."""
        self.assertEqual(self.wait("192.0.2.1", TOKEN), 0)
        for _ in range(FREE + 1):
            self.wait("192.0.2.1")
        self.assertEqual(self.tokens.holder(TOKEN.encode(), "192.0.2.1").name, unnamed(TOKEN))
        self.assertEqual(self.wait("192.0.2.1", OTHER), 1)

    def test_removed_token(self) -> None:
        """A program that goes on with a removed token keeps no new token of its host from being read."""
        self.wait("192.0.2.1", TOKEN)
        self.file.write_text(f"{OTHER}\n")
        for _ in range(2 * FREE):
            self.assertEqual(self.wait("192.0.2.1", TOKEN), 0)
        self.assertEqual(self.tokens.holder(OTHER.encode(), "192.0.2.1").name, unnamed(OTHER))

    def test_token_removed_before_a_restart(self) -> None:
        """A program that repeats its wrong token guesses once; the new token of its host is read."""
        for _ in range(2 * FREE):
            self.assertEqual(self.wait("192.0.2.1", WRONG), 0)
        self.assertEqual(self.tokens.holder(OTHER.encode(), "192.0.2.1").name, unnamed(OTHER))
        waits = [self.wait("192.0.2.1") for _ in range(FREE + 1)]
        self.assertEqual(waits, [0] * FREE + [1])

    def test_hosts(self) -> None:
        """A limited number of hosts is remembered, those that failed latest."""
        limit = TokenGuessLimit()
        for number in range(HOSTS + 1):
            for guess in range(FREE + 1):
                limit.failed(str(number), bytes((guess,)), 0)
        self.assertEqual([limit.wait(str(number), b"", 0) for number in (0, 1, HOSTS)], [0, 1, 1])


def authentication(file: Path, clock: Any) -> TokenAuthentication:
    """The tokens of a file, with no guesses yet."""
    return TokenAuthentication(TokenFile(file), TokenGuessLimit(), clock, clock.seconds)


@implementer(ILogObserver)
class _Observer:
    """Keeps all that is logged, as text."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def __call__(self, event: LogEvent) -> None:
        self._events.append(repr(event))


class GuardTests(ControlTestCase):
    """Connections to a guarded port with a limit of three unauthenticated callers."""

    def setUp(self) -> None:
        super().setUp()
        self.guarded = TokenSite(
            self.site,
            authentication(token_file(self, TOKEN), self.clock.reactor),
            self.clock.reactor,
            unauthenticated=3,
        )
        self.log: list[str] = []

        observer = _Observer(self.log)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def unknown_caller(self, host: str = "192.0.2.1") -> Caller:
        return Caller(self.guarded, self.clock, IPv4Address("TCP", host, 50000))

    def asking(self, authorization: str | None, method: str = "GET", path: str = "/v1/status") -> Caller:
        caller = self.unknown_caller()
        headers = {} if authorization is None else {"Authorization": authorization}
        caller.ask(method, path, headers=headers)
        return caller

    def test_let_in(self) -> None:
        """A caller that shows the token has the whole API."""
        answer = self.asking(f"Bearer {TOKEN}").answer
        self.assertEqual((answer.status, answer.json["state"]), (200, "running"))
        self.assertNotIn(TOKEN, answer.body.decode())

    def test_refused(self) -> None:
        """A caller without the token gets only the refusal, for any request."""
        for authorization in (None, "", f"Bearer {WRONG}", f"Basic {TOKEN}", TOKEN):
            for path in ("/v1/status", "/nonexistent"):
                self.clock.advance(LONGEST)
                answer = self.asking(authorization, path=path).answer
                self.assert_refused(answer, 401, "MQ_ERROR_ACCESS_DENIED", "token")
                self.assertEqual(answer.headers["www-authenticate"], 'Bearer realm="msmq"')
                self.assertEqual(answer.headers["connection"], "close")

    def test_too_many_guesses(self) -> None:
        """A host that goes on guessing gets the time of its next attempt, in another status."""
        for number in range(FREE + 1):
            self.assertEqual(self.asking(f"Bearer {WRONG}{number}").answer.status, 401)
        answer = self.asking(f"Bearer {TOKEN}").answer
        self.assert_refused(answer, 429, "MQ_ERROR_ACCESS_DENIED", "try again in 1 s")
        self.assertEqual(answer.headers["retry-after"], "1")
        self.clock.advance(1)
        self.assertEqual(self.asking(f"Bearer {TOKEN}").answer.status, 200)

    def test_two_headers(self) -> None:
        """A request with two tokens is refused."""
        caller = self.unknown_caller()
        caller.feed(
            f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        self.assertEqual(caller.answer.status, 401)

    def test_nothing_is_sent(self) -> None:
        """No body is taken in before the token is known, and the rest of the request is dropped."""
        stream = StreamRecord({"destination": ORDERS}, b"x").to_bytes()
        for method, headers in (
            ("POST", {"Content-Type": CONTENT_TYPE}),
            ("GET", {"Connection": "Upgrade", "Upgrade": PROTOCOL}),
        ):
            caller = self.unknown_caller()
            caller.ask(method, "/v1/send", stream, headers)
            caller.feed(stream * 10)
            caller.feed(f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            self.assertEqual(caller.answer.status, 401)
            self.assertEqual(caller.transport.value().count(b"HTTP/1.1"), 1)
        caller = self.unknown_caller()
        caller.ask("POST", "/v1/messages", b"x", {"Expect": "100-continue"}, destination=ORDERS)
        self.assertEqual(caller.answer.status, 401)
        self.assertEqual(self.bodies(), [])

    def test_streams(self) -> None:
        """With the token a stream of records is sent as on the socket."""
        stream = StreamRecord({"destination": ORDERS}, b"x").to_bytes()
        caller = self.unknown_caller()
        shown = {"Authorization": f"Bearer {TOKEN}"}
        caller.ask("POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE, **shown})
        self.assertEqual((caller.answer.status, self.bodies()), (200, [b"x"]))
        caller = self.unknown_caller()
        caller.ask("GET", "/v1/send", headers={"Connection": "Upgrade", "Upgrade": PROTOCOL, **shown})
        caller.feed(stream)
        self.assertIn(b'"first"', caller.transport.value())
        self.assertEqual(self.bodies(), [b"x", b"x"])

    def test_every_request(self) -> None:
        """The next request on a connection shows the token too."""
        caller = self.asking(f"Bearer {TOKEN}")
        first = len(caller.transport.value())
        caller.ask("GET", "/v1/status")
        self.assertTrue(caller.transport.value()[first:].startswith(b"HTTP/1.1 401"))
        self.clock.advance(PATIENCE)
        self.assertTrue(caller.transport.disconnected)

    def test_lost_before_the_next_request(self) -> None:
        """Of several requests at once, those that follow a lost connection are not carried out."""
        self.put(b"kept")
        caller = self.unknown_caller()
        shown = f"Authorization: Bearer {TOKEN}\r\n"
        caller.protocol.dataReceived(
            f"GET /v1/status HTTP/1.1\r\n{shown}\r\n"
            f"GET /v1/receive?queue={ORDERS} HTTP/1.1\r\n{shown}"
            f"Connection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()
        )
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1"), 1)
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"kept"], "no reader that has gone holds it")
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1"), 1)

    def test_byte_by_byte(self) -> None:
        """A head that comes in pieces is no other head."""
        for authorization, status in ((TOKEN, 200), (WRONG, 401)):
            caller = self.unknown_caller()
            head = f"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {authorization}\r\n\r\n"
            for byte in head.encode():
                caller.feed(bytes([byte]))
            self.assertEqual(caller.answer.status, status)

    def test_patience(self) -> None:
        """A caller without the token is disconnected after a time, however busy; one with it may take
        any time.
        """
        silent, busy, refused = self.unknown_caller(), self.unknown_caller(), self.asking(None)
        waiting = self.unknown_caller()
        waiting.ask(
            "GET", "/v1/messages", headers={"Authorization": f"Bearer {TOKEN}"}, queue=ORDERS, timeout=300
        )
        self.assertTrue(silent.transport.disconnected, "one more than three displaces the oldest")
        busy.feed(b"GET /v1/status HTTP/1.1\r\n")
        for _ in range(int(PATIENCE) - 1):
            self.clock.advance(1)
            busy.feed(b"X-Slow: 1\r\n")
            refused.feed(b"more")
        self.assertFalse(busy.transport.disconnected or refused.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(busy.transport.disconnected and refused.transport.disconnected)
        self.clock.advance(60)
        self.assertFalse(waiting.transport.disconnected)
        self.put(b"late")
        self.clock.advance(0)
        self.assertEqual(waiting.answer.body, b"late")

    def test_unauthenticated_callers_are_limited(self) -> None:
        """The latest of the unauthenticated callers up to the limit are kept; others are not affected."""
        known = self.asking(f"Bearer {TOKEN}")
        unauthenticated = [self.unknown_caller() for _ in range(100)]
        self.assertEqual([each.transport.disconnected for each in unauthenticated], [True] * 97 + [False] * 3)
        self.assertFalse(known.transport.disconnected)
        for unknown_caller in unauthenticated[97:]:
            unknown_caller.hang_up()
        self.assertEqual([self.unknown_caller().transport.disconnected for _ in range(3)], [False] * 3)

    def test_limit_for_one_host(self) -> None:
        """A host that connects again and again displaces itself, and no caller that has only begun."""
        first, second = self.unknown_caller(), self.unknown_caller()
        flood = [self.unknown_caller(host="192.0.2.66") for _ in range(100)]
        self.assertEqual([each.transport.disconnected for each in flood], [True] * 99 + [False])
        self.assertFalse(first.transport.disconnected or second.transport.disconnected)
        third = self.unknown_caller(host="192.0.2.5")
        self.assertTrue(first.transport.disconnected, "two are at its address")
        second.ask("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(second.answer.status, 200)
        self.assertFalse(third.transport.disconnected)

    def test_limit_for_one_network(self) -> None:
        """A caller with one IPv6 address has all of its network."""
        first, second = self.unknown_caller(), self.unknown_caller()
        flood = [self.unknown_caller(host=f"2001:db8::{number:x}") for number in range(100)]
        self.assertEqual([each.transport.disconnected for each in flood], [True] * 99 + [False])
        self.assertFalse(first.transport.disconnected or second.transport.disconnected)

    def test_long_heads(self) -> None:
        """A head without end is cut off long before it is in memory."""
        caller = self.unknown_caller()
        for _ in range(20):
            caller.feed(b"X: " + b"x" * 1000 + b"\r\n")
        self.assertTrue(caller.transport.disconnecting or caller.transport.disconnected)

    def test_nothing_in_the_log(self) -> None:
        """The log has refused callers, now and then, and never what they sent."""
        for _ in range(50):
            self.asking(f"Bearer {WRONG}")
            self.asking(f"Bearer {TOKEN}")
        lines = [event for event in self.log if "sent no valid token" in event]
        self.assertEqual(len(lines), 1)
        self.clock.advance(61)
        self.asking(None)
        lines = [event for event in self.log if "sent no valid token" in event]
        self.assertEqual(len(lines), 2)
        self.assertIn("'count': 50", lines[1])
        for secret in (TOKEN, WRONG):
            self.assertNotIn(secret, "".join(self.log))

    def test_token_goes_no_further(self) -> None:
        """The handler of a request does not see the token."""
        seen: list[str] = []
        render = self.site.resource.render

        def watched(request: Any) -> Any:
            seen.append(repr(request.requestHeaders))
            return render(request)

        self.patch(self.site.resource, "render", watched)
        self.assertEqual(self.asking(f"Bearer {TOKEN}").answer.status, 200)
        self.assertEqual(len(seen), 1)
        self.assertNotIn(TOKEN, seen[0])
