"""Capture files and hex text, from their bytes to the lines of C{msmq decode}."""

import gzip
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captures import decode
from msmq.decoding.hex_dumps import parse_dumps
from msmq.decoding.records import Record, is_malformed
from tests.decoding.builders import block, ip, link, pcap, pcapng, tcp, udp
from tests.vectors import vector

CLIENT = ("10.0.0.1", 49759)
SERVER = ("10.0.0.2", 1801)
CLIENT6 = ("fd00::1", 49759)
SERVER6 = ("fd00::2", 1801)

ESTABLISH = vector("mqqb-4.1.3-establish-connection-request")
RESPONSE = vector("mqqb-4.1.4-establish-connection-response")
PARAMETERS = vector("mqqb-4.1.5-connection-parameters-request")
USER_MESSAGE = vector("mqqb-4.1.7-user-message")
SESSION_ACK = vector("mqqb-4.1.8-session-ack")
PING = vector("mqqb-4.1.1-ping-request")
REQUEST = vector("mqsd-4-topology-client-request")


def session(client: tuple[str, int] = CLIENT, server: tuple[str, int] = SERVER) -> list[bytes]:
    """The IP packets of a whole session, with the user message in two segments."""
    there = 1000
    back = 0xFFFFFF00
    packets = [tcp(client, server, there, syn=True), tcp(server, client, back, syn=True)]
    there, back = there + 1, back + 1
    for source, data in (
        (client, ESTABLISH),
        (server, RESPONSE),
        (client, PARAMETERS),
        (server, PARAMETERS),
        (client, USER_MESSAGE[:1400]),
        (client, USER_MESSAGE[1400:]),
        (server, SESSION_ACK),
    ):
        if source == client:
            packets.append(tcp(client, server, there, data))
            there += len(data)
        else:
            packets.append(tcp(server, client, back, data))
            back += len(data)
    return packets


def brief(records: list[Record]) -> list[tuple[Any, ...]]:
    """Sender and kind of each packet, and its position in its stream."""
    return [
        (
            record["source"],
            record["offset"],
            record.get("packet") or record.get("note") or record.get("field"),
        )
        for record in records
    ]


EXPECTED = [
    ("10.0.0.1:49759", 0, "EstablishConnection"),
    ("10.0.0.2:1801", 0, "EstablishConnection"),
    ("10.0.0.1:49759", 572, "ConnectionParameters"),
    ("10.0.0.2:1801", 572, "ConnectionParameters"),
    ("10.0.0.1:49759", 604, "UserMessage"),
    ("10.0.0.2:1801", 604, "SessionAck"),
]


