"""Packets that are made of messages, compared with those of the full encoder."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import PacketBuilder, build_packet, list_of_destinations
from msmq.queues.arriving.send_run import SendRun
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.format_name import (
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import (
    MAXIMUM_ELEMENTS,
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA, GAMMA, NULL

FIELDS = set(PacketShape.__slots__) - {"before", "names", "rest"}
"""The fields of a packet among the attributes of its shape."""

DIRECT = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders")
EXPECTED_DESTINATIONS: dict[FormatName, tuple[QueueNameKind, QueueName, UUID]] = {
    DIRECT: (QueueNameKind.DIRECT, DirectQueueFormatName("TCP:127.0.0.3\\private$\\orders"), NULL),
    parse_format_name("DIRECT=OS:beta\\q"): (QueueNameKind.DIRECT, DirectQueueFormatName("OS:beta\\q"), NULL),
    PrivateFormatName(BETA, 0x10): (
        QueueNameKind.PRIVATE_ON_DESTINATION,
        PrivateQueueFormatNameId(0x10),
        BETA,
    ),
    PublicFormatName(GAMMA): (QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA), BETA),
}

CONNECTOR = UUID(int=0xC0)

numbers = st.integers(0, 0xFFFFFFFF)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=120)
queues: st.SearchStrategy[FormatName] = st.sampled_from(
    [
        DIRECT,
        parse_format_name("DIRECT=HTTP://gamma/msmq/private$/answers"),
        PublicFormatName(GAMMA),
        PrivateFormatName(ALPHA, 1),
        PrivateFormatName(BETA, 2),
        PrivateFormatName(GAMMA, 3),
        PrivateFormatName(GAMMA, 4),
    ]
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    acknowledge = draw(st.integers(0, 15))
    return Message(
        body=draw(st.binary(max_size=70)),
        label=draw(texts),
        body_type=draw(numbers),
        priority=draw(st.integers(0, 7)),
        delivery=draw(st.sampled_from(Delivery)),
        transactional=draw(st.booleans()),
        time_to_reach_queue=draw(st.none() | numbers),
        time_to_be_received=draw(numbers),
        journal=draw(st.booleans()),
        dead_letter=draw(st.booleans()),
        acknowledge=Acknowledge(acknowledge),
        admin_queue=draw(queues if acknowledge else st.none() | queues),
        response_queue=draw(st.none() | queues),
        correlation_id=draw(st.binary(min_size=20, max_size=20)),
        application_tag=draw(numbers),
        extension=draw(st.binary(max_size=9)),
        trace=draw(st.none() | st.just(NULL) | st.uuids()),
        message_class=draw(st.integers(0, 0xFFFF)) & 0xE1FF,
        connector_type=draw(st.none() | st.uuids()),
        hash_algorithm=draw(numbers),
        privacy_level=draw(st.sampled_from(PrivacyLevel)),
    )


def named(name: FormatName | None) -> tuple[QueueNameKind, QueueName | None]:
    """How a queue is named in a message from ALPHA to a queue of BETA's that is not named directly."""
    match name:
        case None:
            return QueueNameKind.NONE, None
        case PrivateFormatName(queue_manager=host, number=number):
            if host == ALPHA:
                return QueueNameKind.PRIVATE_ON_SOURCE, PrivateQueueFormatNameId(number)
            if host == BETA:
                return QueueNameKind.PRIVATE_ON_DESTINATION, PrivateQueueFormatNameId(number)
            return QueueNameKind.PRIVATE, PrivateQueueFormatName(host, number)
        case PublicFormatName(queue=queue):
            return QueueNameKind.PUBLIC, PublicQueueFormatName(queue)
    return QueueNameKind.DIRECT, DirectQueueFormatName(str(name).removeprefix("DIRECT="))


