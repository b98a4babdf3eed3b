"""Accepted sources of acknowledgements for messages to a queue that is not named by an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.membership.objects import QueueManagerObject, SiteObject
from msmq.queues.arriving.message import Message
from msmq.structures.names.format_name import PrivateFormatName
from msmq.transfer.acknowledgement_guesses import GUESSES
from msmq.wire.addresses import AddressSet
from tests.builders import GAMMA
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.scripted import DEADXACT, JOURNAL, Peer, ScriptedTestCase, final_ack, order_ack
from tests.nodes.support import ADDRESSES

UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")
FAR = "10.0.0.9"
"""An address that is not taken at its word."""


class NamedTestCase(ScriptedTestCase):
    """ALPHA sends to GAMMA by its identifier, on a session that GAMMA has opened."""

    gate = TrustedPeers()

    def setUp(self) -> None:
        super().setUp()
        if self.gate != TrustedPeers():
            self.alpha = self.restart(self.alpha, options={"trusted_peers": self.gate})
        self.peer = self.dial("ALPHA", is_prompt=True)

    def put(self, *bodies: bytes, **properties: Any) -> None:
        """Send transactional messages, in one transaction."""
        messages = [Message(body=body, transactional=True, **properties) for body in bodies]
        self.run_to_end(self.alpha.service.send(str(PrivateFormatName(GAMMA, 1)), messages))
        self.clock.advance(0.1)
        self.sequence = self.peer.messages[-1].place[0]

    def other(self, host: str = FAR, identifier: UUID = UNKNOWN_PEER) -> Peer:
        """A session of another queue manager."""
        return self.dial("ALPHA", host=self.network.host(host), identifier=identifier)

    def say(self, peer: Peer, *packets: bytes) -> None:
        peer.send(*packets)
        self.clock.advance(0.5)

    @property
    def refused(self) -> Mapping[str, int]:
        return self.alpha.service.inspection.status().refused


class SourceTests(NamedTestCase):
    """An acknowledgement has to carry the receiver's identifier, whichever session it comes on."""

    def test_another_identifier(self) -> None:
        """Its acknowledgement does not count, as it did not receive the messages."""
        self.put(b"1", b"2")
        self.say(self.other(), order_ack(self.sequence, 2, source=UNKNOWN_PEER))
        self.assertEqual((self.waiting(self.alpha), self.refused), (2, {"ACKNOWLEDGEMENT_BY_ANOTHER": 1}))

    def test_a_router_brings_it(self) -> None:
        """By another route than that of the messages, from an unknown address."""
        self.put(b"1", b"2")
        self.say(self.other(), order_ack(self.sequence, 2))
        self.assertEqual((self.waiting(self.alpha), self.refused), (0, {}))

    def test_nothing_leaves_before_it_is_stored_elsewhere(self) -> None:
        """Unverified acknowledgements release only messages that the receiver has stored; the rest
        follows.
        """
        self.peer.is_prompt = False
        self.put(b"1", b"2", b"3")
        self.say(self.other(), order_ack(self.sequence, 2))
        self.assertEqual((self.waiting(self.alpha), self.refused), (3, {}))
        self.peer.acknowledge()
        self.clock.advance(0.1)
        self.assertEqual(self.waiting(self.alpha), 1)
        self.say(self.other(), order_ack(self.sequence, 3))
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_nothing_is_lost_with_its_session(self) -> None:
        """It is sent again until it is stored, even if other peers acknowledge it."""
        self.peer.is_prompt = False
        self.put(b"1", b"2")
        self.say(self.other(), order_ack(self.sequence, 2))
        self.peer.hang_up()
        self.clock.advance(1)
        self.peer = self.dial("ALPHA")
        self.assertEqual(self.peer.bodies, [b"1", b"2"])
        self.peer.acknowledge()
        self.clock.advance(0.1)
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_trusted_address(self) -> None:
        """Its acknowledgement counts for the session as well (reading 53)."""
        self.peer.is_prompt = False
        self.put(b"1")
        self.say(self.other("127.0.0.9"), order_ack(self.sequence, 1))
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_a_gate_in_between_reports_a_failed_arrival(self) -> None:
        """That it was received, or purged, only its receiver can acknowledge."""
        self.put(b"1", b"2", dead_letter=True, journal=True)
        one, two = self.peer.messages
        gate = self.other()
        for message_class in (0x4000, 0xC001):
            self.say(gate, final_ack(one, message_class, source=UNKNOWN_PEER))
        self.assertEqual(self.refused, {"ACKNOWLEDGEMENT_BY_ANOTHER": 2})
        self.say(gate, final_ack(two, 0x8005, source=UNKNOWN_PEER))
        self.assertEqual((self.there(self.alpha, JOURNAL), self.there(self.alpha, DEADXACT)), ([], [b"2"]))

    def test_after_a_restart(self) -> None:
        """The receivers of messages that wait for their FinalAcks are known after a restart."""
        self.put(b"1", journal=True)
        [message] = self.peer.messages
        self.say(self.peer, order_ack(self.sequence, 1))
        self.alpha = self.restart(self.alpha)
        self.say(self.other(), final_ack(message, source=UNKNOWN_PEER))
        self.assertEqual(
            (self.there(self.alpha, JOURNAL), self.refused), ([], {"ACKNOWLEDGEMENT_BY_ANOTHER": 1})
        )
        self.say(self.other(identifier=GAMMA), final_ack(message))
        self.assertEqual(self.there(self.alpha, JOURNAL), [b"1"])


