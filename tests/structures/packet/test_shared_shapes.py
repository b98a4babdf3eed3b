"""[MS-MQMQ] 2.2.20: which packets are known to be valid by the one before them."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    different_ones,
    have_one_destination,
    have_one_shape,
    total_size,
    views_of,
)
from tests.builders import ALPHA, GAMMA, user_packet
from tests.strategies import packet_of

PLAIN = UserMessage.from_bytes(user_packet(b"body", label="label"))
NAMED = attrs.evolve(
    PLAIN.user,
    admin_kind=QueueNameKind.DIRECT,
    admin_queue=DirectQueueFormatName("OS:a\\q"),
    response_kind=QueueNameKind.PRIVATE,
    response_queue=PrivateQueueFormatName(ALPHA, 3),
)


def message(user: dict[str, Any] | None = None, **parts: Any) -> bytes:
    """A packet with other values in its UserHeader, and with other parts."""
    changed = attrs.evolve(PLAIN, user=attrs.evolve(PLAIN.user, **(user or {})))
    return packet_of(attrs.evolve(changed, **parts).completed())


def transactional(number: int = 1, *, connector: bool = False, **user: Any) -> bytes:
    header = TransactionHeader(TxSequenceID(1, 2), number, connector_qm_guid=GAMMA if connector else None)
    return message({"is_recoverable": True, **user}, transaction=header)


def share(*packets: bytes) -> bool:
    """Whether packets that came together have one shape."""
    return have_one_shape(views_of(packets))


class SharingTests(SynchronousTestCase):
    """L{views_of} and L{have_one_shape}."""

    def test_usual_packets(self) -> None:
        """A packet with names, a label and a transaction of any usual kind shares its shape with the next."""
        properties = PLAIN.properties
        for packet in (
            message(),
            message({"is_recoverable": True}),
            message({"hop_count": 0x1D}),
            message({"dead_letter": True, "journal": True}),
            message({"destination_kind": QueueNameKind.NONE, "destination_queue": None}),
            message(
                {
                    "destination_kind": QueueNameKind.PUBLIC,
                    "destination_queue": PublicQueueFormatName(GAMMA),
                }
            ),
            message(
                {
                    "destination_kind": QueueNameKind.PRIVATE_ON_DESTINATION,
                    "destination_queue": PrivateQueueFormatNameId(7),
                }
            ),
            message({"connector_type": GAMMA}),
            packet_of(attrs.evolve(PLAIN, user=NAMED).completed()),
            message(properties=attrs.evolve(properties, label="")),
            message(properties=attrs.evolve(properties, label="x" * 249)),
            message(properties=attrs.evolve(properties, extension_data=b"extension")),
            message(properties=attrs.evolve(properties, message_body=b"", allocation_body_size=0)),
            transactional(),
            transactional(connector=True),
            transactional(connector_type=GAMMA),
        ):
            self.assertTrue(share(packet, packet, packet))
            [view, *_] = views_of([packet, packet])
            careful = view.parse()
            self.assertEqual(packet_of(careful), packet)
            self.assertEqual(bytes(view.body), careful.properties.message_body)

    def test_lengths(self) -> None:
        """Names and labels of any length, with padding or without, and a packet of 4 MiB."""
        for length in range(1, 9):
            for label in ("", "l", "la"):
                packet = user_packet(b"b", destination=f"OS:b\\{'q' * length}", label=label)
                self.assertTrue(share(packet, packet), (length, label))
        overhead = len(user_packet())
        largest = user_packet(bytes(0x400000 - overhead))
        self.assertEqual(len(largest), 0x400000)
        self.assertTrue(share(largest, largest))

    def test_unusual_packets(self) -> None:
        """What has a SecurityHeader, or headers behind the body, is read each time."""
        for packet in (
            message(security=SecurityHeader(signature=b"sign", is_default_provider=True)),
            message(debug=DebugHeader()),
            message(soap=SoapHeader("header", "body")),
            message(multi_queue_format=MultiQueueFormatHeader()),
        ):
            self.assertFalse(share(packet, packet))
            self.assertIsNone(UserMessageView(packet).shape.before)

    def test_neighbours(self) -> None:
        """Only number, place in the transaction, extension and body may differ."""
        for packet in (message(), transactional(), transactional(connector=True)):
            view = UserMessageView(packet)
            end = view.properties_offset + 56 + 12
            free = set(range(56, 60)) | set(range(end, len(packet)))
            if view.is_transactional:
                free |= set(range(view.transaction_offset, view.properties_offset))
            for at in range(len(packet)):
                other = packet[:at] + bytes((packet[at] ^ 0x80,)) + packet[at + 1 :]
                self.assertEqual(view.shape.fits(other), at in free, at)
            for other in (packet[:-1], packet + b"\0", b""):
                self.assertFalse(view.shape.fits(other))

    def test_transactions(self) -> None:
        """A connector, which makes the header longer, and a number of 0 are not shared."""
        view = UserMessageView(transactional())
        start = view.transaction_offset
        for flags in range(8):
            packet = bytearray(transactional())
            packet[start] = flags
            self.assertEqual(view.shape.fits(bytes(packet)), not flags & 1)
        connected = UserMessageView(transactional(connector=True))
        for flags in range(8):
            packet = bytearray(connected.packet)
            packet[start] = flags
            self.assertEqual(connected.shape.fits(bytes(packet)), flags & 1 == 1)
        for number in (0, 1, 2, 0x100, 0x10000, 0x80000000):
            packet = bytearray(transactional())
            packet[start + 12 : start + 16] = number.to_bytes(4, "little")
            self.assertEqual(view.shape.fits(bytes(packet)), number != 0)

    def test_the_third_of_a_kind(self) -> None:
        """What differs from two equal packets before it is judged as if it were alone."""
        one = message()
        for other in (message({"source_queue_manager": GAMMA}), message({"message_id": 7})):
            views = views_of([one, one, other])
            alone = UserMessageView(other)
            self.assertEqual(views[2].identity, alone.identity)
            self.assertEqual(views[2].source_queue_manager, alone.source_queue_manager)
        self.assertRaises(RemoteProtocolError, views_of, [one, one, one + b"\0"])
        self.assertRaises(RemoteProtocolError, views_of, [one, one, one[:-1]])
        self.assertRaises(RemoteProtocolError, views_of, [b""])
        placed = transactional()
        bad = bytearray(placed)
        start = UserMessageView(placed).transaction_offset
        bad[start + 12 : start + 16] = bytes(4)
        self.assertRaises(RemoteProtocolError, views_of, [placed, placed, bytes(bad)])

    def test_a_shape_that_is_left(self) -> None:
        """Once another packet came, its bytes are not kept, and no later packet shares it."""
        one, other = message(), message(properties=attrs.evolve(PLAIN.properties, label="other"))
        views = views_of([one, one, other, one])
        self.assertIs(views[0].shape, views[1].shape)
        self.assertIsNot(views[0].shape, views[3].shape)
        left = views[0].shape
        self.assertEqual((left.before, left.names, left.rest), (None, b"", b""))
        self.assertFalse(left.fits(one))
        [following] = views_of([one], views[3].shape)
        self.assertIs(following.shape, views[3].shape)

    def test_several(self) -> None:
        """One message of each shape stands for all; their sizes are those of their packets."""
        one, other = message(), transactional()
        views = views_of([one, one, other, other, one])
        self.assertEqual(different_ones(views), [views[0], *views[2:]])
        self.assertEqual(different_ones(views[1:]), views[1:])
        self.assertEqual(list(different_ones(views[:2])), [views[0]])
        self.assertEqual(list(different_ones(views[:1])), [views[0]])
        self.assertEqual(list(different_ones([])), [])
        self.assertEqual(total_size(views), 3 * len(one) + 2 * len(other))
        self.assertEqual(total_size([]), 0)

    def test_one_destination(self) -> None:
        """Flags, names and the address of the queue manager are compared, wherever the messages come from."""
        one = user_packet(b"a", destination="OS:beta\\q")
        for other, expected in (
            (one, True),
            (user_packet(b"another", destination="OS:beta\\q", source=GAMMA, label="x"), True),
            (user_packet(b"a", destination="OS:beta\\r"), False),
            (user_packet(b"a", destination="OS:beta\\q", recoverable=True), False),
            (user_packet(b"a", destination="OS:beta\\q", queue_manager=GAMMA), False),
        ):
            views = [UserMessageView(one), UserMessageView(other)]
            self.assertIs(have_one_destination(views), expected)
            self.assertIs(have_one_destination(views[:1]), True)


class TextTests(SynchronousTestCase):
    """Texts that do not end with their only NUL, in a packet that is sound otherwise."""

    def test_destinations_and_labels(self) -> None:
        """Each is malformed, although some of its bytes look like an end."""
        good = user_packet(b"body", destination="OS:b\\qq", label="label")
        place = {
            "DestinationQueue": 66 + 2 * 5,
            "Label": UserMessageView(good).properties_offset + 56 + 2 * 3,
        }
        for at in place.values():
            for units in ("61000001", "61010001", "00006100", "61006200"):
                tail = bytes.fromhex(units)
                packet = bytearray(good)
                packet[at + 2 : at + 6] = tail
                self.assertRaises(RemoteProtocolError, UserMessageView, bytes(packet))
            packet = bytearray(good)
            packet[at : at + 6] = b"a\1\0\0\0\0"
            self.assertRaises(RemoteProtocolError, UserMessageView, bytes(packet))
            packet[at : at + 6] = b"a\1a\1\0\0"
            self.assertEqual(UserMessageView(bytes(packet)).size, len(packet))

    def test_long_labels(self) -> None:
        """LabelLength is up to 250, its NUL included."""
        for length, is_good in ((250, True), (251, False), (255, False)):
            packet = bytearray(user_packet(label="x" * (length - 1)))
            if is_good:
                self.assertEqual(UserMessageView(bytes(packet)).label, "x" * (length - 1))
            else:
                error = self.assertRaises(RemoteProtocolError, UserMessageView, bytes(packet))
                self.assertEqual((error.field, error.rule), ("LabelLength", f"{length} is more than 250"))

    def test_hops(self) -> None:
        """Up to 29, whatever the delivery mode."""
        for hops in range(0x20):
            for recoverable in (False, True):
                packet = user_packet(b"body", user_flags=hops, recoverable=recoverable)
                if hops <= 0x1D:
                    view = UserMessageView(packet)
                    self.assertEqual((view.hop_count, view.is_recoverable), (hops, recoverable))
                else:
                    self.assertRaises(RemoteProtocolError, UserMessageView, packet)

    def test_local_headers_are_read_each_time(self) -> None:
        """A valid record does not make the next one valid, whose own may be malformed."""
        packet = user_packet(b"body", user_flags=0x0100)
        record = packet + kept_headers("queue")
        self.assertFalse(share(record, record))
        damaged = packet + bytes(len(record) - len(packet))
        self.assertRaises(RemoteProtocolError, views_of, [record, damaged])