def encoded(message: Message, destination: FormatName, message_id: int, sent_time: int) -> bytes:
    """The packet as the full encoder makes it."""
    kind, queue, address = EXPECTED_DESTINATIONS[destination]
    debug = None
    if message.trace is not None:
        debug = DebugHeader(None if message.trace == NULL else message.trace)
    admin = message.admin_queue if message.acknowledge else None
    admin_kind, admin_queue = named(admin)
    response_kind, response_queue = named(message.response_queue)
    if kind is QueueNameKind.DIRECT:
        # The GUID of the destination is unknown, so a queue of BETA's is one elsewhere.
        if admin_kind is QueueNameKind.PRIVATE_ON_DESTINATION:
            admin_kind, admin_queue = QueueNameKind.PRIVATE, PrivateQueueFormatName(BETA, 2)
        if response_kind is QueueNameKind.PRIVATE_ON_DESTINATION:
            response_kind, response_queue = QueueNameKind.PRIVATE, PrivateQueueFormatName(BETA, 2)
    if admin is not None and message.response_queue == admin:
        response_kind, response_queue = QueueNameKind.SAME_AS_ADMIN_QUEUE, None
    elif isinstance(response_queue, PrivateQueueFormatName) and (
        isinstance(admin_queue, PrivateQueueFormatName)
        and admin_queue.queue_manager == response_queue.queue_manager
    ):
        response_kind = QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST
        response_queue = PrivateQueueFormatNameId(response_queue.number)
    return UserMessage(
        base=BaseHeader(
            packet_size=0,
            priority=message.priority,
            is_traced=message.trace is not None,
            time_to_reach_queue=0x54600
            if message.time_to_reach_queue is None
            else message.time_to_reach_queue,
        ),
        user=UserHeader(
            source_queue_manager=ALPHA,
            queue_manager_address=address,
            message_id=message_id,
            sent_time=sent_time,
            time_to_be_received=message.time_to_be_received,
            is_recoverable=message.transactional or message.delivery is Delivery.RECOVERABLE,
            dead_letter=message.dead_letter,
            journal=message.journal,
            destination_kind=kind,
            destination_queue=queue,
            admin_kind=admin_kind,
            admin_queue=admin_queue,
            response_kind=response_kind,
            response_queue=response_queue,
            connector_type=message.connector_type,
        ),
        transaction=TransactionHeader(TxSequenceID(0, 0), 1) if message.transactional else None,
        properties=MessagePropertiesHeader(
            message_body=message.body,
            label=message.label,
            extension_data=message.extension,
            flags=int(message.acknowledge),
            message_class=message.message_class,
            correlation_id=message.correlation_id,
            body_type=message.body_type,
            application_tag=message.application_tag,
            hash_algorithm=message.hash_algorithm,
            privacy_level=message.privacy_level,
        ),
        debug=debug,
    ).to_bytes()


