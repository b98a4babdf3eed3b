"""Who may send to a queue: what a peer sees that sends bytes, and what the event log tells."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.securing.gate import Gate, Unauthenticated
from msmq.wire.addresses import AddressSet
from msmq.wire.sid import parse_sid
from tests.builders import ALPHA, with_security
from tests.nodes.scripted import transactional
from tests.nodes.support import Node
from tests.nodes.test_scripted_receiver import (
    ADMIN,
    EXPRESS,
    NEGATIVE_ARRIVAL,
    RECOVERABLE,
    ReceiverTestCase,
    X,
)

PLAIN = "TCP:127.0.0.3\\private$\\plain"
STRANGER = "198.51.100.7"
SID = parse_sid("S-1-5-21-1-2-3-1001")
ADMITTING = (
    f'nothing verifies who sent it; peers = ["{STRANGER}"] under [security] in the configuration'
    " would admit it"
)


def express(body: bytes, **kwargs: Any) -> bytes:
    """A message that nobody has signed."""
    return transactional(body, (0, 0, 0), destination=PLAIN, **EXPRESS, **kwargs)


class AdmissionTestCase(ReceiverTestCase):
    """BETA has a gate of the test's; GAMMA is on its machine."""

    gate = Gate()
    insecure_nacks = False

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {"gate": self.gate, "send_insecure_nacks": self.insecure_nacks} if name == "BETA" else {}
        return super().node(name, identifier, options=options, **kwargs)

    def reasons(self) -> list[str]:
        """What the event log tells of messages that were not taken."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.reason for entry in stored if entry.event.event == "refused"]

    def classes(self) -> list[int]:
        """And their classes."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [entry.event.message_class for entry in stored if entry.event.event == "refused"]


class GateTests(AdmissionTestCase):
    """By default what nothing verifies is taken from this machine alone."""

    def stranger(self) -> None:
        """From now on the peer sends from elsewhere."""
        self.peer = self.dial(host=self.network.host(STRANGER), identifier=UUID(int=77))

    def test_this_machine_is_trusted(self) -> None:
        """Whichever of its addresses a message comes from, be there a header in it that proves nothing."""
        self.say(express(b"1"), with_security(express(b"2"), SID))
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1", b"2"])
        self.assertEqual(self.reasons(), [])

    def test_a_stranger_is_refused(self) -> None:
        """Its message is counted and acknowledged by the session, and the event tells the line to write."""
        self.stranger()
        self.say(
            express(b"1", source=UUID(int=77)),
            transactional(
                b"2", (0, 0, 0), message_id=2, destination=PLAIN, source=UUID(int=77), **RECOVERABLE
            ),
            transactional(b"3", (X, 1, 0), source=UUID(int=77)),
            seconds=1,
        )
        self.assertEqual(self.bodies(self.beta, self.plain), [])
        self.assertEqual(self.bodies(self.beta, self.path), [])
        self.assertEqual(
            self.reasons(), [f"NACK_ACCESS_DENIED from {STRANGER}: {ADMITTING}"] * 3, "and nothing else"
        )
        self.assertEqual(self.classes(), [0x8004] * 3)
        self.clock.advance(25)
        self.assertFalse(self.peer.is_lost)
        self.assertEqual(self.named(self.peer), 2)

    def test_it_is_told_nothing(self) -> None:
        """A stranger does not learn that it may not."""
        self.stranger()
        self.listen(self.gamma)
        self.say(express(b"1", acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN), seconds=5)
        self.assertEqual((len(self.reasons()), self.peers), (1, []))

    def test_a_name_is_no_proof(self) -> None:
        """Who merely says who he is, or comes with a signature that nobody can check, is as strange."""
        self.stranger()
        self.say(with_security(express(b"1"), SID), with_security(express(b"2"), SID, signature=b"s" * 64))
        self.assertEqual(self.bodies(self.beta, self.plain), [])
        first, second = self.reasons()
        self.assertEqual(first, f"NACK_ACCESS_DENIED from {STRANGER}: {ADMITTING}")
        self.assertTrue(second.startswith("NACK_"), second)

    def test_what_passes_through_is_not_judged(self) -> None:
        """Only the queue manager whose queue it is for knows who may send to that."""
        self.stranger()
        self.say(transactional(b"1", (0, 0, 0), queue_manager=ALPHA, number=7, **EXPRESS))
        self.assertNotIn("ACCESS", " ".join(self.reasons()))


class PeersTests(AdmissionTestCase):
    """The line that the event tells admits it."""

    gate = Gate(peers=AddressSet.of([STRANGER]))

    def test_a_peer_is_taken_at_its_word(self) -> None:
        """As this machine is; its neighbour is not."""
        for number, address in enumerate((STRANGER, "198.51.100.8")):
            who = UUID(int=77 + number)
            peer = self.dial(host=self.network.host(address), identifier=who)
            peer.send(express(address.encode(), source=who))
            self.clock.advance(0.1)
        self.say(express(b"here"))
        self.assertEqual(self.bodies(self.beta, self.plain), [STRANGER.encode(), b"here"])
        [reason] = self.reasons()
        self.assertIn('peers = ["198.51.100.8"]', reason)


class AllowTests(AdmissionTestCase):
    """Everybody is taken at his word."""

    gate = Gate(Unauthenticated.ALLOW)

    def test_a_stranger_is_admitted(self) -> None:
        """Without any question."""
        peer = self.dial(host=self.network.host(STRANGER), identifier=UUID(int=77))
        peer.send(express(b"1", source=UUID(int=77)))
        self.clock.advance(0.1)
        self.assertEqual(self.bodies(self.beta, self.plain), [b"1"])


class DenyTests(AdmissionTestCase):
    """Nobody is taken at his word."""

    gate = Gate(Unauthenticated.DENY)
    insecure_nacks = True

    def test_this_machine_is_refused_too(self) -> None:
        """And told so, where strangers are told; the sequence of a refused message goes on behind it."""
        self.listen(self.gamma)
        self.say(
            express(b"1", acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN),
            transactional(b"2", (X, 1, 0)),
            transactional(b"3", (X, 2, 1)),
            seconds=5,
        )
        self.assertEqual(self.bodies(self.beta, self.plain) + self.bodies(self.beta, self.path), [])
        self.assertEqual(len(self.reasons()), 3)
        self.assertIn('unauthenticated = "loopback" under [security]', self.reasons()[0])
        heard = [answer for peer in (self.peer, *self.peers) for answer in peer.heard]
        self.assertIn(0x8004, [answer.message_class for answer in heard])
