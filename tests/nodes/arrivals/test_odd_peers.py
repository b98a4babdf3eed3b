"""Peers with another's identifier, with a wrong clock, or at another's address."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from msmq.interfaces.manager.summaries import SessionSummary
from msmq.manager.peers import ack_sessions
from msmq.manager.routes import waiting_acknowledgements
from msmq.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import PrivateFormatName
from tests.builders import BETA, GAMMA
from tests.nodes.arrivals.receiver import EXPRESS, ReceiverTestCase, X, chain
from tests.nodes.outgoing.senders import SenderTestCase
from tests.nodes.scripted import ACK_RECEIVE, JOURNAL, final_ack, order_ack, transactional

UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")
TO_GAMMA_ITSELF = str(PrivateFormatName(GAMMA, 1))


class OddPeersTestCase(ReceiverTestCase):
    """GAMMA is known to BETA at 127.0.0.4; another peer is at 127.0.0.9."""

    def setUp(self) -> None:
        super().setUp()
        self.elsewhere = self.network.host("127.0.0.9")
        self.reported: list[str] = []
        observer = cast(ILogObserver, self.observe)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def observe(self, event: LogEvent) -> None:
        if event["log_level"].name == "warn":
            self.reported.append(formatEvent(event))

    def shown(self, address: str) -> SessionSummary:
        """The session with this address."""
        [session] = [
            each for each in self.beta.service.inspection.sessions() if each.remote_address == address
        ]
        return session

    def events(self, source: UUID = GAMMA) -> list[tuple[str, str]]:
        """BETA's events about a message of a queue manager."""
        explanation = self.run_to_end(self.beta.service.inspection.explain(MessageIdentifier(source, 1)))
        return [(event.event, event.reason) for event in explanation.events]


class CloneTests(OddPeersTestCase):
    """A second peer with a known identifier at another address."""

    def test_one_address_in_both_families(self) -> None:
        """A socket for both families writes that of IPv4 as IPv6; acknowledgements name that of IPv4."""
        same = self.dial(host=self.network.host("::ffff:127.0.0.4"))
        same.send(*chain(1, 1))
        self.clock.advance(1)
        self.assertEqual([line for line in self.reported if "also at" in line], [])
        sessions = self.beta.service.inspection.sessions()
        self.assertEqual(
            [(each.remote_address, each.other_addresses) for each in sessions], [("127.0.0.4", [])] * 2
        )
        [acknowledgement] = [*same.heard, *self.peer.heard]
        self.assertEqual(acknowledgement.destination, "TCP:127.0.0.4\\PRIVATE$\\order_queue$")

    def test_it_is_reported(self) -> None:
        """In the log once, in the list of sessions at both of them, and where a message is explained."""
        self.assertEqual(self.shown("127.0.0.4").other_addresses, [])
        clones = [self.dial(host=self.elsewhere) for _ in range(3)]
        self.assertEqual(len(self.reported), 1)
        for part in ("127.0.0.4", "127.0.0.9", str(GAMMA).upper(), "cloned"):
            self.assertIn(part, self.reported[0])
        self.assertEqual(self.shown("127.0.0.4").other_addresses, ["127.0.0.9"])
        self.assertFalse(any(clone.is_lost for clone in clones))
        self.assertEqual(
            self.events(),
            [("cloned", "its queue manager, known at 127.0.0.4, was at 127.0.0.9 too: a cloned machine?")],
        )

    def test_several_sessions_from_one_address_are_none(self) -> None:
        """Nor is another queue manager, at that address or at another."""
        self.dial()
        self.dial(identifier=UNKNOWN_PEER)
        self.dial(host=self.elsewhere, identifier=UUID(int=7))
        self.assertEqual((self.reported, self.events()), ([], []))

    def test_our_own_identifier(self) -> None:
        """A peer with our identifier is a clone of ours, or we are one of it."""
        for _ in range(2):
            self.dial(host=self.elsewhere, identifier=BETA)
        self.assertEqual(len(self.reported), 1)
        self.assertIn("our own identifier", self.reported[0])

    def test_it_gets_nothing_that_waits_for_the_other(self) -> None:
        """Neither while the one that was there first is connected, nor soon after."""
        clone = self.dial(host=self.elsewhere)
        self.send(self.beta, TO_GAMMA_ITSELF, b"1")
        self.clock.advance(1)
        self.assertEqual((self.peer.bodies, clone.bodies), ([b"1"], []))
        self.peer.acknowledge()
        self.peer.hang_up()
        self.clock.advance(1)
        self.send(self.beta, TO_GAMMA_ITSELF, b"2")
        self.clock.advance(1)
        self.assertEqual(clone.bodies, [])
        again = self.dial()
        self.clock.advance(1)
        self.assertEqual(again.bodies, [b"2"])

    def test_a_machine_that_has_moved(self) -> None:
        """An hour after it was last seen where it was known, it is known where it is."""
        self.peer.hang_up()
        self.clock.advance(3600)
        moved = self.dial(host=self.elsewhere)
        self.send(self.beta, TO_GAMMA_ITSELF, b"1")
        self.clock.advance(1)
        self.assertEqual((moved.bodies, self.reported), ([b"1"], []))


