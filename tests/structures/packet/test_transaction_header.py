"""[MS-MQMQ] 2.2.20.5: the position of a message in its sequence."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.wire.reader import Reader
from tests.builders import GAMMA
from tests.strategies import transaction_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways

HEADER = TransactionHeader(TxSequenceID(0x01020304, 0x05060708), 0x090A0B0C, 0x0D0E0F10)


def read(data: bytes) -> TransactionHeader:
    return TransactionHeader.read(Reader(data, base=100))


class TransactionHeaderTests(SynchronousTestCase):
    """L{TransactionHeader}."""

    def test_every_field_is_at_its_offset(self) -> None:
        """MQMQ-2.2.20.5-01: twenty bytes, and sixteen more with a connector."""
        fields = "0000000004030201080706050c0b0a09100f0e0d"
        self.assertEqual(HEADER.to_bytes().hex(), fields)
        self.assertEqual(read(bytes.fromhex(fields)), HEADER)
        with_connector = attrs.evolve(HEADER, connector_qm_guid=GAMMA)
        self.assertEqual(with_connector.to_bytes().hex(), "01" + fields[2:] + GAMMA.bytes_le.hex())
        self.assertEqual(len(with_connector.to_bytes()), 36)

    def test_flags_are_in_their_bits(self) -> None:
        """MQMQ-2.2.20.5-02: CG, FA, FM, LM, and 20 bits of the transaction's number."""
        for values, flags in (
            ({"connector_qm_guid": GAMMA}, 0x00000001),
            ({"is_final_ack_wanted": True}, 0x00000002),
            ({"is_first": True}, 0x00000004),
            ({"is_last": True}, 0x00000008),
            ({"transaction_id": 0xABCDE}, 0x00ABCDE0),
            ({"transaction_id": 0xFFFFF}, 0x00FFFFF0),
        ):
            header = attrs.evolve(HEADER, **values)
            data = header.to_bytes()
            self.assertEqual(int.from_bytes(data[:4], "little"), flags)
            self.assertEqual(read(data), header)

    @given(transaction_headers, st.integers(0, 0xFF))
    def test_meaningless_bits_are_ignored(self, header: TransactionHeader, junk: int) -> None:
        """MQMQ-2.2.20.5-06: 0xFF000000 is sent as 0, and may be anything on receipt."""
        data = header.to_bytes()
        self.assertEqual(data[3], 0)
        self.assertEqual(read(data[:3] + bytes([junk]) + data[4:]), header)

    def test_a_connector_is_opaque(self) -> None:
        """MQMQ-2.2.20.5-09: its GUID is there if and only if CG is set, and comes back as it was."""
        for connector in (None, GAMMA):
            header = attrs.evolve(HEADER, connector_qm_guid=connector)
            self.assertEqual(read(header.to_bytes()), header)
            self.assertEqual(header.to_bytes()[0] & 1, connector is not None)

    def test_positions_begin_at_1(self) -> None:
        """MQMQ-2.2.20.5-07: a TxSequenceNumber of 0 is neither read nor written."""
        data = HEADER.to_bytes()
        error = self.assertRaises(RemoteProtocolError, read, data[:12] + bytes(4) + data[16:])
        self.assertEqual(
            (error.header, error.field, error.offset), ("TransactionHeader", "TxSequenceNumber", 112)
        )
        self.assertRaises(LocalProtocolError, attrs.evolve(HEADER, tx_sequence_number=0).to_bytes)

    def test_numbers_beyond_their_fields_are_our_mistake(self) -> None:
        """They are refused instead of being cut."""
        for header in (
            attrs.evolve(HEADER, transaction_id=1 << 20),
            attrs.evolve(HEADER, transaction_id=-1),
            attrs.evolve(HEADER, tx_sequence_number=1 << 32),
            attrs.evolve(HEADER, previous_tx_sequence_number=1 << 32),
        ):
            self.assertRaises(LocalProtocolError, header.to_bytes)

    @given(transaction_headers)
    def test_every_header_round_trips(self, header: TransactionHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=40))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(TransactionHeader.read, data)
