"""A sending queue manager as a plain peer sees it: [MS-MQQB] 3.1.5.5 and 3.1.7 in bytes."""

from __future__ import annotations

import struct
from itertools import pairwise

from msmq.queues.arriving.message import Acknowledge, Message
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.status import MQError, Status
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, GAMMA, establish, user_packet
from tests.nodes.outgoing.senders import TO_GAMMA, SenderTestCase
from tests.nodes.scripted import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    Heard,
    order_ack,
    transactional,
)

ORDERS = "TCP:127.0.0.4\\private$\\orders"


class ExpressTests(SenderTestCase):
    """[MS-MQQB] figure 5: express messages wait to be sent, then for their acknowledgement."""

    def test_until_it_is_acknowledged(self) -> None:
        """A lost acknowledgement sends the same message again; then one goes to the journal, one is gone.

        MQQB-3.1.1.1.1.3-01, MQQB-3.1.5.5.4-01, MQQB-3.1.6.1-04, MQMQ-2.2.19.2-16.
        """
        self.put_others(b"kept", recoverable=False, journal=True)
        self.put_others(b"gone", recoverable=False)
        self.peer.hang_up()
        self.clock.advance(30)
        self.assertEqual(len(self.peers), 2)
        first, again = ([message.packet for message in peer.messages] for peer in self.peers)
        self.assertEqual([Heard(packet).body for packet in first], [b"kept", b"gone"])
        self.assertEqual(first, again)
        self.assertEqual(self.there(self.alpha, JOURNAL), [])
        self.peer.acknowledge()
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"kept"])
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)

    def test_no_acknowledgement_in_time(self) -> None:
        """A silent peer loses its session, and the message is sent on the next one."""
        self.put_others(b"e", recoverable=False)
        self.clock.advance(80)
        self.assertGreater(len(self.peers), 1)
        self.assertTrue(self.peers[0].is_lost)
        self.assertEqual(self.peer.bodies, [b"e"])

    def test_a_broken_link_and_a_stop(self) -> None:
        """They outlive the connection, may come twice, and end with a stop, without an error.

        MQQB-1.3.2.1.1-01.
        """
        self.put_others(b"e", recoverable=False)
        self.network.cut("127.0.0.2", "127.0.0.4")
        self.clock.advance(30)
        self.assertEqual([peer.bodies for peer in self.peers], [[b"e"], [b"e"]])
        self.alpha = self.restart(self.alpha)
        self.clock.advance(60)
        self.assertEqual(len(self.peers), 2)
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_transactional_copy_waits(self) -> None:
        """The acknowledgement of the session puts nothing transactional into the journal."""
        self.put(b"t", journal=True)
        self.peer.acknowledge()
        self.tell(order_ack(self.sequence(), 1))
        self.assertEqual(self.there(self.alpha, JOURNAL), [])

    def test_acknowledgements_leave_no_copy(self) -> None:
        """Neither administration acknowledgements nor OrderAcks and FinalAcks are kept in a journal.

        MQMQ-2.2.19.2-17.
        """
        path = self.queue(self.alpha, "inbox", transactional=True)
        peer = self.dial("ALPHA", is_prompt=True)
        asking = transactional(
            b"x",
            (9 << 32, 1, 0),
            destination="TCP:127.0.0.2\\private$\\inbox",
            user_flags=0x300,
            acknowledge=0x0F,
            admin="TCP:127.0.0.4\\private$\\admin",
        )
        peer.send(asking)
        self.clock.advance(1)
        self.take(self.alpha, path)
        self.clock.advance(5)
        for each in (*self.peers, peer):
            each.acknowledge()
        self.clock.advance(1)
        classes = [each.message_class for heard in (*self.peers, peer) for each in heard.heard]
        self.assertEqual(sorted(classes), [0x0002, 0x00FF, 0x4000, 0x4000])
        self.assertEqual(self.there(self.alpha, JOURNAL), [])
        self.assertEqual(self.there(self.alpha, DEADXACT), [])

    def test_expired_express(self) -> None:
        """One that asks for it becomes a dead letter, the other is removed (MQMQ-2.2.19.2-15)."""
        self.deafen()
        self.put_others(b"mourned", recoverable=False, time_to_reach_queue=5, dead_letter=True)
        self.put_others(b"gone", recoverable=False, time_to_reach_queue=5)
        self.clock.advance(7)
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"mourned"])
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)


