"""[MS-MQMQ] 2.2.4: TA_ADDRESS holds an address of each type."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from tests.structures.names.ta_address import AddressType, TaAddress
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import INITIATOR as GUID


class TaAddressTests(SynchronousTestCase):
    """L{TaAddress}."""

    def test_each_type_has_its_length(self) -> None:
        """MQMQ-2.2.4-01: 4 bytes for IP, 10 for IPX, 16 for a foreign network; anything else is malformed."""
        for value, data in (
            (TaAddress.ip("10.0.0.5"), "0400 0100 0a000005"),
            (TaAddress.ip("10.0.0.5", is_ras=True), "0400 0200 0a000005"),
            (TaAddress(AddressType.IPX, bytes(range(10))), "0a00 0300 00010203040506070809"),
            (TaAddress.foreign(GUID), "1000 0500" + GUID.bytes_le.hex()),
        ):
            self.assertEqual(value.to_bytes(), bytes.fromhex(data))
            assert_read_three_ways(self, value)
        for data in ("0400 0000 00000000", "0400 0400 00000000", "0400 0600 00000000"):
            error = self.assertRaises(RemoteProtocolError, TaAddress.from_bytes, bytes.fromhex(data))
            self.assertEqual((error.field, error.offset), ("AddressType", 2))
        for data in ("0600 0100 000000000000", "0400 0300 00000000", "0400 0500 00000000"):
            error = self.assertRaises(RemoteProtocolError, TaAddress.from_bytes, bytes.fromhex(data))
            self.assertEqual((error.field, error.offset), ("AddressLength", 0))

    def test_is_printed_as_people_write_it(self) -> None:
        """Dotted, as network and node, or as a GUID."""
        self.assertEqual(str(TaAddress.ip("10.0.0.5")), "10.0.0.5")
        ipx = TaAddress(AddressType.IPX, bytes.fromhex("00000001 0080C7112233"))
        self.assertEqual(str(ipx), "00000001:0080C7112233")
        self.assertEqual(str(TaAddress.foreign(GUID)), "557358D1-9150-9595-4997-B6E611EA26C6")

    def test_an_address_of_another_length_cannot_be_made(self) -> None:
        """Nor one from text that is not an address."""
        self.assertRaises(LocalProtocolError, TaAddress, AddressType.IP, bytes(10))
        self.assertRaises(LocalProtocolError, TaAddress.ip, "::1")

    @given(st.binary(max_size=30))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(TaAddress.read, data)
