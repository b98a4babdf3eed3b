"""What is remembered of peers and receivers has an end."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.session import ISession
from msmq.manager.peers.peer_table import MOST_ADDRESSES, MOST_PEERS, Peers
from msmq.manager.peers.receivers import ANYWHERE, MOST_DESTINATIONS, MOST_RECEIVERS, Receiver, Receivers
from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.persistence.state_records import StateError
from msmq.queues.redirects import Redirects
from msmq.structures.identifiers import MessageIdentifier
from msmq.testing.clock import ManualClock
from tests.builders import ALPHA, BETA, GAMMA

ORDERS = "direct=tcp:10.0.0.1\\private$\\orders"


@attrs.define(eq=False)
class Open:
    """As much of an open session as says with whom it is."""

    remote_identifier: UUID
    remote_address: str
    is_initiator: bool = False


def session(identifier: UUID, address: str = "10.0.0.1") -> ISession:
    return cast(ISession, Open(identifier, address))


class PeersTests(SynchronousTestCase):
    """Everybody may claim to be anybody, as often as he likes."""

    def setUp(self) -> None:
        self.peers = Peers(ALPHA, ManualClock(), TrustedPeers(Unauthenticated.ALLOW), trusts=False)

    def test_those_without_a_session_go_first(self) -> None:
        """Ten thousand are remembered, and who is connected is never forgotten."""
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
        """Whoever it was with."""
        one, other = session(BETA), session(GAMMA)
        for each in (one, other):
            self.peers.opened(each)
        self.assertFalse(self.peers.closed(one))
        self.assertFalse(self.peers.closed(one))
        self.assertTrue(self.peers.closed(other))


class ReceiversTests(SynchronousTestCase):
    """Who got what, over a restart."""

    def stored(self, receivers: Receivers, *introduced: tuple[str, Receiver]) -> dict[str, bytes]:
        """What the store keeps after these have been introduced."""
        state: dict[str, bytes] = {}
        for name, value in (change for to, who in introduced for change in receivers.introduce(to, [who])):
            if value is None:
                del state[name]
            else:
                state[name] = value
        return state

    def test_destinations_have_an_end(self) -> None:
        """Those that were used longest ago are forgotten, in the store as well."""
        receivers = Receivers(Redirects())
        here = Receiver(BETA, "10.0.0.1")
        names = [f"{ORDERS}{number}" for number in range(MOST_DESTINATIONS + 10)]
        state = self.stored(receivers, *((name, here) for name in names))
        self.assertEqual(len(state), MOST_DESTINATIONS)
        again = Receivers(Redirects())
        self.assertEqual(again.load(state, ()), [])
        self.assertEqual([again.is_known(name, [here]) for name in (names[9], names[10])], [False, True])

    def test_receivers_of_one_have_an_end(self) -> None:
        """Sixteen took each other's place at one address; the first is forgotten for the next."""
        receivers = Receivers(Redirects())
        known = [Receiver(UUID(int=number + 1), "10.0.0.1") for number in range(MOST_RECEIVERS + 1)]
        state = self.stored(receivers, *((ORDERS, receiver) for receiver in known))
        self.assertEqual(len(state), 1)
        again = Receivers(Redirects())
        again.load(state, ())
        self.assertEqual([again.is_known(ORDERS, [receiver]) for receiver in known[:2]], [False, True])

    def test_who_may_tell(self) -> None:
        """Who got it, at the address at which he got it."""
        receivers = Receivers(Redirects())
        receivers.sent(7, Receiver(BETA, "10.0.0.1"))
        for teller, expected in (
            (Receiver(BETA, "10.0.0.1"), True),
            (Receiver(BETA, "10.0.0.2"), False),
            (Receiver(GAMMA, "10.0.0.1"), False),
        ):
            self.assertIs(receivers.may_tell(7, None, teller), expected)
            self.assertIs(receivers.may_tell(8, None, teller), False)
        trusting = Receivers(Redirects(), trusts=True)
        trusting.sent(7, Receiver(BETA, "10.0.0.1"))
        self.assertTrue(trusting.may_tell(7, None, Receiver(BETA, "10.0.0.2")))

    def test_a_sequence_is_kept_as_long_as_it_is_waited_for(self) -> None:
        """Its receivers are stored once, and removed with what is stored for another."""
        receivers = Receivers(Redirects())
        for sequence in (7, 8):
            receivers.sent(sequence, Receiver(BETA, "10.0.0.1"))
        [(name, value)] = receivers.arrived([7, 7], {7})
        self.assertEqual(receivers.arrived([7], {7}), [])
        changes = receivers.arrived([8], {8})
        self.assertIn((name, None), changes)
        self.assertEqual(len(changes), 2)
        assert value is not None
        again = Receivers(Redirects())
        self.assertEqual(again.load({name: value}, {7}), [])
        self.assertTrue(again.may_tell(7, None, Receiver(BETA, "10.0.0.1")))
        self.assertEqual(Receivers(Redirects()).load({name: value}, ()), [(name, None)])

    def test_many_sequences_that_are_not_waited_for_any_more(self) -> None:
        """They are removed in turns, while others come, and those that are waited for stay."""
        receivers = Receivers(Redirects())
        state: dict[str, bytes | None] = {}

        def arrive(sequences: range, awaited: set[int]) -> int:
            for sequence in sequences:
                receivers.sent(sequence, Receiver(BETA, "10.0.0.1"))
            changes = receivers.arrived(sequences, awaited)
            state.update(changes)
            return len(changes)

        first = range(1, 201)
        self.assertEqual(arrive(first, set(first)), 200)
        stays = {1, 100}
        for number in range(1000, 1020):
            self.assertLess(arrive(range(number, number + 1), stays | {number}), 20)
        kept = {int(name.rpartition("/")[2]) for name, value in state.items() if value is not None}
        self.assertEqual(kept - set(range(1000, 1020)), stays)

    def test_who_may_be_anywhere(self) -> None:
        """Of other names than direct ones the queue manager is known, not where it is; also when loaded."""
        receivers = Receivers(Redirects())
        receivers.sent(7, Receiver(BETA, ANYWHERE))
        receivers.sent(8, Receiver(BETA, "10.0.0.1"))
        self.assertEqual((receivers.named(7), receivers.named(8)), (frozenset([BETA]), frozenset()))
        [(name, value)] = receivers.arrived([7], {7})
        assert value is not None
        again = Receivers(Redirects())
        again.load({name: value}, {7})
        self.assertEqual(again.named(7), frozenset([BETA]))

    def test_damage_is_told(self) -> None:
        """Going on without it would let strangers acknowledge."""
        state = self.stored(Receivers(Redirects()), (ORDERS, Receiver(BETA, "10.0.0.1")))
        [(name, value)] = state.items()
        for damaged in (b"", b"\xff" + value[1:], value[:-1], value + b"\0"):
            with self.assertRaises(StateError):
                Receivers(Redirects()).load({name: damaged}, ())
