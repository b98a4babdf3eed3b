"""Bodies and headers in the columns of a row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.bodies import reading
from msmq.pipeline.rows import message_batch, message_row
from msmq.pipeline.stored_packets import StoredPacket
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.names.format_name import PrivateFormatName
from tests.builders import ALPHA

NAMES = ("decoded", "decode_error", "headers", "value")
REBUS = b'{"rbs2-msg-id": "7"}'


def stored(body: bytes, **properties: Any) -> StoredPacket:
    """A message as it is stored."""
    message = Message(body=body, **properties)
    packet = build_packet(message, PrivateFormatName(ALPHA, 16), source=ALPHA, message_id=1, sent_time=0)
    return StoredPacket(packet, r".\private$\orders", 1)


class ReadingTests(SynchronousTestCase):
    """The columns C{decoded}, C{decode_error} and C{headers}."""

    def row(self, choice: str, packet: StoredPacket, *, headers: bool = False) -> dict[str, Any]:
        return dict(zip(NAMES, message_row(packet, NAMES, reading(choice, headers=headers)), strict=True))

    def test_none_reads_nothing(self) -> None:
        row = self.row("none", stored(b"<a/>", extension=REBUS))
        self.assertEqual(row, {"decoded": None, "decode_error": None, "headers": None, "value": b"<a/>"})

    def test_auto_reads_what_is_there(self) -> None:
        """As JSON, which is the same as C{receive --decode} gives."""
        row = self.row("auto", stored("<a>é</a>".encode()))
        self.assertEqual(json.loads(row["decoded"]), {"format": "xml", "reading": "XML", "value": {"a": "é"}})
        self.assertIn("é", row["decoded"])
        self.assertIs(row["decode_error"], None)
        row = self.row("auto", stored(b"h\0i\0", body_type=31))
        self.assertEqual(json.loads(row["decoded"])["value"], "hi")

    def test_a_body_that_cannot_be_read_is_there_with_the_reason(self) -> None:
        row = self.row("xml", stored(b"hello"))
        self.assertEqual((row["decoded"], row["value"]), (None, b"hello"))
        self.assertIn("the body is not XML", row["decode_error"])

    def test_half_of_a_message_is_better_than_none(self) -> None:
        """Headers without a body: both columns say something."""
        row = self.row("auto", stored(b"{", extension=REBUS))
        self.assertEqual(json.loads(row["decoded"])["headers"], {"rbs2-msg-id": "7"})
        self.assertIn("the body is not JSON", row["decode_error"])

    def test_headers_are_keys_and_bytes(self) -> None:
        row = self.row("none", stored(b"", extension=REBUS), headers=True)
        self.assertEqual(row["headers"], [{"key": "rbs2-msg-id", "value": b"7"}])
        self.assertIs(self.row("none", stored(b""), headers=True)["headers"], None)

    def test_text_that_no_column_can_hold_is_replaced(self) -> None:
        """Half of a pair of UTF-16, in a body, an error or a header."""
        half = "\ud800".encode("utf-16-le", "surrogatepass")
        header = b'{"\\ud800": "\\ud800"}'
        batch = message_batch(
            [stored(half, body_type=31), stored(b"", extension=header)], NAMES, reading("auto", headers=True)
        )
        self.assertIsInstance(batch, pyarrow.RecordBatch)
        first, second = batch.to_pylist()
        self.assertEqual(json.loads(first["decoded"])["value"], "\ufffd")
        self.assertEqual(second["headers"], [{"key": "\ufffd", "value": b"?"}])

    def test_unknown_name_is_refused(self) -> None:
        """With the known names."""
        error = self.assertRaises(ValueError, reading, "yaml")
        self.assertIn("decode = 'yaml' is not one of none, auto, wcf, nrbf, activex, xml, json", str(error))