class CaptureTests(SynchronousTestCase):
    def decode(self, packets: list[bytes], link_type: int = 1) -> list[Record]:
        return list(decode(pcap([link(link_type, packet) for packet in packets], link_type)))

    def test_a_session_is_decoded_in_both_directions(self) -> None:
        """Lines are in the order in which packets were completed, for any link type."""
        for link_type in (1, 113, 276, 0, 101):
            self.assertEqual(brief(self.decode(session(), link_type)), EXPECTED)

    def test_a_line_has_frame_time_and_addresses(self) -> None:
        """Frames are counted from 1, times are ISO 8601 in UTC."""
        records = self.decode(session())
        first = {key: records[0][key] for key in ("frame", "time", "source", "destination")}
        self.assertEqual(
            first,
            {
                "frame": 3,
                "time": "2001-09-09T01:46:40.002000+00:00",
                "source": "10.0.0.1:49759",
                "destination": "10.0.0.2:1801",
            },
        )
        self.assertEqual(records[4]["frame"], 8)

    def test_ipv6_addresses_have_brackets(self) -> None:
        """Address and port stay apart."""
        records = self.decode(session(CLIENT6, SERVER6))
        self.assertEqual(records[0]["source"], "[fd00::1]:49759")
        self.assertEqual(len(records), 6)

    def test_pcapng_is_read_alike(self) -> None:
        """The same session gives the same lines."""
        frames = [(0, link(1, packet)) for packet in session()]
        self.assertEqual(brief(list(decode(pcapng(frames, [1])))), EXPECTED)

    def test_order_and_repetition_do_not_matter(self) -> None:
        """Late and repeated segments give every packet once."""
        packets = session()
        packets[6], packets[7] = packets[7], packets[6]
        packets.insert(5, packets[2])
        self.assertEqual(sorted(brief(self.decode(packets))), sorted(EXPECTED))

    def test_a_capture_may_begin_inside_a_packet(self) -> None:
        """The first line then says what was passed over."""
        records = self.decode(session()[7:])
        self.assertEqual(
            brief(records),
            [
                ("10.0.0.2:1801", 0, "SessionAck"),
                ("10.0.0.1:49759", 0, "the capture begins inside a packet"),
            ],
        )
        self.assertEqual(records[1]["skipped"], len(USER_MESSAGE) - 1400)

    def test_a_missing_segment_is_reported(self) -> None:
        """The data after it is decoded when the capture ends."""
        packets = session()
        del packets[6]
        last = tcp(CLIENT, SERVER, 1001 + 572 + 32 + 2224, SESSION_ACK)
        records = self.decode([*packets, last])
        self.assertEqual(
            brief(records)[-2:],
            [
                ("10.0.0.1:49759", 604, "1400 bytes are missing from the capture"),
                ("10.0.0.1:49759", 604 + 2224, "SessionAck"),
            ],
        )
        self.assertFalse(any(map(is_malformed, records)))

    def test_a_port_used_again_is_another_session(self) -> None:
        """A SYN with another number begins a new stream."""
        packets = [*session(), tcp(CLIENT, SERVER, 50_000, syn=True), tcp(CLIENT, SERVER, 50_001, ESTABLISH)]
        self.assertEqual(brief(self.decode(packets))[-1], ("10.0.0.1:49759", 0, "EstablishConnection"))

    def test_a_repeated_syn_is_the_same_session(self) -> None:
        """A repeated SYN loses no data."""
        packets = session()
        packets.insert(1, packets[0])
        self.assertEqual(brief(self.decode(packets)), EXPECTED)

    def test_pings_and_topology_packets_are_datagrams(self) -> None:
        """UDP 3527 carries pings, UDP 1801 discovery, in either direction."""
        packets = [
            udp(("10.0.0.1", 4057), ("10.0.0.2", 3527), PING),
            udp(("10.0.0.2", 3527), ("10.0.0.1", 4057), vector("mqqb-4.1.2-ping-response")),
            udp(("10.0.0.1", 1801), ("10.255.255.255", 1801), REQUEST),
            udp(("10.0.0.1", 53), ("10.0.0.2", 5353), PING),
            udp(("10.0.0.1", 4057), ("10.0.0.2", 3527), PING[:23]),
        ]
        records = self.decode(packets)
        self.assertEqual(
            brief(records),
            [
                ("10.0.0.1:4057", 0, "Ping"),
                ("10.0.0.2:3527", 0, "Ping"),
                ("10.0.0.1:1801", 0, "TopologyClientRequest"),
                ("10.0.0.1:4057", 0, "Flags"),
            ],
        )
        self.assertTrue(is_malformed(records[3]))

    def test_ports_can_be_chosen(self) -> None:
        """Sessions of a queue manager on another port are found by it."""
        data = pcap([link(1, packet) for packet in session(CLIENT, ("10.0.0.2", 1802))])
        self.assertEqual(list(decode(data)), [])
        self.assertEqual(len(list(decode(data, session_port=1802))), 6)

    def test_other_traffic_gives_no_lines(self) -> None:
        """Web servers and bare acknowledgements are passed over."""
        packets = [tcp(CLIENT, ("10.0.0.2", 80), 1, b"GET /"), tcp(CLIENT, SERVER, 1)]
        self.assertEqual(self.decode(packets), [])

    def test_a_capture_cut_short_gives_its_packets_and_one_error(self) -> None:
        """Complete packets are decoded; the error names the file and the position."""
        data = pcap([link(1, packet) for packet in session()])
        records = list(decode(data[:-10]))
        self.assertEqual(brief(records[:5]), EXPECTED[:5])
        [error] = [record for record in records if is_malformed(record)]
        self.assertEqual((error["header"], error["field"]), ("CaptureFile", "Captured Packet Length"))

    def test_an_unknown_link_type_is_noted_once(self) -> None:
        """Two frames of an 802.11 capture give one note."""
        records = list(decode(pcap([b"x" * 40, b"y" * 40], 105)))
        self.assertEqual(
            [record["note"] for record in records], ["frames of link type 105 are not supported"]
        )

    def test_truncated_frames_without_lengths(self) -> None:
        """The padding of a Simple Packet Block whose frame was captured in part is no part of the stream."""
        data = block("<", 0x0A0D0D0A, (0x1A2B3C4D).to_bytes(4, "little") + b"\1\0\0\0" + b"\xff" * 8)
        data += block("<", 1, b"\x65\0\0\0" + (545).to_bytes(4, "little"))
        for packet in (
            tcp(CLIENT, SERVER, 1, syn=True),
            tcp(CLIENT, SERVER, 2, ESTABLISH),
            tcp(CLIENT, SERVER, 2 + 572, PARAMETERS),
        ):
            data += block("<", 3, len(packet).to_bytes(4, "little") + packet[:545])
        self.assertEqual(
            brief(list(decode(data))),
            [
                ("10.0.0.1:49759", 0, "67 bytes are missing from the capture"),
                ("10.0.0.1:49759", 572, "ConnectionParameters"),
            ],
        )

    def test_a_frame_without_time_has_none(self) -> None:
        """A Simple Packet Block of pcapng keeps no clock."""
        frame = link(1, udp(("10.0.0.1", 4057), ("10.0.0.2", 3527), PING))
        data = pcapng([], [1]) + block("<", 3, len(frame).to_bytes(4, "little") + frame)
        [record] = decode(data)
        self.assertIsNone(record["time"])

    @given(st.integers(0, 6000), st.binary(min_size=1, max_size=8), st.booleans())
    def test_damage_never_raises(self, offset: int, noise: bytes, is_next_generation: bool) -> None:
        """A damaged capture gives lines of JSON."""
        frames = [link(1, packet) for packet in session()]
        data = pcapng([(0, frame) for frame in frames], [1]) if is_next_generation else pcap(frames)
        damaged = data[:offset] + noise + data[offset + len(noise) :]
        for record in decode(damaged):
            json.dumps(record)


