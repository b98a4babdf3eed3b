"""The stream of a session, decoded packet by packet, from any position."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captures import decode, decode_stream
from msmq.decoding.packet_stream import PacketStream
from msmq.decoding.records import Record, is_malformed
from msmq.structures.packet.session_header import SessionHeader
from tests.builders import patched, user_packet
from tests.hostile_packets import benign
from tests.structures.packet.test_hostile_packets import steps
from tests.vectors import vector

ESTABLISH = vector("mqqb-4.1.3-establish-connection-request")
PARAMETERS = vector("mqqb-4.1.5-connection-parameters-request")
SESSION_ACK = vector("mqqb-4.1.8-session-ack")
USER_MESSAGE = vector("mqqb-4.1.7-user-message")
HEADER = SessionHeader(9, 0, 0, 1, 0, 64).to_bytes()
STREAM = ESTABLISH + PARAMETERS + USER_MESSAGE + SESSION_ACK


def with_session_header(*, counted: bool) -> bytes:
    """Frame 7 with a SessionHeader, which PacketSize counts or not."""
    size = len(USER_MESSAGE) + len(HEADER) * counted
    return patched(patched(USER_MESSAGE, 2, b"\x13"), 8, size.to_bytes(4, "little")) + HEADER


def summary(records: list[Record]) -> list[tuple[Any, Any]]:
    """Offset and packet, or offset and what is wrong."""
    return [
        (record["offset"], record.get("packet") or record.get("note") or record["field"])
        for record in records
    ]


def chunked(data: bytes, cuts: list[int], **options: bool) -> list[Record]:
    """Feed the data in pieces."""
    stream = PacketStream(**options)
    records: list[Record] = []
    edges = [0, *sorted(cuts), len(data)]
    for index in range(len(edges) - 1):
        records += stream.feed(data[edges[index] : edges[index + 1]])
    return records + stream.end()


class DecodeStreamTests(SynchronousTestCase):
    def test_packets_come_with_their_offsets(self) -> None:
        """Each packet of a session is one line."""
        self.assertEqual(
            summary(list(decode(STREAM))),
            [
                (0, "EstablishConnection"),
                (572, "ConnectionParameters"),
                (604, "UserMessage"),
                (2828, "SessionAck"),
            ],
        )

    def test_a_session_header_belongs_to_its_message(self) -> None:
        """Whether PacketSize counts it or not, the next packet is in step."""
        for counted in (False, True):
            data = with_session_header(counted=counted) + SESSION_ACK
            records = list(decode_stream(data))
            self.assertEqual(summary(records), [(0, "UserMessage"), (2240, "SessionAck")])
            header: Any = records[0]["SessionHeader"]
            self.assertEqual(header["AckSequenceNumber"], 9)

    def test_a_malformed_packet_has_its_rule(self) -> None:
        """Offset, header, field and rule name what is wrong; the offset is that of the packet."""
        bad = patched(PARAMETERS, 18, b"\x09")
        records = list(decode_stream(SESSION_ACK + bad))
        self.assertTrue(is_malformed(records[1]))
        self.assertEqual(
            records[1],
            {
                "offset": 36,
                "header": "InternalHeader",
                "field": "Flags",
                "field_offset": 18,
                "section": "[MS-MQQB] 2.2.1",
                "rule": "PT 9 is not a packet type",
            },
        )

    def test_packets_after_a_malformed_one_are_decoded(self) -> None:
        """One bad packet hides none of the others."""
        for bad, field in (
            (patched(PARAMETERS, 18, b"\x09"), "Flags"),
            (patched(PARAMETERS, 0, b"\x11"), "VersionNumber"),
            (patched(PARAMETERS, 4, b"ROIL"), "Signature"),
            (patched(PARAMETERS, 8, b"\x28"), "PacketSize"),
            (patched(USER_MESSAGE, 137, b"\xff"), "LabelLength"),
            (patched(USER_MESSAGE, 8, b"\0\0\x01\0"), "PacketSize"),
            (USER_MESSAGE[:500], "PacketSize"),
            (b"rubbish", "VersionNumber"),
        ):
            records = list(decode_stream(ESTABLISH + bad + SESSION_ACK))
            self.assertEqual(records[0]["packet"], "EstablishConnection")
            self.assertIn(field, [record.get("field") for record in records])
            self.assertEqual(summary(records)[-1], (len(ESTABLISH + bad), "SessionAck"))
            self.assertEqual(len(records), 3, bad[:20])

    def test_a_packet_inside_a_bad_message_is_its_body(self) -> None:
        """Where the next packet begins is first looked for where the bad one ends."""
        inner = patched(USER_MESSAGE, 300, SESSION_ACK)
        bad = patched(inner, 137, b"\xff")
        self.assertEqual(
            summary(list(decode_stream(bad + PARAMETERS))),
            [(0, "LabelLength"), (2224, "ConnectionParameters")],
        )

    def test_a_session_header_behind_a_bad_message_is_passed_over(self) -> None:
        """It belongs to the message, so the next packet is looked for behind it."""
        inner = patched(with_session_header(counted=False), 300, SESSION_ACK)
        bad = patched(inner, 137, b"\xff")
        self.assertEqual(
            summary(list(decode_stream(bad + PARAMETERS))),
            [(0, "LabelLength"), (2240, "ConnectionParameters")],
        )

    def test_a_wrong_size_hides_no_packets(self) -> None:
        """A PacketSize that reaches beyond the input does not swallow the packets behind it."""
        bad = patched(USER_MESSAGE, 8, b"\0\0\x30\0")
        self.assertEqual(
            summary(list(decode_stream(bad + SESSION_ACK))), [(0, "PacketSize"), (2224, "SessionAck")]
        )

    def test_malformed_packets_inside_each_other_are_given_up(self) -> None:
        """Thousands of nested malformed packets are not all searched to the end."""
        packet = user_packet(b"", private_number=5)
        # HH: a SoapHeader follows, whose first text would be all the rest.
        packet = patched(packet, 60, (0x10A00C00).to_bytes(4, "little"))
        count, size = 4000, len(packet) + 8
        stream = b""
        for left in range(count * size, 300, -size):
            units = (left - size - 200) // 2
            stream += patched(packet, 8, (left - 36).to_bytes(4, "little"))
            stream += (0x0320).to_bytes(4, "little") + max(units, 1).to_bytes(4, "little")
        records = list(decode_stream(stream + bytes(500) + STREAM))
        self.assertLess(len(records), count // 10)
        [note] = [record for record in records if "note" in record]
        self.assertEqual(note["note"], "too many malformed packets are nested")
        self.assertEqual(
            [packet for _, packet in summary(records)[-4:]],
            ["EstablishConnection", "ConnectionParameters", "UserMessage", "SessionAck"],
        )

    def test_an_end_inside_a_packet_is_malformed(self) -> None:
        """A file that ends early says so, even inside a BaseHeader."""
        for length in range(1, len(SESSION_ACK)):
            records = list(decode_stream(PARAMETERS + SESSION_ACK[:length]))
            self.assertEqual(len(records), 2)
            self.assertTrue(is_malformed(records[1]))
            self.assertEqual(records[1]["offset"], 32)

    def test_empty_stream(self) -> None:
        """An empty input has no lines."""
        self.assertEqual(list(decode(b"")), [])

    def test_first_lines(self) -> None:
        """The first lines of a long stream are there before the rest is decoded, which has more lines."""
        data = b"".join(benign(100_000) for _ in range(64))
        records = decode(data)
        self.assertLess(steps(lambda: next(records)), steps(lambda: list(records)) / 3)

    def test_long_stream(self) -> None:
        """The lines of a long stream are those of its packets, also of the largest ones."""
        packets = [benign(size) for size in (4 << 20, 300, (1 << 20) - 152, 300, 4 << 20)]
        found = [(record["offset"], record["size"]) for record in decode(b"".join(packets))]
        offsets = [sum(map(len, packets[:index])) for index in range(len(packets))]
        self.assertEqual(found, list(zip(offsets, map(len, packets), strict=True)))

    @given(st.lists(st.integers(0, 4000), max_size=12), st.booleans())
    def test_chunks_do_not_matter(self, cuts: list[int], counted: bool) -> None:
        """However the stream is cut, the lines are the same."""
        bad = patched(USER_MESSAGE, 137, b"\xff")
        data = STREAM[:700] + bad + b"noise" + with_session_header(counted=counted) + SESSION_ACK
        self.assertEqual(chunked(data, [min(cut, len(data)) for cut in cuts]), list(decode_stream(data)))

    @given(
        st.lists(
            st.sampled_from(
                (ESTABLISH, PARAMETERS, SESSION_ACK, SESSION_ACK[:20], b"LIOR", b"\x10\0\x0b\0LIOR")
            )
            | st.binary(max_size=40),
            max_size=8,
        )
    )
    def test_any_bytes_give_lines(self, parts: list[bytes]) -> None:
        """No input raises."""
        list(decode(b"".join(parts)))


class OverheardStreamTests(SynchronousTestCase):
    """A captured stream without its beginning, with gaps, without its end."""

    def test_the_first_packet_is_looked_for(self) -> None:
        """Bytes before it are passed over, and a note says how many."""
        records = chunked(USER_MESSAGE[300:] + SESSION_ACK, [100, 1923], synchronised=False, is_captured=True)
        self.assertEqual(
            records[0],
            {"offset": 0, "note": "the capture begins inside a packet", "skipped": len(USER_MESSAGE) - 300},
        )
        self.assertEqual(summary(records)[1:], [(1924, "SessionAck")])
        self.assertFalse(is_malformed(records[0]))

    def test_a_packet_at_once_needs_no_note(self) -> None:
        """A capture that begins between two packets misses nothing."""
        records = chunked(SESSION_ACK, [], synchronised=False, is_captured=True)
        self.assertEqual(summary(records), [(0, "SessionAck")])

    def test_no_packet_at_all_is_a_note(self) -> None:
        """Bytes in which none begins are accounted for."""
        records = chunked(bytes(100), [50], synchronised=False, is_captured=True)
        self.assertEqual(summary(records), [(0, "the capture begins inside a packet")])
        self.assertEqual(records[0]["skipped"], 100)

    def test_a_hole_is_reported(self) -> None:
        """Decoding goes on at the next packet behind it, with the true offset."""
        stream = PacketStream(is_captured=True)
        records = stream.feed(SESSION_ACK + USER_MESSAGE[:1000])
        records += stream.skip(500)
        records += stream.feed(USER_MESSAGE[1500:] + PARAMETERS)
        records += stream.end()
        self.assertEqual(
            summary(records),
            [
                (0, "SessionAck"),
                (36, "500 bytes are missing from the capture"),
                (2260, "ConnectionParameters"),
            ],
        )
        self.assertEqual(records[1]["skipped"], 2224)

    def test_a_hole_behind_a_malformed_packet_is_reported(self) -> None:
        """While the next packet is searched, missing bytes are reported all the same."""
        stream = PacketStream(is_captured=True)
        records = stream.feed(b"rubbish and more rubbish") + stream.skip(10) + stream.feed(SESSION_ACK)
        records += stream.end()
        self.assertEqual([record["offset"] for record in records], [0, 9, 34])
        self.assertEqual(records[1]["note"], "10 bytes are missing from the capture")

    def test_a_hole_between_packets_costs_only_itself(self) -> None:
        """If a packet ends before it and another begins behind it, both are whole."""
        stream = PacketStream(is_captured=True)
        records = stream.feed(SESSION_ACK) + stream.skip(32) + stream.feed(SESSION_ACK) + stream.end()
        self.assertEqual([record["offset"] for record in records], [0, 36, 68])
        self.assertEqual(records[1]["skipped"], 32)

    def test_an_end_inside_a_packet_is_a_note(self) -> None:
        """A capture may end at any time; that breaks no rule."""
        for length in (1, 15, 16, 35):
            records = chunked(PARAMETERS + SESSION_ACK[:length], [], is_captured=True)
            self.assertEqual(summary(records)[1], (32, "the capture ends inside a packet"))
            self.assertEqual(records[1]["skipped"], length)

    def test_a_malformed_packet_is_still_malformed(self) -> None:
        """A complete packet is validated as in a file."""
        records = chunked(patched(PARAMETERS, 4, b"ROIL") + SESSION_ACK, [], is_captured=True)
        self.assertEqual(summary(records), [(0, "Signature"), (32, "SessionAck")])
