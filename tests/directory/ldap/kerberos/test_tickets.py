"""State of an account with a keytab before and between its connections."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.settings import parse_settings
from msmq.directory.ldap.transport.decoder import decode
from msmq.directory.ldap.transport.kerberos.keytab import KeytabError
from msmq.directory.ldap.transport.kerberos.tickets import CACHES, CACHES_APART, KerberosAccount
from msmq.directory.ldap.transport.wire import SaslBind, encode


class KeytabSettingsTests(SynchronousTestCase):
    """C{keytab} and C{principal} below C{[directory]}."""

    def test_read(self) -> None:
        """A keytab needs TLS or a server on this computer, and no name or password."""
        options: dict[str, object] = {"keytab": "/etc/msmq/alpha.keytab", "principal": "ALPHA$"}
        for description in ("ldaps://dc.example.com", "ldaps:///dc=example,dc=com", "ldap://127.0.0.1"):
            settings = parse_settings(description, options)
            self.assertEqual(settings.keytab, Path("/etc/msmq/alpha.keytab"))
            self.assertEqual(settings.principal, "ALPHA$")
        parse_settings("ldap://dc.example.com", {**options, "start_tls": True})

    def test_refused(self) -> None:
        """Keys that do not belong together, and a connection that others could change, are refused."""
        keytab: dict[str, object] = {"keytab": "f"}
        password: dict[str, object] = {"bind_dn": "cn=a", "password_file": "f"}
        for description, options, reported in (
            ("ldaps://h", {"principal": "a"}, "set keytab too"),
            ("ldaps://h", {**keytab, **password}, "keytab replaces bind_dn and password_file"),
            ("ldaps://h", {**keytab, "principal": "a\nb"}, "printable"),
            ("ldaps://h", {**keytab, "principal": "a" * 1025}, "at most 1024"),
            ("ldap://h", keytab, "a bind with a keytab needs TLS"),
            ("ldap://127.0.0.1,h", keytab, "a bind with a keytab needs TLS"),
            ("ldap:///dc=x", keytab, "a bind with a keytab needs TLS"),
        ):
            error = self.assertRaises(ValueError, parse_settings, description, options)
            self.assertIn(reported, str(error))


class TicketTests(SynchronousTestCase):
    """Where tickets are kept."""

    def test_caches(self) -> None:
        """A refused ticket is left behind at once, then at most every ten minutes, in a bounded memory."""
        clock = Clock()
        account = KerberosAccount(Path("keytab"), "", clock)
        names = [account.cache_name]
        account.renew()
        names.append(account.cache_name)
        account.renew()
        self.assertEqual(account.cache_name, names[1])
        for _ in range(3 * CACHES):
            clock.advance(CACHES_APART)
            account.renew()
            names.append(account.cache_name)
        self.assertEqual(len(set(names)), CACHES)
        self.assertTrue(all(name.startswith("MEMORY:") for name in names))
        self.assertNotIn(KerberosAccount(Path("keytab"), "", clock).cache_name, names)


class LoadingTests(TestCase):
    """Modules loaded for Kerberos, and the thread that loads them."""

    async def test_in_a_thread(self) -> None:
        """The package gssapi and the keytab, which take long to load, do not occupy the reactor."""
        loading: list[Thread] = []

        class Finder:
            def find_spec(self, name: str, path: object, target: object = None) -> None:
                if name == "gssapi":
                    loading.append(current_thread())
                    raise ImportError("not here")

        finder: Any = Finder()
        sys.meta_path.insert(0, finder)
        self.addCleanup(sys.meta_path.remove, finder)
        loaded = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "gssapi"}
        self.addCleanup(sys.modules.update, loaded)
        for name in loaded:
            del sys.modules[name]
        account = KerberosAccount(Path("keytab"), "", reactor)
        for asked in (account.check(), account.start("dc.example.com", None)):
            with self.assertRaises(KeytabError) as refused:
                await asked
            self.assertIn("a keytab needs gssapi", str(refused.exception))
        self.assertEqual(len(loading), 2)
        self.assertNotIn(main_thread(), loading)


class HangingKeytabTests(TestCase):
    """A keytab whose file system does not answer."""

    async def test_one_thread(self) -> None:
        """Checks that are given up leave one thread behind, and a later one gets its result."""
        keytab = Path(self.mktemp())
        os.mkfifo(keytab)
        account = KerberosAccount(keytab, "", reactor)
        before = set(threading.enumerate())
        asked = [Deferred.fromCoroutine(account.check()) for _ in range(5)]
        for each in asked[:4]:
            each.cancel()
            self.failureResultOf(each, CancelledError)
        [hanging] = set(threading.enumerate()) - before
        # Callers that have given up leave nothing in memory.
        self.assertEqual(len(account._checks), 1)
        self.assertEqual(hanging.name, "msmq-kerberos")
        keytab.write_bytes(b"not one")
        with self.assertRaises(KeytabError) as refused:
            await asked[4]
        self.assertIn("is not a keytab", str(refused.exception))


class SaslWireTests(SynchronousTestCase):
    """RFC 4511 4.2 and 4.2.2: steps of a bind as bytes."""

    def test_request(self) -> None:
        """Mechanism and credentials stand where the RFC has them, and no log shows the credentials."""
        request = SaslBind("GSS-SPNEGO", b"token")
        expected = "301f020101601a0201030400a313040a4753532d53504e45474f0405746f6b656e"
        self.assertEqual(encode(1, request).hex(), expected)
        self.assertNotIn("token", repr(request))

    def test_response(self) -> None:
        """The server's step comes with its result."""
        message = bytes.fromhex("3015020101611 00a010e04000400 8707".replace(" ", "")) + b"thereof"
        number, answer = decode(message)
        self.assertEqual(number, 1)
        self.assertEqual(getattr(answer, "code", None), 14)
        self.assertEqual(getattr(answer, "credentials", None), b"thereof")
        self.assertNotIn("thereof", repr(answer))
