"""The web endpoint of a whole server, on real sockets of loopback."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

from msmq.service.configuration import ConfigurationSource, Overrides, check, load
from msmq.service.server import Server
from msmq.service.settings import Configuration
from tests.patience import DEADLINE
from tests.project.example_files import PROJECT

OFF = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
TOKEN = "0123456789abcdef0123456789abcdef"
ENTERPRISE = """
[enterprise]
id = "11111111-1111-1111-1111-111111111111"
[[site]]
name = "HOME"
id = "22222222-2222-2222-2222-222222222222"
[[queue_manager]]
name = "ALPHA"
id = "33333333-3333-3333-3333-333333333333"
sites = ["HOME"]
"""


class WebEndpointTests(TestCase):
    """C{[listen] web}."""

    timeout = DEADLINE

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-web-"))
        self.addCleanup(shutil.rmtree, self.directory)

    async def start(self, text: str, **overrides: str) -> Server:
        """A running server."""
        file = self.directory / "msmq.toml"
        file.write_text(text)
        data = str(self.directory / "data")
        server = Server(load(file, Overrides(name="ALPHA", data=data, **overrides)), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    async def get(
        self, server: Server, path: str, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of one request."""
        assert server.web is not None
        host, port = server.web

        def ask() -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(host, port, timeout=DEADLINE)
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            body = response.read()
            connection.close()
            return response.status, body

        found: tuple[int, bytes] = await deferToThread(ask)
        return found

    def test_a_server_serves_metrics_and_health(self) -> Deferred[Any]:
        """On loopback, without a token: the size of the store and the age of the directory's data too."""

        async def run() -> None:
            enterprise = self.directory / "estate.toml"
            enterprise.write_text(ENTERPRISE)
            server = await self.start(
                OFF + 'web = "tcp:0:interface=127.0.0.1"\n', directory=f"file:{enterprise}"
            )
            status, body = await self.get(server, "/metrics")
            lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if line[0] != "#")
            self.assertEqual(status, 200)
            self.assertGreater(float(lines["msmq_store_bytes"]), 4096)
            self.assertGreater(float(lines["msmq_store_free_bytes"]), 0)
            self.assertEqual(lines[f'msmq_directory_reached{{kind="file",source="{enterprise}"}}'], "1.0")
            self.assertGreaterEqual(float(lines["msmq_directory_data_age_seconds"]), 0)
            self.assertEqual((await self.get(server, "/health/ready"))[0], 200)
            await server.stopService()
            self.assertIsNone(server.web)

        return Deferred.fromCoroutine(run())

    def test_a_console_without_tokens_is_warned_of(self) -> Deferred[Any]:
        """A start says that every user of the computer can read messages, and what prevents it."""

        async def run() -> None:
            lines: list[str] = []

            @implementer(ILogObserver)
            def observe(event: LogEvent) -> None:
                lines.append(formatEvent(event))

            globalLogPublisher.addObserver(observe)
            self.addCleanup(globalLogPublisher.removeObserver, observe)
            await self.start(OFF + 'web = "tcp:0:interface=127.0.0.1"\n')
            [line] = [line for line in lines if line.startswith("listen.web: ")]
            self.assertIn("every user of this computer can read messages at TCP 127.0.0.1:0;", line)
            self.assertIn("[security] control_token_file", line)

        return Deferred.fromCoroutine(run())

    def test_a_reload_changes_the_role_of_local_callers(self) -> Deferred[Any]:
        """[web] anonymous applies to the next request after a reload, and nothing is warned of without
        messages.
        """

        async def run() -> None:
            lines: list[str] = []

            @implementer(ILogObserver)
            def observe(event: LogEvent) -> None:
                lines.append(formatEvent(event))

            globalLogPublisher.addObserver(observe)
            self.addCleanup(globalLogPublisher.removeObserver, observe)
            listen = OFF + 'web = "tcp:0:interface=127.0.0.1"\n[web]\nanonymous = '
            file = self.directory / "msmq.toml"
            file.write_text(f'{listen}"none"\n')
            overrides = Overrides(name="ALPHA", data=str(self.directory / "data"))
            source = ConfigurationSource(file, overrides)
            server = Server(source.load(), IReactorTime(reactor), source=source.load)
            server.startService()
            self.addCleanup(server.stopService)
            await server.started
            self.assertEqual([line for line in lines if line.startswith("listen.web: ")], [])
            self.assertEqual((await self.get(server, "/health/ready"))[0], 200)
            for role, statuses in ("none", (401, 401)), ("monitor", (200, 403)), ("reader", (200, 200)):
                file.write_text(f'{listen}"{role}"\n')
                server.reload()
                found = [(await self.get(server, path))[0] for path in ("/metrics", "/v1/queues")]
                self.assertEqual(tuple(found), statuses, role)

        return Deferred.fromCoroutine(run())

    def test_a_token_file_closes_the_console(self) -> Deferred[Any]:
        """Where tokens are configured the console needs one on loopback too; the metrics do not."""

        async def run() -> None:
            tokens = self.directory / "tokens"
            tokens.touch(0o600)
            tokens.write_text(f"ops {TOKEN}\n")
            server = await self.start(
                OFF + 'web = "tcp:0:interface=127.0.0.1"\n' + f'[security]\ncontrol_token_file = "{tokens}"\n'
            )
            self.assertEqual((await self.get(server, "/"))[0], 401)
            status, body = await self.get(server, "/", {"Authorization": f"Bearer {TOKEN}"})
            self.assertEqual(status, 200)
            self.assertIn(b"Overview", body)
            self.assertEqual((await self.get(server, "/metrics"))[0], 200)

        return Deferred.fromCoroutine(run())

    def test_off_by_default(self) -> None:
        """A server without a web endpoint imports nothing of it, nor of its libraries."""
        program = (
            "import sys, msmq.service.server, msmq.service.tap\n"
            "print([n for n in sys.modules if n.startswith(('msmq.web', 'prometheus_client', 'jinja2'))])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
        )
        self.assertEqual((done.stdout, done.stderr), (b"[]\n", b""))


