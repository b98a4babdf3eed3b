"""The control API over the network: the command, and programs, on another computer, with TLS and a token."""

from __future__ import annotations

import http.client
import os
import pwd
import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

from msmq.control.authentication.token_check import TokenSite
from msmq.control.client.client import ControlClient, Delivered
from msmq.control.client.locations import LocationError, RemoteLocation, UnixLocation, parse_location
from msmq.control.protocol.records import StreamRecord
from msmq.service.configuration import ConfigurationError, Overrides, load
from msmq.service.server import Server
from msmq.service.server_ports import StartError
from msmq.structures.status import MQError, Status
from tests.control.callers.test_token_check import authentication
from tests.integration.test_control_socket import Ended, spawn
from tests.patience import DEADLINE
from tests.servers.certificates import make_credentials

TOKEN = "0123456789abcdef0123456789abcdef"
ORDERS = ".\\private$\\orders"
MISSING = ".\\private$\\missing"


class LocationTests(SynchronousTestCase):
    """Notations of a location."""

    def test_sockets(self) -> None:
        """A path is a path, with C{unix:} or without."""
        for text in ("unix:/run/msmq.sock", "/run/msmq.sock"):
            self.assertEqual(parse_location(text), UnixLocation(Path("/run/msmq.sock")))
        self.assertEqual(parse_location("a:b"), UnixLocation(Path("a:b")))

    def test_remote(self) -> None:
        """Host, port, token file, and the trusted certificates; a token file of its own wins."""
        pin = "ab" * 32
        found = parse_location(f"ssl:h.example.com:1843:tokenFile=/t:caFile=a\\:b:pins={pin.upper()},{pin}")
        expected = RemoteLocation(
            "h.example.com", 1843, Path("/t"), ca_file=Path("a:b"), pins=frozenset({pin})
        )
        self.assertEqual(found, expected)
        self.assertEqual(str(found), "ssl:h.example.com:1843")
        found = parse_location("ssl:\\:\\:1:1843", token_file="/t")
        self.assertEqual(found, RemoteLocation("::1", 1843, Path("/t")))
        self.assertEqual(
            parse_location("tcp:localhost:1843", token_file="/t"),
            RemoteLocation("localhost", 1843, Path("/t"), is_tls=False),
        )

    def test_refusals(self) -> None:
        """An error names the problem."""
        for text, word in (
            ("", "control socket"),
            ("unix:", "control socket"),
            ("ssl:h", "HOST:PORT"),
            ("ssl:h:1:2:tokenFile=t", "HOST:PORT"),
            ("ssl::1:tokenFile=t", "HOST:PORT"),
            ("ssl:h:0:tokenFile=t", "'0'"),
            ("ssl:h:65536:tokenFile=t", "'65536'"),
            ("ssl:h:https:tokenFile=t", "'https'"),
            ("ssl:h:1", "token"),
            ("ssl:h:1:tokenFile=", "token"),
            ("ssl:h:1:token=t", "tokenFile="),
            ("ssl:h:1:tokenFile=t:tokenFile=u", "twice"),
            ("ssl:h:1:tokenFile=t:pins=ab", "fingerprint"),
            ("ssl:h:1:tokenFile=t:pins=", "fingerprint"),
            ("ssl:h:1:tokenFile=t\\", "backslash"),
            ("tcp:h.example.com:1:tokenFile=t", "the token unencrypted"),
            ("tcp:127.0.0.1:1:tokenFile=t:pins=" + "ab" * 32, "tokenFile="),
        ):
            with self.subTest(text=text):
                self.assertIn(word, str(self.assertRaises(LocationError, parse_location, text)))


class ConfigurationTests(SynchronousTestCase):
    """The endpoint of remote control."""

    def problems(self, endpoint: str, *more: str) -> str:
        path = Path(self.mktemp())
        path.write_text(f"[listen]\nremote_control = '{endpoint}'\n" + "\n".join(more))
        try:
            load(path)
        except ConfigurationError as error:
            return str(error)
        return ""

    def test_refusals(self) -> None:
        """No token, no TLS for others, and no kind of endpoint that cannot be guarded."""
        token = '[security]\ncontrol_token_file = "/t"'
        for endpoint in (
            "ssl:1843:privateKey=k:certKey=c",
            "tcp:1843:interface=127.0.0.1",
            "tcp6:1843:interface=\\:\\:1",
            "off",
        ):
            self.assertEqual(self.problems(endpoint, token), "")
        self.assertEqual(self.problems("off"), "")
        self.assertIn("control_token_file", self.problems("ssl:1843:privateKey=k"))
        for endpoint in ("tcp:1843", "tcp:1843:interface=192.0.2.1", "tcp6:1843", "tcp:1:interface=0.0.0.0"):
            self.assertIn("the token unencrypted", self.problems(endpoint, token))
        self.assertIn("must be one of ssl:", self.problems("unix:/s", token))
        self.assertIn("port", self.problems("ssl:none", token))


