"""[MS-MQMQ] the small structures that identify things."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import (
    DistributionListIdentifier,
    MessageIdentifier,
    MulticastIdentifier,
    ObjectIdentifier,
    SequenceInfo,
    TxSequenceID,
    XactUow,
)
from msmq.structures.names.format_name import DistributionListFormatName, parse_format_name
from msmq.structures.status import MQError, Status
from msmq.wire.reader import Reader
from tests import strategies
from tests.structures.three_ways import Structure, assert_only_remote_errors, assert_read_three_ways, written
from tests.vectors import INITIATOR as GUID
from tests.vectors import INITIATOR_HEX as GUID_BYTES


class TxSequenceIDTests(SynchronousTestCase):
    """L{TxSequenceID}."""

    def test_is_eight_bytes(self) -> None:
        """MQMQ-2.2.18.1.2-01: Ordinal, then TimeStamp."""
        self.assertEqual(TxSequenceID(0x01020304, 0x05060708).to_bytes().hex(), "0403020108070605")

    def test_is_ordered_by_time_first(self) -> None:
        """MQMQ-2.2.18.1.2-02, MQQB-2.2-14: TimeStamp is the high half of the number that is compared."""
        self.assertLess(TxSequenceID(5, 1), TxSequenceID(1, 2))
        self.assertTrue(TxSequenceID(9, 1) < TxSequenceID(1, 2))
        self.assertEqual(TxSequenceID(9, 1).value, 0x0000000100000009)

    @given(strategies.tx_sequence_ids, strategies.tx_sequence_ids)
    def test_is_compared_like_its_number(self, one: TxSequenceID, other: TxSequenceID) -> None:
        """All six comparisons agree with the unsigned 64-bit numbers."""
        self.assertEqual(one < other, one.value < other.value)
        self.assertEqual(one <= other, one.value <= other.value)
        self.assertEqual(one > other, one.value > other.value)
        self.assertEqual(one >= other, one.value >= other.value)
        self.assertEqual(one == other, one.value == other.value)

    @given(strategies.u64s)
    def test_comes_from_its_number(self, value: int) -> None:
        """The number says all, and is what the eight bytes are."""
        self.assertEqual(TxSequenceID.from_value(value).value, value)
        self.assertEqual(int.from_bytes(TxSequenceID.from_value(value).to_bytes(), "little"), value)

    def test_is_not_compared_with_anything_else(self) -> None:
        """A number is not a sequence."""
        mixed: list[Any] = [TxSequenceID(1, 1), 5]
        self.assertRaises(TypeError, sorted, mixed)


class MessageIdentifierTests(SynchronousTestCase):
    """L{MessageIdentifier}."""

    def test_is_twenty_bytes(self) -> None:
        """MQMQ-2.2.18.1.3-01: the GUID of the queue manager, then the ordinal."""
        self.assertEqual(MessageIdentifier(GUID, 0x01020304).to_bytes().hex(), GUID_BYTES + "04030201")

    def test_is_printed_with_a_decimal_number(self) -> None:
        """A GUID in braces, a backslash, the number."""
        text = "{557358D1-9150-9595-4997-B6E611EA26C6}\\4294967295"
        self.assertEqual(str(MessageIdentifier(GUID, 0xFFFFFFFF)), text)

    @given(strategies.message_identifiers)
    def test_is_read_as_it_is_printed(self, identifier: MessageIdentifier) -> None:
        """With braces or without, in either case."""
        text = str(identifier)
        for spelling in (text, text.lower(), text.replace("{", "").replace("}", "")):
            self.assertEqual(MessageIdentifier.parse(spelling), identifier)

    def test_other_text_is_refused(self) -> None:
        """The error carries the status that an operator sees."""
        for text in (
            "",
            "5",
            "{557358D1-9150-9595-4997-B6E611EA26C6}",
            "{557358D1-9150-9595-4997-B6E611EA26C6}\\",
            "{557358D1-9150-9595-4997-B6E611EA26C6}\\-1",
            "{557358D1-9150-9595-4997-B6E611EA26C6}\\4294967296",
            "{557358D1-9150-9595-4997-B6E611EA26C6}\\0A",
            "{557358D1-9150-9595-4997-B6E611EA26C6}\\5 ",
            "557358D1-9150-9595-4997-B6E611EA26C6}\\5",
            "557358D1\\5",
        ):
            error = self.assertRaises(MQError, MessageIdentifier.parse, text)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)

    @given(st.text(max_size=60))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """With no other error."""
        try:
            MessageIdentifier.parse(text)
        except MQError:
            pass


class OtherIdentifierTests(SynchronousTestCase):
    """The structures that other protocols of the family carry."""

    def test_object_identifiers_are_twenty_bytes(self) -> None:
        """MQMQ-2.2.8-01: Lineage, then Uniquifier."""
        self.assertEqual(ObjectIdentifier(GUID, 0x01020304).to_bytes().hex(), GUID_BYTES + "04030201")

    def test_sequence_infos_are_sixteen_bytes(self) -> None:
        """MQMQ-2.2.5-01: a signed 64-bit number and two unsigned 32-bit ones."""
        data = SequenceInfo(-2, 0x01020304, 0x05060708).to_bytes()
        self.assertEqual(data.hex(), "feffffffffffffff0403020108070605")
        self.assertEqual(SequenceInfo.read(Reader(data)).seq_id, -2)

    def test_units_of_work_are_sixteen_bytes(self) -> None:
        """MQMQ-2.2.18.1.8-01: the GUID, and nothing else."""
        self.assertEqual(XactUow(GUID).to_bytes().hex(), GUID_BYTES)
        self.assertEqual(XactUow.read(Reader(bytes.fromhex(GUID_BYTES))), XactUow(GUID))

    def test_multicast_identifiers_are_eight_bytes(self) -> None:
        """An address and a port."""
        self.assertEqual(MulticastIdentifier(0xE0000001, 1801).to_bytes().hex(), "010000e009070000")

    def test_distribution_lists_have_a_domain(self) -> None:
        """MQMQ-2.2.9-01: DL=guid@dom gives both members, and they give it back."""
        name = parse_format_name(f"DL={GUID}@dom")
        assert isinstance(name, DistributionListFormatName)
        identifier = DistributionListIdentifier(name.identifier, name.domain)
        self.assertEqual(identifier.to_bytes().hex(), GUID_BYTES + "64006f006d000000")
        back = DistributionListIdentifier.read(Reader(identifier.to_bytes()))
        self.assertEqual(DistributionListFormatName(back.dl_guid, back.domain), name)

    def test_distribution_lists_may_have_no_domain(self) -> None:
        """It is written as empty text."""
        identifier = DistributionListIdentifier(GUID)
        self.assertEqual(identifier.to_bytes().hex(), GUID_BYTES + "0000")
        self.assertEqual(DistributionListIdentifier.read(Reader(identifier.to_bytes())), identifier)

    @given(strategies.distribution_list_identifiers)
    def test_every_distribution_list_comes_back(self, identifier: DistributionListIdentifier) -> None:
        """Its text ends where its bytes do."""
        self.assertEqual(DistributionListIdentifier.read(Reader(identifier.to_bytes())), identifier)

    @given(
        strategies.tx_sequence_ids
        | strategies.message_identifiers
        | strategies.object_identifiers
        | strategies.sequence_infos
        | strategies.xact_uows
        | strategies.multicast_identifiers
    )
    def test_every_identifier_round_trips(self, identifier: Structure) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, identifier)

    @given(st.binary(max_size=40))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        for structure in (MessageIdentifier, ObjectIdentifier, SequenceInfo, XactUow, TxSequenceID):
            assert_only_remote_errors(structure.read, data)
        assert_only_remote_errors(DistributionListIdentifier.read, data)

    def test_numbers_beyond_their_fields_are_our_mistake(self) -> None:
        """They are refused instead of being cut."""
        too_large: list[Structure] = [
            TxSequenceID(1 << 32, 0),
            TxSequenceID(0, 1 << 32),
            MessageIdentifier(GUID, 1 << 32),
            ObjectIdentifier(GUID, -1),
            SequenceInfo(1 << 63, 0, 0),
            SequenceInfo(0, 1 << 32, 0),
            MulticastIdentifier(1 << 32, 0),
            DistributionListIdentifier(GUID, "a\0b"),
        ]
        for value in too_large:
            self.assertRaises(LocalProtocolError, written, value)
