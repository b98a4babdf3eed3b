"""[MS-DTYP] 2.3.4: GUIDs as bytes and as text."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.user_message import UserMessage
from msmq.wire.guid import NULL_GUID, braced, format_guid, guid_from_bytes, parse_guid
from tests.vectors import vector

GUID = UUID("557358D1-9150-9595-4997-B6E611EA26C6")


class GuidTests(SynchronousTestCase):
    """The functions of L{msmq.wire.guid}."""

    def test_three_fields_are_little_endian(self) -> None:
        """MQMQ-2.2.18.1.1-01, MQQB-2.2-02: D1 58 73 55 ... is 557358D1-9150-9595-4997-B6E611EA26C6."""
        data = bytes.fromhex("d1587355509195954997b6e611ea26c6")
        self.assertEqual(guid_from_bytes(data), GUID)
        frame = UserMessage.from_bytes(vector("mqqb-4.1.7-user-message"))
        self.assertEqual(frame.user.source_queue_manager, GUID)

    def test_the_null_guid_is_zeros(self) -> None:
        """Sixteen of them."""
        self.assertEqual(guid_from_bytes(bytes(16)), NULL_GUID)

    def test_text_is_in_upper_case(self) -> None:
        """Without braces in format names, with braces in identifiers."""
        self.assertEqual(format_guid(GUID), "557358D1-9150-9595-4997-B6E611EA26C6")
        self.assertEqual(braced(GUID), "{557358D1-9150-9595-4997-B6E611EA26C6}")

    @given(st.uuids())
    def test_text_is_read_back(self, guid: UUID) -> None:
        """With braces and without, in either case."""
        for text in (format_guid(guid), braced(guid), str(guid)):
            self.assertEqual(parse_guid(text), guid)

    def test_other_text_is_refused(self) -> None:
        """Missing hyphens, half a pair of braces, other digits, blanks."""
        for text in (
            "",
            "{}",
            "557358D1915095954997B6E611EA26C6",
            "{557358D1-9150-9595-4997-B6E611EA26C6",
            "557358D1-9150-9595-4997-B6E611EA26C6}",
            "557358D1-9150-9595-4997-B6E611EA26CG",
            " 557358D1-9150-9595-4997-B6E611EA26C6",
            "{557358D1-9150-9595-4997-B6E611EA26C6)",
            "(557358D1-9150-9595-4997-B6E611EA26C6}",
            "{{557358D1-9150-9595-4997-B6E611EA26C6}}",
            "557358D1-9150-9595-4997-B6E611EA26C",
            "557358D1-9150-9595-4997-B6E611EA26C66",
            "urn:uuid:557358D1-9150-9595-4997-B6E611EA26C6",
        ):
            error = self.assertRaises(ValueError, parse_guid, text)
            self.assertEqual(str(error), f"not a GUID: '{text}'")

    @given(st.binary(min_size=16, max_size=16))
    def test_any_sixteen_bytes_are_a_guid(self, data: bytes) -> None:
        """And give the same bytes."""
        self.assertEqual(guid_from_bytes(data).bytes_le, data)
