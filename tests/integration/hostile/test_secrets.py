"""No secret shows: not in the log, not in errors, not in answers, not where objects are printed."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

import msmq
from msmq.control.client.client import ControlClient
from msmq.control.client.locations import parse_location
from msmq.errors import MsmqError
from msmq.service.configuration import load
from msmq.service.server import Server
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.security.tls_files import TlsFiles

PASSWORD: Final = "correct-horse-battery-staple"
TOKEN: Final = "only-those-who-have-this-may-command-it"

SECRET_NAME: Final = re.compile(r"(^|_)(password|passphrase|token|secret|private_key|key)$")
SHOWN: Final = {
    "FileProblem.key": "of a file that people write",
    "ConfigurationProblem.key": "of the configuration",
    "RuleProblem.key": "of a file of rules",
    "IncomingStream.key": "under which a stream is kept",
    "IncomingTransferInfo.key": "the same",
    "RecordBuilder.key": "under which a message is sent once",
    "MessageForQueue.key": "the same",
    "AmqpMessage.routing_key": "by which an exchange chooses queues",
    "OutwardRules.routing_key": "the expression for that",
    "BrokerEnd.routing_key": "of the address of a route",
    "KafkaRecord.key": "by which a topic chooses the partition",
    "_Unconfirmed.routing_key": "of a message that was published",
    "MessageLines.key": "the first part of those",
    "WriteOptions.key": "the column of those",
    "EnvironmentValue.key": "the name of a key of the configuration",
    "ConfigurationEntry.key": "the same",
    "QueueDifference.key": "of a file of queues",
    "ViewRow.key": "by which a row is found in later samples",
    "CertificateSummary.key": "the type of the key and its bits",
    "SecurityHeader.encryption_key": "encrypted, as it is on the wire",
    "CachedSymmetricKey.encrypted_key": "the same",
    "TokenExpiry.token": "its name",
}
"""Fields that are called as secrets are, and are none."""


def classes() -> Iterator[type[attrs.AttrsInstance]]:
    """Every class of the project with fields, except those that need Spark."""
    for module in pkgutil.walk_packages(msmq.__path__, "msmq."):
        if ".spark" in module.name or module.name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:
            # An extra that is not installed.
            continue
        for value in vars(found).values():
            if inspect.isclass(value) and attrs.has(value) and value.__module__ == module.name:
                yield value


class FieldTests(SynchronousTestCase):
    """Objects that hold secrets."""

    def test_no_field_shows_a_secret(self) -> None:
        """No password, token or key, as text or bytes, is printed."""
        shown, seen = [], 0
        for owner in classes():
            for field in attrs.fields(owner):
                if SECRET_NAME.search(field.name) is None or not re.search(r"bytes|str", str(field.type)):
                    continue
                seen += 1
                name = f"{owner.__name__}.{field.name}"
                if field.repr is not False and name not in SHOWN:
                    shown.append(name)
        self.assertEqual(shown, [])
        self.assertGreater(seen, 5)


class LogTests(TestCase):
    """Servers that have secrets, work, and fail."""

    timeout = DEADLINE

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shown: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            failure = event.get("log_failure")
            self.shown += [formatEvent(event), repr(dict(event))]
            if failure is not None:
                self.shown.append(failure.getTraceback(detail="verbose"))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.files = TlsFiles.make(self.directory, "alpha")
        lines = self.files.private_key.read_text(encoding="ascii").splitlines()[1:-1]
        self.secrets = (PASSWORD, TOKEN, *(line[:40] for line in lines))
        self.number = 0

    def secret_file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.touch(0o600)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    async def started(self, text: str) -> Server | None:
        """A server with this configuration; C{None} if it says why it does not start."""
        self.number += 1
        path = self.directory / f"{self.number}.toml"
        data = self.directory / f"data{self.number}"
        path.write_text(f'[queue_manager]\nname = "ALPHA"\ndata = "{data}"\n{text}')
        try:
            configuration = load(path)
            self.shown.append(repr(configuration))
            server = Server(configuration, IReactorTime(reactor))
            self.addCleanup(server.stopService)
            server.startService()
            await server.started
        except MsmqError as error:
            self.shown += [str(error), repr(error)]
            return None
        self.shown += [repr(server), repr(server._parts)]
        return server

    def assert_nothing_shown(self) -> None:
        everything = "\n".join(self.shown)
        self.assertGreater(len(everything), 100)
        for secret in self.secrets:
            self.assertNotIn(secret, everything)

    async def test_server_log_has_no_secret(self) -> None:
        """It starts, is asked with the token and without it, is dialled by unknown peers, and stops."""
        token = self.secret_file("token", TOKEN)
        wrong = self.secret_file("wrong", TOKEN.upper())
        tls = f"certificate={self.files.certificate}:privateKey={self.files.private_key}"
        server = await self.started(
            f'[listen]\nsession = "tls:0:interface=127.0.0.1:{tls}:pins={self.files.pin}"\n'
            'ping = "off"\ndiscovery = "off"\n'
            f'remote_control = "tls:0:interface=127.0.0.1:{tls}"\n'
            f'[storage]\nbackend = "memory"\n[security]\ncontrol_token_file = "{token}"\n'
        )
        assert server is not None and server.remote_control is not None
        host, port = server.remote_control
        for path, is_taken in ((token, True), (wrong, False)):
            location = parse_location(f"ssl:{host}:{port}:tokenFile={path}:pins={self.files.pin}")
            client = ControlClient(location)
            self.shown += [repr(location), repr(client)]
            try:
                answer = repr(await deferToThread(client.status))
            except MQError as error:
                answer = repr(error)
                self.assertFalse(is_taken, answer)
            else:
                self.assertTrue(is_taken)
            self.shown.append(answer)
        address = server.addresses[0].rpartition(":")
        with socket.create_connection(("127.0.0.1", int(address[2]))) as prober:
            prober.sendall(b"GET / HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
        await server.stopService()
        self.assert_nothing_shown()
        self.flushLoggedErrors()

    async def test_password_of_a_directory(self) -> None:
        """The password of a directory that cannot be reached, or answers nonsense, stays in its file."""
        password = self.secret_file("password", PASSWORD)
        for port in (1, self.nonsense()):
            await self.started(
                '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'
                '[storage]\nbackend = "memory"\n'
                f'[directory]\nbackend = "ldap://127.0.0.1:{port}/DC=example"\n'
                f'bind_dn = "CN=msmq,DC=example"\npassword_file = "{password}"\n'
            )
        self.assert_nothing_shown()
        self.flushLoggedErrors()

    def nonsense(self) -> int:
        """A port with a listener that sends nothing of LDAP."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        return int(listening.getsockname()[1])

    async def test_password_of_a_database(self) -> None:
        """A password in the URL of a store is left out of all output, where the store does not open too."""
        await self.started(
            f'[storage]\nbackend = "postgresql://ann:{PASSWORD}@127.0.0.1:1/orders?connect_timeout=2&wait=0"\n'
            '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'
        )
        await self.started(
            f'[storage]\nbackend = "postgresql://ann:{PASSWORD}@127.0.0.1:1/orders?nonsense"\n'
        )
        self.assert_nothing_shown()
        self.flushLoggedErrors()

    async def test_files_that_are_not_what_they_should_be(self) -> None:
        """A token where a key should stand, and a key where a token should, are refused unseen."""
        token = self.secret_file("token", TOKEN)
        short = self.secret_file("short", TOKEN[:31])
        off = 'ping = "off"\ndiscovery = "off"\ncontrol = "off"\n[storage]\nbackend = "memory"\n'
        for certificate, key in ((token, token), (self.files.certificate, token)):
            description = f"tls:0:interface=127.0.0.1:certificate={certificate}:privateKey={key}"
            self.assertIsNone(await self.started(f'[listen]\nsession = "{description}"\n{off}'))
        for path in (short, self.files.private_key):
            os.chmod(path, 0o600)
            self.assertIsNone(
                await self.started(
                    '[listen]\nsession = "off"\nremote_control = "tcp:0:interface=127.0.0.1"\n'
                    f'{off}[security]\ncontrol_token_file = "{path}"\n'
                )
            )
        self.secrets = (*self.secrets, TOKEN[:31])
        self.assert_nothing_shown()
        self.flushLoggedErrors()