class RemoteTestCase(TestCase):
    """A server with an endpoint for others; programs that block run in worker threads."""

    timeout = DEADLINE
    kind = "ssl"
    storage = "sqlite"

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.start())

    async def start(self) -> None:
        """Have the server, and its files."""
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.credentials = make_credentials()
        self.token = self.secret("token", TOKEN)
        self.key = self.secret("server.pem", self.credentials.key + self.credentials.certificate)
        self.ca = self.secret("ca.pem", self.credentials.authority)
        self.server = Server(self.configuration(), IReactorTime(reactor))
        self.addCleanup(self.server.stopService)
        self.server.startService()
        await self.server.started
        assert self.server.remote_control is not None
        self.service = self.server.manager
        self.port = self.server.remote_control[1]
        await self.service.create_queue(ORDERS)

    def configuration(self, **keys: str) -> Any:
        """The configuration of the server."""
        endpoint = "tcp:0:interface=127.0.0.1"
        if self.kind == "tls":
            endpoint = f"tls:0:interface=127.0.0.1:certificate={self.key}:privateKey={self.key}"
        elif self.kind == "ssl":
            endpoint = f"ssl:0:interface=127.0.0.1:privateKey={self.key}:certKey={self.key}"
        file = self.directory / "msmq.toml"
        file.write_text(
            '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
            f"remote_control = '{endpoint}'\n"
            f"[security]\ncontrol_token_file = '{keys.get('token', self.token)}'\n"
        )
        return load(file, Overrides(data=str(self.directory / "data"), name="ALPHA", storage=self.storage))

    def secret(self, name: str, text: str | bytes) -> Path:
        """A file that only its owner may read."""
        path = self.directory / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o600)
        return path

    def place(self, *arguments: str) -> str:
        """Where the server is."""
        return ":".join([self.kind, "127.0.0.1", str(self.port), *arguments])

    def client(self, *arguments: str) -> ControlClient:
        trust = [f"caFile={self.ca}"] if self.kind != "tcp" and not arguments else []
        return ControlClient(parse_location(self.place(*arguments, *trust), token_file=self.token))

    async def beside(self, work: Any, *arguments: Any) -> Any:
        """Call something that blocks."""
        return await deferToThread(work, *arguments)

    async def refusal(self, client: ControlClient) -> MQError:
        """The refusal that a client gets."""
        try:
            await self.beside(client.status)
        except MQError as error:
            self.assertNotIn(TOKEN, str(error))
            return error
        self.fail("nothing was refused")