class GuessTests(NamedTestCase):
    """A sequence can be guessed; a peer that is wrong too often is ignored."""

    def test_too_many_that_are_wrong(self) -> None:
        """Then a right one does not count either, until there was time."""
        self.put(b"1", b"2")
        far = self.other()
        wrong = [order_ack(self.sequence + 1 + number, 1) for number in range(GUESSES)]
        self.say(far, *wrong, order_ack(self.sequence, 2))
        self.assertEqual(self.waiting(self.alpha), 2)
        self.assertEqual(self.refused, {"ACKNOWLEDGEMENT_OF_NOTHING": GUESSES, "ACKNOWLEDGEMENTS_GUESSED": 1})
        self.assertFalse(far.is_lost)
        self.clock.advance(1)
        self.say(far, order_ack(self.sequence, 2))
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_others_are_heard(self) -> None:
        """Those at other addresses, and this machine however often it is wrong."""
        self.put(b"1", b"2")
        self.say(self.other(), *[order_ack(99 + number, 1) for number in range(GUESSES + 1)])
        self.say(self.peer, *[order_ack(99 + number, 1) for number in range(GUESSES + 1)])
        self.say(self.other("10.0.1.9"), order_ack(self.sequence, 1))
        self.say(self.peer, order_ack(self.sequence, 2))
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_a_final_acknowledgement_comes_again(self) -> None:
        """A FinalAck is not sent twice, so the session that carries it ends without acknowledging it."""
        self.put(b"1", journal=True)
        [message] = self.peer.messages
        far = self.other()
        self.say(far, *[order_ack(99 + number, 1) for number in range(GUESSES)], final_ack(message))
        self.assertTrue(far.is_lost)
        self.assertEqual([ack[3] for ack in far.acks if ack[3]], [])
        self.clock.advance(1)
        again = self.other()
        self.say(again, final_ack(message))
        self.assertFalse(again.is_lost)
        self.assertEqual(self.there(self.alpha, JOURNAL), [b"1"])

    def test_late_ones_are_no_guesses(self) -> None:
        """A receiver may acknowledge an ended sequence again."""
        self.put(b"1")
        sequence = self.sequence
        far = self.other()
        self.say(far, *[order_ack(sequence, 1)] * (GUESSES + 1))
        self.put(b"2")
        self.say(far, order_ack(self.sequence, 1))
        self.assertEqual((self.waiting(self.alpha), self.refused), (0, {}))


class AcknowledgersTests(NamedTestCase):
    """C{acknowledgements_from}: no other address may acknowledge."""

    gate = TrustedPeers(peers=AddressSet.of(["10.0.2.0/24"]), acknowledgers=AddressSet.of(["10.0.1.0/24"]))

    def test_from_elsewhere(self) -> None:
        """Neither there, nor a peer, nor this machine."""
        self.put(b"1", b"2", b"3")
        self.say(self.other(), order_ack(self.sequence, 1))
        self.assertEqual((self.waiting(self.alpha), self.refused), (3, {"ACKNOWLEDGEMENT_FROM_ELSEWHERE": 1}))
        for left, host in ((2, "10.0.1.1"), (1, "10.0.2.1")):
            self.say(self.other(host), order_ack(self.sequence, 3 - left))
            self.assertEqual(self.waiting(self.alpha), left)
        self.say(self.peer, order_ack(self.sequence, 3))
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_direct_names(self) -> None:
        """They are acknowledged by their receiver, from any address."""
        ADDRESSES["OMEGA"] = FAR
        self.addCleanup(ADDRESSES.pop, "OMEGA")
        self.listen(self.network.host(FAR))
        message = Message(body=b"1", transactional=True)
        self.run_to_end(self.alpha.service.send(f"DIRECT=TCP:{FAR}\\private$\\orders", [message]))
        self.clock.advance(1)
        far = self.peers[-1]
        self.say(far, order_ack(far.messages[-1].place[0], 1))
        self.assertEqual((self.waiting(self.alpha), self.refused), (0, {}))


class EnterpriseTests(EnterpriseTestCase):
    """Accepted acknowledging queue managers, according to the directory."""

    def is_answered_for(self, identifier: UUID) -> bool:
        """Whether ALPHA accepts acknowledgements for this queue manager from another one."""
        return self.alpha.service._work.outgoing.foreign_sites.is_answered_for(identifier)

    def test_a_foreign_site(self) -> None:
        """A connector acknowledges for all in its site; or for queue managers that the directory does not
        have.
        """
        assert self.directory is not None
        foreign, abroad = UUID(int=0xAA), UUID(int=0xAB)
        self.assertFalse(self.is_answered_for(IDENTIFIERS["ZETA"]))
        self.assertTrue(self.is_answered_for(foreign))
        self.directory.add(SiteObject(identifier=abroad, name="abroad", foreign_site=True))
        self.directory.add(
            QueueManagerObject(identifier=foreign, computer_name="OMEGA", site_identifier_list=(abroad,))
        )
        self.kill("ALPHA")
        self.revive("ALPHA")
        self.alpha = self.nodes["ALPHA"]
        self.clock.advance(1)
        self.assertTrue(self.is_answered_for(foreign))
        self.assertFalse(self.is_answered_for(IDENTIFIERS["ZETA"]))

    def test_a_public_queue(self) -> None:
        """Its name says no queue manager, but its messages do."""
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders", transactional=True))
        name = self.zeta.service.inspection.queue("ZETA\\orders").format_name
        self.assertIn("PUBLIC=", name.upper())
        message = Message(body=b"far", transactional=True, journal=True)
        self.run_to_end(self.alpha.service.send(name, [message]))
        for _ in range(9):
            self.clock.advance(1)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"far"])
        for _ in range(9):
            self.clock.advance(1)
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 1)
        self.assertEqual(self.alpha.service.inspection.status().refused, {})
