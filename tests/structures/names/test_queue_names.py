"""[MS-MQMQ] 2.2.18.1.5 and 2.2.18.1.7: the names of queues in a UserHeader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
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
    direct_text,
    read_queue_name,
    resolve_queue_name,
)
from msmq.structures.status import MQError, Status
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA, GAMMA
from tests.strategies import NAMES_BY_KIND, private_ids, private_names, public_names
from tests.structures.three_ways import Structure, assert_only_remote_errors, assert_read_three_ways, written
from tests.vectors import INITIATOR as GUID
from tests.vectors import INITIATOR_HEX as GUID_BYTES
from tests.vectors import vector


def resolve(
    kind: QueueNameKind, name: QueueName | None, admin: FormatName | None = None
) -> FormatName | None:
    """In a message from ALPHA to BETA."""
    return resolve_queue_name(
        kind, name, source_queue_manager=ALPHA, queue_manager_address=BETA, admin_queue=admin
    )


class QueueNameTests(SynchronousTestCase):
    """The four structures."""

    def test_a_private_number_is_four_bytes(self) -> None:
        """MQMQ-2.2.18.1.5.1-01: 4 is 04 00 00 00."""
        self.assertEqual(written(PrivateQueueFormatNameId(4)), b"\4\0\0\0")

    def test_a_public_name_is_a_guid(self) -> None:
        """Sixteen bytes, the first three fields little-endian."""
        self.assertEqual(written(PublicQueueFormatName(GUID)).hex(), GUID_BYTES)

    def test_a_private_name_is_a_guid_and_a_number(self) -> None:
        """Twenty bytes."""
        self.assertEqual(written(PrivateQueueFormatName(GUID, 0x0A)).hex(), GUID_BYTES + "0a000000")

    def test_a_direct_name_counts_its_bytes(self) -> None:
        """MQMQ-2.2.18.1.5.2-01: the name of frame 7 has thirteen characters with its NUL, 0x1A bytes."""
        data = written(DirectQueueFormatName("OS:a04bm02\\q"))
        self.assertEqual(data, vector("mqqb-4.1.7-user-message")[64:92])
        self.assertEqual(data[:2], b"\x1a\0")

    def test_a_direct_name_is_padded_and_does_not_count_that(self) -> None:
        """MQMQ-2.2.18.1.5.2-02: two characters need no padding, three need two bytes."""
        self.assertEqual(written(DirectQueueFormatName("ab")).hex(), "0600610062000000")
        self.assertEqual(written(DirectQueueFormatName("abc")).hex(), "080061006200630000000000")
        reader = Reader(written(DirectQueueFormatName("abc")) + b"rest")
        DirectQueueFormatName.read(reader)
        self.assertEqual(reader.bytes(4, "rest"), b"rest")

    @given(st.binary(min_size=2, max_size=2))
    def test_the_padding_of_a_direct_name_is_ignored(self, padding: bytes) -> None:
        """MQMQ-2.2.18.1.5.2-03: it may be anything."""
        data = written(DirectQueueFormatName("abc"))[:-2] + padding
        self.assertEqual(DirectQueueFormatName.read(Reader(data)), DirectQueueFormatName("abc"))

    def test_a_direct_name_ends_with_its_only_nul(self) -> None:
        """An odd Count, one of 0, text without a NUL and text with two are malformed."""
        for data, field in (
            ("00000000", "Count"),
            ("0300610000000000", "Count"),
            ("0400610062000000", "DirectFormatName"),
            ("080061000000630000000000", "DirectFormatName"),
            ("0600610000000000", "DirectFormatName"),
        ):
            error = self.assertRaises(
                RemoteProtocolError, DirectQueueFormatName.read, Reader(bytes.fromhex(data))
            )
            self.assertEqual((error.header, error.field), ("DirectQueueFormatName", field), data)

    def test_zeros_of_two_characters_are_no_nul(self) -> None:
        """U+0041 U+0100 has two zero bytes side by side and no NUL."""
        name = DirectQueueFormatName("A\u0100A\u0100")
        self.assertEqual(DirectQueueFormatName.read(Reader(written(name))), name)

    def test_text_that_count_cannot_say_is_our_mistake(self) -> None:
        """32766 characters and a NUL are the most; a NUL within the text is refused as well."""
        longest = DirectQueueFormatName("x" * 32766)
        self.assertEqual(DirectQueueFormatName.read(Reader(written(longest))), longest)
        for text in ("x" * 32767, "a\0b"):
            self.assertRaises(LocalProtocolError, written, DirectQueueFormatName(text))

    def test_numbers_beyond_their_fields_are_our_mistake(self) -> None:
        """They are refused instead of being cut."""
        for number in (-1, 1 << 32):
            self.assertRaises(LocalProtocolError, written, PrivateQueueFormatNameId(number))
            self.assertRaises(LocalProtocolError, written, PrivateQueueFormatName(GUID, number))

    @given(private_ids | public_names | private_names | NAMES_BY_KIND[QueueNameKind.DIRECT])
    def test_every_name_round_trips(self, name: Structure) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, name)

    @given(st.sampled_from(list(QueueNameKind)), st.binary(max_size=40))
    def test_any_bytes_are_read_or_malformed(self, kind: QueueNameKind, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(lambda reader: read_queue_name(kind, reader), data)

    @given(st.sampled_from(list(QueueNameKind)), st.data())
    def test_the_kind_selects_the_structure(self, kind: QueueNameKind, data: st.DataObject) -> None:
        """Kinds 0 and 1 have no bytes."""
        name = data.draw(NAMES_BY_KIND[kind])
        reader = Reader(b"" if name is None else written(name))
        self.assertEqual(read_queue_name(kind, reader), name)
        self.assertEqual(reader.remaining, 0)


class ResolveTests(SynchronousTestCase):
    """L{resolve_queue_name}, in a message from ALPHA to BETA."""

    def test_names_that_say_all(self) -> None:
        """A public name, a private name with its host, and a direct name need nothing else."""
        self.assertEqual(resolve(QueueNameKind.PUBLIC, PublicQueueFormatName(GUID)), PublicFormatName(GUID))
        self.assertEqual(
            resolve(QueueNameKind.PRIVATE, PrivateQueueFormatName(GAMMA, 7)), PrivateFormatName(GAMMA, 7)
        )
        text = "DIRECT=OS:gamma\\private$\\orders"
        for spelling in (text, text[7:]):
            name = resolve(QueueNameKind.DIRECT, DirectQueueFormatName(spelling))
            self.assertEqual(name, parse_format_name(text))

    def test_a_number_belongs_to_a_host(self) -> None:
        """To the sender, to the destination, or to where the admin queue is."""
        number = PrivateQueueFormatNameId(7)
        self.assertEqual(resolve(QueueNameKind.PRIVATE_ON_SOURCE, number), PrivateFormatName(ALPHA, 7))
        self.assertEqual(resolve(QueueNameKind.PRIVATE_ON_DESTINATION, number), PrivateFormatName(BETA, 7))
        kind = QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST
        self.assertEqual(resolve(kind, number, PrivateFormatName(GAMMA, 1)), PrivateFormatName(GAMMA, 7))

    def test_a_host_that_is_not_identified_gives_no_name(self) -> None:
        """A public or direct admin queue does not tell the GUID of its host; a missing one neither."""
        kind = QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST
        for admin in (None, PublicFormatName(GUID), parse_format_name("DIRECT=OS:gamma\\q")):
            self.assertIsNone(resolve(kind, PrivateQueueFormatNameId(7), admin))

    def test_the_admin_queue_is_the_response_queue(self) -> None:
        """Kind 1 resolves to the admin queue."""
        admin = PrivateFormatName(GAMMA, 1)
        self.assertEqual(resolve(QueueNameKind.SAME_AS_ADMIN_QUEUE, None, admin), admin)
        self.assertIsNone(resolve(QueueNameKind.SAME_AS_ADMIN_QUEUE, None, None))

    def test_no_name_is_no_queue(self) -> None:
        """Kind 0 resolves to no queue, for any admin queue."""
        self.assertIsNone(resolve(QueueNameKind.NONE, None, PrivateFormatName(GAMMA, 1)))

    def test_text_that_names_no_queue_is_refused(self) -> None:
        """The packet is well formed; the fault is found when the queue is looked up."""
        error = self.assertRaises(MQError, resolve, QueueNameKind.DIRECT, DirectQueueFormatName("nonsense"))
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)

    def test_direct_names_can_always_be_shown(self) -> None:
        """Canonical if they name a queue, otherwise as they came."""
        self.assertEqual(direct_text(DirectQueueFormatName("os:a\\q")), "DIRECT=OS:a\\q")
        self.assertEqual(direct_text(DirectQueueFormatName("nonsense")), "DIRECT=nonsense")
        self.assertEqual(direct_text(DirectQueueFormatName("direct=nonsense")), "direct=nonsense")
