"""Packet counters by kind, over all sessions of a queue manager."""

from __future__ import annotations

import attrs


@attrs.define
class KindCounts:
    """Packets of one direction; OrderAcks and FinalAcks are user messages and count as such."""

    establish_connection: int = 0
    connection_parameters: int = 0
    session_ack: int = 0
    user_message: int = 0


@attrs.define
class PacketCounts:
    """Packets that sessions sent and accepted; malformed ones are in neither."""

    sent: KindCounts = attrs.field(factory=KindCounts)
    received: KindCounts = attrs.field(factory=KindCounts)


@attrs.define
class TrafficCounts(PacketCounts):
    """The same, with further measurements.

    @ivar recoverable_sent: user messages among C{sent} that the peer has to store.
    @ivar recoverable_received: user messages among C{received} that this queue manager has to store.
    @ivar bytes_sent: bytes of all packets, those of the handshake included.
    @ivar bytes_received: bytes that peers sent, accepted or not.
    """

    recoverable_sent: int = 0
    recoverable_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
