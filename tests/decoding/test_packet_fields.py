"""Positions of the fields of packets."""

from __future__ import annotations

from struct import unpack_from
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captures import decode
from msmq.decoding.packet_fields import packet_fields
from msmq.decoding.packets_json import packet_record
from msmq.errors import RemoteProtocolError
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.names.queue_names import DirectQueueFormatName, QueueNameKind
from msmq.structures.packet.session_header import SessionHeader
from msmq.wire.guid import NULL_GUID
from tests.decoding.builders import link, pcap
from tests.decoding.test_captures import session
from tests.decoding.test_packets_json import whole_message
from tests.vectors import ACCEPTOR, INITIATOR


class PacketFieldTests(SynchronousTestCase):
    """Each field is where its value is."""

    def packets(self) -> list[bytes]:
        """One packet of each kind, and a message with all headers."""
        return [
            EstablishConnection(client_guid=INITIATOR, server_guid=ACCEPTOR, time_stamp=5).to_bytes(),
            ConnectionParameters(recoverable_ack_timeout=1, ack_timeout=2, window_size=3).to_bytes(),
            SessionAck(SessionHeader(1, 2, 3, 4, 5, 6)).to_bytes(),
            whole_message().to_bytes(),
        ]

    def test_no_gaps(self) -> None:
        """The fields follow each other from the first byte to the last."""
        for packet in self.packets():
            position = 0
            for field in packet_fields(packet):
                self.assertEqual(field.offset, position, field)
                position += field.size
            self.assertEqual(position, len(packet))

    def test_values(self) -> None:
        """The bytes of each number are those of the value that is decoded under the same name."""
        compared = 0
        for packet in self.packets():
            record: Any = packet_record(packet, 0)
            for field in packet_fields(packet):
                value = record[field.header]
                for name in field.name.split("."):
                    value = value.get(name) if isinstance(value, dict) else None
                if isinstance(value, int) and field.size in (1, 2, 4):
                    [number] = unpack_from({1: "<B", 2: "<H", 4: "<I"}[field.size], packet, field.offset)
                    self.assertEqual(number, value, field)
                    compared += 1
        self.assertGreater(compared, 70)

    def test_names_of_queues(self) -> None:
        """Each part of a name belongs to the queue that it names, also where two have the same structure."""
        user = attrs.evolve(
            whole_message().user,
            queue_manager_address=NULL_GUID,
            destination_kind=QueueNameKind.DIRECT,
            destination_queue=DirectQueueFormatName("OS:beta\\orders"),
            response_kind=QueueNameKind.DIRECT,
            response_queue=DirectQueueFormatName("OS:alpha\\answers"),
        )
        packet = attrs.evolve(whole_message(), user=user).to_bytes()
        texts = {
            field.name: packet[field.offset : field.offset + field.size].decode("utf-16-le")
            for field in packet_fields(packet)
            if field.name.endswith("DirectFormatName")
        }
        self.assertEqual(
            texts,
            {
                "DestinationQueue.DirectFormatName": "OS:beta\\orders\0",
                "ResponseQueue.DirectFormatName": "OS:alpha\\answers\0",
            },
        )

    def test_lists_of_queues(self) -> None:
        """The three lists of a MultiQueueFormatHeader are distinguished."""
        names = [field.name for field in packet_fields(whole_message().to_bytes())]
        for name in ("Destination", "Administration", "Response"):
            self.assertEqual(names.count(f"{name}.ElementCount"), 1)

    def test_stream(self) -> None:
        """Lines of a stream have the fields if they are wanted."""
        packets = self.packets()
        [*lines] = decode(b"".join(packets), with_positions=True)
        wanted = [[field.to_json() for field in packet_fields(packet)] for packet in packets]
        self.assertEqual([line["fields"] for line in lines], wanted)
        self.assertNotIn("fields", next(decode(packets[0])))

    def test_capture(self) -> None:
        """So have those of a capture."""
        lines = decode(pcap([link(1, packet) for packet in session()]), with_positions=True)
        self.assertTrue(all(line["fields"] for line in lines if "packet" in line))

    def test_malformed_packet(self) -> None:
        """A packet that is cut short has no fields."""
        for packet in self.packets():
            with self.assertRaises(RemoteProtocolError):
                packet_fields(packet[:-1])
