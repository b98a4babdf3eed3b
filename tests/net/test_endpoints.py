"""Endpoint descriptions, with Twisted as the oracle for its own ones."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.endpoints import serverFromString
from twisted.internet.protocol import ServerFactory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.endpoints import (
    DatagramEndpoint,
    join_description,
    parse_control_endpoint,
    parse_datagram_endpoint,
    parse_remote_control_endpoint,
    parse_stream_endpoint,
    quote,
    replace_interface,
    server_endpoint,
    split_description,
    substitute_data,
)


def listened(description: str) -> tuple[int, str]:
    """Port and interface on which Twisted listens."""
    reactor = MemoryReactorClock()
    serverFromString(reactor, description).listen(ServerFactory())
    [(port, _, _, interface)] = reactor.tcpServers
    return port, interface


class StreamEndpointTests(SynchronousTestCase):
    DESCRIPTIONS = (
        "tcp:1801",
        "tcp:1801:interface=127.0.0.1",
        "tcp:1801:127.0.0.2",
        "tcp:1801:127.0.0.2:10",
        "tcp:port=1801:interface=127.0.0.1:backlog=7",
        "tcp:1801:interface=\\:\\:1",
        "tcp6:1801",
        "tcp6:1801:interface=\\:\\:1",
        "tcp6:1801:50:\\:\\:1",
        "tcp:0",
    )

    def test_address_of_twisted(self) -> None:
        """The port and the interface are those on which Twisted will listen."""
        for description in self.DESCRIPTIONS:
            endpoint = parse_stream_endpoint(description)
            self.assertEqual((endpoint.port, endpoint.interface), listened(description), description)

    def test_replaces_the_interface_and_nothing_else(self) -> None:
        """With another address Twisted listens there, on the same port."""
        for description in self.DESCRIPTIONS:
            for address in ("127.0.0.9", "::1"):
                replaced = replace_interface(description, address)
                self.assertEqual(listened(replaced), (listened(description)[0], address), description)

    def test_keeps_the_certificate_of_a_tls_endpoint(self) -> None:
        """An ssl endpoint keeps its files when its interface is replaced; no file is opened."""
        replaced = replace_interface("ssl:1801:key.pem:cert.pem", "127.0.0.9")
        self.assertEqual(
            split_description(replaced),
            (
                ("ssl", "1801"),
                {"privateKey": "key.pem", "certKey": "cert.pem", "interface": "127.0.0.9"},
            ),
        )
        endpoint = parse_stream_endpoint(replaced)
        self.assertEqual((endpoint.port, endpoint.bind_address), (1801, "127.0.0.9"))

    def test_a_wildcard_binds_no_address(self) -> None:
        """Only an endpoint on one address sets the source of outgoing sessions."""
        for description in (
            "tcp:1801",
            "tcp:1801:interface=0.0.0.0",
            "tcp6:1801",
            "systemd:domain=INET:index=0",
        ):
            self.assertIsNone(parse_stream_endpoint(description).bind_address, description)
        self.assertEqual(parse_stream_endpoint("tcp:1801:interface=10.0.0.1").bind_address, "10.0.0.1")

    def test_reads_as_people_write_addresses(self) -> None:
        """The log names the address and the port."""
        self.assertEqual(str(parse_stream_endpoint("tcp:1801:interface=127.0.0.1")), "TCP 127.0.0.1:1801")
        self.assertEqual(str(parse_stream_endpoint("tcp6:1801:interface=\\:\\:1")), "TCP [::1]:1801")
        self.assertEqual(str(parse_stream_endpoint("tcp:1801")), "TCP *:1801")
        self.assertEqual(str(parse_stream_endpoint("unix:/run/x")), "unix:/run/x")

    def test_refuses_what_twisted_could_not_listen_on(self) -> None:
        """Unknown kinds, ports and interfaces are refused with their name."""
        for description, wrong in (
            ("", "''"),
            ("tpc:1801", "'tpc'"),
            ("tcp", "names no port"),
            ("tcp:x", "'x'"),
            ("tcp:65536", "'65536'"),
            ("tcp:-1", "'-1'"),
            ("tcp:1801:interface=localhost", "'localhost'"),
            ("tcp:1801:interface=127.0.0.1:interface=127.0.0.2", "interface twice"),
            ("tcp:1801:127.0.0.1:interface=127.0.0.2", "interface twice"),
            ("tcp:1801:iface=127.0.0.1", "'iface'"),
            ("tcp:1801:127.0.0.1:50:60", "4 arguments"),
            ("tcp:1801:backlog=many", "'many'"),
            ("tcp:1801\\", "backslash"),
        ):
            error = self.assertRaises(ValueError, parse_stream_endpoint, description)
            self.assertIn(wrong, str(error), description)

    def test_refuses_an_address_for_an_endpoint_without_one(self) -> None:
        """A unix socket cannot be moved to an IP address."""
        error = self.assertRaises(ValueError, replace_interface, "unix:/run/x", "127.0.0.9")
        self.assertEqual(str(error), "is a unix endpoint, which cannot be given the address 127.0.0.9")

    @given(
        st.lists(st.text(max_size=5), min_size=1, max_size=3), st.dictionaries(st.text(max_size=3), st.text())
    )
    def test_any_arguments_survive_quoting(self, positional: list[str], named: dict[str, str]) -> None:
        """Any argument of a description round-trips."""
        self.assertEqual(split_description(join_description(positional, named)), (tuple(positional), named))

    @given(st.text("tcp6udsl:=\\0189.interfac", max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """No text raises anything but ValueError."""
        for parse in (
            parse_stream_endpoint,
            parse_datagram_endpoint,
            parse_control_endpoint,
            parse_remote_control_endpoint,
        ):
            try:
                parse(text)
            except ValueError:
                pass


class ServerEndpointTests(SynchronousTestCase):
    """Endpoints that servers listen on."""

    def listening(self, description: str) -> tuple[int, int, str]:
        """Port, backlog and interface of the socket that a description makes."""
        reactor = MemoryReactorClock()
        self.successResultOf(server_endpoint(reactor, description).listen(ServerFactory()))
        [(port, _, backlog, interface)] = reactor.tcpServers
        return port, backlog, interface

    def test_many_connections_may_come_at_once(self) -> None:
        """A burst of peers waits to be accepted; without room to wait, some would try again seconds later."""
        self.assertEqual(self.listening("tcp:1801:interface=127.0.0.1"), (1801, 1024, "127.0.0.1"))
        self.assertEqual(self.listening("tcp:port=1801"), (1801, 1024, ""))
        self.assertEqual(self.listening("tcp6:1801:interface=\\:\\:1"), (1801, 1024, "::1"))

    def test_a_backlog_of_ones_own_stays(self) -> None:
        """A configured one is kept."""
        self.assertEqual(self.listening("tcp:1801:backlog=7:interface=127.0.0.1"), (1801, 7, "127.0.0.1"))
        self.assertEqual(self.listening("tcp:1801:127.0.0.1:7"), (1801, 7, "127.0.0.1"))

    def test_a_backlog_that_no_system_takes(self) -> None:
        """It is refused when the description is read, not when the server listens."""
        self.assertEqual(parse_stream_endpoint("tcp:1801:backlog=2147483647").port, 1801)
        for backlog in ("2147483648", "99999999999999999999", "-1", "x", "\u0663", ""):
            for start in ("tcp:1801", "unix:/run/x"):
                error = self.assertRaises(ValueError, parse_stream_endpoint, f"{start}:backlog={backlog}")
                self.assertIn("a number from 0 to 2147483647", str(error))
        self.assertRaises(ValueError, parse_stream_endpoint, "unix:/run/x:660:2147483648")
        for description in ("unix:/run/x", "unix:/run/x:660:7", "unix:/run/x:backlog=7"):
            self.assertEqual(str(parse_stream_endpoint(description)), description)


class DatagramEndpointTests(SynchronousTestCase):
    def test_reads_port_and_interface(self) -> None:
        """C{udp:PORT} listens everywhere, C{udp:PORT:interface=IP} on one address."""
        self.assertEqual(parse_datagram_endpoint("udp:3527"), DatagramEndpoint(3527, ""))
        self.assertEqual(
            parse_datagram_endpoint("udp:1801:interface=127.0.0.1"), DatagramEndpoint(1801, "127.0.0.1")
        )
        self.assertEqual(parse_datagram_endpoint("udp:1801:interface=\\:\\:1"), DatagramEndpoint(1801, "::1"))

    def test_replaces_the_interface(self) -> None:
        """With another address it keeps its port."""
        for description in ("udp:3527", "udp:3527:interface=127.0.0.1"):
            for address in ("127.0.0.9", "::1"):
                self.assertEqual(
                    parse_datagram_endpoint(replace_interface(description, address)),
                    DatagramEndpoint(3527, address),
                )

    def test_refuses_anything_else(self) -> None:
        """Other forms are refused."""
        for description in (
            "tcp:1",
            "udp",
            "udp:x",
            "udp:1:2",
            "udp:1:interface=host",
            "udp:1:mode=1",
            "1801",
        ):
            self.assertRaises(ValueError, parse_datagram_endpoint, description)


class RemoteControlEndpointTests(SynchronousTestCase):
    def test_a_description_without_a_kind(self) -> None:
        """It is refused as every other one that is none of those for a token."""
        error = self.assertRaises(ValueError, parse_remote_control_endpoint, "interface=127.0.0.1")
        self.assertIn("must be one of ssl:, tls:, tcp:, tcp6:", str(error))


class ControlEndpointTests(SynchronousTestCase):
    def test_puts_the_data_directory_in(self) -> None:
        """C{{data}} is replaced by the data directory, with any characters in it."""
        for data in ("/var/lib/msmq", "/tmp/a:b=c\\d"):
            self.assertEqual(
                parse_control_endpoint(substitute_data("unix:{data}/control.sock", Path(data))),
                Path(data) / "control.sock",
            )

    def test_counts_the_bytes_of_the_path(self) -> None:
        """A path of 107 bytes is taken, one of 108 is refused by name."""
        longest = "/" + "x" * 106
        self.assertEqual(parse_control_endpoint(f"unix:{longest}"), Path(longest))
        for path in (longest + "x", "/" + "\u00e9" * 54):
            error = self.assertRaises(ValueError, parse_control_endpoint, "unix:" + quote(path))
            self.assertIn(path, str(error))

    def test_refuses_anything_else(self) -> None:
        """Only a unix socket, whose mode is not the file's to choose."""
        for description in ("tcp:80", "unix", "unix:", "unix:/x:mode=666", "/run/x"):
            self.assertRaises(ValueError, parse_control_endpoint, description)