class EquivalenceTests(SynchronousTestCase):
    """The fast encoder makes the same bytes as the full one."""

    @given(messages(), st.sampled_from(sorted(EXPECTED_DESTINATIONS, key=str)), numbers, numbers)
    def test_same_bytes(
        self, message: Message, destination: FormatName, message_id: int, sent_time: int
    ) -> None:
        """MQMQ-2.2.19.2-04 MQMQ-2.2.19.2-05 MQDMPR-3.1.7.1.32-01: any message to any kind of destination."""
        packet = build_packet(
            message,
            destination,
            source=ALPHA,
            destination_queue_manager=BETA,
            message_id=message_id,
            sent_time=sent_time,
        )
        self.assertEqual(packet, encoded(message, destination, message_id, sent_time))

    @given(
        messages(),
        st.sampled_from(sorted(EXPECTED_DESTINATIONS, key=str)),
        st.sampled_from((b"", list_of_destinations((DIRECT, PublicFormatName(GAMMA))))),
    )
    def test_builder_and_reader_agree(
        self, message: Message, destination: FormatName, destinations: bytes
    ) -> None:
        """The builder of a packet has the same attributes of it as its reader."""
        builder = PacketBuilder(
            destination, source=ALPHA, destination_queue_manager=BETA, destinations=destinations
        )
        made = builder.view(message, 1, 2)
        read = UserMessageView(made.packet)
        self.assertEqual(made.packet, read.packet)
        for name in FIELDS:
            self.assertEqual(getattr(made.shape, name), getattr(read.shape, name), name)

    @given(
        messages(),
        st.lists(st.binary(max_size=40), min_size=1, max_size=6),
        st.sampled_from((b"", list_of_destinations((DIRECT, PublicFormatName(GAMMA))))),
    )
    def test_run(self, message: Message, bodies: list[bytes], destinations: bytes) -> None:
        """The packets of a run are those of its messages, one by one."""
        builder = PacketBuilder(DIRECT, source=ALPHA, destinations=destinations)
        run = SendRun(message, bodies)
        views = builder.views(run, 7, 2)
        alone = [builder.view(one, number, 2) for number, one in enumerate(run, 7)]
        self.assertEqual([view.packet for view in views], [view.packet for view in alone])
        self.assertEqual([view.size for view in views], [len(view.packet) for view in views])
        again = builder.views([message] * len(bodies), 7, 2)
        self.assertEqual(
            [view.packet for view in again],
            [builder.build(message, message_id=number, sent_time=2) for number in range(7, 7 + len(bodies))],
        )

    @given(st.lists(messages(), max_size=6))
    def test_one_builder_for_many(self, sent: list[Message]) -> None:
        """Cached values of one message do not get into the next."""
        builder = PacketBuilder(PrivateFormatName(BETA, 0x10), source=ALPHA)
        for number, message in enumerate(sent):
            packet = builder.build(message, message_id=number, sent_time=number)
            self.assertEqual(packet, encoded(message, PrivateFormatName(BETA, 0x10), number, number))


class SeveralDestinationsTests(SynchronousTestCase):
    """Packets of messages that are sent to several queues."""

    NAMES = (DIRECT, PrivateFormatName(BETA, 0x10), PublicFormatName(GAMMA))

    @given(messages(), st.sampled_from(NAMES))
    def test_list(self, message: Message, destination: FormatName) -> None:
        """MQDMPR-3.1.7.1.30-06: the same packet with the names of all, if there are several."""
        builder = PacketBuilder(
            destination,
            source=ALPHA,
            destination_queue_manager=BETA,
            destinations=list_of_destinations(self.NAMES),
        )
        packet = builder.build(message, message_id=1, sent_time=2)
        alone = UserMessage.from_bytes(encoded(message, destination, 1, 2))
        header = MultiQueueFormatHeader.of(
            [
                MQFDirectQueueFormatName("TCP:127.0.0.3\\private$\\orders"),
                PrivateQueueFormatName(BETA, 0x10),
                PublicQueueFormatName(GAMMA),
            ]
        )
        self.assertEqual(packet, attrs.evolve(alone, multi_queue_format=header).to_bytes())
        self.assertEqual(UserMessageView(packet).multi_queue_format, header)
        self.assertFalse(alone.user.has_multi_queue_format_header)

    def test_names_that_nothing_is_sent_to(self) -> None:
        """They are refused before anything is made."""
        for name in (
            "DIRECT=HTTP://gamma/msmq/orders",
            f"PUBLIC={GAMMA};journal",
            f"MACHINE={GAMMA};deadletter",
        ):
            with self.assertRaises(MQError) as caught:
                list_of_destinations([DIRECT, parse_format_name(name)])
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_list_that_is_too_long(self) -> None:
        """A packet that the names make too large is refused like one with too large a body."""
        names = [PrivateFormatName(BETA, number) for number in range(MAXIMUM_ELEMENTS)]
        builder = PacketBuilder(DIRECT, source=ALPHA, destinations=list_of_destinations(names))
        with self.assertRaises(MQError) as caught:
            builder.build(Message(body=bytes(4_000_000)), message_id=1, sent_time=2)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def test_more_destinations_than_a_list_has(self) -> None:
        """The number of destinations of a message is limited."""
        names = [PrivateFormatName(BETA, number) for number in range(MAXIMUM_ELEMENTS + 1)]
        list_of_destinations(names[1:])
        with self.assertRaises(MQError) as caught:
            list_of_destinations(names)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)


