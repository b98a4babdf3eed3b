"""[MS-MQDMPR] 3.1.1: what the elements of the model are, and what of them survives."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutQueue
from msmq.persistence.definition import UNLIMITED, QueueDefinition, QueuePrivacy, QueueType
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.effects import OutgoingReady, ReadCompleted
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.outgoing import ConnectionHistoryEntry
from msmq.queues.position import PositionState
from msmq.queues.queue_names import SYSTEM_PATHS
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.management import ConnectionStatus, OutgoingState
from msmq.structures.names.format_name import PublicFormatName, parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID
from tests.builders import GAMMA
from tests.queues.builders import arriving
from tests.queues.simulation import Alpha

SUFFIXES = (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT, QueueSuffix.JOURNAL)
BETA_ORDERS = parse_format_name("DIRECT=OS:beta\\orders")


class SystemQueueTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.1 and 3.1.3: the queues of the system."""

    def test_there_are_three(self) -> None:
        """They are there from the start, are of the kind System, and are not listed among the others.

        MQDMPR-3.1.1.1-34 MQDMPR-3.1.3-20
        """
        alpha = Alpha()
        queues = [alpha.model.system_queue(suffix) for suffix in SUFFIXES]
        self.assertEqual(len(set(queues)), 3)
        self.assertEqual({queue.definition.type for queue in queues}, {QueueType.SYSTEM})
        self.assertEqual([queue.definition.transactional for queue in queues], [False, True, False])
        self.assertEqual((list(alpha.model.queues()), alpha.store.done), ([], []))
        for queue in queues:
            with self.assertRaises(MQError) as caught:
                alpha.model.delete_queue(queue)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_OPERATION)
            with self.assertRaises(MQError):
                alpha.model.alter_queue(queue, alpha.now, label="mine")

    def test_what_is_in_them_survives(self) -> None:
        """MQDMPR-3.1.3-20: a start finds their messages again, and no second queue of the kind."""
        alpha = Alpha()
        queue = alpha.create()
        for suffix in SUFFIXES:
            alpha.put(queue, suffix.value.encode())
            alpha.move(queue.peek(1)[0], alpha.model.system_queue(suffix))
        again = alpha.restart()
        for suffix in SUFFIXES:
            self.assertEqual(again.bodies(again.model.system_queue(suffix)), [suffix.value.encode()])
        again.check()
        again.check_store()

    def test_queues_of_acknowledgements(self) -> None:
        """The queues for order acknowledgements and notifications cannot be made, opened or deleted.

        MQDMPR-3.1.3-21.
        """
        alpha = Alpha()
        self.assertEqual(len(SYSTEM_PATHS), 2)
        for path in SYSTEM_PATHS:
            with self.assertRaises(MQError) as caught:
                alpha.model.create_queue(parse_path_name(f".\\{path}"), identifier=GAMMA, now=alpha.now)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ACCESS_DENIED)
            name = parse_format_name(f"DIRECT=OS:alpha\\{path}")
            for access in (QueueAccessType.RECEIVE, QueueAccessType.PEEK, QueueAccessType.SEND):
                with self.assertRaises(MQError):
                    alpha.model.descriptors.open([name], access, now=alpha.now)


class QueueTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.2."""

    def test_defaults(self) -> None:
        """A queue with default properties has no limits, no journal, and accepts any message.

        MQDMPR-3.1.7.1.33-02 MQDMPR-3.1.7.1.33-03
        """
        definition = Alpha().create().definition
        self.assertEqual((definition.quota, definition.journal_quota), (UNLIMITED, UNLIMITED))
        self.assertFalse(definition.journal or definition.authenticate or definition.transactional)
        self.assertEqual((definition.label, definition.application_type), ("", NULL_GUID))
        self.assertEqual(definition.privacy, QueuePrivacy.OPTIONAL)

    def test_properties_survive(self) -> None:
        """Every property of a private queue is the same after a restart.

        MQDMPR-3.1.1.2-04: Type, whatever it is, changes nothing.
        """
        alpha = Alpha()
        queue = alpha.create(
            label="L",
            transactional=True,
            journal=True,
            quota=7,
            journal_quota=8,
            authenticate=True,
            privacy=QueuePrivacy.BODY,
            application_type=UUID(int=0xA11),
        )
        again = alpha.restart().find(".\\private$\\orders")
        self.assertEqual(again.definition, queue.definition)
        plain = alpha.create("plain", application_type=UUID(int=0xA12))
        alpha.put(plain, b"1")
        self.assertEqual(alpha.bodies(plain), [b"1"])

    def test_volatile_state(self) -> None:
        """Handles and waits end with the process; what can be counted is counted anew, kinds are kept.

        MQDMPR-3.1.1.2-02 MQDMPR-3.1.1.2-21
        """
        alpha = Alpha()
        queue = alpha.create(journal=True)
        alpha.put(queue, b"1", b"22", arriving(b"express"))
        subqueue = alpha.subqueue(queue)
        alpha.move(queue.peek(1)[0], subqueue)
        alpha.confirm(alpha.receive(queue))
        alpha.put(queue, b"333")
        name = alpha.model.format_name(queue)
        alpha.model.descriptors.open([name], QueueAccessType.RECEIVE, now=alpha.now)
        alpha.read(alpha.create("empty"), wait=True)
        self.assertTrue(queue.is_active)
        board = QueueDefinition(identifier=GAMMA, path="board", type=QueueType.PUBLIC)
        alpha.store.ask([PutQueue(board)])
        next_life = alpha.restart()
        again = next_life.find(".\\private$\\orders")
        self.assertEqual((len(again.descriptors), len(again.readers), again.is_active), (0, 0, False))
        self.assertEqual(next_life.bodies(again), [b"333"])
        self.assertEqual(again.total_bytes, sum(each.size for each in again.peek(9)))
        assert again.journal is not None
        self.assertEqual(next_life.bodies(again.journal), [b"22"])
        self.assertEqual(list(again.subqueues), ["sub"])
        public = next_life.model.find(PublicFormatName(GAMMA))
        assert public is not None
        kinds = [each.definition.type for each in (again, again.subqueues["sub"], again.journal, public)]
        self.assertEqual(kinds, [QueueType.PRIVATE, QueueType.PRIVATE, QueueType.SYSTEM, QueueType.PUBLIC])
        self.assertEqual(
            {each.value for each in QueueType} - {"outgoing"}, {"private", "public", "system", "connector"}
        )

    def test_illegal_paths(self) -> None:
        """A path that names no queue makes none.

        MQDMPR-3.1.7.1.3-02.
        """
        alpha = Alpha()
        for path in (
            ".\\private$\\",
            ".\\private$\\" + "x" * 125,
            ".\\private$\\a+b",
            '.\\private$\\a"b',
            ".\\private$\\a\\b",
            "private$\\orders",
            "",
        ):
            with self.subTest(path=path), self.assertRaises(MQError) as caught:
                alpha.model.create_queue(parse_path_name(path), identifier=GAMMA, now=alpha.now)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)
        self.assertEqual((list(alpha.model.queues()), alpha.store.done), ([], []))


class OutgoingQueueTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.3."""

    def test_restart(self) -> None:
        """The destination survives with the messages; what was known of the route does not (reading 10).

        MQDMPR-3.1.1.3-01.
        """
        alpha = Alpha()
        outgoing = alpha.model.outgoing(BETA_ORDERS, alpha.now)
        alpha.put(outgoing, b"1", arriving(b"express"))
        outgoing.state = OutgoingState.CONNECTED
        outgoing.next_hops = ("127.0.0.3",)
        outgoing.history.append(ConnectionHistoryEntry(ConnectionStatus.ESTABLISHED, 5))
        next_life = alpha.restart()
        [again] = next_life.model.outgoing_queues()
        self.assertEqual(again.destination, BETA_ORDERS)
        self.assertEqual(next_life.bodies(again), [b"1"])
        self.assertEqual((again.state, again.next_hops), (OutgoingState.INACTIVE, ()))
        self.assertEqual(list(again.history), [])

    def test_destination(self) -> None:
        """It is named by where it goes; a multicast address is not sent to, so none is of that kind.

        MQDMPR-3.1.1.3-02.
        """
        alpha = Alpha()
        open_queue = alpha.model.descriptors.open
        open_queue([BETA_ORDERS], QueueAccessType.SEND, now=alpha.now)
        [outgoing] = alpha.model.outgoing_queues()
        self.assertEqual((outgoing.destination, outgoing.next_hops), (BETA_ORDERS, ()))
        with self.assertRaises(MQError):
            open_queue([parse_format_name("MULTICAST=234.1.1.1:8001")], QueueAccessType.SEND, now=alpha.now)
        self.assertEqual(list(alpha.model.outgoing_queues()), [outgoing])

    def test_history(self) -> None:
        """An entry has the result of an attempt, its time, its error and the addresses.

        The statuses are the seventeen of the document.

        MQDMPR-3.1.1.3-06 MQDMPR-3.1.1.3-07 MQDMPR-3.1.1.3-08
        """
        entry = ConnectionHistoryEntry(ConnectionStatus.PING_FAILURE, 1_700_000_000, 0xC00E0001, ("TCP=1",))
        self.assertEqual((entry.status.document_name, entry.time), ("PingFailure", 1_700_000_000))
        self.assertEqual((entry.error, entry.addresses), (0xC00E0001, ("TCP=1",)))
        self.assertEqual(ConnectionHistoryEntry(ConnectionStatus.ESTABLISHED, 1).error, 0)
        self.assertEqual(
            {status.document_name for status in ConnectionStatus},
            {
                "InProcess",
                "EstablishPacketReceived",
                "Established",
                "UnknownFailure",
                "PingFailure",
                "SocketCreateFailure",
                "SocketBindFailure",
                "SocketConnectFailure",
                "SocketSendFailure",
                "TcpNotEnabled",
                "ConnectionNotReady",
                "DnsFailure",
                "CertificateValidationFailure",
                "ConnectionLimitReached",
                "ConnectionRefused",
                "RoutingDataNotAvailable",
                "LowResource",
            },
        )


class MessageTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.12."""

    def test_defaults(self) -> None:
        """A message with default properties is of class normal, express, untraced, without administration and
        response queues, and requests nothing.

        MQDMPR-3.1.1.12-18 MQDMPR-3.1.1.12-24
        """
        message = Message()
        self.assertEqual((message.message_class, message.delivery), (MessageClass.NORMAL, Delivery.EXPRESS))
        self.assertIsNone(message.trace)
        self.assertEqual((message.admin_queue, message.response_queue), (None, None))
        self.assertEqual((message.acknowledge, message.connector_type), (Acknowledge.NONE, None))
        self.assertEqual((message.body, message.extension, message.application_tag), (b"", b"", 0))
        self.assertEqual((message.body_type, message.correlation_id), (0, bytes(20)))

    def test_recoverable_messages_survive(self) -> None:
        """A message that was taken is there after the process was killed; an express one need not be.

        MQDMPR-3.1.1.12-16, MQMQ-2.2.19.2-12.
        """
        alpha = Alpha()
        queue = alpha.create()
        alpha.put(queue, b"1", arriving(b"express"), arriving(b"t", transactional=True))
        # Of one shape, so they are admitted together.
        view = arriving(b"2", recoverable=True)
        alpha.put(queue, view, view)
        alpha.store.is_slow = True
        alpha.put(queue, b"not taken yet")
        again = alpha.restart()
        self.assertEqual(again.bodies(again.find(".\\private$\\orders")), [b"1", b"2", b"2", b"t"])

    def test_position(self) -> None:
        """A message has its queue and its position there, wherever it is.

        MQDMPR-3.1.1.12-59 (reading 30)
        """
        alpha = Alpha()
        queue = alpha.create()
        target = alpha.subqueue(queue)
        alpha.put(queue, b"1", b"2")
        alpha.move(queue.peek(1)[0], target)
        for each in (queue, target):
            [position] = each.positions.values()
            self.assertIs(position.queue, each)
            self.assertIs(each.positions[position.lookup_id], position)


class EventTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.2."""

    def test_all_effects_are_returned(self) -> None:
        """The core has done its part when it answers; its effects are for all others, in order.

        MQDMPR-3.1.7.2-01.
        """
        alpha = Alpha()
        queue = alpha.create()
        outgoing = alpha.model.outgoing(BETA_ORDERS, alpha.now)
        alpha.model.receive(queue, tag="reader", now=alpha.now)
        views = (arriving(b"1"), arriving(b"2", time_to_be_received=0))
        admission = alpha.model.admit([*((queue, view) for view in views), (outgoing, arriving())], alpha.now)
        late, completed, ready = alpha.model.commit(admission, alpha.now)
        assert isinstance(late, Departure) and isinstance(completed, ReadCompleted)
        self.assertEqual(late.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)
        self.assertEqual({position.state for position in late.positions}, {PositionState.LEAVING})
        self.assertEqual({position.state for position in completed.positions}, {PositionState.LOCKED_READER})
        self.assertEqual(ready, OutgoingReady(outgoing))
        self.assertEqual(len(outgoing.peek(9)), 1)


class StatusTests(SynchronousTestCase):
    """[MS-MQDMPR] 1.8."""

    def test_no_status_is_ours(self) -> None:
        """Every HRESULT is one of the documents, of the facility of message queuing; none is private.

        MQDMPR-1.8-01 MQDMPR-1.8-02
        """
        for status in Status:
            with self.subTest(status=status):
                self.assertIn(status >> 16, (0x0000, 0x400E, 0xC00E))
                self.assertTrue(status >> 16 or status == 0)
