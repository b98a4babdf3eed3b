"""The packets of a session that hold no message."""

from __future__ import annotations

from msmq.decoding.packets_json import packet_record
from msmq.structures.internal.classification import classify
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.session_ack import SessionAck
from tests.fuzz.finding import accepted, expect, written
from tests.fuzz.repairing import repaired

KINDS = (EstablishConnection, ConnectionParameters, SessionAck, OrderAck, FinalAck)
SIZES = (572, 32, 36)


def internal_packets(data: bytes) -> None:
    """At most one kind accepts a packet and round-trips it; C{classify} agrees.

    The first byte says whether the rest gets a BaseHeader that fits, and of which size.
    """
    if not data:
        return
    packet = data[1:]
    if data[0] & 1:
        size = SIZES[(data[0] >> 1) % 3] - 16
        packet = repaired(data[0] << 3 | 0x08, packet[:size].ljust(size, b"\0"))
    kind = accepted(classify, packet)
    readers = []
    for reader in KINDS:
        value = accepted(reader.from_bytes, packet)
        if value is None:
            continue
        readers.append(reader.__name__)
        again = written(value.to_bytes)
        expect(again is None or reader.from_bytes(again) == value, "a packet comes back")
    expect(len(readers) <= 1, f"one packet is of one kind, not {readers}")
    if readers:
        expect(kind is not None and kind.value == readers[0], "it is classified as what it is")
    if len(packet) == 36 and packet[2] & 0x08:
        ack = SessionAck.of(packet)
        expect(ack is None or ack == accepted(SessionAck.from_bytes, packet), "both ways of reading agree")
    if len(packet) > 2 and packet[2] & 0x08:
        accepted(lambda whole: packet_record(whole, 0), packet)
