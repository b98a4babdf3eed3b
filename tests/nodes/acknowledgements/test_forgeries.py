"""Forged messages from an unauthenticated address: no other sender is harmed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.logger import capturedLogs, formatEvent

from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.transfer.decisions import final_ack_decision
from msmq.wire.addresses import AddressSet
from tests.builders import BETA, GAMMA
from tests.nodes import support
from tests.nodes.arrivals.receiver import ReceiverTestCase, X, chain, recoverable
from tests.nodes.scripted import Peer
from tests.nodes.support import Node

UNTRUSTED = "198.51.100.7"
UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")


class ForgeryTestCase(ReceiverTestCase):
    """GAMMA is known to BETA; the forger is at an address from which BETA accepts nothing unsigned."""

    insecure_nacks = False

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("options", {"send_insecure_nacks": self.insecure_nacks})
        return super().node(name, identifier, **kwargs)

    def forge(self, *packets: bytes, identifier: UUID = GAMMA) -> Peer:
        peer = self.dial(host=self.network.host(UNTRUSTED), identifier=identifier)
        peer.send(*packets)
        self.clock.advance(0.1)
        return peer

    def taken(self) -> tuple[list[bytes], list[bytes]]:
        return self.bodies(self.beta, self.path), self.bodies(self.beta, self.plain)


class ForgeryTests(ForgeryTestCase):
    """A forged source identifier does not affect GAMMA."""

    def test_positions_of_a_sequence(self) -> None:
        """A forged GAMMA uses up no position of GAMMA's sequence."""
        self.say(*chain(1, 2))
        self.forge(*chain(3, 4), *chain(1, 1, X + 1))
        self.say(*chain(3, 5))
        self.assertEqual(self.taken(), ([b"1", b"2", b"3", b"4", b"5"], []))

    def test_identifiers_of_messages(self) -> None:
        self.forge(*(recoverable(number, b"forged") for number in range(1, 4)))
        self.say(recoverable(1, b"1"), recoverable(2, b"2"))
        self.assertEqual(self.taken(), ([], [b"1", b"2"]))

    def test_as_if_a_router_had_brought_them(self) -> None:
        number = int(self.beta.service.inspection.queue(self.plain).format_name.rpartition("\\")[2], 16)
        self.forge(recoverable(1, b"forged", queue_manager=BETA, number=number), identifier=UNKNOWN_PEER)
        self.say(recoverable(1, b"1"))
        self.assertEqual(self.taken(), ([], [b"1"]))

    def test_for_queues_that_there_are_not(self) -> None:
        self.forge(recoverable(1, b"forged", queue_manager=BETA, number=0x7777), identifier=UNKNOWN_PEER)
        self.say(recoverable(1, b"1"))
        self.assertEqual(self.taken(), ([], [b"1"]))

    def test_no_acknowledgements_for_forged_messages(self) -> None:
        """GAMMA gets no acknowledgement of what it did not send, on any session."""
        self.say(*chain(1, 1))
        self.clock.advance(1)
        self.peer.acknowledge()
        heard = len(self.peer.heard)
        other = self.dial(host=self.network.host(UNTRUSTED), identifier=UNKNOWN_PEER)
        number = int(self.beta.service.inspection.queue(self.path).format_name.rpartition("\\")[2], 16)
        self.forge(*chain(2, 3), *chain(1, 1, queue_manager=BETA, number=number)).hang_up()
        self.clock.advance(60)
        self.assertEqual(len(self.peer.heard), heard)
        self.assertEqual(other.order_acks, [])

    def test_unlisted_sender(self) -> None:
        """It gets no acknowledgement, and nothing is stored for it: its messages wait until it is listed."""
        unknown_peer = self.forge(*chain(1, 2, source=UNKNOWN_PEER), identifier=UNKNOWN_PEER)
        self.clock.advance(5)
        self.assertEqual(
            (unknown_peer.heard, self.beta.service.inspection.outgoing(), self.taken()), ([], [], ([], []))
        )
        self.check_counts(unknown_peer)
        self.beta = self.reconfigured(self.beta, trusted_peers=TrustedPeers(peers=AddressSet.of([UNTRUSTED])))
        again = self.forge(*chain(1, 2, source=UNKNOWN_PEER), identifier=UNKNOWN_PEER)
        self.clock.advance(1)
        self.assertEqual(self.taken(), ([b"1", b"2"], []))
        self.assertEqual(again.order_acks, [(X, 2, 1)])

    def test_the_log_is_not_filled(self) -> None:
        """The event log, which is bounded, has each of them; the log of the process has a sample."""
        unknown_peer = self.dial(host=self.network.host(UNTRUSTED), identifier=UNKNOWN_PEER)
        with capturedLogs() as captured:
            for first in range(1, 1000, 20):
                unknown_peer.send(*chain(first, first + 19, source=UNKNOWN_PEER))
            self.clock.advance(8)
            unknown_peer.send(*chain(1, 1, source=UNKNOWN_PEER))
            self.clock.advance(1)
        reported = [formatEvent(event) for event in captured if "not accepted" in formatEvent(event)]
        self.assertEqual(len(reported), 11)
        self.assertIn("NACK_ACCESS_DENIED; 990 more since the last such line", reported[-1])
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_ACCESS_DENIED": 1001})


class ToldTests(ForgeryTestCase):
    """C{permit_insecure_nacks}: an unauthenticated peer is notified of a refusal."""

    insecure_nacks = True

    def test_listener_claims_another_identifier(self) -> None:
        """BETA dials the forger's address to answer there, and its answer does not lead BETA to GAMMA."""
        self.patch(support, "ADDRESSES", {**support.ADDRESSES, "STRANGER": UNTRUSTED})
        self.peer.acknowledge()
        self.listen(self.network.host(UNTRUSTED))
        self.forge(*chain(2, 2)).hang_up()
        self.clock.advance(1)
        [lair] = self.peers
        self.assertEqual(lair.final_acks, [(0x8004, 2)])
        lair.hang_up()
        self.clock.advance(60)
        self.assertEqual(self.peer.final_acks, [])

    def test_it_hears_at_its_own_address(self) -> None:
        """And comes with the next one."""
        unknown_peer = self.forge(*chain(1, 2, source=UNKNOWN_PEER), identifier=UNKNOWN_PEER)
        self.clock.advance(1)
        self.assertEqual(unknown_peer.final_acks, [(0x8004, 1), (0x8004, 2)])
        self.assertEqual((unknown_peer.order_acks, self.taken()), ([], ([], [])))
        self.check_counts(unknown_peer)

    def test_it_is_not_answered_without_end(self) -> None:
        """Answers that it does not receive do not fill the store."""
        self.patch(final_ack_decision, "MOST_UNVERIFIED", 100)
        unknown_peer = self.dial(host=self.network.host(UNTRUSTED), identifier=UNKNOWN_PEER)
        used = self.beta.service.inspection.status().bytes
        for first in range(1, 1000, 20):
            unknown_peer.send(*chain(first, first + 19, source=UNKNOWN_PEER))
            self.clock.advance(1)
        [queue] = self.beta.service.inspection.outgoing()
        self.assertLessEqual(queue.messages, 120)
        self.assertLess(self.beta.service.inspection.status().bytes - used, 120 * 300)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_ACCESS_DENIED": 1000})