class LayoutTests(SenderTestCase):
    """[MS-MQQB] 3.1.7.1.1 and 3.1.7.11: messages as bytes, against the tests' own encoder."""

    def sent_time(self) -> int:
        return int(self.clock.now().wall)

    def test_messages(self) -> None:
        """Each layout, with its size; only a transactional message has a TransactionHeader.

        All are written on the connection of the session, which has nothing else between them.
        MQQB-3.1.7.1.1-02, MQQB-3.1.7.1.6-01, MQQB-3.1.7.11-01.
        """
        time = self.sent_time()
        self.put_others(b"e", recoverable=False, label="greeting", priority=5)
        self.put_others(b"recoverable", journal=True, dead_letter=True)
        self.put(b"t")
        express, recoverable, in_transaction = self.peer.messages
        expected = user_packet(
            b"e",
            destination=ORDERS,
            label="greeting",
            priority=5,
            message_id=express.message_id,
            sent_time=time,
        )
        # How long it has to reach its queue is a setting.
        self.assertEqual(express.packet, expected[:12] + express.packet[12:16] + expected[16:])
        for message, options in (
            (recoverable, {"is_transactional": False, "user_flags": 0x300}),
            (in_transaction, {"transaction_flags": struct.unpack_from("<I", in_transaction.transaction)[0]}),
        ):
            expected = transactional(
                message.body,
                message.place if message is in_transaction else (0, 0, 0),
                message_id=message.message_id,
                source=ALPHA,
                destination=ORDERS,
                times=(message.at("I", 12), 0xFFFFFFFF, time),
                **options,
            )
            # Ours travel with priority 3, and those of transactions with 0.
            priority = 0 if message is in_transaction else 3
            self.assertEqual(message.packet, expected[:2] + struct.pack("<H", priority) + expected[4:])
            self.assertEqual(message.size, len(message.packet))
        # It is the first and the last of its transaction, and between lies the number of that.
        self.assertEqual(struct.unpack_from("<I", in_transaction.transaction)[0] & 0xFF00000F, 0x0C)

    def test_nothing_of_our_own(self) -> None:
        """Reserved bits and fields are 0, padding is 0, and 5A in an EstablishConnection packet.

        MQQB-1.8-01.
        """
        path = self.queue(self.alpha, "inbox", transactional=True)
        said: list[bytes] = []
        peer = self.dial("ALPHA", is_prompt=True)
        inbox = "TCP:127.0.0.2\\private$\\inbox"
        peer.send(transactional(b"odd", (9 << 32, 1, 0), destination=inbox, user_flags=0x200))
        self.clock.advance(1)
        self.take(self.alpha, path)
        self.put_others(b"odd", recoverable=False, label="x", extension=b"12345")
        self.put(b"odd", label="xy", acknowledge=Acknowledge(15), admin_queue=parse_format_name(TO_GAMMA))
        self.clock.advance(20)
        for link in self.network.links:
            near = next(end for end in (link.initiator, link.acceptor) if end.getHost().host == "127.0.0.2")
            said.append(near.data)
        kinds: set[int | str] = set()
        for packet in _packets(b"".join(said)):
            flags = struct.unpack_from("<H", packet, 2)[0]
            # Of both EstablishConnection packets only the response has it.
            filled = {0, 0x5A} if flags & 0x08 and packet[18] & 0x0F == 2 else {0}
            self.assertEqual(packet[0], 0x10)
            self.assertIn(packet[1], filled)
            self.assertEqual(flags & 0xFEC0, 0)
            if flags & 0x08:
                kind = packet[18] & 0x0F
                kinds.add(kind)
                self.assertEqual(packet[16:18], b"\0\0")
                self.assertEqual(struct.unpack_from("<H", packet, 18)[0] & 0xFFE0, 0)
                if kind == 2:
                    self.assertEqual(packet[58:60], b"\0\0")
                    self.assertEqual(packet[60:], b"\x5a" * 512)
                elif kind == 3:
                    self.assertEqual(packet[28:30], b"\0\0")
                else:
                    self.assertEqual(packet[34:36], b"\0\0")
                continue
            heard = Heard(packet)
            kinds.add("user")
            self.assertEqual(heard.user_flags & 0xED000080, 0)
            start = heard.properties
            length = heard.packet[start + 1] * 2 + heard.at("I", start + 52)
            end = start + 56 + length + heard.at("I", start + 32)
            self.assertEqual(packet[end : heard.size], bytes(heard.size - end))
            for at, size in _direct_names(heard):
                self.assertEqual(packet[at : at + size], bytes(size))
        self.assertEqual(kinds, {1, 2, 3, "user"})

    def test_too_large(self) -> None:
        """A message that would exceed 4 MiB is refused at once, and nothing is dialled for it.

        MQQB-1.6-01.
        """
        sending = self.deferred(self.alpha.service.send(TO_GAMMA, [Message(body=bytes(0x00400000))]))
        error = self.failureResultOf(sending, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.clock.advance(60)
        self.assertEqual(self.peers, [])


class DispatchTests(SenderTestCase):
    """[MS-MQQB] 3.1.7.1, 3.1.7.12 and 3.1.7.16: when messages are sent."""

    def test_not_before_the_session_is_open(self) -> None:
        """While the queue is WAITING nothing but the handshake is on the wire (MQQB-3.1.7.1-01).

        A message that comes during the handshake waits as well.
        """
        self.deafen()
        deafen = self.listen(is_mute=True)
        self.put_others(b"1")
        self.clock.advance(5)
        self.put_others(b"2")
        self.clock.advance(5)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].state, "WAITING")
        said = [link.initiator.data for link in self.network.links]
        self.assertEqual(said, [establish(ALPHA, time_stamp=self.stamp())])
        deafen()
        self.listen()
        self.peer.hang_up()
        self.clock.advance(60)
        self.assertEqual(self.peer.bodies, [b"1", b"2"])

    def stamp(self) -> int:
        """The TimeStamp of the first EstablishConnection packet."""
        stamp: int = struct.unpack_from("<I", self.network.links[0].initiator.data, 52)[0]
        return stamp

    def test_each_entry_once(self) -> None:
        """However often it is looked what may go, each message is sent once in a session.

        MQQB-3.1.7.16-01.
        """
        self.put_others(b"1", recoverable=False)
        self.alpha.service.pause_outgoing(TO_GAMMA)
        self.put_others(b"2", b"3", recoverable=False)
        self.assertEqual(self.peer.bodies, [b"1"])
        for _ in range(3):
            self.alpha.service.resume_outgoing(TO_GAMMA)
            self.alpha.service.pause_outgoing(TO_GAMMA)
        self.alpha.service.resume_outgoing(TO_GAMMA)
        self.peer.acknowledge()
        self.put_others(b"4", recoverable=False)
        self.peer.acknowledge()
        self.clock.advance(5)
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"3", b"4"])
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_over_a_session_that_the_other_side_opened(self) -> None:
        """The first message for its queue manager binds the session to that queue (MQQB-3.1.7.1-03)."""
        self.deafen()
        peer = self.dial("ALPHA")
        name = str(PrivateFormatName(GAMMA, 7))
        self.run_to_end(self.alpha.service.send(name, [Message(body=b"back")]))
        self.clock.advance(1)
        self.assertEqual(peer.bodies, [b"back"])
        self.assertEqual(peer.messages[0].destination, 7)
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual((queue.format_name, queue.state), (name, "CONNECTED"))
        self.assertEqual(len(self.network.links), 1)

    def test_the_states_of_a_queue(self) -> None:
        """The strings are those of the documents (MQMQ-2.3.12.11-01)."""
        states: list[str] = []

        def look() -> None:
            state = self.alpha.service.inspection.outgoing_queue(TO_GAMMA).state
            if states[-1:] != [state]:
                states.append(state)

        self.deafen()
        self.network.set_conditions("127.0.0.2", "127.0.0.4", Conditions(delay=0.2))
        self.alpha.model.outgoing(parse_format_name(TO_GAMMA), self.clock.now())
        look()
        self.run_to_end(self.alpha.service.send(TO_GAMMA, [Message()]))
        look()
        self.listen(is_prompt=True)
        for _ in range(80):
            self.clock.advance(0.1)
            look()
        self.alpha.service.pause_outgoing(TO_GAMMA)
        look()
        self.run_to_end(self.alpha.service.send(TO_GAMMA, [Message()]))
        self.alpha.service.resume_outgoing(TO_GAMMA)
        look()
        self.clock.advance(2)
        self.peer.hang_up()
        self.network.partition("127.0.0.2", "127.0.0.4")
        for _ in range(10):
            self.clock.advance(0.1)
            look()
        expected = ["INACTIVE", "WAITING", "CONNECTED", "ONHOLD", "CONNECTED", "DISCONNECTED"]
        self.assertEqual(states, expected)
        self.run_to_end(self.alpha.service.send("DIRECT=OS:nobody\\private$\\q", [Message()]))
        self.clock.advance(1)
        self.assertEqual(self.alpha.service.inspection.outgoing()[1].state, "NEED VALIDATION")

    def test_a_window_of_zero(self) -> None:
        """A peer that sends 0 gets one message at a time, and the WindowSize that it gets is 40 00.

        MQMQ-2.2.20.4-10.
        """
        self.deafen()
        self.listen(window=0)
        self.put_others(b"1", b"2", b"3")
        for sent in ([b"1"], [b"1", b"2"], [b"1", b"2", b"3"]):
            self.clock.advance(1)
            self.assertEqual(self.peer.bodies, sent)
            self.peer.acknowledge()
        self.peer.send(user_packet(destination="TCP:127.0.0.2\\private$\\nowhere"))
        self.clock.advance(25)
        self.assertFalse(self.peer.is_lost)
        self.assertEqual([header[5] for header in self.peer.acks], [0x40] * len(self.peer.acks))
        self.assertNotEqual(self.peer.acks, [])
        [said] = [link.initiator.data for link in self.network.links]
        self.assertEqual(said[572 + 30 : 572 + 32], b"\x40\0")

    def test_the_numbers_of_messages_wrap(self) -> None:
        """Behind 0xFFFFFFFF they go on, without 0; all are sent, and known apart (MQQB-3.1.1.3-11)."""
        self.alpha.deaf()
        self.alpha.service.stopService()
        # The numbers of a new queue manager begin where its clock says.
        self.clock.set_wall(1_700_000_000 | 0x003FFFFF)
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.peer_is_prompt()
        self.put_others(*[b"%d" % number for number in range(1000)], recoverable=False)
        for number in range(1000, 1040):
            self.put_others(b"%d" % number, recoverable=False)
        self.clock.advance(5)
        numbers = [message.message_id for message in self.peer.messages]
        self.assertEqual(self.peer.bodies, [b"%d" % number for number in range(1040)])
        self.assertEqual(len(set(numbers)), 1040)
        self.assertIn((0xFFFFFFFF, 1), pairwise(numbers))

    def peer_is_prompt(self) -> None:
        """Let the peer acknowledge everything at once."""
        self.deafen()
        self.listen(is_prompt=True)


def _packets(data: bytes) -> list[bytes]:
    packets = []
    while data:
        flags, size = struct.unpack_from("<2xH4xI", data)
        size += 16 if flags & 0x18 == 0x10 else 0
        packets.append(data[:size])
        data = data[size:]
    return packets


def _direct_names(heard: Heard) -> list[tuple[int, int]]:
    """Where the padding of the direct names is, and how much."""
    found = []
    start = 64
    for shift in (10, 13, 16):
        kind = heard.user_flags >> shift & 7
        if kind == 7:
            length = 2 + heard.at("H", start)
            found.append((start + length, -length % 4))
            start += (length + 3) & ~3
        elif kind == 3:
            start += 4
    return found
