"""Limits on the state of peers."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.session import ISession
from msmq.manager.peers.peer_table import MOST_ADDRESSES, MOST_PEERS, Peers
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.structures.identifiers import MessageIdentifier
from msmq.testing.clock import ManualClock
from msmq.transfer.decisions.peer_decision import MOVED_AFTER
from tests.builders import ALPHA, BETA, GAMMA


@attrs.define(eq=False)
class Open:
    """As much of an open session as says which peer it is with."""

    remote_identifier: UUID
    remote_address: str
    is_initiator: bool = False


def session(identifier: UUID, address: str = "10.0.0.1") -> ISession:
    return cast(ISession, Open(identifier, address))


class PeersTests(SynchronousTestCase):
    """Peers may claim any identifier, as often as they like."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.peers = Peers(ALPHA, self.clock, TrustedPeers(Unauthenticated.ALLOW), trusts=False)

    def test_those_without_a_session_go_first(self) -> None:
        """Ten thousand are remembered, and connected ones are never forgotten."""
        stays = session(BETA)
        self.peers.opened(stays)
        gone = session(GAMMA)
        self.peers.opened(gone)
        self.peers.closed(gone)
        self.peers.opened(session(GAMMA, "10.0.0.2"))
        for number in range(1, MOST_PEERS + 100):
            other = session(UUID(int=number), "10.0.0.9")
            self.peers.opened(other)
            self.peers.closed(other)
        self.assertIs(self.peers.session(BETA), stays)
        self.assertEqual(len(self.peers._peers), MOST_PEERS)

    def test_absent_ones_are_forgotten(self) -> None:
        """A queue manager that has been absent for an hour is forgotten, a connected one is not."""
        stays, gone, back = session(BETA), session(GAMMA), session(UUID(int=4))
        for each in (stays, gone, back):
            self.peers.opened(each)
        self.peers.closed(gone)
        self.peers.closed(back)
        self.clock.advance(MOVED_AFTER - 1)
        self.peers.opened(back)
        self.peers.forget_absent(self.clock.now())
        self.assertEqual(len(self.peers._peers), 3)
        self.clock.advance(1)
        self.peers.forget_absent(self.clock.now())
        self.assertEqual(set(self.peers._peers), {BETA, UUID(int=4)})

    def test_addresses_of_one(self) -> None:
        """The latest sixteen are remembered."""
        self.peers.opened(session(BETA))
        for number in range(100):
            other = session(BETA, f"10.0.1.{number}")
            self.peers.opened(other)
            self.peers.closed(other)
        notices = list(self.peers.notices(MessageIdentifier(BETA, 1)))
        self.assertEqual(len(notices), MOST_ADDRESSES)
        self.assertIn("10.0.1.99", notices[-1].reason)

    def test_the_last_session_with_an_address(self) -> None:
        """Whichever peer it was with."""
        one, other = session(BETA), session(GAMMA)
        for each in (one, other):
            self.peers.opened(each)
        self.assertFalse(self.peers.closed(one))
        self.assertFalse(self.peers.closed(one))
        self.assertTrue(self.peers.closed(other))
