"""Stored packets and events as rows: every column, sound and damaged packets, one by one and in batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy
import pyarrow
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.message_json import message_json
from msmq.interfaces.storage import StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.pipeline.packet_page import PacketPage
from msmq.pipeline.rows import BodyReaders, event_batch, event_row, message_batch, message_row
from msmq.pipeline.schema import (
    EVENT_COLUMNS,
    EXPORTED_COLUMNS,
    KNOWN_OF_DAMAGED,
    MESSAGE_COLUMNS,
    VERSION,
    VERSION_KEY,
    arrow_schema,
    names_of,
)
from msmq.pipeline.stored_packets import StoredPacket
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, user_packet
from tests.strategies import spoilt_packets, user_packets

TOPIC = r".\private$\orders"
EXPORTED = names_of(EXPORTED_COLUMNS)
# As in a message's JSON, but for the types that a column has.
SAME = [
    *("id", "body_size", "body_type", "priority", "class", "class_name", "delivery", "transactional"),
    *("source_queue_manager", "correlation_id", "application_tag", "hops", "journal", "dead_letter"),
    *("acknowledge", "extension_base64", "authenticated", "sender_id"),
]


def row_of(packet: bytes, reading: BodyReaders | None = None, **facts: Any) -> dict[str, Any]:
    """The row of a packet by the names of its columns."""
    stored = StoredPacket(packet, TOPIC, **{"offset": 7, **facts})
    return dict(
        zip(EXPORTED, message_row(stored, EXPORTED, *(() if reading is None else (reading,))), strict=True)
    )


class SchemaTests(SynchronousTestCase):
    """Which columns there are."""

    def test_kafka_users_find_theirs(self) -> None:
        """The first seven columns are those of Kafka's source, of a message and of an event."""
        kafka = ("value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
        self.assertEqual(names_of(MESSAGE_COLUMNS)[:7], kafka)
        self.assertEqual(names_of(EVENT_COLUMNS)[:7], kafka)

    def test_keys_of_a_message(self) -> None:
        """Then follow the keys that a message has in JSON, in their order, and what only columns have.

        The version of a signature is no column: files that were archived before could not have it.
        """
        record = message_json(UserMessageView(user_packet(b"\xff")))
        keys = [key for key in record if key != "signature_version"]
        keys.insert(keys.index("body_base64"), "body")
        rest = ("time_to_reach_queue", "time_to_be_received", "abort_count", "move_count")
        self.assertEqual(names_of(MESSAGE_COLUMNS)[7:], (*keys, *rest, "decoded", "decode_error"))

    def test_version(self) -> None:
        """A schema in Arrow has the version of the record format."""
        schema = arrow_schema(EXPORTED_COLUMNS)
        self.assertEqual(schema.metadata[VERSION_KEY], str(VERSION).encode())
        self.assertEqual(schema.names, list(EXPORTED))


class MessageRowTests(SynchronousTestCase):
    """A packet as a row."""

    def test_stored_metadata(self) -> None:
        """Topic, offset and counts are what the store knows; the time of arrival is the timestamp."""
        row = row_of(user_packet(b"hello"), arrived=1_700_000_000.25, lookup_id=7, aborts=1, moves=2)
        arrived = datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)
        self.assertEqual(
            [row[name] for name in ("topic", "partition", "offset", "timestamp", "timestampType")],
            [TOPIC, 0, 7, arrived, 1],
        )
        self.assertEqual(
            [row[name] for name in ("lookup_id", "arrived_time", "abort_count", "move_count")],
            [7, arrived, 1, 2],
        )

    def test_body(self) -> None:
        """The value is the body; it is a text too if it is one, and base64 otherwise."""
        row = row_of(user_packet(b"hello"))
        self.assertEqual((row["value"], row["body"], row["body_base64"]), (b"hello", "hello", None))
        row = row_of(user_packet(b"\x00\xff"))
        self.assertEqual((row["value"], row["body"], row["body_base64"]), (b"\0\xff", None, "AP8="))

    def test_limits(self) -> None:
        """A time limit is in seconds, and null without a limit."""
        self.assertIsNone(row_of(user_packet(b""))["time_to_reach_queue"])
        packet = user_packet(b"")
        row = row_of(packet[:48] + b"\x3c\0\0\0" + packet[52:])
        self.assertEqual(row["time_to_be_received"], 60)

    def test_capture(self) -> None:
        """A captured message has no arrival time."""
        row = row_of(user_packet(b""), arrived=1.0, timestamp_type=0)
        self.assertEqual(
            (row["timestamp"], row["arrived_time"]), (datetime(1970, 1, 1, 0, 0, 1, 0, UTC), None)
        )

    def test_times_that_no_year_has(self) -> None:
        """A time that no calendar has is null."""
        for arrived in (-1.0, 1e300, float("inf"), float("nan")):
            self.assertIsNone(row_of(user_packet(b""), arrived=arrived)["timestamp"])

    def test_large_numbers(self) -> None:
        """A number of 64 bits is the signed number of the same bits."""
        self.assertEqual(row_of(user_packet(b""), lookup_id=(1 << 64) - 2)["lookup_id"], -2)

    @given(user_packets())
    def test_any_packet(self, packet: bytes) -> None:
        """Every column equals the value in the message's JSON."""
        row = row_of(packet)
        record = message_json(UserMessageView(packet))
        self.assertEqual([row[name] for name in SAME], [record[name] for name in SAME])
        self.assertEqual((row["body"], row["body_base64"]), (record.get("body"), record.get("body_base64")))
        self.assertEqual(row["sent_time"].isoformat(), record["sent_time"])
        self.assertEqual(row["packet"], packet)
        if record["transaction"] is None:
            self.assertIsNone(row["transaction"])
        else:
            self.assertEqual(
                {**row["transaction"], "sequence_id": row["transaction"]["sequence_id"] % (1 << 64)},
                record["transaction"],
            )

    @given(spoilt_packets() | st.binary(max_size=200))
    def test_any_bytes(self, packet: bytes) -> None:
        """Any content of a store is a row: a damaged one has its bytes, and the error."""
        row = row_of(packet, arrived=1.0, lookup_id=7, aborts=1, moves=2)
        self.assertEqual(row["packet"], packet)
        if row["decode_error"] is not None:
            self.assertEqual(row["value"], packet)
            self.assertEqual({name for name in row if row[name] is not None}, set(KNOWN_OF_DAMAGED))

    def test_bodies_and_headers_are_read_when_asked_for(self) -> None:
        """Decoders see the packet only if their columns are wanted."""
        asked: list[str] = []

        def decode(view: UserMessageView) -> tuple[str | None, str | None]:
            asked.append("body")
            return '"hello"', None

        def headers(view: UserMessageView) -> list[tuple[str, bytes]]:
            asked.append("headers")
            return [("key", b"value")]

        reading = BodyReaders(decode, headers)
        row = row_of(user_packet(b"hello"), reading)
        self.assertEqual(row["decoded"], '"hello"')
        self.assertEqual(row["headers"], [{"key": "key", "value": b"value"}])
        self.assertEqual(asked, ["headers", "body"])
        message_row(StoredPacket(user_packet(b""), TOPIC, 1), ("label", "value"), reading)
        self.assertEqual(asked, ["headers", "body"])


