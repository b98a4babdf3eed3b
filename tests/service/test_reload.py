"""Reading the configuration of a running server again."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import tempfile
from pathlib import Path
from typing import Any, cast

import attrs
from cryptography.x509 import load_pem_x509_certificate
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.alarm_limits import EXPIRES_SOON, TOKEN_EXPIRES_SOON
from msmq.control.authentication.token_file import TokenFile
from msmq.control.server.alarms.expiry_watch import INTERVAL, ExpiryWatch
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.manager.securing.trusted_peers import Unauthenticated
from msmq.queues.arriving.message import Message
from msmq.service.configuration import ConfigurationSource, Overrides, load
from msmq.service.keys import TABLES
from msmq.service.reload import RESTART, is_reloaded, merged
from msmq.service.server import Server
from msmq.service.settings import LimitSettings, SecuritySettings, TimerSettings, WebSettings
from msmq.settings import SessionSettings
from msmq.structures.status import MQError, Status
from tests.patience import DEADLINE
from tests.servers.certificates import make_credentials

TOKEN = "0123456789abcdef0123456789abcdef"
OFF = '[listen]\nping = "off"\ndiscovery = "off"\n'
CLOSED = f'{OFF}session = "off"\n'


class ExpiryWatchTests(SynchronousTestCase):
    """The log lines about certificates and tokens that expire."""

    def test_once_a_day(self) -> None:
        """From 30 days before the expiry there is a line at the start and each day, and after a stop none."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        clock, end = Clock(), 1_800_000_000.0
        remaining = [EXPIRES_SOON + INTERVAL / 2]

        def certificates() -> list[EndpointCertificate]:
            left = remaining[0] - clock.seconds()
            return [EndpointCertificate(endpoint="listen.web", not_after=end, remaining=left)]

        watch = ExpiryWatch(clock, certificates, lambda: [])
        watch.start()
        self.assertEqual(events, [])
        expires = "listen.web: the TLS certificate expires in {}, on 2027-01-15 08:00 UTC"
        for left in ("29 d 12 h", "28 d 12 h"):
            clock.advance(INTERVAL)
            self.assertIn(expires.format(left), str(formatEvent(events.pop())))
            self.assertEqual(events, [])
        remaining[0] = 0.0
        clock.advance(INTERVAL)
        self.assertIn(
            "expired on 2027-01-15 08:00 UTC, and clients refuse it", str(formatEvent(events.pop()))
        )
        watch.stop()
        self.assertEqual((clock.getDelayedCalls(), events), ([], []))

    def test_tokens(self) -> None:
        """From 14 days before the expiry of a token there is a line each day."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        path = Path(self.mktemp())
        path.touch(0o600)
        path.write_text(
            f"desk reader {'x' * 32} expires=2027-01-15\nnight reader {'y' * 32}\n"
            f"desk reader {'z' * 32} expires=2027-07-15\n"
        )
        end, clock = 1_799_971_200.0, Clock()
        clock.advance(end - TOKEN_EXPIRES_SOON)
        tokens = TokenFile(path)
        watch = ExpiryWatch(clock, lambda: [], lambda: tokens.expiries(clock.seconds()))
        watch.start()
        self.assertEqual(events, [])
        clock.advance(INTERVAL)
        self.assertIn("token desk expires in 13 d, on 2027-01-15", str(formatEvent(events.pop())))
        clock.advance(end - clock.seconds())
        self.assertIn("token desk expired on 2027-01-15 00:00 UTC", str(formatEvent(events.pop())))
        watch.stop()


class KeyTests(SynchronousTestCase):
    """Which keys a reload applies."""

    def test_each_key_is_applied(self) -> None:
        """A key that is reloaded is a field of some settings, so that its value is not lost."""
        places = {
            "limits": (SessionSettings, LimitSettings),
            "timers": (SessionSettings, TimerSettings),
            "security": (SessionSettings, SecuritySettings),
            "web": (WebSettings,),
        }
        for table, classes in places.items():
            fields = {name for each in classes for name in attrs.fields_dict(each)}
            for key in TABLES[table]:
                if is_reloaded(f"{table}.{key}"):
                    self.assertIn(key, fields, table)

    def test_keys_that_need_a_restart_exist(self) -> None:
        """The list names keys of the reference, and no others."""
        known = {f"{table}.{key}" for table, keys in TABLES.items() for key in keys}
        self.assertEqual(RESTART - known, set())
        for key in RESTART | {"listen.session", "storage.backend", "queue_manager.name"}:
            self.assertFalse(is_reloaded(key), key)

    def test_the_reference_has_these_keys(self) -> None:
        """The page of the configuration names the keys that need a restart, and no others."""
        page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
        [line] = [line for line in page.splitlines() if "of the tables above need a restart too" in line]
        self.assertEqual(set(re.findall("`(\\w+)`", line)), {key.partition(".")[2] for key in RESTART})

    def test_a_key_is_taken_over_in_its_own_table(self) -> None:
        """A changed key changes nothing in another table that has a key of the same name."""
        running = load(None, Overrides(name="ALPHA", data="data"))
        read = attrs.evolve(
            running,
            limits=attrs.evolve(running.limits, quota=7),
            session=attrs.evolve(running.session, window_size=7),
            values={**running.values, "log": {"quota": 7, "window_size": 7}},
        )
        new = merged(running, read, ["log.quota", "log.window_size"])
        self.assertEqual((new.limits, new.session), (running.limits, running.session))
        self.assertEqual(new.values["log"]["quota"], 7)
        read = attrs.evolve(
            read, values={**running.values, "limits": {**running.values["limits"], "window_size": 7}}
        )
        self.assertEqual(merged(running, read, ["limits.window_size"]).session.window_size, 7)


class ReloadTests(TestCase):
    """A server whose files change."""

    timeout = DEADLINE

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-reload-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.file = self.directory / "msmq.toml"

    async def start(self, text: str) -> Server:
        """A server with this file."""
        self.file.write_text(text)
        data = os.fspath(self.directory / "data")
        source = ConfigurationSource(self.file, Overrides(name="ALPHA", data=data, storage="memory"))
        server = Server(source.load(), IReactorTime(reactor), source=source.load)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    def refused(self, server: Server) -> str:
        """Why a reload is refused."""
        error = self.assertRaises(MQError, server.reload)
        self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
        return str(error)

    def test_settings_are_applied(self) -> Deferred[None]:
        """Each table has its effect at once, what needs a restart is named, and messages stay."""

        async def run() -> None:
            server = await self.start(CLOSED)
            manager, sessions = server.manager, server.sessions
            await manager.create_queue(".\\private$\\q")
            await manager.send(".\\private$\\q", [Message(body=bytes(3000))])
            self.file.write_text(
                f'{CLOSED}control = "off"\n'
                '[hosts]\nBETA = "127.14.0.3"\n'
                "[limits]\nquota = 1\nmax_sessions = 7\nevents = 9\ncontrol_receives = 5\n"
                "[timers]\nconnect = 3\nsession_cleanup = 77\n"
                '[security]\nunauthenticated = "deny"\nsessions_from = ["192.0.2.1"]\nhardened = true\n'
            )
            found = server.reload()
            self.assertEqual(
                set(found["changed"]),
                {
                    "hosts.BETA",
                    *("limits.quota", "limits.max_sessions", "limits.events"),
                    *("timers.connect", "timers.session_cleanup"),
                    *("security.unauthenticated", "security.sessions_from"),
                },
            )
            self.assertEqual(
                set(found["restart"]), {"listen.control", "limits.control_receives", "security.hardened"}
            )
            self.assertEqual(manager.model.storage.limit, 1024)
            self.assertEqual((sessions.settings.max_sessions, sessions.settings.session_cleanup), (7, 77))
            assert server._parts is not None
            self.assertEqual(server._parts.resolver.connect_time, 3)
            self.assertEqual(
                [str(each) for each in await server._parts.resolver.resolve("beta")], ["127.14.0.3:1801"]
            )
            gate = server.configuration.security
            self.assertEqual(gate.unauthenticated, Unauthenticated.DENY.value)
            self.assertFalse(server.configuration.security.hardened)
            with self.assertRaises(MQError):
                await manager.send(".\\private$\\q", [Message(body=b"more")])
            self.assertEqual(len((await manager.receive(".\\private$\\q", timeout=0)).body), 3000)
            # What needs a restart is named until it happens; what was applied is not named again.
            again = server.reload()
            self.assertEqual((again["changed"], again["restart"]), ([], found["restart"]))
            self.file.write_text(CLOSED)
            self.assertEqual(set(server.reload()["changed"]), set(found["changed"]))
            self.assertEqual(manager.model.storage.limit, 256 << 20)
            self.assertEqual(server.configuration.hosts, {})

        return Deferred.fromCoroutine(run())

    def test_a_mistake_changes_no_setting(self) -> Deferred[None]:
        """A wrong value, a missing file of rules or an invalid enterprise file: all stays as it was."""

        async def run() -> None:
            rules = self.directory / "rules.toml"
            server = await self.start(CLOSED)
            limit = server.manager.model.storage.limit
            for text, word in (
                ("[limits]\nquota = 5\nevents = 0\n", f"{self.file}:7: limits.events"),
                ("[limits]\nquota = 5\nqouta = 5\n", "limits.qouta"),
                (f'[limits]\nquota = 5\n[security]\nrules = "{rules}"\n', "rules.toml"),
                ("[limits\n", str(self.file)),
            ):
                self.file.write_text(CLOSED + text)
                self.assertIn(word, self.refused(server))
                self.assertEqual(server.manager.model.storage.limit, limit)
            self.file.unlink()
            self.assertIn(str(self.file), self.refused(server))
            self.assertEqual(server.manager.model.storage.limit, limit)

        return Deferred.fromCoroutine(run())

    def test_a_certificate_is_rotated(self) -> Deferred[None]:
        """Connections that begin after the reload get the new certificate, at ssl: and tls: endpoints.

        A key that does not belong to its certificate is refused, and the former one stays.
        """

        async def run() -> None:
            key, certificate = self.directory / "key.pem", self.directory / "certificate.pem"
            tokens = self.directory / "tokens"
            tokens.write_text(f"monitor {TOKEN}\n")
            tokens.chmod(0o600)
            first, second = make_credentials(), make_credentials("Another authority", is_expired=True)
            key.write_bytes(first.key)
            certificate.write_bytes(first.certificate)
            server = await self.start(
                f'{OFF}session = "tls:0:interface=127.0.0.1:certificate={certificate}:privateKey={key}"\n'
                f'web = "ssl:0:interface=127.0.0.1:certKey={certificate}:privateKey={key}"\n'
                f'remote_control = "ssl:0:interface=127.0.0.1:certKey={certificate}:privateKey={key}"\n'
                f'[security]\ncontrol_token_file = "{tokens}"\n'
            )
            assert server.web is not None and server.remote_control is not None
            session = "127.0.0.1", int(server.addresses[0].rpartition(":")[2])
            addresses = server.web, server.remote_control, session

            async def shown() -> list[bytes]:
                return [await deferToThread(_certificate, address) for address in addresses]

            self.assertEqual(await shown(), [_der(first.certificate)] * 3)
            self.assertEqual(self.ends(server), {_end(first.certificate)})
            certificate.write_bytes(second.certificate)
            self.assertIn("the certificate cannot be used", self.refused(server))
            self.assertEqual(await shown(), [_der(first.certificate)] * 3)
            self.assertEqual(self.ends(server), {_end(first.certificate)})
            key.write_bytes(second.key)
            found = server.reload()
            self.assertEqual(
                set(found["read"]),
                {
                    "tokens",
                    *(f"certificate of listen.{each}" for each in ("web", "remote_control", "session")),
                },
            )
            self.assertEqual(await shown(), [_der(second.certificate)] * 3)
            self.assertEqual(self.ends(server), {_end(second.certificate)})
            tokens.write_text("too short\n")
            self.assertIn("token file", self.refused(server))

        return Deferred.fromCoroutine(run())

    def ends(self, server: Server) -> set[float]:
        """When the certificates expire that a server presents, as it reports them."""
        found = server.certificates()
        self.assertEqual(
            sorted(each.endpoint for each in found),
            ["listen.remote_control", "listen.session", "listen.web"],
        )
        return {each.not_after for each in found}

    def test_without_a_file(self) -> Deferred[None]:
        """An embedded server that was given a configuration and no source refuses to reload."""

        async def run() -> None:
            server = await self.start(CLOSED)
            other = Server(server.configuration, IReactorTime(reactor))
            error = self.assertRaises(MQError, other.reload)
            self.assertEqual(error.status, Status.MQ_ERROR_UNSUPPORTED_OPERATION)

        return Deferred.fromCoroutine(run())


def _certificate(address: tuple[str, int]) -> Any:
    """The certificate that a server shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(address, timeout=DEADLINE) as plain,
        context.wrap_socket(plain) as connection,
    ):
        return connection.getpeercert(binary_form=True)


def _end(pem: bytes) -> float:
    """When a certificate expires."""
    return load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def _der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())