class HexTests(SynchronousTestCase):
    def test_hex_text_is_recognised(self) -> None:
        """A dump pasted from the document decodes without an option."""
        text = "\n".join(PARAMETERS[at : at + 16].hex(" ") for at in range(0, 32, 16))
        [record] = decode(text.encode())
        self.assertEqual(record["packet"], "ConnectionParameters")

    def test_every_kind_of_input_may_be_in_hex(self) -> None:
        """A ping, a topology packet, a session and a capture file."""
        for data in (PING, REQUEST, ESTABLISH + PARAMETERS, pcap([link(1, packet) for packet in session()])):
            self.assertEqual(list(decode(data.hex().encode(), is_hex=True)), list(decode(data)))

    def test_invalid_hex_is_one_error(self) -> None:
        """If hex is insisted on, other input is malformed and not taken for packets."""
        for data in (b"10 00 zz", PARAMETERS, b"100"):
            [record] = decode(data, is_hex=True)
            self.assertTrue(is_malformed(record))
            self.assertEqual(record["header"], "HexText")


class DatagramTests(SynchronousTestCase):
    def test_a_datagram_may_be_the_whole_input(self) -> None:
        """Pings and topology packets are recognised by their first bytes."""
        self.assertEqual([record["packet"] for record in decode(PING)], ["Ping"])
        self.assertEqual([record["packet"] for record in decode(REQUEST)], ["TopologyClientRequest"])

    def test_a_malformed_datagram_names_its_header(self) -> None:
        """A ping of 23 bytes and a request of 51 are reported as what they are."""
        [record] = decode(PING[:23])
        self.assertEqual((record["header"], record["offset"]), ("PingPacket", 0))
        [record] = decode(REQUEST[:51])
        self.assertEqual((record["header"], record["field"]), ("TopologyClientRequest", "SiteID"))

    @given(st.binary(max_size=100))
    def test_any_bytes_give_lines(self, data: bytes) -> None:
        """No input raises, whichever format is detected."""
        for record in decode(data):
            json.dumps(record)


