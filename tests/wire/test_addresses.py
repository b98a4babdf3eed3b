"""Sets of IP addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.wire.addresses import (
    AddressSet,
    can_be_answered,
    counted_host,
    is_loopback,
    parse_network,
    read_address,
    unmapped,
)


class AddressSetTests(SynchronousTestCase):
    """L{AddressSet} and L{is_loopback}."""

    def test_addresses_and_networks(self) -> None:
        """A single address is a network of one; a name is not an address at all."""
        some = AddressSet.of(["192.0.2.7", "10.0.0.0/8", "2001:db8::/32"])
        for address in ("192.0.2.7", "10.255.0.1", "2001:db8::1", "2001:DB8:0::1%eth0", "::ffff:10.0.0.1"):
            self.assertIn(address, some)
        for address in ("192.0.2.8", "11.0.0.1", "2001:db9::1", "", "BETA", "10.0.0.1.2"):
            self.assertNotIn(address, some)
        self.assertFalse(AddressSet())
        self.assertTrue(some)

    def test_ipv4_written_as_ipv6(self) -> None:
        """An IPv4 address or network may be written as an IPv6 one, as logs of other programs have it."""
        some = AddressSet.of(["::ffff:192.0.2.7", "::ffff:10.0.0.0/104"])
        for address in ("192.0.2.7", "::ffff:192.0.2.7", "10.255.0.1", "::ffff:10.255.0.1"):
            self.assertIn(address, some)
        for address in ("192.0.2.8", "11.0.0.1", "::1"):
            self.assertNotIn(address, some)
        self.assertIn("203.0.113.9", AddressSet.of(["::ffff:0:0/96"]))
        self.assertIn("2001:db8::1", AddressSet.of(["::/0"]))

    def test_the_address_of_a_peer_as_text(self) -> None:
        """That of IPv4 is written as such; everything else stays as it is."""
        for text, plain in (
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::FFFF:c000:207", "192.0.2.7"),
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("::ffff:BETA", "::ffff:BETA"),
            ("", ""),
        ):
            self.assertEqual(unmapped(text), plain)

    def test_everything_of_one_kind(self) -> None:
        """A network of all IPv4 addresses has no IPv6 address in it."""
        self.assertIn("203.0.113.9", AddressSet.of(["0.0.0.0/0"]))
        self.assertNotIn("2001:db8::1", AddressSet.of(["0.0.0.0/0"]))

    def test_this_machine(self) -> None:
        """All of 127.0.0.0/8, and ::1, however it is written."""
        for address in ("127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "0:0::1%lo"):
            self.assertTrue(is_loopback(address), address)
        for address in ("128.0.0.1", "::2", "::ffff:10.0.0.1", "localhost", ""):
            self.assertFalse(is_loopback(address), address)

    def test_an_invalid_network_is_refused(self) -> None:
        """With the reason, and with the network that was probably meant."""
        for text, problem in (
            ("BETA", "must be an IP address or a network as 192.0.2.0/24, not 'BETA'"),
            ("10.0.0.0/33", "must be an IP address or a network as 192.0.2.0/24, not '10.0.0.0/33'"),
            ("10.0.0.1/8", "'10.0.0.1/8', which would be 10.0.0.0/8 without"),
        ):
            self.assertIn(problem, str(self.assertRaises(ValueError, parse_network, text)))

    def test_the_host_that_is_counted(self) -> None:
        """A network of IPv6 is one, and an IPv4 address is itself however it comes."""
        for address, host in (
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("64:ff9b::192.0.2.7", "192.0.2.7"),
            ("2001:db8::7", "2001:db8::/64"),
            ("2001:DB8:0:0:ffff::1", "2001:db8::/64"),
            ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("127.0.0.2", "127.0.0.2"),
            ("::1", "::1"),
            ("neighbour", "neighbour"),
            ("", ""),
        ):
            self.assertEqual(counted_host(address), host, address)

    def test_sources_that_are_answered(self) -> None:
        """A datagram from a port of one host is answered: of either family, and of this machine too."""
        for host in (
            "192.0.2.7",
            "127.0.0.1",
            "223.255.255.255",
            "::ffff:192.0.2.7",
            "2001:db8::7",
            "fe80::7%eth0",
            "::1",
        ):
            self.assertTrue(can_be_answered(host, 1), host)
            self.assertTrue(can_be_answered(host, 65535), host)
            self.assertFalse(can_be_answered(host, 0), host)

    def test_sources_that_are_never_answered(self) -> None:
        """A multicast, broadcast or unspecified address is not one host, and a name is not an address."""
        for host in (
            "224.0.0.0",
            "239.255.255.255",
            "ff02::1",
            "ff02::1%eth0",
            "255.255.255.255",
            "0.0.0.0",
            "::",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
            "::ffff:0.0.0.0",
            "neighbour",
            "",
        ):
            for port in (0, 1, 3527):
                self.assertFalse(can_be_answered(host, port), host)

    @given(st.text(max_size=40))
    def test_any_text(self, text: str) -> None:
        """Any address text of a transport is accepted."""
        self.assertNotIn(text if read_address(text) is None else "", AddressSet.of(["::/0", "0.0.0.0/0"]))
