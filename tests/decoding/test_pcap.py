"""The frames of capture files, and what they carry."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.frames import TcpSegment, is_known_link, read_segment
from msmq.decoding.pcap import Frame, is_capture, read_frames
from msmq.errors import RemoteProtocolError
from tests.decoding.builders import block, ip, link, pcap, pcapng, tcp, udp

ALPHA = ("10.0.0.1", 49759)
BETA = ("10.0.0.2", 1801)
ALPHA6 = ("fd00::1", 49759)
BETA6 = ("fd00::2", 1801)


class ReadFramesTests(SynchronousTestCase):
    def test_pcap_in_either_byte_order(self) -> None:
        """Frames come with their number, time and link type."""
        for order in "<>":
            frames = list(read_frames(pcap([b"one", b"two"], 113, order=order)))
            self.assertEqual(frames, [Frame(1, 1e9, 113, b"one"), Frame(2, 1e9 + 0.001, 113, b"two")])

    def test_pcap_with_nanoseconds(self) -> None:
        """The second is divided as the magic number says."""
        [_, frame] = read_frames(pcap([b"one", b"two"], nanoseconds=True))
        self.assertEqual(frame.time, 1e9 + 0.001)

    def test_pcapng_in_either_byte_order(self) -> None:
        """Each frame has the link type and the clock of its interface; other blocks are passed over."""
        for order in "<>":
            data = pcapng([(0, b"one"), (1, b"two!!")], [1, 276], order=order)
            frames = list(read_frames(data))
            self.assertEqual(frames, [Frame(1, 1e9, 1, b"one"), Frame(2, 1e9 + 0.001, 276, b"two!!")])

    def test_pcapng_without_times(self) -> None:
        """A Simple Packet Block has no time."""
        data = pcapng([], [1]) + block("<", 3, pack("<I", 3) + b"one")
        self.assertEqual(list(read_frames(data)), [Frame(1, None, 1, b"one")])

    def test_a_pcapng_interface_may_shift_its_clock(self) -> None:
        """Its times may count parts of two's powers, from another second than 0."""
        options = pack("<HHBxxx", 9, 1, 0x80 | 10) + pack("<HHq", 14, 8, 500)
        interface = block("<", 1, pack("<HHI", 1, 0, 65535) + options)
        packet = block("<", 6, pack("<IIIII", 0, 0, 1536, 3, 3) + b"one")
        [frame] = read_frames(pcapng([], []) + interface + packet)
        self.assertEqual(frame.time, 501.5)

    def test_a_section_of_pcapng_begins_anew(self) -> None:
        """Files put together keep their interfaces apart, even in other byte orders."""
        data = pcapng([(0, b"one")], [1]) + pcapng([(0, b"two")], [101], order=">")
        self.assertEqual([frame.link_type for frame in read_frames(data)], [1, 101])

    def test_files_are_recognised_by_their_beginning(self) -> None:
        """Both formats in both byte orders are captures, a packet is not."""
        for order in "<>":
            self.assertTrue(is_capture(pcap([], order=order)))
            self.assertTrue(is_capture(pcap([], order=order, nanoseconds=True)))
            self.assertTrue(is_capture(pcapng([], [1], order=order)))
        self.assertFalse(is_capture(bytes.fromhex("10000b004c494f52")))
        self.assertFalse(is_capture(b""))

    def test_a_file_cut_short_gives_what_is_there_and_one_error(self) -> None:
        """Whole frames before the cut are given; then the error says what is missing."""
        for data in (pcap([b"one!", b"two!"]), pcapng([(0, b"one!"), (0, b"two!")], [1])):
            for length in range(len(data)):
                frames = []
                try:
                    for frame in read_frames(data[:length]) if is_capture(data[:length]) else ():
                        frames.append(frame.data)
                except RemoteProtocolError as error:
                    self.assertEqual(error.header, "CaptureFile")
                self.assertIn(frames, ([], [b"one!"]))

    def test_an_absurd_length_is_an_error(self) -> None:
        """A frame of 3 GB or a block of 5 bytes means that the file is damaged."""
        for data in (
            pcap([]) + pack("<IIII", 0, 0, 3_000_000_000, 3_000_000_000) + bytes(100),
            pcapng([], [1]) + pack("<II", 6, 5) + bytes(8),
            pcapng([], [1]) + pack("<II", 6, 0xFFFFFFFC) + bytes(8),
            pcapng([(7, b"one")], [1]),
            pcapng([], [1]) + block("<", 0x0A0D0D0A, bytes(16)),
        ):
            self.assertRaises(RemoteProtocolError, list, read_frames(data))

    @given(st.binary(max_size=120), st.integers(0, 3))
    def test_garbage_is_frames_or_the_one_error(self, rubbish: bytes, kind: int) -> None:
        """Any bytes after a valid header are frames or the one error."""
        for data in (pcap([b"one"]) + rubbish, pcapng([], [1]) + block("<", kind, rubbish) + rubbish):
            try:
                list(read_frames(data))
            except RemoteProtocolError:
                pass