def dump(data: bytes, line: str, *, width: int = 16, start: int = 0, group: int = 1) -> str:
    """Lines of a hex dump.

    @param line: with C{offset}, C{hex} and C{text}, the characters of the bytes.
    """
    said = []
    for at in range(0, len(data), width):
        part = data[at : at + width]
        text = "".join(chr(byte) if 33 <= byte < 127 else "." for byte in part)
        digits = part.hex(" ", -group).ljust(width * 2 + width // group - 1)
        said.append(line.format(offset=start + at, hex=digits, text=text))
    return "\n".join(said) + "\n"


TCPDUMP = "\t0x{offset:04x}:  {hex}  {text}"
TSHARK = "{offset:04x}  {hex}   {text}"
FOLLOWED = "{offset:08x}  {hex}  {text}"


class PrintedCaptureTests(SynchronousTestCase):
    """Text output of capture tools."""

    def setUp(self) -> None:
        self.expected = [
            (record["source"], record["destination"], record["packet"])
            for record in decode(pcap([link(1, packet) for packet in session()]))
        ]

    def check(self, text: str) -> None:
        found = [
            (record["source"], record["destination"], record["packet"]) for record in decode(text.encode())
        ]
        self.assertEqual(found, self.expected)

    def test_tshark(self) -> None:
        """C{tshark -x} prints a dump for each frame, with a blank line between."""
        self.check("\n".join(dump(link(1, packet), TSHARK) for packet in session()))

    def test_tcpdump(self) -> None:
        """C{tcpdump -XX} prints frames and C{-X} IP packets, each below a line that describes it."""
        for link_type in (1, 101):
            described = "12:00:00.000000 IP 10.0.0.1.49759 > 10.0.0.2.1801: Flags [P.], length 572\n"
            self.check("".join(described + dump(link(link_type, one), TCPDUMP, group=2) for one in session()))

    def test_tcpdump_as_printed(self) -> None:
        """A frame that C{tcpdump -XX} printed, whose characters look like the bars of another tool."""
        frame = link(1, udp(CLIENT, ("10.0.0.2", 3527), PING))
        printed = dump(frame, TCPDUMP, group=2).replace("..", "|.")
        [record] = decode(("00:00:01.5 IP a > b: UDP, length 20\n" + printed).encode())
        self.assertEqual((record["frame"], record["packet"]), (1, "Ping"))

    def test_followed_stream(self) -> None:
        """Wireshark prints both directions of a conversation, the second one indented."""
        there, back = ESTABLISH + PARAMETERS + USER_MESSAGE, RESPONSE + PARAMETERS + SESSION_ACK
        size = len(ESTABLISH)
        text = "===\nFollow: tcp,hex\nFilter: tcp.stream eq 0\nNode 0: 10.0.0.1:49759\n"
        text += dump(there[:size], FOLLOWED) + dump(back[:size], "\t" + FOLLOWED)
        text += dump(there[size:], FOLLOWED, start=size) + dump(back[size:], "\t" + FOLLOWED, start=size)
        found = [(record["direction"], record["packet"]) for record in decode((text + "===\n").encode())]
        expected = [(1, "EstablishConnection"), (1, "ConnectionParameters"), (1, "UserMessage")]
        expected += [(2, "EstablishConnection"), (2, "ConnectionParameters"), (2, "SessionAck")]
        self.assertEqual(found, expected)

    def test_several_packets(self) -> None:
        """Dumps that are no frames are decoded one after the other."""
        text = "\n\n".join(dump(packet, "{offset:08x}: {hex}  {text}") for packet in (PING, ESTABLISH))
        found = [(record["frame"], record["packet"]) for record in decode(text.encode())]
        self.assertEqual(found, [(1, "Ping"), (2, "EstablishConnection")])

    def test_characters_of_any_script(self) -> None:
        """The characters of a dump may be what a code page has for the bytes."""
        text = dump(PARAMETERS, FOLLOWED).replace(".", "\u00b7")
        for encoded in (text.encode(), text.encode("latin-1")):
            self.assertEqual([record["packet"] for record in decode(encoded)], ["ConnectionParameters"])

    def test_text_of_windows(self) -> None:
        """A text may be in UTF-16, as PowerShell redirects it, or in UTF-8 with a byte order mark."""
        frames = "\r\n".join(dump(link(1, packet), TSHARK) for packet in session()).replace("\n", "\r\n")
        for text in (frames, PARAMETERS.hex()):
            expected = [record["packet"] for record in decode(text.encode())]
            self.assertIn("ConnectionParameters", expected)
            for encoding in ("utf-8-sig", "utf-16", "utf-16-be"):
                data = (
                    text.encode(encoding) if encoding != "utf-16-be" else ("\ufeff" + text).encode(encoding)
                )
                self.assertEqual([record.get("packet") for record in decode(data)], expected, encoding)
        self.assertTrue(is_malformed(next(iter(decode(b"\xff\xfe\x00\xd8")))))

    def test_compressed(self) -> None:
        """An input may be compressed; a damaged one is named."""
        data = gzip.compress(pcap([link(1, packet) for packet in session()]))
        self.assertEqual([record["packet"] for record in decode(data)], [each[2] for each in self.expected])
        [record] = decode(data[:-20])
        self.assertTrue(is_malformed(record))
        self.assertEqual((record["header"], record["field"]), ("CaptureFile", "gzip"))

    def test_other_ports(self) -> None:
        """Sessions and pings on other ports are decoded if these are named."""
        server = (SERVER[0], 11801)
        frames = [link(1, packet) for packet in session(server=server)]
        frames.append(link(1, udp(CLIENT, (SERVER[0], 13527), PING)))
        self.assertEqual(list(decode(pcap(frames))), [])
        found = [record["packet"] for record in decode(pcap(frames), session_port=11801, ping_port=13527)]
        self.assertEqual(found, [*(each[2] for each in self.expected), "Ping"])

    def test_tunnels(self) -> None:
        """Packets in GRE tunnels are named once; the others are decoded."""
        inner = tcp(CLIENT, SERVER, 1, ESTABLISH)
        tunnelled = link(1, ip("192.0.2.1", "192.0.2.2", 47, b"\0\0\x08\0" + inner))
        records = list(decode(pcap([tunnelled, tunnelled, *(link(1, packet) for packet in session())])))
        self.assertEqual(records[0]["note"], "packets in GRE tunnels are not supported")
        self.assertEqual(len(records), len(self.expected) + 1)

    @given(st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=4), st.booleans())
    def test_any_dumps(self, packets: list[bytes], is_grouped: bool) -> None:
        """Any bytes are read back from a dump of them."""
        line, group = (TCPDUMP, 2) if is_grouped else (TSHARK, 1)
        found = parse_dumps("\n".join(dump(packet, line, group=group) for packet in packets))
        assert found is not None
        self.assertEqual([each.data for each in found], packets)

    def test_repeated_lines_are_limited(self) -> None:
        """Repeated lines expand a text up to a limit, in one dump or in several together."""
        once = "0000: 00 00 00 00\n*\n0040: 00 00 00 00\n"
        twice = once + "*\n0080: 00 00 00 00\n"
        for text, sizes in ((once, [68]), (twice, [132]), (once + "\n" + once, [68, 68])):
            found = parse_dumps(text, sum(sizes))
            assert found is not None
            self.assertEqual([len(each.data) for each in found], sizes)
            self.assertIsNone(parse_dumps(text, sum(sizes) - 5), sizes)
