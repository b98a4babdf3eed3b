"""C{ldap://...} in a configuration, and the keys with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.directory.factory import DirectoryDescriptionError, make_directory
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import Dialect, LdapServer, parse_settings
from msmq.interfaces import IDirectory
from msmq.interfaces.plugins import DirectoryContext
from msmq.testing.clock import ManualClock


class SettingsTests(SynchronousTestCase):
    """Descriptions of an LDAP directory, and their errors."""

    def test_all_settings(self) -> None:
        """A description and its keys."""
        options: dict[str, object] = {
            "bind_dn": "cn=alpha,dc=example,dc=com",
            "password_file": "/etc/msmq/ldap-password",
            "ca_file": Path("/etc/ssl/ca.pem"),
            "dialect": "openldap",
            "start_tls": True,
            "backend": "ldap:",
        }
        settings = parse_settings("ldap://dc.example.com:3890/dc=example,dc=com", options)
        self.assertEqual(
            (settings.servers, settings.base), ((LdapServer("dc.example.com", 3890),), "dc=example,dc=com")
        )
        self.assertEqual(settings.password_file, Path("/etc/msmq/ldap-password"))
        self.assertEqual((settings.dialect, settings.starts_tls), (Dialect.OPENLDAP, True))

    def test_defaults(self) -> None:
        """Ports are the usual ones, and the base and the dialect are what the server says."""
        settings = parse_settings("ldaps://dc.example.com", {})
        self.assertEqual((settings.base, settings.dialect), ("", None))
        self.assertEqual(settings.servers, (LdapServer("dc.example.com", 636),))
        self.assertEqual(parse_settings("ldap://[::1]/", {}).servers, (LdapServer("::1", 389),))
        self.assertEqual(parse_settings("ldap://h/cn=a%20b", {}).base, "cn=a b")

    def test_several(self) -> None:
        """Servers are tried in their order, each once, and each may have a port of its own."""
        settings = parse_settings("ldap://dc1,[::1]:3890,DC1,dc2:1389/dc=x", {})
        self.assertEqual(
            settings.servers, (LdapServer("dc1", 389), LdapServer("::1", 3890), LdapServer("dc2", 1389))
        )
        self.assertEqual(str(settings), "ldap://dc1:389,[::1]:3890,dc2:1389/dc=x")

    def test_no_configured_servers(self) -> None:
        """Servers that are not named are looked for, and asked on the usual port or another."""
        for description, port in (("ldap:///dc=x", 389), ("ldaps://", 636), ("ldap://:3890/dc=x", 3890)):
            settings = parse_settings(description, {})
            self.assertEqual((settings.servers, settings.port), ((), port))
            self.assertEqual(str(settings).rstrip("/"), description.rstrip("/"))
        options: dict[str, object] = {"bind_dn": "cn=a", "password_file": "f", "ca_file": "ca.pem"}
        self.assertEqual(parse_settings("ldaps:///dc=x", options).servers, ())

    def test_what_is_wrong(self) -> None:
        """Each fault is reported by its name."""
        credentials: dict[str, object] = {"bind_dn": "cn=a", "password_file": "f"}
        for description, options, reported in (
            ("ldap:", {}, "needs the servers"),
            ("ldap://h,/", {}, "'' is not a HOST[:PORT]"),
            ("ldap://h,:389/", {}, "':389' is not a HOST[:PORT]"),
            ("ldap://h:0/", {}, "'h:0' is not a HOST[:PORT]"),
            ("ldap://[::1/", {}, "[::1"),
            ("ldap://127.0.0.1,dc.example.com/", credentials, "unencrypted"),
            ("ldap:///", credentials, "would be sent to an unauthenticated server"),
            ("ldaps:///", credentials, "and a ca_file of your own"),
            ("ldap://h:port/", {}, "ort"),
            ("ldap://h/alpha", {}, "'alpha' is not a distinguished name"),
            ("ldap://cn=admin:secret@h/", {}, "bind_dn and password_file"),
            ("ldap://h/dc=x?sub", {}, "nothing after it"),
            ("ldap://h/", {"bind_dn": "cn=a"}, "belong together"),
            ("ldap://h/", {"dialect": "novell"}, 'not "active-directory" or "openldap"'),
            ("ldap://h/", {"start_tls": "yes"}, "start_tls has to be true or false"),
            ("ldaps://h/", {"start_tls": True}, "is TLS already"),
            ("ldap://dc.example.com/", credentials, "unencrypted"),
        ):
            error = self.assertRaises(ValueError, parse_settings, description, options)
            self.assertIn(reported, str(error))

    def test_password_stays_at_home(self) -> None:
        """A password is sent unencrypted to this machine only."""
        credentials: dict[str, object] = {"bind_dn": "cn=a", "password_file": "f"}
        for description in ("ldap://127.0.0.1", "ldap://localhost", "ldap://[::1]", "ldaps://dc.example.com"):
            parse_settings(description, credentials)
        parse_settings("ldap://dc.example.com", {**credentials, "start_tls": True})

    def test_made_by_its_name(self) -> None:
        """A configuration names it like every other directory."""
        clock = ManualClock()
        reactor: Any = clock.reactor
        context = DirectoryContext(clock, reactor, Path("data"), {"dialect": "openldap"})
        for scheme in ("ldap", "ldaps"):
            directory = make_directory(f"{scheme}://127.0.0.1/dc=example,dc=com", context)
            assert isinstance(directory, LdapDirectory)
            verifyObject(IDirectory, directory)
            self.assertEqual(directory.settings.is_tls, scheme == "ldaps")
        error = self.assertRaises(DirectoryDescriptionError, make_directory, "ldap:", context)
        self.assertIn("needs the servers", str(error))
