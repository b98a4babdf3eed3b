"""The C{[hosts]} table, and recognition of the server's own names and addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.hosts import (
    HostEntry,
    HostTable,
    OwnNames,
    is_address_of_this_machine,
    parse_host_entry,
)


class HostEntryTests(SynchronousTestCase):
    def test_reads_each_form(self) -> None:
        """IP, IP:PORT, [IPv6]:PORT and a Twisted client endpoint description."""
        for text, entry in (
            ("127.0.0.2", HostEntry("127.0.0.2")),
            ("127.0.0.2:1802", HostEntry("127.0.0.2", 1802)),
            ("::1", HostEntry("::1")),
            ("[::1]", HostEntry("::1")),
            ("[::1]:1802", HostEntry("::1", 1802)),
            ("fe80::1%eth0", HostEntry("fe80::1%eth0")),
            ("tcp:beta.example.com:1801", HostEntry(None, None, "tcp:beta.example.com:1801")),
            ("tcp:host=beta:port=1801", HostEntry(None, None, "tcp:host=beta:port=1801")),
            ("unix:/run/beta", HostEntry(None, None, "unix:/run/beta")),
            ("tls:beta:1801", HostEntry(None, None, "tls:beta:1801")),
        ):
            self.assertEqual(parse_host_entry(text), entry)

    def test_refuses_anything_else(self) -> None:
        """A bare name, a wrong port, an unknown kind are refused."""
        for text in (
            "",
            "beta",
            "beta.example.com",
            "beta:1801",
            "127.0.0.2:0",
            "127.0.0.2:65536",
            "127.0.0.2:x",
            "[::1]:",
            "127.0.0.300",
            "tcp:beta",
            "tcp:beta:x",
            "tcp:beta:1:2",
            "udp:beta:1801",
        ):
            self.assertRaises(ValueError, parse_host_entry, text)

    @given(st.text("0123456789.:[]abcdeftcplu=\\%", max_size=30))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """No text raises anything but ValueError, and what is read prints as something that reads alike."""
        try:
            entry = parse_host_entry(text)
        except ValueError:
            return
        self.assertEqual(parse_host_entry(str(entry)), entry)


class HostTableTests(SynchronousTestCase):
    def test_finds_names_without_case(self) -> None:
        """A name is found however it is written."""
        table = HostTable.of({"Beta": "127.0.0.2", "gamma.example.com": "127.0.0.3:1802"})
        self.assertEqual(table.find("BETA"), HostEntry("127.0.0.2"))
        self.assertEqual(table.find("beta"), HostEntry("127.0.0.2"))
        self.assertEqual(table.find("Gamma.Example.Com."), HostEntry("127.0.0.3", 1802))
        self.assertIsNone(table.find("delta"))

    def test_finds_addresses_by_value(self) -> None:
        """An address may be redirected too, in any notation."""
        table = HostTable.of({"127.0.0.5": "127.0.0.2:1805", "0:0::1": "127.0.0.3"})
        self.assertEqual(table.find("127.0.0.5"), HostEntry("127.0.0.2", 1805))
        self.assertEqual(table.find("[::1]"), HostEntry("127.0.0.3"))


class OwnNamesTests(SynchronousTestCase):
    def own(self, *interfaces: str) -> OwnNames:
        machine = {"10.0.0.1", "127.0.0.1", "fd00::1"}
        return OwnNames({"ALPHA", "alpha.example.com"}, interfaces, machine.__contains__)

    def test_own_names(self) -> None:
        """C{DIRECT=OS:} means us by name, dns_name, localhost and the dot, without case."""
        own = self.own("127.0.0.1")
        for name in ("ALPHA", "alpha", "Alpha.Example.COM", "localhost", "LOCALHOST", "."):
            self.assertTrue(own.is_own_name(name), name)
        for name in ("BETA", "alpha.other.com", "127.0.0.1", ""):
            self.assertFalse(own.is_own_name(name), name)

    def test_a_bound_endpoint_owns_its_address_only(self) -> None:
        """Another loopback address may be another queue manager."""
        own = self.own("127.0.0.1")
        self.assertTrue(own.is_own_address("127.0.0.1"))
        self.assertTrue(own.is_own_address("::ffff:127.0.0.1"))
        for address in ("127.0.0.2", "10.0.0.1", "0.0.0.0", "localhost", ""):
            self.assertFalse(own.is_own_address(address), address)

    def test_a_wildcard_owns_every_address_of_the_machine(self) -> None:
        """An endpoint on all interfaces is reached by each of their addresses."""
        for wildcard in ("", "0.0.0.0", "::"):
            own = self.own(wildcard)
            self.assertTrue(own.is_own_address("10.0.0.1"))
            self.assertTrue(own.is_own_address("127.0.0.1"))
            self.assertFalse(own.is_own_address("10.0.0.2"))
        self.assertTrue(self.own("::").is_own_address("fd00::1"))
        self.assertFalse(self.own("0.0.0.0").is_own_address("fd00::1"))

    def test_ipv6_addresses_compare_by_value(self) -> None:
        """Spelling, brackets and scope make no difference."""
        own = self.own("fd00::1")
        for address in ("fd00::1", "[fd00::1]", "FD00:0:0::0:1"):
            self.assertTrue(own.is_own_address(address), address)
        self.assertTrue(self.own("fe80::1%eth0").is_own_address("fe80::1"))

    def test_without_a_session_endpoint_no_address_is_own(self) -> None:
        """With sessions off no peer reaches us by an address."""
        self.assertFalse(self.own().is_own_address("127.0.0.1"))


class AddressOfThisMachineTests(SynchronousTestCase):
    def test_knows_loopback(self) -> None:
        """Every address of the loopback network is the machine's."""
        self.assertTrue(is_address_of_this_machine("127.0.0.1"))
        self.assertTrue(is_address_of_this_machine("127.0.0.77"))

    def test_knows_what_is_not_an_interface(self) -> None:
        """Foreign, broadcast, multicast and wildcard addresses are not interfaces; names are no addresses."""
        for address in (
            "192.0.2.1",
            "2001:db8::1",
            "127.255.255.255",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "0.0.0.0",
            "::",
            "localhost",
        ):
            self.assertFalse(is_address_of_this_machine(address), address)