class TrustingTests(OddPeersTestCase):
    """C{trust_identifiers}: the identifier of a peer is trusted at any address."""

    settings = SessionSettings(trust_identifiers=True)

    def test_it_gets_what_waits(self) -> None:
        """Its peer is reported all the same."""
        self.peer.hang_up()
        self.clock.advance(1)
        other = self.dial(host=self.elsewhere)
        self.send(self.beta, TO_GAMMA_ITSELF, b"1")
        self.clock.advance(1)
        self.assertEqual(other.bodies, [b"1"])
        self.assertEqual(len(self.reported), 1)


class ClockTests(OddPeersTestCase):
    """SentTime that is off by more than a minute."""

    def at(self, offset: int, source: UUID = GAMMA) -> bytes:
        """An express message sent this number of seconds from now."""
        sent_time = self.clock.now().unix_seconds + offset
        times = (0xFFFFFFFF, 0xFFFFFFFF, sent_time)
        destination = "TCP:127.0.0.3\\private$\\plain"
        return transactional(b"", (0, 1, 0), destination=destination, times=times, source=source, **EXPRESS)

    def test_ahead(self) -> None:
        """In the log once, in the list of sessions, and where a message is explained."""
        self.say(self.at(3600), self.at(3600))
        self.say(self.at(3601))
        self.assertEqual(len(self.reported), 1)
        self.assertIn("its clock is ahead of ours by 1:00:00", self.reported[0])
        self.assertEqual(self.shown("127.0.0.4").clock_skew, 3601)
        self.assertEqual(self.events(), [("clock_skew", "its clock is ahead of ours by 1:00:00")])

    def test_behind(self) -> None:
        """The same, though it may be that the message has waited."""
        self.say(self.at(-120))
        self.assertIn("sent 0:02:00 ago by its clock", self.reported[0])
        self.assertEqual(self.shown("127.0.0.4").clock_skew, -120)
        self.say(self.at(0))
        self.assertIsNone(self.shown("127.0.0.4").clock_skew)

    def test_a_minute_is_no_skew(self) -> None:
        """Clocks differ."""
        self.say(self.at(60), self.at(-60))
        self.assertEqual((self.reported, self.shown("127.0.0.4").clock_skew), ([], None))

    def test_messages_of_others_say_nothing_about_a_router(self) -> None:
        """Forwarded messages were stamped by another clock."""
        self.say(self.at(3600, source=UNKNOWN_PEER))
        self.assertEqual((self.reported, self.shown("127.0.0.4").clock_skew), ([], None))


