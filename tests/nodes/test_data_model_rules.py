"""[MS-MQDMPR] 3.1.1: what whole queue managers know, what they share, and what of it survives."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

import msmq
from msmq.control.server.factory import make_site
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.membership.objects import DIRECTORY_OBJECT_TYPES, QueueManagerObject
from msmq.queues.arriving.message import Message
from msmq.structures.identifiers import SequenceInfo
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import Status
from msmq.transfer.transfer_info import NO_SEQUENCE, IncomingTransferInfo, OutgoingTransferInfo
from tests.builders import ALPHA, GAMMA
from tests.control.support import Answer, Caller, resource
from tests.nodes.arrivals.receiver import ReceiverTestCase, X, chain
from tests.nodes.arrivals.test_transactional import DEADXACT, TransferTestCase
from tests.nodes.outgoing.senders import TO_GAMMA, SenderTestCase
from tests.nodes.routes.test_public_queues import ORDERS, DirectoryTestCase
from tests.nodes.scripted import final_ack, order_ack, transactional
from tests.nodes.support import Node


class OutgoingTransferTests(SenderTestCase):
    """[MS-MQDMPR] 3.1.1.4 OutgoingTransferInfo."""

    def info(self) -> OutgoingTransferInfo:
        [queue] = self.alpha.model.outgoing_queues()
        return self.alpha.outgoing_transfer(queue)

    def test_positions_and_times(self) -> None:
        """Three are sent and the first is acknowledged two seconds later.

        MQDMPR-3.1.1.4-02, MQMQ-2.2.5-02.
        """
        self.put(b"1", b"2", b"3")
        sequence, sent = self.sequence(), int(self.clock.now().wall)
        info = self.info()
        self.assertEqual((info.eod_last_ack, info.eod_resend_time), (NO_SEQUENCE, sent + 30))
        self.clock.advance(2)
        self.tell(order_ack(sequence, 1))
        reported = int(self.clock.now().wall)
        info = self.info()
        self.assertEqual(info.eod_last_ack, SequenceInfo(sequence, 1, 0))
        self.assertEqual(info.eod_first_non_ack, SequenceInfo(sequence, 2, 1))
        self.assertEqual(info.eod_last_non_ack, SequenceInfo(sequence, 3, 2))
        self.assertEqual(info.eod_next_seq, SequenceInfo(sequence, 4, 3))
        self.assertEqual((info.eod_last_ack_time, info.eod_resend_interval), (reported, 30.0))
        self.assertEqual(info.eod_resend_time, reported + 30)

    def test_counts(self) -> None:
        """The messages waiting for each acknowledgement, the OrderAcks received, and the attempts.

        MQDMPR-3.1.1.4-03.
        """
        self.put(b"1", b"2", b"3", journal=True)
        first = self.peer.messages[0]
        self.tell(order_ack(self.sequence(), 1))
        info = self.info()
        self.assertEqual((info.eod_no_ack_count, info.eod_no_read_count), (2, 1))
        self.assertEqual((info.eod_last_ack_count, info.eod_resend_count), (1, 0))
        self.clock.advance(31)
        self.assertEqual(self.info().eod_resend_count, 1)
        self.tell(final_ack(first))
        info = self.info()
        self.assertEqual((info.eod_no_ack_count, info.eod_no_read_count), (2, 0))

    def test_it_ends_with_the_process(self) -> None:
        """After a restart it counts from 0, and sends only what is left, with the same positions."""
        self.put(b"1", b"2", b"3")
        sequence = self.sequence()
        self.tell(order_ack(sequence, 1))
        self.assertEqual(self.info().eod_last_ack_count, 1)
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        info = self.info()
        self.assertEqual((info.eod_last_ack, info.eod_last_ack_count), (NO_SEQUENCE, 0))
        self.assertEqual([message.body for message in self.peer.messages], [b"2", b"3"])
        self.assertEqual(
            [message.place[:2] for message in self.peer.messages], [(sequence, 2), (sequence, 3)]
        )


class RestartedTransferTests(TransferTestCase):
    """[MS-MQDMPR] 3.1.1.4 and 3.1.1.5 over a restart."""

    def test_no_duplicates(self) -> None:
        """A process that dies in the middle of a stream delivers nothing twice; none of it is published.

        MQDMPR-3.1.1.4-01.
        """
        path = self.queue(self.beta, transactional=True)
        bodies = [b"%d" % number for number in range(30)]
        for number, body in enumerate(bodies):
            self.begin(body)
            self.clock.advance(0.002)
            if number % 10 == 5:
                self.alpha.deaf()
                self.alpha.service.stopService()
                store = self.alpha.store
                self.alpha = Node(self.network, self.clock, "ALPHA", ALPHA, self.settings, store)
                self.alpha.start()
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, path), bodies)
        published = {name for kind in DIRECTORY_OBJECT_TYPES for name in attrs.fields_dict(kind)}
        outgoing = attrs.fields_dict(OutgoingTransferInfo)
        self.assertEqual(published & set(outgoing), set())


class IncomingTransferTests(ReceiverTestCase):
    """[MS-MQDMPR] 3.1.1.5 IncomingTransactionalTransferInfo."""

    def infos(self) -> dict[UUID, IncomingTransferInfo]:
        return {info.sender_identifier: info for info in self.beta.incoming_transfers()}

    def test_what_it_mirrors(self) -> None:
        """Two of a sequence came and two were refused; what is accepted next ends the count.

        MQDMPR-3.1.1.5-02.
        """
        self.say(*chain(1, 2))
        self.say(*chain(1, 2))
        info = self.infos()[GAMMA]
        self.assertEqual((info.sequence_identifier.value, info.sequence_number), (X, 2))
        self.assertEqual(info.reject_count, 2)
        self.say(*chain(3, 3))
        info = self.infos()[GAMMA]
        self.assertEqual((info.sequence_number, info.reject_count), (3, 0))

    def test_records_of_a_queue(self) -> None:
        """Two senders have two records of the queue, apart from its subqueue, and the queue is found by their
        names.

        MQDMPR-3.1.1.2-20, MQDMPR-3.1.1.5-01.
        """
        other = UUID(int=0xD)
        self.say(*chain(1, 2))
        sender = self.dial(host=self.network.host("127.0.0.9"), identifier=other)
        sender.send(transactional(b"x", (X + 7, 1, 0), source=other))
        self.clock.advance(0.1)
        first = self.run_to_end(self.beta.service.reserve(self.path, timeout=0, peek=True)).messages[0]
        self.run_to_end(self.beta.service.move(first.view.identifier, self.path + ";later"))
        queue = self.beta.model.find(parse_path_name(self.path))
        assert queue is not None
        [subqueue] = queue.subqueues.values()
        self.assertIs(subqueue.parent, queue)
        infos = self.infos()
        self.assertEqual(set(infos), {GAMMA, other})
        now = int(self.clock.now().wall)
        for identifier, place in ((GAMMA, (X, 2)), (other, (X + 7, 1))):
            info = infos[identifier]
            self.assertEqual((info.sequence_identifier.value, info.sequence_number), place)
            self.assertEqual((info.last_access_time, info.reject_count), (now, 0))
            self.assertIs(self.beta.model.find(parse_format_name(f"DIRECT={info.key[1:].decode()}")), queue)
        published = {kind.TYPE for kind in DIRECTORY_OBJECT_TYPES}
        self.assertNotIn("IncomingTransactionalTransferInfo", published)


class SharingTests(TransferTestCase):
    """[MS-MQDMPR] 3.1.1: one queue manager behind all of its protocols."""

    def call(self, method: str, path: str, body: bytes | None = None, **parameters: Any) -> Answer:
        """Ask the control API of BETA."""
        caller = Caller(
            make_site(
                self.beta.service,
                configuration=NoServerConfiguration(),
                members=EstateMembers(("BETA",), {}, None),
                clock=self.clock.reactor,
            ),
            self.clock,
        )
        caller.ask(method, path, body, **parameters)
        return caller.answer

    def test_what_one_changes_the_others_see(self) -> None:
        """A queue is made by the control API, filled by a session, emptied in Python and deleted again.

        Made anew, it is another queue for the session too.

        MQDMPR-3.1.1-06.
        """
        path = ".\\private$\\orders"
        made = self.call("POST", "/v1/queues", b'{"path": ".\\\\private$\\\\orders", "transactional": true}')
        self.assertEqual(made.json, json_record(self.beta.service.inspection.queue(path)))
        self.begin(b"1")
        self.clock.advance(5)
        self.assertEqual(self.call("GET", resource("queues", path)).json["messages"], 1)
        self.assertEqual(self.bodies(self.beta, path), [b"1"])
        self.assertEqual(self.call("GET", resource("queues", path)).json["messages"], 0)
        self.call("DELETE", resource("queues", path))
        self.assertEqual(self.beta.service.inspection.queues(), [])
        self.begin(b"2", dead_letter=True)
        self.clock.advance(5)
        self.assertEqual(self.there(self.alpha, DEADXACT), [b"2"])
        self.call("POST", "/v1/queues", b'{"path": ".\\\\private$\\\\orders", "transactional": true}')
        self.begin(b"3")
        self.clock.advance(5)
        self.assertEqual(self.call("GET", resource("queues", path)).json["messages"], 1)
        shown = self.call("GET", "/v1/status").json
        self.assertEqual(UUID(shown["identifier"]), self.beta.service.inspection.status().identifier)


class InternalEventTests(TransferTestCase):
    """[MS-MQDMPR] 3.1.7.3."""

    EVENTS = (
        "wait_for_new_message",
        "seek_available_message_position",
        "seek_by_lookup_id",
        "waiting_message_read_timer_start",
        "waiting_message_read_timer_stop",
        "waiting_message_read_satisfied",
        "release_next_reader",
        "expand_format_name",
        "dispatch_send_message",
    )

    def test_protocols_cannot_raise_them(self) -> None:
        """The interface for protocols has none of them, and protocols import no module that has.

        MQDMPR-3.1.7.3-01.
        """
        self.assertEqual(set(self.EVENTS) & set(IQueueManager.names(all=True)), set())
        internal = ("readers", "reading", "seeking", "cursor", "descriptors", "model", "directory.names")
        forbidden = ("msmq.manager", *(f"msmq.queues.{name}" for name in internal))
        package = Path(msmq.__file__).parent
        for protocol in ("control", "net", "session", "discovery"):
            for source in sorted((package / protocol).rglob("*.py")):
                for node in ast.walk(ast.parse(source.read_text("utf-8"))):
                    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                    if isinstance(node, ast.ImportFrom) and node.module:
                        names = [node.module]
                    for name in names:
                        self.assertFalse(name.startswith(forbidden), f"{source} imports {name}")


class AttributeTests(DirectoryTestCase):
    """[MS-MQDMPR] 3.1.1: the attributes called Persistent and Directory."""

    def test_they_survive(self) -> None:
        """Stopped and started, with its directory and without, the values are those of before.

        MQDMPR-3.1.1-02.
        """
        values: dict[str, Any] = {
            "transactional": False,
            "journal": True,
            "quota": 77,
            "journal_quota": 78,
            "label": "kept",
            "privacy": "body",
        }
        self.create(**values)
        self.create(".\\private$\\orders", **values)
        manager = QueueManagerObject(identifier=GAMMA, computer_name="GAMMA", queue_manager_quota=2)
        self.successResultOf(self.directory.write(manager, ("queue_manager_quota",)))
        before = self.service.inspection.queues()
        self.assertEqual(len(before), 2)
        for is_connected in (True, False, True):
            self.directory.is_connected = is_connected
            self.restart(directory=self.directory)
            self.assertEqual(self.service.inspection.queues(), before)
            sending = self.service.send(".\\private$\\plain", [Message()])
            self.assertEqual(self.refused(sending), Status.MQ_ERROR_QUEUE_NOT_FOUND)
            sending = self.service.send(ORDERS, [Message(body=bytes(3000))])
            self.assertEqual(self.refused(sending), Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        for name, value in values.items():
            self.assertEqual(
                [getattr(queue, name) for queue in self.service.inspection.queues()], [value, value], name
            )
        held = self.published()
        self.assertEqual((held.label, held.quota, held.journal_quota), ("kept", 77, 78))


class SendingTests(SenderTestCase):
    """Messages that are sent, and those that are not."""

    def test_nothing_leaves_before_the_commit(self) -> None:
        """Messages of a transaction are sent only after it has committed.

        MQQB-1.3.2.1.3-01.
        """
        self.put(b"1")
        transaction = self.alpha.service.begin()
        message = Message(body=b"2", transactional=True)
        self.run_to_end(self.alpha.service.send(TO_GAMMA, [message], transaction=transaction))
        self.clock.advance(5)
        self.assertEqual(self.peer.bodies, [b"1"])
        self.run_to_end(transaction.commit())
        self.clock.advance(5)
        self.assertEqual(self.peer.bodies, [b"1", b"2"])

    def test_local_messages_cause_no_connection(self) -> None:
        """A message to a local queue is there, and causes no connection; others leave in their order.

        MQQB-3.1.7.12-01, MQQB-3.1.7.12-05.
        """
        path = self.queue(self.alpha)
        self.send(self.alpha, path, b"own")
        self.clock.advance(60)
        inspection = self.alpha.service.inspection
        self.assertEqual((self.peers, inspection.sessions(), inspection.outgoing()), ([], [], []))
        self.assertEqual(self.bodies(self.alpha, path), [b"own"])
        self.put(b"1")
        self.put_others(b"2", b"3")
        self.put(b"4")
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"3", b"4"])

    def test_sequence_numbers(self) -> None:
        """The first message of a sequence has number 1 and follows 0, each other follows the one before.

        MQMQ-2.2.20.5-08.
        """
        self.put(b"1", b"2")
        self.put(b"3")
        self.assertEqual(self.numbers(), [(1, 0), (2, 1), (3, 2)])

    def test_transactions(self) -> None:
        """The packets of one transaction have its number and its edges, and no other has that number.

        MQMQ-2.2.20.5-04, MQMQ-2.2.20.5-05.
        """
        self.put(b"1", b"2", b"3")
        self.put(b"4", b"5")
        found = []
        for message in self.peer.messages:
            header = UserMessageView(message.packet).transaction
            assert header is not None
            found.append((header.transaction_id, header.is_first, header.is_last))
        one, other = found[0][0], found[3][0]
        self.assertNotEqual(one, other)
        self.assertEqual(
            found,
            [
                (one, True, False),
                (one, False, False),
                (one, False, True),
                (other, True, False),
                (other, False, True),
            ],
        )

    def test_identifiers(self) -> None:
        """A thousand messages have distinct identifiers with the GUID of their queue manager.

        MQMQ-2.2.18.1.3-02.
        """
        path = self.queue(self.alpha)
        service = self.alpha.service
        found = self.run_to_end(service.send(path, [Message() for _ in range(1000)]))
        self.assertEqual(len({each.ordinal for each in found}), 1000)
        self.assertEqual({each.queue_manager for each in found}, {ALPHA})
        self.assertEqual([view.identifier for view in self.take(self.alpha, path)], list(found))
