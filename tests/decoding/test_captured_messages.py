"""Messages in captures and streams of packets, as packets."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captured_messages import captured_messages
from msmq.decoding.pcap import is_capture
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import session_ack, session_header, user_packet
from tests.decoding.builders import link, pcap, tcp
from tests.decoding.test_captures import CLIENT, SERVER, session
from tests.vectors import vector

USER_MESSAGE = vector("mqqb-4.1.7-user-message")
PACKETS = [user_packet(b"body %d" % number, message_id=number) for number in range(1, 4)]


def packets(data: bytes) -> list[bytes]:
    return [found.packet for found in captured_messages(data)]


class CaptureTests(SynchronousTestCase):
    """Capture files."""

    def test_session(self) -> None:
        """Only the message of a session is returned, without SessionHeader, with the time of its
        last frame.
        """
        [found] = captured_messages(pcap([link(1, packet) for packet in session()]))
        self.assertEqual(UserMessageView(found.packet).body, UserMessageView(packets(USER_MESSAGE)[0]).body)
        self.assertEqual(found.time, 1_000_000_000.007)

    def test_session_header(self) -> None:
        """A SessionHeader is taken off, whether PacketSize counts it or not."""
        for is_counted in (False, True):
            sent = user_packet(b"body", header=session_header(), header_is_counted=is_counted)
            self.assertEqual(packets(sent + session_ack(session_header())), [user_packet(b"body")])

    def test_lost_segment(self) -> None:
        """Behind a hole the next packet is found, and what was cut is left out."""
        first, second, third = PACKETS
        frames = [
            tcp(CLIENT, SERVER, 1000, syn=True),
            tcp(CLIENT, SERVER, 1001, first + second[:50]),
            tcp(CLIENT, SERVER, 1001 + len(first) + len(second), third),
        ]
        self.assertEqual(packets(pcap([link(1, frame) for frame in frames])), [first, third])

    def test_segments_of_any_size(self) -> None:
        """A message is whole with its last byte, however little each segment carries; what follows too."""
        data = b"".join((*PACKETS, user_packet(b"x" * 300, header=session_header()), PACKETS[0]))
        expected = packets(data)
        self.assertEqual(len(expected), 5)
        for size in (1, 7, 64, 250):
            frames = [tcp(CLIENT, SERVER, 1000, syn=True)]
            for place in range(0, len(data), size):
                frames.append(tcp(CLIENT, SERVER, 1001 + place, data[place : place + size]))
            self.assertEqual(packets(pcap([link(1, frame) for frame in frames])), expected)

    @given(st.binary(max_size=300), st.integers(0, 2000))
    def test_any_file(self, rubbish: bytes, place: int) -> None:
        """A damaged file gives what was before the damage, and never an error."""
        data = pcap([link(1, packet) for packet in session()])
        packets(data[:place] + rubbish + data[place + len(rubbish) :])
        packets(rubbish)


class StreamTests(SynchronousTestCase):
    """Packets one behind the other."""

    def test_all_in_order(self) -> None:
        """Each packet is one message."""
        self.assertEqual(packets(b"".join(PACKETS)), PACKETS)

    def test_damaged(self) -> None:
        """A malformed packet is returned with its bytes, and later packets too."""
        first, second, third = PACKETS
        self.assertEqual(packets(first + b"rubbish!" * 4 + third), [first, b"rubbish!" * 4, third])
        broken = second[:60] + b"\xff" * 4 + second[64:]
        self.assertEqual(packets(first + broken + third), [first, broken, third])
        self.assertEqual(packets(first + second[:-10]), [first, second[:-10]])

    @given(st.lists(st.sampled_from(PACKETS), max_size=4), st.binary(max_size=50))
    def test_nothing_is_lost(self, sound: list[bytes], tail: bytes) -> None:
        """Any bytes after valid packets are returned too."""
        stream = b"".join(sound) + tail
        assume(not is_capture(stream))
        self.assertEqual(b"".join(packets(stream)), stream)