class AcknowledgementTests(ReceiverTestCase):
    """OrderAcks leave on a session of the sequence's sender."""

    def test_two_queue_managers_at_one_address(self) -> None:
        """Each gets acknowledgements of its own messages, although both are behind one name."""
        other = self.dial(identifier=UNKNOWN_PEER)
        other.send(*chain(1, 3, X + 1, source=UNKNOWN_PEER))
        self.say(*chain(1, 2))
        self.clock.advance(1)
        self.assertEqual(self.peer.order_acks, [(X, 2, 1)])
        self.assertEqual(other.order_acks, [(X + 1, 3, 2)])

    def test_the_session_that_is_left(self) -> None:
        """Another session of the same queue manager will do, and without one a connection is made."""
        self.say(chain(1, 1)[0])
        again = self.dial()
        self.peer.hang_up()
        self.clock.advance(1)
        self.assertEqual(again.order_acks, [(X, 1, 0)])

    def test_a_router(self) -> None:
        """A message that it forwarded is acknowledged on its session."""
        number = int(self.beta.service.inspection.queue(self.path).format_name.rpartition("\\")[2], 16)
        self.say(*chain(1, 2, source=UNKNOWN_PEER, queue_manager=BETA, number=number))
        self.clock.advance(1)
        self.assertEqual(self.peer.order_acks, [(X, 2, 1)])

    def test_no_router_brings_direct_names(self) -> None:
        """They come from their sender itself; anything else ends the session, unacknowledged."""
        self.say(*chain(1, 2, source=UNKNOWN_PEER))
        self.clock.advance(1)
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(self.named(self.peer), 0)
        self.assertEqual(self.beta.service.inspection.queue(self.path).messages, 0)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NOT_FROM_ITS_SENDER": 1})

    def receive_for_absent(self) -> None:
        """The FinalAcks of 132 messages of a peer wait, since it is away."""
        for first in range(1, 133, 33):
            self.say(*chain(first, first + 32, transaction_flags=2), seconds=1)
        self.peer.acknowledge()
        self.clock.advance(1)
        self.peer.hang_up()
        self.clock.advance(1)
        self.assertEqual(len(self.take(self.beta, self.path)), 132)
        self.clock.advance(1)
        self.assertEqual(self.waiting(self.beta), 132)

    def test_many_wait_for_another_at_the_same_address(self) -> None:
        """Acknowledgements for a queue manager that is away do not hold up those for others."""
        self.receive_for_absent()
        other = self.dial(identifier=UNKNOWN_PEER)
        other.send(*chain(1, 3, X + 1, source=UNKNOWN_PEER, transaction_flags=2))
        self.clock.advance(1)
        self.assertEqual(other.order_acks, [(X + 1, 3, 2)])
        self.take(self.beta, self.path)
        self.clock.advance(1)
        self.assertEqual(other.final_acks, [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2), (ACK_RECEIVE, 3)])
        again = self.dial(is_prompt=True)
        self.clock.advance(1)
        self.assertEqual([number for _, number in again.final_acks], list(range(1, 133)))

    def test_a_pause_of_many_for_another_at_the_same_address(self) -> None:
        """Nor after a pause during which all of them were created."""
        self.receive_for_absent()
        other = self.dial(identifier=UNKNOWN_PEER, is_prompt=True)
        other.send(*chain(1, 3, X + 1, source=UNKNOWN_PEER, transaction_flags=2))
        self.clock.advance(1)
        self.successResultOf(self.beta.service.pause_all_outgoing())
        self.take(self.beta, self.path)
        self.clock.advance(1)
        self.assertEqual(other.final_acks, [])
        self.successResultOf(self.beta.service.resume_all_outgoing())
        self.clock.advance(1)
        self.assertEqual(other.final_acks, [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2), (ACK_RECEIVE, 3)])

    def receive_for_both(self, count: int) -> None:
        """FinalAcks wait at the same address: 66 for one absent peer, 3 for another, and more for the first;
        the queue manager is restarted.

        @param count: of all for the first.
        """
        other = self.dial(identifier=UNKNOWN_PEER)
        self.say(*chain(1, 33, transaction_flags=2), seconds=1)
        self.say(*chain(34, 66, transaction_flags=2), seconds=1)
        other.send(*chain(1, 3, X + 1, source=UNKNOWN_PEER, transaction_flags=2))
        self.clock.advance(1)
        for first in range(67, count, 33):
            self.say(*chain(first, first + 32, transaction_flags=2), seconds=1)
        for peer in (self.peer, other):
            peer.acknowledge()
            self.clock.advance(1)
            peer.hang_up()
            self.clock.advance(1)
        self.assertEqual(len(self.take(self.beta, self.path)), count + 3)
        self.clock.advance(1)
        self.beta = self.restart(self.beta)

    def test_many_wait_for_another_after_a_restart(self) -> None:
        """The addressees of stored acknowledgements are read as far as one for a present peer may follow."""
        self.patch(waiting_acknowledgements, "READ_AT_ONCE", 64)
        self.receive_for_both(66)
        other = self.dial(identifier=UNKNOWN_PEER)
        self.clock.advance(30)
        self.assertEqual(other.final_acks, [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2), (ACK_RECEIVE, 3)])

    def test_third_peer_answers_after_a_restart(self) -> None:
        """Also if a third one answers there, which acknowledges nothing."""
        self.receive_for_both(66)
        self.listen(identifier=UUID(int=7))
        other = self.dial(identifier=UNKNOWN_PEER)
        for _ in range(100):
            self.clock.advance(10)
            other.acknowledge()
        self.assertEqual(other.final_acks, [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2), (ACK_RECEIVE, 3)])

    def test_more_wait_than_addressees_are_remembered(self) -> None:
        """Nor do those that follow in greater number than the addressees that are kept in memory."""
        self.patch(waiting_acknowledgements, "READ_AT_ONCE", 16)
        self.patch(ack_sessions, "MOST_SOURCES", 160)
        self.receive_for_both(330)
        self.clock.advance(5000)
        other = self.dial(identifier=UNKNOWN_PEER, is_prompt=True)
        self.clock.advance(1)
        self.assertEqual(other.final_acks, [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2), (ACK_RECEIVE, 3)])

    def test_another_at_the_same_address_is_not_used(self) -> None:
        """Where only another queue manager is connected, a connection to the right one is opened."""
        other = self.dial(identifier=UNKNOWN_PEER)
        self.listen()
        self.say(chain(1, 1)[0])
        self.peer.hang_up()
        self.clock.advance(1)
        self.assertEqual(other.order_acks, [])
        self.assertEqual(self.peers[-1].order_acks, [(X, 1, 0)])


