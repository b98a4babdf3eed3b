"""Addresses that may send unauthenticated messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.wire.addresses import AddressSet

HERE, PEER, UNTRUSTED = "127.0.0.9", "192.0.2.7", "198.51.100.1"
PEERS = AddressSet.of(["192.0.2.0/24"])


class GateTests(SynchronousTestCase):
    """L{TrustedPeers}."""

    def test_admitted_addresses(self) -> None:
        """By default this machine and the peers; none, or all, where that is configured."""
        for unauthenticated, peers, admitted in (
            (Unauthenticated.LOOPBACK, AddressSet(), [HERE]),
            (Unauthenticated.LOOPBACK, PEERS, [HERE, PEER]),
            (Unauthenticated.DENY, AddressSet(), []),
            (Unauthenticated.DENY, PEERS, []),
            (Unauthenticated.ALLOW, AddressSet(), [HERE, PEER, UNTRUSTED, "somewhere"]),
        ):
            gate = TrustedPeers(unauthenticated, peers)
            found = [address for address in (HERE, PEER, UNTRUSTED, "somewhere") if gate.admits(address)]
            self.assertEqual(found, admitted)
        self.assertTrue(TrustedPeers().admits("::1"))

    def test_a_refusal_names_the_line_that_would_admit_it(self) -> None:
        """And that line does admit it."""
        for gate, address, line in (
            (TrustedPeers(), UNTRUSTED, 'peers = ["198.51.100.1"]'),
            (TrustedPeers(), "UNIXAddress('/run/peer')", 'unauthenticated = "allow"'),
            (TrustedPeers(Unauthenticated.DENY), HERE, 'unauthenticated = "loopback"'),
            (
                TrustedPeers(Unauthenticated.DENY),
                PEER,
                'unauthenticated = "loopback" with peers = ["192.0.2.7"]',
            ),
        ):
            self.assertEqual(
                gate.refusal(address),
                f"its sender is not authenticated; {line} under [security] in the configuration "
                "would accept it",
            )
        self.assertTrue(TrustedPeers(peers=AddressSet.of([UNTRUSTED])).admits(UNTRUSTED))
