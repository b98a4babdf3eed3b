"""[MS-MQMQ] 2.2.5 and 2.2.8: SEQUENCE_INFO and OBJECTID."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.identifiers import ObjectIdentifier, SequenceInfo
from msmq.wire.reader import Reader
from tests.structures.three_ways import assert_read_three_ways
from tests.vectors import INITIATOR as GUID


class SequenceInfoTests(SynchronousTestCase):
    """L{SequenceInfo}."""

    def test_is_a_signed_number_and_two_positions(self) -> None:
        """MQMQ-2.2.5-01: sixteen bytes: SeqID at 0, SeqNo at 8, PrevNo at 12."""
        info = SequenceInfo(-2, 7, 6)
        self.assertEqual(info.to_bytes().hex(" "), "fe ff ff ff ff ff ff ff 07 00 00 00 06 00 00 00")
        assert_read_three_ways(self, info)

    @given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
    def test_any_sequence_is_read_back(self, seq_id: int, seq_no: int, prev_no: int) -> None:
        """Any numbers round-trip."""
        info = SequenceInfo(seq_id, seq_no, prev_no)
        self.assertEqual(SequenceInfo.read(Reader(info.to_bytes())), info)


class ObjectIdentifierTests(SynchronousTestCase):
    """L{ObjectIdentifier}."""

    def test_is_a_guid_and_a_number(self) -> None:
        """MQMQ-2.2.8-01: twenty bytes: Lineage at 0, Uniquifier at 16."""
        identifier = ObjectIdentifier(GUID, 15)
        self.assertEqual(identifier.to_bytes(), GUID.bytes_le + b"\x0f\0\0\0")
        self.assertEqual(len(identifier.to_bytes()), 20)
        assert_read_three_ways(self, identifier)