class ReadSegmentTests(SynchronousTestCase):
    def test_every_link_type_is_taken_apart(self) -> None:
        """Ethernet, both cooked forms, loopback and raw IP carry IPv4 and IPv6."""
        for link_type in (1, 113, 276, 0, 101):
            self.assertTrue(is_known_link(link_type))
            for source, destination in ((ALPHA, BETA), (ALPHA6, BETA6)):
                frame = link(link_type, tcp(source, destination, 77, b"data"))
                expected = TcpSegment(source, destination, b"data", 77)
                self.assertEqual(read_segment(link_type, frame), expected, link_type)
                frame = link(link_type, udp(source, destination, b"data"))
                self.assertEqual(read_segment(link_type, frame), TcpSegment(source, destination, b"data"))

    def test_ip_alone_has_link_types_of_its_own(self) -> None:
        """228 is IPv4 and 229 is IPv6."""
        self.assertEqual(read_segment(228, udp(ALPHA, BETA, b"x")), TcpSegment(ALPHA, BETA, b"x"))
        self.assertEqual(read_segment(229, udp(ALPHA6, BETA6, b"x")), TcpSegment(ALPHA6, BETA6, b"x"))

    def test_a_vlan_tag_is_passed_over(self) -> None:
        """802.1Q between the addresses and the type changes nothing."""
        frame = bytes(12) + b"\x81\x00\x00\x05\x08\x00" + udp(ALPHA, BETA, b"x")
        self.assertEqual(read_segment(1, frame), TcpSegment(ALPHA, BETA, b"x"))

    def test_the_first_byte_follows_a_syn(self) -> None:
        """A SYN counts one; its number may be the last before the wrap."""
        frame = link(1, tcp(ALPHA, BETA, 0xFFFFFFFF, syn=True))
        self.assertEqual(read_segment(1, frame), TcpSegment(ALPHA, BETA, b"", 0, starts=True))

    def test_padding_of_a_short_frame_is_no_payload(self) -> None:
        """Ethernet pads to 60 bytes; IP says how long the packet is."""
        segment = read_segment(1, link(1, tcp(ALPHA, BETA, 1, b"x")))
        assert segment is not None
        self.assertEqual(segment.data, b"x")

    def test_other_traffic_is_none(self) -> None:
        """ARP, ICMP, fragments and damaged frames carry nothing for us."""
        for frame in (
            bytes(12) + b"\x08\x06" + bytes(28),
            link(1, ip("10.0.0.1", "10.0.0.2", 1, bytes(8))),
            link(1, ip("10.0.0.1", "10.0.0.2", 17, bytes(40), more_fragments=True)),
            b"",
            bytes(5),
        ):
            self.assertIsNone(read_segment(1, frame))

    @given(st.sampled_from((0, 1, 101, 108, 113, 228, 229, 276)), st.binary(max_size=80))
    def test_garbage_never_raises(self, link_type: int, data: bytes) -> None:
        """A damaged frame carries nothing, or something; nothing comes out of dpkt."""
        read_segment(link_type, data)

    @given(st.integers(0, 53), st.binary(min_size=1, max_size=6))
    def test_damaged_headers_never_raise(self, offset: int, noise: bytes) -> None:
        """Nor does a good frame with other bytes somewhere."""
        for source, destination in ((ALPHA, BETA), (ALPHA6, BETA6)):
            frame = link(1, tcp(source, destination, 77, b"data"))
            read_segment(1, frame[:offset] + noise + frame[offset + len(noise) :])
