"""Dump of a packet with its fields."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.web.console.packet_dump import PacketDump, dump_packet
from tests.decoding.test_packets_json import whole_message


class PacketDumpTests(SynchronousTestCase):
    """All bytes of a packet are in its dump, and nothing else."""

    def digits(self, dump: PacketDump) -> bytes:
        """The bytes that a dump shows."""
        return bytes.fromhex(" ".join(part.digits for row in dump.rows for part in row.segments))

    def test_bytes(self) -> None:
        """Each field has its own bytes, also over the end of a row; a row has 16."""
        packet = attrs.evolve(whole_message(), session=None).to_bytes()
        dump = dump_packet(UserMessageView(packet))
        self.assertEqual(self.digits(dump), packet)
        for number, field in enumerate(dump.fields):
            parts = [part.digits for row in dump.rows for part in row.segments if part.number == number]
            found = bytes.fromhex(" ".join(parts))
            self.assertEqual(found, packet[field.offset : field.offset + field.size], field)
        for row in dump.rows:
            self.assertEqual(len(" ".join(part.digits for part in row.segments) + row.padding), 47, row)

    def test_stored_headers(self) -> None:
        """What the store keeps behind a packet is not part of it."""
        packet = attrs.evolve(whole_message(), session=None).to_bytes()
        stored = UserMessageView(packet + kept_headers(".\\private$\\lost"))
        self.assertEqual(self.digits(dump_packet(stored)), packet)
