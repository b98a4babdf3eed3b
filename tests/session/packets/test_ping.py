"""[MS-MQQB] 2.2.7 Ping Packet."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.ping import Ping
from tests.vectors import ACCEPTOR, INITIATOR, vector

pings = st.builds(
    Ping,
    cookie=st.integers(0, 0xFFFFFFFF),
    qm_guid=st.uuids(),
    is_workstation=st.booleans(),
    is_refused=st.booleans(),
)


class PingTests(SynchronousTestCase):
    def test_the_request_of_the_document_is_understood(self) -> None:
        """Frame 1 is a ping with cookie 4 of a workstation; fields lie where MQQB-2.2.7-01 says."""
        data = vector("mqqb-4.1.1-ping-request")
        self.assertEqual(len(data), 24)
        self.assertEqual(Ping.from_bytes(data), Ping(4, INITIATOR, is_workstation=True))

    def test_the_response_of_the_document_is_understood(self) -> None:
        """Frame 2 repeats cookie and RC, and names the queue manager that answered."""
        ping = Ping.from_bytes(vector("mqqb-4.1.2-ping-response"))
        self.assertEqual(ping, Ping(4, ACCEPTOR, is_workstation=True))

    def test_frames_come_back_but_for_their_unused_bits(self) -> None:
        """Bytes 2 to 23 of the worked examples are written as they were read."""
        for name in ("mqqb-4.1.1-ping-request", "mqqb-4.1.2-ping-response"):
            data = vector(name)
            self.assertEqual(Ping.from_bytes(data).to_bytes()[2:], data[2:])

    def test_every_field_is_written_in_its_place(self) -> None:
        """A ping is spelled byte by byte; the Signature is 48 55 on the wire (MQQB-2.2.7-06)."""
        ping = Ping(0x01020304, INITIATOR, is_workstation=False, is_refused=True)
        self.assertEqual(ping.to_bytes().hex(), "0200485504030201d1587355509195954997b6e611ea26c6")

    def test_the_flags_are_two_bits(self) -> None:
        """RC is bit 0 and RF is bit 1; a request is written with RF 0."""
        flags = [
            Ping(1, INITIATOR, rc, rf).to_bytes()[:2].hex()
            for rc, rf in ((False, False), (True, False), (False, True), (True, True))
        ]
        self.assertEqual(flags, ["0000", "0100", "0200", "0300"])

    def test_unused_flag_bits_are_ignored(self) -> None:
        """MQQB-2.2.7-05: flags of 0xB295 mean RC 1 and RF 0."""
        data = b"\x95\xb2" + Ping(4, ACCEPTOR).to_bytes()[2:]
        self.assertEqual(Ping.from_bytes(data), Ping(4, ACCEPTOR, is_workstation=True))

    def test_another_signature_is_no_ping(self) -> None:
        """A datagram whose Signature is 0x5549 is malformed, and the error names the field."""
        data = bytearray(Ping(4, ACCEPTOR).to_bytes())
        data[2] = 0x49
        error = self.assertRaises(RemoteProtocolError, Ping.from_bytes, bytes(data))
        self.assertEqual((error.header, error.field, error.offset), ("PingPacket", "Signature", 2))

    def test_only_24_bytes_are_a_ping(self) -> None:
        """Every shorter datagram and every longer one is malformed."""
        data = vector("mqqb-4.1.1-ping-request")
        for length in range(24):
            self.assertRaises(RemoteProtocolError, Ping.from_bytes, data[:length])
        self.assertRaises(RemoteProtocolError, Ping.from_bytes, data + b"\0")

    def test_a_response_repeats_what_the_request_said(self) -> None:
        """MQQB-2.2.7-03, MQQB-2.2.7-08: RC and Cookie are copied, QMGuid is the responder's."""
        for is_workstation in (True, False):
            request = Ping(77, INITIATOR, is_workstation)
            response = Ping.from_bytes(request.response(ACCEPTOR, is_refused=False).to_bytes())
            self.assertEqual(response, Ping(77, ACCEPTOR, is_workstation, is_refused=False))

    def test_a_response_says_whether_a_session_would_be_refused(self) -> None:
        """RF of the response is what the responder decided."""
        response = Ping(1, INITIATOR).response(ACCEPTOR, is_refused=True)
        self.assertTrue(Ping.from_bytes(response.to_bytes()).is_refused)

    def test_a_cookie_beyond_32_bits_is_our_mistake(self) -> None:
        """It is refused locally instead of being cut."""
        self.assertRaises(LocalProtocolError, Ping(1 << 32, INITIATOR).to_bytes)

    @given(pings)
    def test_every_ping_round_trips(self, ping: Ping) -> None:
        """Every ping round-trips."""
        self.assertEqual(Ping.from_bytes(ping.to_bytes()), ping)

    @given(st.binary(max_size=32) | st.binary(min_size=20, max_size=20).map(lambda tail: b"\0\0HU" + tail))
    def test_garbage_is_a_ping_or_malformed(self, data: bytes) -> None:
        """Any bytes are parsed or raise the error of malformed packets."""
        try:
            Ping.from_bytes(data)
        except RemoteProtocolError:
            pass