class FieldTests(SynchronousTestCase):
    """Fields of the packet."""

    def packet(self, destination: FormatName = DIRECT, **values: Any) -> UserMessage:
        message = Message(**values)
        return UserMessage.from_bytes(
            build_packet(
                message,
                destination,
                source=ALPHA,
                destination_queue_manager=BETA,
                message_id=7,
                sent_time=1_700_000_000,
            )
        )

    def test_only_the_names_that_are_set(self) -> None:
        """A plain message has one queue name and no headers but the three that every message has."""
        packet = self.packet(body=b"hello", label="greeting")
        self.assertEqual((packet.properties.message_body, packet.properties.label), (b"hello", "greeting"))
        self.assertEqual(packet.user.admin_kind, QueueNameKind.NONE)
        self.assertEqual(packet.user.response_kind, QueueNameKind.NONE)
        self.assertEqual(
            (packet.transaction, packet.security, packet.debug, packet.multi_queue_format), (None,) * 4
        )

    def test_priority_of_transactional_message(self) -> None:
        """MQDMPR-3.1.7.1.32-03: a transactional message travels with priority 0, any other with its own."""
        self.assertEqual(self.packet(priority=6, transactional=True).base.priority, 0)
        self.assertEqual(self.packet(priority=6).base.priority, 6)

    def test_transaction_header(self) -> None:
        """MQDMPR-3.1.7.1.30-02: a transactional message, and no other, has a TransactionHeader."""
        self.assertIsNotNone(self.packet(transactional=True).transaction)
        self.assertTrue(self.packet(transactional=True).user.is_recoverable)
        self.assertIsNone(self.packet(delivery=Delivery.RECOVERABLE).transaction)

    def test_connector_type(self) -> None:
        """MQDMPR-3.1.7.1.32-12: any message has the ConnectorType that is set, and no other has one."""
        for values in ({}, {"transactional": True}, {"response_queue": DIRECT}):
            for connector_type in (CONNECTOR, None):
                packet = self.packet(connector_type=connector_type, **values)
                self.assertEqual(packet.user.connector_type, connector_type)

    def test_tracing(self) -> None:
        """TR, DH and the DebugHeader come together or not (reading 66).

        MQDMPR-3.1.7.1.30-05 MQDMPR-3.1.7.1.32-04 MQDMPR-3.1.7.1.32-13
        """
        traced = self.packet(trace=GAMMA)
        self.assertTrue(traced.base.is_traced and traced.base.has_debug_header)
        self.assertEqual(traced.debug, DebugHeader(GAMMA))
        self.assertEqual(self.packet(trace=NULL).debug, DebugHeader(None))
        plain = self.packet()
        self.assertFalse(plain.base.is_traced or plain.base.has_debug_header)
        self.assertIsNone(plain.debug)

    def test_admin_queue_goes_with_acknowledgements(self) -> None:
        """MQMQ-2.2.19.2-22: an AdminQueue is named if an acknowledgement is asked for, and only then."""
        admin = PrivateFormatName(ALPHA, 9)
        for flag in range(1, 16):
            packet = self.packet(acknowledge=Acknowledge(flag), admin_queue=admin)
            self.assertEqual(packet.properties.flags, flag)
            self.assertEqual(packet.user.admin_kind, QueueNameKind.PRIVATE_ON_SOURCE)
            with self.assertRaises(MQError) as caught:
                self.packet(acknowledge=Acknowledge(flag))
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_INSUFFICIENT_PROPERTIES)
        for response in (None, DIRECT):
            unasked = self.packet(admin_queue=admin, response_queue=response)
            self.assertEqual(unasked.user.admin_kind, QueueNameKind.NONE)

    def test_response_queue_without_acknowledgements(self) -> None:
        """A response queue is named in full if the equal administration queue is left out."""
        admin = PrivateFormatName(GAMMA, 9)
        packet = self.packet(admin_queue=admin, response_queue=admin)
        self.assertEqual(packet.user.response_kind, QueueNameKind.PRIVATE)


