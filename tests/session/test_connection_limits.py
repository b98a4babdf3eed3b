"""Limits on connections for sessions: which addresses, and how many."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.session.connection_limits import (
    PEERS_REMEMBERED,
    PEERS_SHOWN,
    ConnectionLimits,
    ConnectionRefusal,
    RefusedPeer,
)
from msmq.wire.addresses import AddressSet

NOW = Moment(1000.0, 1_700_000_000.0)
PEER = "192.0.2.7"
REFUSED = ConnectionRefusal.CONNECTIONS


class DoorkeeperTests(SynchronousTestCase):
    def let_in(self, door: ConnectionLimits, times: int, host: str = PEER, now: Moment = NOW) -> int:
        """The number of connections that are accepted, of this number."""
        return sum(door.check(host, 0, now) is None for _ in range(times))

    def test_a_host_has_its_rate(self) -> None:
        """A burst is accepted, then a fixed number each second; another host has a limit of its own."""
        door = ConnectionLimits(200, 1000)
        self.assertEqual(self.let_in(door, 1000), 200)
        self.assertIs(door.check(PEER, 0, NOW), ConnectionRefusal.RATE)
        self.assertEqual(self.let_in(door, 1000, "192.0.2.8"), 200)
        self.assertEqual(self.let_in(door, 1000, now=NOW.later(0.5)), 100)
        self.assertEqual(self.let_in(door, 1000, now=NOW.later(3600)), 200)

    def test_a_network_of_ipv6_is_one_host(self) -> None:
        """A host with one of its addresses may use any, and is shown as the network."""
        door = ConnectionLimits(200, 1000)
        came_in = sum(self.let_in(door, 1, f"2001:db8::{number:x}") for number in range(1000))
        self.assertEqual((came_in, self.let_in(door, 1000, "2001:db8:0:1::1")), (200, 200))
        self.assertTrue(door.note("2001:db8::1", ConnectionRefusal.RATE, NOW))
        self.assertFalse(door.note("2001:db8::2", ConnectionRefusal.RATE, NOW))
        self.assertEqual([each.address for each in door.refused_peers()], ["2001:db8::/64"])

    def test_an_address_is_one_however_it_is_written(self) -> None:
        """A socket for both families shows IPv4 addresses as those of IPv6."""
        door = ConnectionLimits(200, 1000)
        self.assertEqual(self.let_in(door, 150) + self.let_in(door, 150, f"::ffff:{PEER}"), 200)

    def test_loopback_has_none(self) -> None:
        """Connections from this machine are not limited, from any loopback address."""
        door = ConnectionLimits(1, 1000)
        for host in ("127.0.0.1", "127.200.0.9", "::1", "::ffff:127.0.0.1", ""):
            self.assertEqual(self.let_in(door, 500, host), 500, host)

    def test_there_need_not_be_one(self) -> None:
        """A rate of 0 is any rate."""
        self.assertEqual(self.let_in(ConnectionLimits(0, 1000), 5000), 5000)

    def test_only_listed_addresses_are_admitted(self) -> None:
        """With a list, no other is, from loopback neither; a connection without an address is."""
        door = ConnectionLimits(0, 1000, AddressSet.of(["192.0.2.0/28", "2001:db8::7"]))
        for host in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", ""):
            self.assertIsNone(door.check(host, 0, NOW), host)
        for host in ("192.0.2.16", "127.0.0.1", "2001:db8::8", "neighbour"):
            self.assertIs(door.check(host, 0, NOW), ConnectionRefusal.NOT_ALLOWED, host)

    def test_a_host_has_so_many_at_one_time(self) -> None:
        """One more is refused, and does not count against its rate."""
        door = ConnectionLimits(2, 3)
        self.assertIs(door.check(PEER, 3, NOW), ConnectionRefusal.CONNECTIONS)
        self.assertEqual(self.let_in(door, 5), 2)

    def test_refusals_are_counted_and_shown(self) -> None:
        """By reason, and by host, the latest first; the log says it once a minute."""
        door = ConnectionLimits(1, 1000)
        reported = [
            door.note(PEER, ConnectionRefusal.RATE, NOW.later(second)) for second in range(0, 121, 10)
        ]
        self.assertEqual([index for index, is_reported in enumerate(reported) if is_reported], [0, 6, 12])
        self.assertTrue(door.note(PEER, ConnectionRefusal.NOT_ALLOWED, NOW))
        door.note("192.0.2.8", ConnectionRefusal.CERTIFICATE, NOW)
        self.assertEqual(
            door.refused,
            {ConnectionRefusal.RATE: 13, ConnectionRefusal.NOT_ALLOWED: 1, ConnectionRefusal.CERTIFICATE: 1},
        )
        latest, first = door.refused_peers()
        self.assertEqual(latest, RefusedPeer(address="192.0.2.8", last=NOW.wall, reasons={"pins": 1}))
        self.assertEqual(first.address, PEER)
        self.assertEqual(first.reasons, {"sessions_per_second": 13, "sessions_from": 1})

    def test_many_hosts_cost_no_more(self) -> None:
        """However many there are, only the latest are remembered, and fewer are shown."""
        door = ConnectionLimits(1, 1000)
        hosts = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(20_000)]
        for host in hosts:
            door.check(host, 0, NOW)
            door.note(host, ConnectionRefusal.RATE, NOW)
        self.assertEqual(len(door.refused_peers()), PEERS_SHOWN)
        self.assertEqual(
            sum(door.check(host, 0, NOW) is ConnectionRefusal.RATE for host in hosts[-1000:]), 1000
        )
        self.assertLess(PEERS_REMEMBERED, len(hosts))
        self.assertEqual(door.refused_peers()[0].address, hosts[-1])

    def test_the_oldest_host_is_forgotten_first(self) -> None:
        """The last C{PEERS_REMEMBERED} hosts have their rates and refusals; the one that was not heard of for
        longest is forgotten for a new one.
        """
        door = ConnectionLimits(1, 1000)
        other = "192.0.2.8"
        hosts = [
            PEER,
            other,
            *(f"10.1.{number >> 8}.{number & 255}" for number in range(PEERS_REMEMBERED - 2)),
        ]
        for host in hosts:
            self.assertIsNone(door.check(host, 0, NOW))
            self.assertTrue(door.note(host, ConnectionRefusal.RATE, NOW))
        self.assertIs(door.check(PEER, 0, NOW), ConnectionRefusal.RATE)
        self.assertFalse(door.note(PEER, ConnectionRefusal.RATE, NOW))
        door.check("192.0.2.9", 0, NOW)
        door.note("192.0.2.9", ConnectionRefusal.RATE, NOW)
        self.assertIs(door.check(PEER, 0, NOW), ConnectionRefusal.RATE)
        self.assertFalse(door.note(PEER, ConnectionRefusal.RATE, NOW))
        self.assertIsNone(door.check(other, 0, NOW))
        self.assertTrue(door.note(other, ConnectionRefusal.RATE, NOW))

    def test_other_limits(self) -> None:
        """They apply from the next connection on, and a host has its whole new rate; refusals stay."""
        door = ConnectionLimits(5, 3)
        self.assertEqual(self.let_in(door, 10), 5)
        door.note(PEER, ConnectionRefusal.RATE, NOW)
        door.configure(2, 4, AddressSet.of([PEER]))
        self.assertEqual(self.let_in(door, 10), 2)
        self.assertEqual([door.check(PEER, number, NOW.later(1)) for number in (3, 4)], [None, REFUSED])
        self.assertIs(door.check("192.0.2.8", 0, NOW), ConnectionRefusal.NOT_ALLOWED)
        self.assertEqual(len(door.refused_peers()), 1)
        door.configure(0, 1, None)
        self.assertIsNone(door.check("192.0.2.8", 0, NOW))
        self.assertIs(door.check(PEER, 1, NOW), REFUSED)
