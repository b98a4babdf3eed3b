"""Two servers whose sessions are encrypted, on real sockets of loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SkipTest, TestCase
from zope.interface import implementer

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Message
from msmq.service.configuration import load
from msmq.service.server import Server
from msmq.service.server_ports import StartError
from tests.builders import ALPHA, establish
from tests.patience import DEADLINE
from tests.security.tls_files import TlsFiles
from tests.servers.own_address import own_address

QUEUE = ".\\private$\\orders"
ALPHA_ADDRESS, BETA_ADDRESS = own_address(51), own_address(52)
OFF = 'ping = "off"\ndiscovery = "off"\ncontrol = "off"'


class TlsServerTests(TestCase):
    timeout = DEADLINE

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.alpha_files = TlsFiles.make(self.directory, "alpha")
        self.beta_files = TlsFiles.make(self.directory, "beta")
        self.lines: list[str] = []
        # A server of another test may have 1801 at every address.
        with socket.create_server((BETA_ADDRESS, 0)) as free:
            self.port = free.getsockname()[1]

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def server(self, name: str, text: str, storage: str = "sqlite") -> Server:
        path = self.directory / f"{name}.toml"
        path.write_text(
            f'[queue_manager]\nname = "{name}"\ndata = "{self.directory / name}"\n'
            f'[storage]\nbackend = "{storage}"\n{text}'
        )
        return Server(load(path), IReactorTime(reactor))

    async def start(self, name: str, text: str) -> QueueManagerService:
        server = self.server(name, text)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        self.addresses = server.addresses
        return server.manager

    async def beta(self, description: str, more: str = "") -> QueueManagerService:
        """A receiver, which listens as the test says."""
        manager = await self.start("BETA", f'[listen]\nsession = "{description}"\n{OFF}\n{more}')
        await manager.create_queue(QUEUE, transactional=True)
        return manager

    async def alpha(self, host: str) -> QueueManagerService:
        """A sender, which has sent a transactional message."""
        manager = await self.start(
            "ALPHA",
            f'[listen]\nsession = "tcp:{self.port}:interface={ALPHA_ADDRESS}"\n{OFF}\n'
            f'[hosts]\nBETA = "{host}"\n[timers]\nsession_retry = 0.1\nsession_retry_maximum = 0.1\n',
        )
        message = Message(body=b"secret", transactional=True)
        await manager.send("DIRECT=OS:BETA\\private$\\orders", [message])
        return manager

    def listening(self, pins: str | None = None) -> str:
        own = f"tls:{self.port}:interface={BETA_ADDRESS}:{self.beta_files.arguments}"
        return own if pins is None else f"{own}:pins={pins}"

    def dialling(self, pin: str | None = None, files: TlsFiles | None = None) -> str:
        """Where BETA is; by default with the right certificates on both sides."""
        files = files or self.alpha_files
        return f"tls:{BETA_ADDRESS}:{self.port}:pins={pin or self.beta_files.pin}:{files.arguments}"

    async def until(self, condition: object, what: str) -> None:
        """Wait for something that another iteration of the reactor will bring about."""
        assert callable(condition)
        for _ in range(5000):
            if condition():
                return
            await deferLater(IReactorTime(reactor), 0.02)
        self.fail(what)

    async def test_a_message_goes_through(self) -> None:
        """Both ends know each other's certificate; the message arrives, and is acknowledged."""
        beta = await self.beta(self.listening(self.alpha_files.pin))
        alpha = await self.alpha(self.dialling())
        received = await beta.receive(QUEUE, timeout=DEADLINE)
        self.assertEqual(bytes(received.body), b"secret")
        await self.until(lambda: not alpha.inspection.status().messages, "it is not acknowledged")
        [session] = beta.inspection.sessions()
        # It left from the address that ALPHA listens on, as sessions without TLS do.
        self.assertEqual((session.remote_address, session.state), (ALPHA_ADDRESS, "OPEN"))
        self.assertTrue(session.encrypted)
        self.assertEqual(beta.inspection.status().sessions_refused, {})

    async def refused(self, host: str, pins: str | None, *, counted_by: str, because: str) -> None:
        """Assert that no message arrives, one side counts the refusal with its reason, and the message
        arrives once it is allowed.
        """
        beta = await self.beta(self.listening(pins))
        alpha = await self.alpha(host)
        side, address = (beta, ALPHA_ADDRESS) if counted_by == "BETA" else (alpha, BETA_ADDRESS)
        await self.until(
            lambda: side.inspection.status().sessions_refused.get("pins", 0) > 1, "no peer was refused"
        )
        [peer] = side.inspection.status().refused_peers
        self.assertEqual(peer.address, address)
        # However often such a peer connects, the log has it once a minute.
        self.assertEqual("\n".join(self.lines).count(because), 1)
        self.assertEqual((beta.inspection.queue(QUEUE).messages, alpha.inspection.status().messages), (0, 1))
        self.assertNotIn("secret", "\n".join(self.lines))

    async def test_a_server_with_another_certificate_gets_no_message(self) -> None:
        """A server at the address of another one has not its key."""
        await self.refused(
            self.dialling(pin=self.alpha_files.pin),
            None,
            counted_by="ALPHA",
            because=f"the certificate of {BETA_ADDRESS}, {self.beta_files.pin}, is not one of those pinned",
        )

    async def test_a_client_with_another_certificate_is_refused(self) -> None:
        """An unknown certificate counts as none."""
        unpinned = TlsFiles.make(self.directory, "unpinned")
        await self.refused(
            self.dialling(files=unpinned),
            self.alpha_files.pin,
            counted_by="BETA",
            because=f"the certificate of {ALPHA_ADDRESS}, {unpinned.pin}, is not one of those pinned",
        )

    async def test_an_expired_certificate_is_refused(self) -> None:
        """Even where it is pinned."""
        old = TlsFiles.make(self.directory, "old", days=-1)
        await self.refused(
            self.dialling(files=old),
            f"{self.alpha_files.pin},{old.pin}",
            counted_by="BETA",
            because=f"the certificate of {ALPHA_ADDRESS}, {old.pin}, has expired",
        )

    async def test_a_certificate_of_tomorrow_is_refused(self) -> None:
        """One whose validity has not begun."""
        early = TlsFiles.make(self.directory, "early", days=90)
        await self.refused(
            self.dialling(files=early),
            early.pin,
            counted_by="BETA",
            because=f"the certificate of {ALPHA_ADDRESS}, {early.pin}, is not valid yet",
        )

    async def test_a_client_without_a_certificate_is_refused(self) -> None:
        """Where certificates are pinned, a client has to show one."""
        beta = await self.beta(self.listening(self.alpha_files.pin))
        alpha = await self.alpha(f"tls:{BETA_ADDRESS}:{self.port}:pins={self.beta_files.pin}")
        await self.until(lambda: len(self.closings()) > 2, "nothing was tried")
        self.assertEqual((beta.inspection.queue(QUEUE).messages, alpha.inspection.status().messages), (0, 1))

    async def test_a_client_without_tls_is_refused(self) -> None:
        """A packet in clear is not TLS, and its connection ends."""
        beta = await self.beta(self.listening())
        with socket.create_connection((BETA_ADDRESS, self.port), timeout=DEADLINE) as plain:
            plain.sendall(establish(ALPHA))
            plain.setblocking(False)
            await self.until(lambda: self.is_over(plain), "the connection stays")
        self.assertEqual(beta.inspection.sessions(), [])

    async def test_silent_connections_do_not_lock_out_others(self) -> None:
        """Connections that never begin TLS are closed in favour of those that send; no message is lost."""
        beta = await self.beta(self.listening(self.alpha_files.pin), "[limits]\nmax_handshakes = 3\n")
        silent = [socket.create_connection((BETA_ADDRESS, self.port)) for _ in range(10)]
        for connection in silent:
            self.addCleanup(connection.close)
        await self.until(
            lambda: beta.inspection.status().sessions_refused.get("max_handshakes") == 7, "none gave way"
        )
        await self.alpha(self.dialling())
        self.assertEqual(bytes((await beta.receive(QUEUE, timeout=DEADLINE)).body), b"secret")

    async def test_a_limit_refuses_before_tls_begins(self) -> None:
        """One connection too many ends at once, on both kinds of TLS endpoint."""
        for description in (
            self.listening(),
            f"ssl:{self.port}:interface={BETA_ADDRESS}:privateKey={self.beta_files.private_key}"
            f":certKey={self.beta_files.certificate}",
        ):
            server = self.server(
                "BETA",
                f'[listen]\nsession = "{description}"\n{OFF}\n[limits]\nmax_connections_per_host = 1\n',
            )
            server.startService()
            await server.started
            with (
                socket.create_connection((BETA_ADDRESS, self.port), timeout=DEADLINE),
                socket.create_connection((BETA_ADDRESS, self.port), timeout=DEADLINE) as second,
            ):
                second.setblocking(False)
                await self.until(partial(self.is_over, second), "it stays")
                refused = server.manager.inspection.status().sessions_refused
                self.assertEqual(refused, {"max_connections_per_host": 1})
            await server.stopService()
            self.assertEqual(self.flushLoggedErrors(), [])

    async def test_only_listed_addresses_may_connect(self) -> None:
        """Another address's connection ends at once, plain or not; a listed one is admitted."""
        beta = await self.beta(
            self.listening(self.alpha_files.pin), f'[security]\nsessions_from = ["{ALPHA_ADDRESS}"]\n'
        )
        with socket.create_connection((BETA_ADDRESS, self.port), timeout=DEADLINE) as other:
            other.setblocking(False)
            await self.until(partial(self.is_over, other), "it stays")
        self.assertEqual(beta.inspection.status().sessions_refused, {"sessions_from": 1})
        [peer] = beta.inspection.status().refused_peers
        self.assertEqual((peer.address, peer.reasons), ("127.0.0.1", {"sessions_from": 1}))
        await self.alpha(self.dialling())
        self.assertEqual(bytes((await beta.receive(QUEUE, timeout=DEADLINE)).body), b"secret")

    async def test_openssl_gets_in_by_tls_1_3_alone(self) -> None:
        """A client that is not ours sees TLS 1.3 and the certificate, and gets nothing older."""
        if shutil.which("openssl") is None:
            raise SkipTest("there is no openssl")
        await self.beta(self.listening())
        for version, is_taken in (("-tls1_3", True), ("-tls1_2", False)):
            output = await self.run_openssl("s_client", "-connect", f"{BETA_ADDRESS}:{self.port}", version)
            self.assertEqual("Cipher is TLS_" in output, is_taken, output)
            self.assertEqual("CN = beta" in output or "CN=beta" in output, is_taken, output)

    async def run_openssl(self, *arguments: str) -> str:
        process = subprocess.Popen(
            ["openssl", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        await self.until(lambda: process.poll() is not None, "openssl does not end")
        return process.communicate()[0]

    async def test_says_which_file_cannot_be_used(self) -> None:
        """A server whose files are missing, swapped, foreign or protected does not start, and says why."""
        protected = TlsFiles.make(self.directory, "protected", passphrase=b"correct horse")
        missing = self.directory / "missing.pem"
        alpha, beta = self.alpha_files, self.beta_files
        cases = (
            (missing, beta.private_key, f"{missing}: No such file or directory"),
            (beta.private_key, beta.private_key, "there is no certificate in it"),
            (beta.certificate, beta.certificate, "there is no private key of"),
            (beta.certificate, alpha.private_key, f"there is no private key of {beta.certificate}"),
            (protected.certificate, protected.private_key, "without a passphrase in it"),
        )
        for number, (certificate, key, problem) in enumerate(cases):
            server = self.server(
                f"BETA{number}",
                f'[listen]\nsession = "tls:{self.port}:interface={BETA_ADDRESS}:certificate={certificate}'
                f':privateKey={key}"\n{OFF}\n',
                storage="memory",
            )
            server.startService()
            try:
                await server.started
            except StartError as error:
                said = str(error)
            else:
                said = "it starts"
            self.assertIn(problem, said)
            self.assertNotIn("BEGIN", said)
            await server.stopService()

    def closings(self) -> list[str]:
        return [line for line in self.lines if "closed:" in line]

    def is_over(self, connection: socket.socket) -> bool:
        """Whether the other end has closed a connection."""
        try:
            while connection.recv(4096):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True