class EventRowTests(SynchronousTestCase):
    """An event as a row."""

    def test_event(self) -> None:
        """The columns hold what `msmq explain` prints, and the value all of it as JSON."""
        event = AppendEvent(
            1.5, ALPHA.bytes_le + b"\x07\0\0\0", "expired", "too late", 0x8002, "private$\\orders"
        )
        row = dict(zip(names_of(EVENT_COLUMNS), event_row(StoredEvent(9, event)), strict=True))
        reported = {
            "id": "{A1FA0000-0000-4000-8000-000000000001}\\7",
            "event": "expired",
            "reason": "too late",
            "class": 0x8002,
            "class_name": "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT",
            "queue": TOPIC,
        }
        self.assertEqual(
            row,
            {
                "value": row["value"],
                "topic": "events",
                "partition": 0,
                "offset": 9,
                "timestamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
                "timestampType": 1,
                "headers": None,
                **reported,
            },
        )
        self.assertEqual(json.loads(row["value"]), {"time": "1970-01-01T00:00:01.500000+00:00", **reported})

    def test_event_of_the_queue_manager(self) -> None:
        """An event of no message, with text that is not Unicode text."""
        row = event_row(StoredEvent(1, AppendEvent(1.0, b"", "x\ud800")), ("id", "event", "class", "queue"))
        self.assertEqual(row, (None, "x\ufffd", None, None))