class ForgedAcknowledgementTests(SenderTestCase):
    """A peer at another address claims to be GAMMA, to which ALPHA has sent."""

    def impostor(self, identifier: UUID = GAMMA) -> Any:
        return self.dial("ALPHA", host=self.network.host("127.0.0.9"), identifier=identifier)

    def test_what_it_acknowledges_stays(self) -> None:
        """It did not receive the messages; their receiver acknowledges them, on any session from its
        address.
        """
        self.put(b"1", b"2", journal=True)
        sequence, message = self.sequence(), self.peer.messages[0]
        self.impostor().send(order_ack(sequence, 2), final_ack(message))
        self.clock.advance(1)
        self.assertEqual((self.remaining(), self.there(self.alpha, JOURNAL)), (2, []))
        self.assertEqual(self.alpha.service.inspection.status().refused, {"ACKNOWLEDGEMENT_BY_ANOTHER": 2})
        self.dial("ALPHA").send(order_ack(sequence, 2))
        self.clock.advance(1)
        self.assertEqual(self.remaining(), 0)

    def test_dialled_peer_claims_another_identifier(self) -> None:
        """A queue manager that ALPHA dials for another queue, and that claims to be GAMMA."""
        self.put(b"1", b"2")
        sequence = self.sequence()
        self.beta.deaf()
        self.listen(self.network.host("127.0.0.3"))
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\x", b"bait")
        self.clock.advance(1)
        self.assertEqual(self.peer.bodies, [b"bait"])
        self.tell(order_ack(sequence, 2))
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [2, 1])

    def test_after_a_restart_before_anything_is_sent_again(self) -> None:
        """ALPHA still knows the receivers of the messages in transit."""
        self.put(b"1", b"2")
        sequence, message = self.sequence(), self.peer.messages[0]
        self.deafen()
        self.alpha = self.restart(self.alpha)
        for identifier in (GAMMA, UNKNOWN_PEER):
            self.impostor(identifier).send(order_ack(sequence, 2), final_ack(message))
            self.clock.advance(1)
        self.listen()
        self.clock.advance(10)
        self.assertEqual(self.peer.bodies, [b"1", b"2"])

    def test_after_a_restart_what_arrived(self) -> None:
        """And which peer may acknowledge them."""
        self.put(b"1", journal=True)
        sequence, message = self.sequence(), self.peer.messages[0]
        self.tell(order_ack(sequence, 1))
        self.alpha = self.restart(self.alpha)
        for identifier in (GAMMA, UNKNOWN_PEER):
            self.impostor(identifier).send(final_ack(message))
            self.clock.advance(1)
        self.assertEqual(self.there(self.alpha, JOURNAL), [])
        self.dial("ALPHA").send(final_ack(message))
        self.clock.advance(1)
        self.assertEqual(self.there(self.alpha, JOURNAL), [b"1"])
        self.assertNotEqual(self.receivers_of_sequences(), [])

    def test_what_a_start_forgets(self) -> None:
        """A start removes from the store the receivers of sequences without waiting messages."""
        self.put(b"1", journal=True)
        sequence, message = self.sequence(), self.peer.messages[0]
        self.tell(order_ack(sequence, 1))
        self.tell(final_ack(message))
        self.assertNotEqual(self.receivers_of_sequences(), [])
        self.alpha = self.restart(self.alpha)
        self.clock.advance(1)
        self.assertEqual(self.receivers_of_sequences(), [])

    def receivers_of_sequences(self) -> list[str]:
        """Stop ALPHA; the values of its store for the receiver of each sequence."""
        self.alpha.service.stopService()
        store = self.alpha.store
        state = self.successResultOf(store.open()).state
        store.close()
        return [name for name in state if name.startswith("tx/arrived/")]