class RefusalTests(SynchronousTestCase):
    """Values that no packet can hold."""

    def refused(self, status: Status, destination: FormatName = DIRECT, **values: Any) -> str:
        with self.assertRaises(MQError) as caught:
            build_packet(
                Message(**values),
                destination,
                source=ALPHA,
                message_id=1,
                sent_time=1,
            )
        self.assertEqual(caught.exception.status, status)
        return str(caught.exception.detail)

    def test_destinations(self) -> None:
        """Names of queues that cannot be reached over this protocol are refused, with their text."""
        guid = str(GAMMA)
        for text in (
            "DIRECT=HTTP://gamma/msmq/q",
            "DIRECT=OS:gamma\\q;JOURNAL",
            "DIRECT=OS:gamma\\SYSTEM$;DEADLETTER",
            f"PUBLIC={guid};JOURNAL",
            f"PRIVATE={guid}\\1;JOURNAL",
            f"MACHINE={guid};DEADXACT",
            f"CONNECTOR={guid}",
            f"DL={guid}",
            "MULTICAST=234.1.1.1:8001",
        ):
            with self.subTest(text=text):
                name = parse_format_name(text)
                detail = self.refused(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, name)
                self.assertIn(str(name), detail)

    def test_public_queue_of_unknown_host(self) -> None:
        """MQMQ-2.2.19.2-04: without the GUID of its host no packet is made for a public queue."""
        self.refused(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, PublicFormatName(GAMMA))

    def test_other_queues(self) -> None:
        """Journals and machine queues are no administration or response queues."""
        journal = parse_format_name(f"PRIVATE={GAMMA}\\1;JOURNAL")
        status = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        self.assertIn("response queue", self.refused(status, response_queue=journal))
        detail = self.refused(status, acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=journal)
        self.assertIn("administration queue", detail)

    def test_largest_packet(self) -> None:
        """A packet of 4 MiB is made; one byte more in the body is refused, naming size and limit."""
        builder = PacketBuilder(DIRECT, source=ALPHA)
        overhead = len(builder.build(Message(), message_id=1, sent_time=1))
        largest = Message(body=bytes(0x00400000 - overhead))
        self.assertEqual(len(builder.build(largest, message_id=1, sent_time=1)), 0x00400000)
        with self.assertRaises(MQError) as caught:
            builder.build(attrs.evolve(largest, body=largest.body + b"x"), message_id=1, sent_time=1)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertIn("4194304", caught.exception.detail)
        self.assertIn(str(len(largest.body) + 1), caught.exception.detail)

    def test_numbers_of_the_caller(self) -> None:
        """An identifier or a time that does not fit is our own mistake, not the message's."""
        builder = PacketBuilder(DIRECT, source=ALPHA)
        for message_id, sent_time in ((1 << 32, 0), (-1, 0), (0, 1 << 32)):
            with self.assertRaises(LocalProtocolError):
                builder.build(Message(), message_id=message_id, sent_time=sent_time)


class DeadLetterQueueTests(SynchronousTestCase):
    """ApplicationDeadletterQueue, which is stored with a message and not sent. [MS-MQDMPR] 3.1.1.12."""

    def test_kept_with_the_message(self) -> None:
        """It follows the packet if the sender wants dead letters; the packet itself is the same."""
        plain = build_packet(Message(dead_letter=True), DIRECT, source=ALPHA, message_id=1, sent_time=0)
        for dead_letter, name in ((True, ".\\private$\\failed"), (True, ""), (False, ".\\private$\\failed")):
            message = Message(dead_letter=dead_letter, dead_letter_queue=name)
            view = PacketBuilder(DIRECT, source=ALPHA).view(message, 1, 0)
            expected = name if dead_letter else ""
            self.assertEqual(view.dead_letter_queue, expected)
            self.assertEqual(view.size, len(view.packet))
            self.assertEqual(UserMessageView(view.packet).size, view.size)
            if expected:
                self.assertEqual((packet_of(view.packet), len(view.packet) > len(plain)), (plain, True))
            else:
                self.assertEqual(len(view.packet), len(plain))
