"""A whole queue manager receives from a plain peer, which sends bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from msmq.transfer.decisions import peer_queue_decision
from tests.builders import ALPHA, BETA, GAMMA
from tests.nodes.arrivals.receiver import (
    ADMIN,
    EXPRESS,
    NEGATIVE_ARRIVAL,
    RECOVERABLE,
    ReceiverTestCase,
    X,
    chain,
)
from tests.nodes.scripted import (
    ACK_RECEIVE,
    NEGATIVE,
    POSITIVE,
    transactional,
)


class OrderTests(ReceiverTestCase):
    """Only the next message of a stream is accepted."""

    def test_they_are_taken_and_acknowledged(self) -> None:
        """Half a second after the last an OrderAck says how far the sequence is.

        It comes over the session that brought the messages, for there is no other, and says nothing new.
        They bear no marks of the edges of transactions, as those of NT (MQMQ-2.2.20.5-10).
        """
        self.say(*chain(1, 3))
        self.assertEqual(self.peer.order_acks, [])
        self.clock.advance(1)
        self.assertEqual(self.peer.order_acks, [(X, 3, 2)])
        # Some peers know it by its flags, so it carries no SessionHeader (reading 4).
        self.assertEqual(self.peer.heard[0].base_flags, 0)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2", b"3"])
        self.clock.advance(30)
        self.assertEqual(len(self.peer.order_acks), 1)
        self.check_counts()

    def test_each_answer_goes_where_its_message_came_from(self) -> None:
        """To a private queue number the answer goes to that of the sender, to a direct name to its address.

        MQQB-3.1.3.2-14.
        """
        self.say(*chain(1, 1))
        self.clock.advance(1)
        self.assertEqual(self.peer.heard[-1].destination, "TCP:127.0.0.4\\PRIVATE$\\order_queue$")
        self.say(*chain(1, 1, X, queue_manager=BETA, number=0x7777))
        self.clock.advance(1)
        self.assertEqual(self.peer.heard[-1].destination, 4)
        self.assertEqual(self.peer.heard[-1].queue_manager, GAMMA)

    def test_messages_that_follow_put_it_off_for_ten_seconds(self) -> None:
        """And no longer, counted from when the stream began or was last acknowledged (MQQB-3.1.3.2-14)."""
        for number in range(1, 31):
            self.say(*chain(number, number), seconds=0.4)
            self.peer.acknowledge()
        self.assertEqual(len(self.peer.order_acks), 1)
        _, number, _ = self.peer.order_acks[0]
        self.assertGreaterEqual(number, 25)
        self.clock.advance(1)
        self.assertEqual(self.peer.order_acks[-1], (X, 30, 29))

    def test_a_duplicate_is_acknowledged_and_not_delivered(self) -> None:
        """After a reconnect all of it comes again; it is counted, named as stored, and order-acknowledged.

        MQQB-3.1.5.8.1-04.
        """
        self.say(*chain(1, 3), *[transactional(b"r", (0, 9, 0), destination=self.to("plain"), **RECOVERABLE)])
        self.clock.advance(1)
        self.network.cut("127.0.0.3", "127.0.0.4")
        self.clock.advance(1)
        again = self.dial()
        again.send(
            *chain(1, 3), *[transactional(b"r", (0, 9, 0), destination=self.to("plain"), **RECOVERABLE)]
        )
        self.clock.advance(1)
        # The OrderAck of before was not acknowledged, so that comes again as well.
        self.assertEqual(set(again.order_acks), {(X, 3, 2)})
        again.acknowledge()
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2", b"3"])
        self.assertEqual(self.bodies(self.beta, self.plain), [b"r"])
        self.check_counts(again)

    def test_the_session_header_of_what_is_dropped(self) -> None:
        """It acknowledges in a duplicate, behind a gap and to a missing queue as in a delivered message.

        MQQB-3.1.5.8.4-01.
        """
        self.say(*chain(1, 2))
        self.listen()
        for carrier in (
            transactional(b"twice", (X, 2, 1), header=b""),
            transactional(b"gap", (X, 9, 8), header=b""),
            transactional(b"no queue", (0, 1, 0), destination=self.to("nowhere"), header=b"", **EXPRESS),
            transactional(b"delivered", (X, 3, 2), header=b""),
        ):
            self.run_to_end(self.beta.service.send(f"DIRECT={ADMIN}", [Message(body=b"m")]))
            self.clock.advance(0.1)
            self.assertEqual(self.unacknowledged(), 1)
            [peer] = self.peers
            self.assertEqual(set(peer.bodies), {b"m"})
            peer.send(carrier)
            # It counts the message that carries it.
            peer.say(peer.header())
            self.clock.advance(0.1)
            self.assertEqual(self.unacknowledged(), 0)
            self.assertFalse(peer.is_lost)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2", b"delivered"])

    def unacknowledged(self) -> int:
        """How many messages of BETA to the peer may have to be sent again."""
        outgoing = self.beta.service.inspection.outgoing()
        return sum(queue.messages for queue in outgoing if queue.format_name == f"DIRECT={ADMIN}")

    def to(self, name: str) -> str:
        return f"TCP:127.0.0.3\\private$\\{name}"

    def test_sequences_that_jump_or_go_back(self) -> None:
        """Only what follows is taken: no number twice, none before its predecessor, no earlier sequence."""
        self.say(*chain(1, 2))
        self.say(transactional(b"jump", (X, 5, 4)), transactional(b"back", (X, 1, 0)))
        self.say(transactional(b"twice", (X, 2, 1)))
        self.say(transactional(b"gap", (X, 5, 2)))
        self.say(transactional(b"later, not its first", (X + 1, 2, 1)))
        self.say(transactional(b"later", (X + 1, 1, 0)))
        self.say(transactional(b"earlier", (X, 6, 5)), transactional(b"earlier, its first", (X - 1, 1, 0)))
        self.say(transactional(b"highest", (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF, 0)))
        self.say(transactional(b"beyond", (0, 1, 0)))
        self.clock.advance(1)
        expected = [b"1", b"2", b"gap", b"later", b"highest"]
        self.assertEqual(self.bodies(self.beta, self.path), expected)
        self.assertEqual(self.peer.order_acks, [(0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE)])
        self.peer.acknowledge()
        self.check_counts()

    def test_another_sender_has_a_sequence_of_its_own(self) -> None:
        """One sender does not affect the messages of another, nor those to another name of the queue."""
        self.say(*chain(1, 2))
        other = self.dial(host=self.network.host("127.0.0.9"), identifier=ALPHA)
        other.send(*chain(1, 1, X - 5, source=ALPHA))
        self.clock.advance(0.1)
        self.say(*chain(1, 1, X - 9, destination="tcp:127.0.0.3\\PRIVATE$\\ORDERS"))
        self.say(*chain(1, 1, X - 9, destination="OS:BETA\\private$\\orders"))
        self.say(*chain(3, 3))
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2", b"1", b"1", b"3"])

    def test_a_message_for_another_queue_manager(self) -> None:
        """Its sequence is not one of ours: it draws no acknowledgement, and our position is unchanged."""
        self.say(*chain(1, 1))
        self.say(transactional(b"theirs", (X, 9, 8), queue_manager=ALPHA, number=3))
        self.say(*chain(2, 2))
        self.clock.advance(1)
        self.assertEqual(self.peer.order_acks, [(X, 2, 1)])
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2"])

    def test_order_acknowledgements_open_no_connection(self) -> None:
        """A peer whose last session has ended comes again and gets what is owed ([MS-MQQB] 3.1.6.9, reading
        27).
        """
        self.listen()
        self.say(*chain(1, 2))
        self.peer.hang_up()
        self.clock.advance(60)
        self.assertEqual(self.peers, [])
        self.assertEqual(self.waiting(self.beta), 0)
        again = self.dial()
        again.send(*chain(1, 2))
        self.clock.advance(1)
        self.assertEqual(again.order_acks, [(X, 2, 1)])

    def test_another_session_will_do(self) -> None:
        """While any session with the address is left, the OrderAck goes there."""
        other = self.dial()
        self.say(*chain(1, 2))
        self.peer.hang_up()
        self.clock.advance(1)
        self.assertEqual(other.order_acks, [(X, 2, 1)])

    def test_the_address_of_the_peer(self) -> None:
        """It is the address of the socket, not one that the peer states (MQQB-3.1.1.3.1-17)."""
        [session] = self.beta.service.inspection.sessions()
        self.assertEqual(session.remote_address, "127.0.0.4")

    def test_what_is_known_of_a_sequence(self) -> None:
        """Its sender, queue, format name and position, and the refusals since.

        MQQB-3.1.5.8.8-05, MQQB-3.1.5.8.8-06.
        """
        self.assertEqual(self.beta.incoming_transfers(), [])
        self.say(*chain(1, 2), transactional(b"gap", (X, 9, 8)))
        [info] = self.beta.incoming_transfers()
        self.assertEqual(info.sender_identifier, GAMMA)
        self.assertEqual(info.key[1:], b"tcp:127.0.0.3\\private$\\orders")
        self.assertEqual((info.sequence_identifier.value, info.sequence_number), (X, 2))
        self.assertEqual(info.last_access_time, int(self.clock.now().wall))
        self.assertEqual(info.reject_count, 1)
        packets = [view.packet for view in self.take(self.beta, self.path)]
        self.assertEqual(packets, chain(1, 2))

    def test_counts(self) -> None:
        """Express, recoverable and transactional ones count; a new session begins with 1 again.

        MQQB-3.1.1.3.1-04, MQQB-3.1.1.3.1-05, MQQB-3.1.1.4-01, MQQB-3.1.1.4-03, MQQB-3.1.1.7.2-01.
        """
        to: dict[str, Any] = {"destination": self.to("plain")}
        express = transactional(b"e", (0, 1, 0), **EXPRESS, **to)
        recoverable = [transactional(b"r", (0, each, 0), **RECOVERABLE, **to) for each in (5, 6)]
        for _ in range(2):
            self.say(express, *recoverable, seconds=0.7)
            [(received, base, flags, *_)] = self.peer.acks
            self.assertEqual((received, base, flags), (3, 1, 0b11))
            self.clock.advance(30)
            self.assertEqual(len(self.peer.acks), 1)
            self.peer = self.dial()
            recoverable = [transactional(b"r", (0, each, 0), **RECOVERABLE, **to) for each in (7, 8)]


class RefusalTests(ReceiverTestCase):
    """Refused messages are acknowledged, and do not block later ones."""

    def answer_unauthenticated(self) -> None:
        """Switch SendInsecureNacks on."""
        self.beta = self.reconfigured(self.beta, send_insecure_nacks=True)
        self.peer = self.dial()

    def refuse(self, message_class: int, packet: bytes, following: bytes) -> None:
        """The first of a sequence is refused, with both answers; the next of it is passed as well."""
        self.say(packet, following)
        self.clock.advance(1)
        self.peer.acknowledge()
        self.clock.advance(1)
        peers = [self.peer, *self.peers]
        self.assertEqual([ack for peer in peers for ack in peer.order_acks], [(X, 2, 1)])
        final = [ack for peer in peers for ack in peer.final_acks]
        self.assertEqual(sorted(final), [(message_class, 1), (message_class, 2)])
        self.assertEqual([message.message_class for message in self.reported()], [message_class])
        self.check_counts()

    def test_no_such_queue(self) -> None:
        """FinalAck 0x8000, also to unauthenticated peers if that is permitted; the sequence continues.

        MQQB-3.1.5.8.2-07, MQQB-3.1.5.8.2-13, MQQB-3.1.1.1.1.8-01, MQQB-2.2.5-01.
        """
        self.answer_unauthenticated()
        name = "TCP:127.0.0.3\\private$\\nowhere"
        first, second = chain(1, 2, destination=name)
        [asking] = chain(1, 1, destination=name, acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN)
        del first
        self.listen_for_admin()
        self.refuse(0x8000, asking, second)
        self.assertEqual([message.message_class for message in self.reported()], [0x8000])

    def listen_for_admin(self) -> None:
        self.listen(is_prompt=True)

    def reported(self) -> list[Any]:
        """The administration acknowledgements, on any session."""
        return [message for peer in (self.peer, *self.peers) for message in peer.messages]

    def test_not_a_transactional_queue(self) -> None:
        """0x8009, in a FinalAck in any case (MQQB-3.1.5.8.2-08)."""
        self.listen_for_admin()
        name = "TCP:127.0.0.3\\private$\\plain"
        [asking] = chain(1, 1, destination=name, acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN)
        self.answer_unauthenticated()
        self.refuse(0x8009, asking, chain(2, 2, destination=name)[0])
        self.assertEqual([message.message_class for message in self.reported()], [0x8009])

    def test_a_null_address_is_this_queue_manager(self) -> None:
        """An express message by a direct name to the transactional queue is refused (MQQB-3.1.5.8.2-10)."""
        self.listen_for_admin()
        self.say(
            transactional(b"x", (0, 1, 0), acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN, **EXPRESS), seconds=1
        )
        self.assertEqual([message.message_class for message in self.reported()], [0x800A])
        self.assertEqual(self.bodies(self.beta, self.path), [])
        self.check_counts()

    def test_a_full_queue(self) -> None:
        """0x8003 in both answers, and the sequence goes on.

        MQQB-3.1.5.8.8-01.
        """
        self.listen_for_admin()
        self.queue(self.beta, "full", transactional=True, quota=0)
        name = "TCP:127.0.0.3\\private$\\full"
        [asking] = chain(1, 1, destination=name, acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN)
        self.refuse(0x8003, asking, chain(2, 2, destination=name)[0])
        self.assertEqual([message.message_class for message in self.reported()], [0x8003])

    def test_a_full_queue_at_a_full_queue_manager(self) -> None:
        """Each refused message has its FinalAck, also where these need more bytes than the messages would."""
        self.queue(self.beta, "full", transactional=True, quota=0)
        self.run_to_end(self.beta.service.set_quotas({QuotaKind.QUEUES: 1}))
        refused = chain(1, 4, destination="TCP:127.0.0.3\\private$\\full")
        self.assertLessEqual(sum(map(len, refused)), 1024)
        self.say(*refused)
        self.assertEqual(self.peer.final_acks, [(0x8003, number) for number in range(1, 5)])
        self.assertGreater(sum(len(each.packet) for each in self.peer.heard), 1024)

    def test_expired_on_arrival(self) -> None:
        """0x8002 for what came too late, before anything else is said about it (MQQB-3.1.5.8.8-04)."""
        self.listen_for_admin()
        sent = int(self.clock.now().wall) - 100
        times = (50, 0xFFFFFFFF, sent)
        [asking] = chain(1, 1, times=times, acknowledge=NEGATIVE_ARRIVAL, admin=ADMIN)
        self.refuse(0x8002, asking, chain(2, 2, times=times)[0])
        self.assertEqual([message.message_class for message in self.reported()], [0x8002])

    def test_a_full_queue_manager(self) -> None:
        """The session closes with nothing acknowledged; when there is space the sender's next try arrives.

        MQQB-3.1.5.8.8-03.
        """
        self.beta = self.restart(self.beta, quota=2)
        self.peer = self.dial()
        big = [transactional(bytes(1200), (X, each, each - 1)) for each in (1, 2)]
        self.say(*big)
        self.clock.advance(2)
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(len(self.bodies(self.beta, self.path)), 1)
        again = self.dial()
        again.send(*big)
        self.clock.advance(1)
        self.assertEqual(len(self.bodies(self.beta, self.path)), 1)
        self.assertEqual(again.order_acks, [(X, 2, 1)])

    def test_the_first_reason_counts(self) -> None:
        """A late duplicate is a duplicate; a missing queue and one of the wrong kind come before lateness.

        MQQB-3.1.5.8-03.
        """
        late = (1, 0xFFFFFFFF, int(self.clock.now().wall) - 100)
        self.say(*chain(1, 1), *chain(1, 1, times=late))
        self.say(*chain(1, 1, destination="TCP:127.0.0.3\\private$\\nowhere", times=late))
        self.say(*chain(1, 1, destination="TCP:127.0.0.3\\private$\\plain", times=late))
        self.clock.advance(1)
        self.assertEqual(self.peer.final_acks, [(0x8000, 1), (0x8009, 1)])
        self.assertEqual(
            self.beta.service.inspection.status().refused,
            {"DUPLICATE": 1, "NACK_BAD_DST_Q": 1, "NACK_NOT_TRANSACTIONAL_Q": 1},
        )

    def test_acknowledgements_of_applications_are_messages(self) -> None:
        """To a queue of an application they are messages like any (MQQB-3.1.5.11-01)."""
        name = "TCP:127.0.0.3\\private$\\plain"
        for message_class in (0x0002, 0x4000, 0x8000, 0xC000, 0x00FF):
            packet = bytearray(transactional(b"", (0, 1, 0), destination=name, **EXPRESS))
            start = 64 + (2 + 2 * (len(name) + 1) + 3 & ~3)
            packet[start + 2 : start + 4] = message_class.to_bytes(2, "little")
            self.say(bytes(packet))
        views = self.take(self.beta, self.plain)
        self.assertEqual([view.message_class for view in views], [0x0002, 0x4000, 0x8000, 0xC000, 0x00FF])
        self.check_counts()


class FateTests(ReceiverTestCase):
    """FinalAcks report the fate of a message in its queue."""

    def test_received(self) -> None:
        """JP, JN or FinalAckRequired: 0x4000 when the application has it, long after the session said so.

        MQQB-3.1.1.7.3-02, MQQB-3.1.7.2.2-01, MQQB-3.1.7.2-01, MQMQ-2.2.20.5-03.
        """
        self.say(
            transactional(b"plain", (X, 1, 0)),
            transactional(b"jp", (X, 2, 1), user_flags=POSITIVE),
            transactional(b"jn", (X, 3, 2), user_flags=NEGATIVE),
            transactional(b"fa", (X, 4, 3), transaction_flags=2),
        )
        self.clock.advance(10)
        self.peer.acknowledge()
        self.assertEqual(self.peer.order_acks, [(X, 4, 3)])
        self.assertEqual(self.peer.final_acks, [])
        self.assertEqual(len(self.bodies(self.beta, self.path)), 4)
        self.clock.advance(1)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, 2), (ACK_RECEIVE, 3), (ACK_RECEIVE, 4)])
        [ack] = [each for each in self.peer.heard if each.body[8:12] == b"\2\0\0\0"]
        self.assertEqual(UUID(bytes_le=ack.body[16:32]), GAMMA)

    def test_purged_expired_and_deleted(self) -> None:
        """The class says which it was (MQQB-3.1.1.1.1.8-02, MQQB-3.1.7.2-01, MQQB-3.1.7.2.2-01)."""
        flags: dict[str, Any] = {"user_flags": NEGATIVE}
        self.say(*chain(1, 1, **flags))
        self.run_to_end(self.beta.service.purge_queue(self.path))
        soon = (0xFFFFFFFF, 5, int(self.clock.now().wall))
        self.say(*chain(2, 2, times=soon, **flags), seconds=10)
        self.peer.acknowledge()
        self.say(*chain(3, 3, **flags))
        self.run_to_end(self.beta.service.delete_queue(self.path))
        self.clock.advance(1)
        self.assertEqual(self.peer.final_acks, [(0xC001, 1), (0xC002, 2), (0xC000, 3)])

    def test_no_other_message_has_one(self) -> None:
        """An express or recoverable message that was journaled draws nothing (MQQB-3.1.7.2.2-02)."""
        name = "TCP:127.0.0.3\\private$\\plain"
        for each, kind in enumerate((EXPRESS, RECOVERABLE), 1):
            self.say(
                transactional(b"", (0, each, 0), destination=name, user_flags=POSITIVE | NEGATIVE, **kind)
            )
        self.assertEqual(len(self.take(self.beta, self.plain)), 2)
        self.clock.advance(10)
        self.assertEqual(self.peer.heard, [])

    def test_unreachable_order_queue(self) -> None:
        """Without a name for the sender's order queue nothing is sent, and another OrderAck is drawn later.

        MQQB-3.1.7.17-08.
        """
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 0)
        self.say(*chain(1, 1), seconds=2)
        self.assertEqual(self.peer.heard, [])
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 10)
        self.clock.advance(peer_queue_decision.PAUSE)
        self.say(*chain(1, 1), seconds=2)
        self.assertEqual(self.peer.order_acks, [(X, 1, 0)])

    def test_a_final_acknowledgement_is_dialled_for(self) -> None:
        """It is sent once and is recoverable, so it is routed by itself (MQQB-1.3.5.1-01)."""
        self.say(*chain(1, 1, user_flags=POSITIVE), seconds=2)
        self.peer.hang_up()
        self.listen(is_prompt=True)
        self.clock.advance(1)
        self.bodies(self.beta, self.path)
        self.clock.advance(1)
        self.assertEqual(self.peers[0].final_acks, [(ACK_RECEIVE, 1)])
        self.clock.advance(1)
        self.assertEqual(self.waiting(self.beta), 0)