class BelievedAcknowledgementTests(SenderTestCase):
    """C{trust_identifiers}: a receiver may tell from any address."""

    settings = SessionSettings(trust_identifiers=True)

    def test_what_it_acknowledges_leaves(self) -> None:
        """As it has to be behind address translation."""
        self.put(b"1", b"2")
        self.dial("ALPHA", host=self.network.host("127.0.0.9")).send(order_ack(self.sequence(), 2))
        self.clock.advance(1)
        self.assertEqual(self.remaining(), 0)


class AtOnceTests(SenderTestCase):
    """A peer that connects is there."""

    def test_it_is_dialled_without_waiting(self) -> None:
        """Although attempts have failed for so long that the next one were a minute away."""
        self.deafen()
        self.put(b"1")
        self.clock.advance(100)
        self.listen()
        self.dial("ALPHA")
        self.clock.advance(1)
        self.assertEqual(self.peer.bodies, [b"1"])

    def test_a_session_that_it_opened_will_do(self) -> None:
        """Once a name was dialled and its queue manager is known, a session that this opened serves as
        well.
        """
        self.put(b"1")
        self.tell(order_ack(self.sequence(), 1))
        self.deafen()
        self.peer.hang_up()
        self.clock.advance(1)
        opened = self.dial("ALPHA")
        self.put(b"2")
        self.assertEqual(opened.bodies, [b"2"])
        unknown_peer = self.dial("ALPHA", identifier=UNKNOWN_PEER)
        opened.hang_up()
        self.clock.advance(1)
        self.put(b"3")
        self.clock.advance(30)
        self.assertEqual(unknown_peer.bodies, [])