class BatchTests(SynchronousTestCase):
    """Many at once, as columns."""

    @given(st.lists(user_packets() | spoilt_packets(), max_size=5))
    def test_batch_is_its_rows(self, packets: list[bytes]) -> None:
        """A batch holds what the rows hold one by one, in every column and in any choice of columns."""
        stored = [
            StoredPacket(packet, TOPIC, offset, 1.5, offset, 0, None) for offset, packet in enumerate(packets)
        ]
        batch = message_batch(stored, EXPORTED)
        self.assertEqual(batch.schema, arrow_schema(EXPORTED_COLUMNS))
        self.assertEqual(
            [tuple(row.values()) for row in batch.to_pylist()], [message_row(one, EXPORTED) for one in stored]
        )
        some = ("offset", "label", "decode_error")
        self.assertEqual(
            [tuple(row.values()) for row in message_batch(stored, some).to_pylist()],
            [message_row(one, some) for one in stored],
        )

    @given(st.lists(user_packets() | spoilt_packets(), min_size=1, max_size=5), st.booleans())
    def test_page_is_its_rows(self, packets: list[bytes], is_log: bool) -> None:
        """The same of a page whose numbers are arrays, with the times that no date has."""
        names = ("offset", "lookup_id", "arrived", *(() if is_log else ("aborts", "moves")))
        times = (1.5, -1.0, 1e300, float("nan"), 0.0)
        rows = numpy.zeros(len(packets), [(name, "<f8" if name == "arrived" else "<u8") for name in names])
        rows["offset"] = rows["lookup_id"] = numpy.arange(len(packets)) + (3 << 56)
        rows["arrived"] = times[: len(packets)]
        if not is_log:
            rows["aborts"], rows["moves"] = 7, (1 << 31) - 1
        page = PacketPage(packets, TOPIC, rows, is_log=is_log)
        self.assertEqual(
            [tuple(row.values()) for row in message_batch(page, EXPORTED).to_pylist()],
            [message_row(one, EXPORTED) for one in page],
        )

    def test_many_alike(self) -> None:
        """Labels, names and bodies that are read together, with others between them."""
        packets = []
        for number in range(60):
            label = ("", "order", "Bestellung Ä", "nul\0inside", "x" * 249)[number % 5]
            body = (b"", b"text", b"\0\xff", "Ä".encode(), b"\x85", b"tab\t")[number % 6]
            packets.append(
                user_packet(body, label=label, destination=f"OS:q{number % 11}\\q", message_id=number)
            )
        stored = [StoredPacket(packet, TOPIC, offset) for offset, packet in enumerate(packets)]
        self.assertEqual(
            [tuple(row.values()) for row in message_batch(stored, EXPORTED).to_pylist()],
            [message_row(one, EXPORTED) for one in stored],
        )

    def test_events(self) -> None:
        """A batch of events holds what their rows hold."""
        stored = [StoredEvent(number, AppendEvent(number, b"", "stored")) for number in range(3)]
        batch = event_batch(stored)
        self.assertIsInstance(batch, pyarrow.RecordBatch)
        self.assertEqual([tuple(row.values()) for row in batch.to_pylist()], list(map(event_row, stored)))