class ConfigurationTests(SynchronousTestCase):
    """Which endpoints are accepted."""

    def problems(self, text: str) -> list[str]:
        """The problems of a file."""
        path = Path(self.mktemp())
        path.write_text(text)
        return [str(problem).partition(": ")[2] for problem in check(path)]

    def loaded(self, text: str) -> Configuration:
        """The configuration in a file, without reading its certificates."""
        path = Path(self.mktemp())
        path.write_text(text)
        return load(path)

    def test_plain_text_stays_on_this_machine(self) -> None:
        """Elsewhere than on loopback the endpoint needs TLS."""
        for endpoint in ("tcp:15801", "tcp:15801:interface=0.0.0.0", "tcp:15801:interface=192.0.2.1"):
            [problem] = self.problems(f'{OFF}web = "{endpoint}"\n')
            self.assertTrue(problem.startswith("listen.web: "), problem)
        self.assertEqual(self.problems(f'{OFF}web = "tcp:15801:interface=127.0.0.1"\n'), [])

    def test_tls_needs_tokens(self) -> None:
        """An endpoint that other hosts reach needs a file of tokens; on loopback TLS needs none."""
        tls = "tls:15801:certificate=c.pem:privateKey=k.pem"
        [problem] = self.problems(f'{OFF}web = "{tls}"\n')
        self.assertIn("control_token_file", problem)
        self.assertIsNotNone(self.loaded(f'{OFF}web = "{tls}:interface=127.0.0.1"\n').listen.web)
        tokens = Path(self.mktemp())
        tokens.write_text(f"monitor {TOKEN}\n")
        tokens.chmod(0o600)
        text = f'{OFF}web = "{tls}"\n[security]\ncontrol_token_file = "{tokens}"\n'
        self.assertIsNotNone(self.loaded(text).listen.web)
