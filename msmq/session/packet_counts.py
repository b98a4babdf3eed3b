"""How many packets of each kind passed, over all sessions of a queue manager."""

from __future__ import annotations

import attrs


@attrs.define
class KindCounts:
    """Packets of one direction; OrderAcks and FinalAcks travel as user messages and count as such."""

    establish_connection: int = 0
    connection_parameters: int = 0
    session_ack: int = 0
    user_message: int = 0


@attrs.define
class PacketCounts:
    """Packets that sessions wrote and packets that they took; those that broke a rule are in neither."""

    sent: KindCounts = attrs.field(factory=KindCounts)
    received: KindCounts = attrs.field(factory=KindCounts)