class TlsTests(RemoteTestCase):
    """Over TLS."""

    async def test_whole_api(self) -> None:
        """A program sends and receives, one by one and in streams of both directions."""
        client = self.client()

        def work() -> tuple[list[str], list[bytes]]:
            self.assertEqual(client.status()["name"], "ALPHA")
            records = [
                StreamRecord(
                    {"destination": ORDERS, "delivery": "recoverable", "key": f"{number}"}, bytes(3000)
                )
                for number in range(700)
            ]
            sent = list(client.send(iter(records), pipelined=True, outstanding=300))
            self.assertEqual(list(client.send(records[:600])), sent[:600])
            received = []
            with client.receive(ORDERS, count=700, timeout=5) as stream:
                for item in stream:
                    if isinstance(item, Delivered):
                        received.append(item.properties["id"])
                    else:
                        item.confirm(wait=False)
            return sent, received

        sent, received = await self.beside(work)
        self.assertEqual((received, len(set(sent))), (sent, 700))
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    async def test_callers_in_the_log(self) -> None:
        """The log names the token and the address, or the user behind the control socket; never a token
        itself.
        """
        self.secret("token", f"billing {TOKEN}")
        lines: list[str] = []
        events: list[str] = []

        @implementer(ILogObserver)
        class Observer:
            def __call__(self, event: LogEvent) -> None:
                events.append(repr(event))
                if event.get("outcome"):
                    lines.append(formatEvent(event))

        observer = Observer()
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        local = ControlClient(parse_location(str(self.directory / "data" / "control.sock")))
        for client in (self.client(), local):
            await self.beside(client.purge_queue, ORDERS)
        purged = f": done: queue purge {ORDERS} (0 messages)"
        user = pwd.getpwuid(os.getuid()).pw_name
        self.assertEqual(lines[0], f"token billing from 127.0.0.1{purged}")
        self.assertTrue(lines[1].startswith(f"uid {os.getuid()} ({user})"), lines[1])
        self.assertTrue(lines[1].endswith(purged), lines[1])
        self.assertNotIn(TOKEN, "".join(events))

    async def test_refused_in_a_stream(self) -> None:
        """The reason of a refusal follows the answers to what was sent."""
        client = self.client()

        def work() -> list[str]:
            sent = []
            records = [StreamRecord({"destination": ORDERS}, b"x")] * 3 + [
                StreamRecord({"destination": MISSING}, b"y")
            ]
            with self.assertRaises(MQError) as caught:
                for identifier in client.send(records, pipelined=True):
                    sent.append(identifier)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
            return sent

        self.assertEqual(len(await self.beside(work)), 3)

    async def test_trust(self) -> None:
        """The server is believed for its authority or its own certificate, and for nothing else."""
        der = ssl.PEM_cert_to_DER_cert(self.credentials.certificate.decode())
        pin = sha256(der).hexdigest()
        ca = f"caFile={self.ca}"
        for arguments in ((ca,), (f"pins={'00' * 32},{pin}",), (ca, f"pins={pin.upper()}")):
            self.assertEqual((await self.beside(self.client(*arguments).status))["name"], "ALPHA")
        strange = self.secret("strange.pem", make_credentials("Another authority").authority)
        for arguments, word in (
            (("caFile=",), "certificate is not trusted"),
            ((f"caFile={strange}",), "certificate is not trusted"),
            ((f"caFile={self.token}",), "holds no certificates"),
            (("caFile=/nonexistent",), "/nonexistent"),
            ((f"pins={'00' * 32}",), f": its certificate has the fingerprint {pin}, which"),
            ((ca, f"pins={'00' * 32}"), f"fingerprint {pin}"),
        ):
            error = await self.refusal(self.client(*arguments))
            self.assertEqual(error.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
            self.assertIn(word, str(error))

    async def test_name(self) -> None:
        """A certificate that an authority gave to another name is not believed."""
        place = self.place(f"caFile={self.ca}").replace("127.0.0.1", "127.0.0.2")
        error = await self.refusal(ControlClient(parse_location(place, token_file=self.token)))
        self.assertIn("refused", str(error))
        listener = socket.create_server(("127.0.0.2", 0))
        self.addCleanup(listener.close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.key)

        def impostor() -> bytes:
            connection, _ = listener.accept()
            with connection:
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        return secured.recv(1000)
                except OSError:
                    return b""

        heard = deferToThread(impostor)
        place = f"ssl:127.0.0.2:{listener.getsockname()[1]}:caFile={self.ca}"
        error = await self.refusal(ControlClient(parse_location(place, token_file=self.token)))
        self.assertIn("127.0.0.2", str(error))
        self.assertEqual(await heard, b"", "nothing was said to it")

    async def test_plain_caller(self) -> None:
        """A caller without TLS is disconnected, and no other is affected."""

        def work() -> bytes:
            with socket.create_connection(("127.0.0.1", self.port)) as plain:
                plain.sendall(f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
                return plain.makefile("rb").read()

        self.assertNotIn(b"HTTP", await self.beside(work))
        self.assertEqual((await self.beside(self.client().status))["name"], "ALPHA")


class ImpatientTests(RemoteTestCase):
    """A port that allows unauthenticated callers a tenth of a second."""

    async def test_silent_callers(self) -> None:
        """A caller that does not finish the TLS handshake, or sends nothing after it, is disconnected."""
        assert self.server._parts is not None
        clock = IReactorTime(reactor)
        site = TokenSite(self.server._parts.control, authentication(self.token, clock), clock, patience=0.1)
        described = f"ssl:0:interface=127.0.0.1:privateKey={self.key}:certKey={self.key}"
        port = await serverFromString(reactor, described).listen(site)
        self.addCleanup(port.stopListening)
        address = ("127.0.0.1", port.getHost().port)
        context = ssl.create_default_context(cafile=self.ca)

        def silent() -> bytes:
            with socket.create_connection(address) as caller:
                # The beginning of a ClientHello.
                caller.sendall(b"\x16\x03\x01\x02")
                return caller.recv(1000)

        def secured() -> bytes:
            with (
                socket.create_connection(address) as caller,
                context.wrap_socket(caller, server_hostname="127.0.0.1") as inside,
            ):
                inside.sendall(b"GET /v1/status HTTP/1.1\r\n")
                return inside.recv(1000)

        for call in (silent, secured):
            try:
                heard = await self.beside(call)
            except OSError:
                # On a slow machine the time is over in the middle of anything.
                heard = b""
            self.assertEqual(heard, b"")


class TokenTests(RemoteTestCase):
    """Callers without a token, or with another one, over TLS."""

    async def test_wrong_token(self) -> None:
        """The refusal is sent, also to a caller in the middle of sending."""
        self.secret("token", TOKEN)
        wrong = self.secret("wrong", TOKEN[::-1])
        location = parse_location(self.place(f"caFile={self.ca}", f"tokenFile={wrong}"))
        client = ControlClient(location)
        error = await self.refusal(client)
        self.assertEqual(error.status, Status.MQ_ERROR_ACCESS_DENIED)

        def records() -> Iterator[StreamRecord]:
            for _ in range(500):
                yield StreamRecord({"destination": ORDERS}, bytes(10_000))

        for is_pipelined in (False, True):
            with self.assertRaises(MQError) as caught:
                await self.beside(
                    lambda is_pipelined: list(client.send(records(), pipelined=is_pipelined)), is_pipelined
                )
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ACCESS_DENIED)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    async def test_unusable_token_file(self) -> None:
        """An invalid token file is reported before a request is sent."""
        self.token.chmod(0o644)
        error = await self.refusal(self.client())
        self.assertEqual(error.status, Status.MQ_ERROR_ACCESS_DENIED)
        self.assertIn(str(self.token), str(error))

    async def test_server_without_token(self) -> None:
        """A server whose token file cannot be used does not start."""
        await self.server.stopService()
        short = self.secret("short", "abc")
        for token, word in ((short, "32 to 512"), (self.directory / "none", "No such file")):
            server = Server(self.configuration(token=str(token)), IReactorTime(reactor))
            self.addCleanup(server.stopService)
            server.startService()
            with self.assertRaises(StartError) as caught:
                await server.started
            self.assertIn(word, str(caught.exception))
            self.assertNotIn("abc", str(caught.exception).replace(str(short), ""))


class PlainTests(RemoteTestCase):
    """Over TCP, on this computer."""

    kind = "tcp"
    storage = "memory"

    async def test_token(self) -> None:
        """It wants the token all the same."""
        self.assertEqual((await self.beside(self.client().status))["name"], "ALPHA")

        def without() -> int:
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            connection.request("GET", "/v1/status")
            with connection.getresponse() as response:
                return response.status

        self.assertEqual(await self.beside(without), 401)


class OtherTlsTests(RemoteTestCase):
    """On an endpoint of the kind that sessions with pins have."""

    kind = "tls"
    storage = "memory"

    async def test_reached(self) -> None:
        """It is reached as an C{ssl:} endpoint is."""
        self.assertEqual((await self.beside(self.client().status))["name"], "ALPHA")
        place = f"ssl:127.0.0.1:{self.port}:caFile={self.ca}"
        client = ControlClient(parse_location(place, token_file=self.token))
        self.assertEqual((await self.beside(client.status))["name"], "ALPHA")


class CommandTests(RemoteTestCase):
    """The command, with its target by options or the environment."""

    async def msmq(self, *arguments: str, **environment: str) -> Ended:
        return await spawn(arguments, environment, self.directory).ended

    async def test_options(self) -> None:
        """C{--control} and C{--token-file}, before the verb or after it."""
        reach = ("--control", self.place(f"caFile={self.ca}"), "--token-file", str(self.token))
        for arguments in (
            (*reach, "send", ORDERS, "--body", "1"),
            ("send", ORDERS, "--body", "2", *reach),
        ):
            self.assertEqual((await self.msmq(*arguments)).status, 0)
        ended = await self.msmq("receive", ORDERS, "--count", "2", "--json", *reach)
        self.assertEqual([message["body"] for message in ended.objects], ["1", "2"])

    async def test_environment(self) -> None:
        """C{MSMQ_CONTROL} and C{MSMQ_TOKEN_FILE}; what is missing or wrong is one line."""
        place = self.place(f"caFile={self.ca}")
        ended = await self.msmq("status", "--json", MSMQ_CONTROL=place, MSMQ_TOKEN_FILE=str(self.token))
        self.assertEqual([found["name"] for found in ended.objects], ["ALPHA"])
        wrong = self.secret("wrong", TOKEN[::-1])
        for environment, status, word in (
            ({"MSMQ_CONTROL": place}, 2, "token"),
            ({"MSMQ_CONTROL": f"ssl:127.0.0.1:{self.port}:x=y"}, 2, "tokenFile="),
            ({"MSMQ_CONTROL": place, "MSMQ_TOKEN_FILE": str(wrong)}, 1, "MQ_ERROR_ACCESS_DENIED"),
            ({"MSMQ_CONTROL": place, "MSMQ_TOKEN_FILE": "/none"}, 1, "/none"),
        ):
            ended = await self.msmq("status", **environment)
            self.assertEqual((ended.status, ended.output, ended.errors.count("\n")), (status, b"", 1))
            self.assertIn(word, ended.errors)
            self.assertNotIn(TOKEN, ended.errors)
            self.assertNotIn(TOKEN[::-1], ended.errors)
