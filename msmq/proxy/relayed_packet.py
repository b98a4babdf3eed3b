"""What a recording proxy reports."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class RelayedPacket:
    """One packet that a proxy has relayed, or an event of one of its sessions.

    @ivar session: number of the session, from 1.
    @ivar kind: C{opened}, C{refused} (the target did not accept a connection, or there are too many),
        C{packet}, C{closed}, or C{capture_failed}.
    @ivar time: seconds since 1970-01-01 UTC.
    @ivar is_from_initiator: whether the queue manager that opened the session sent it, or closed it.
    @ivar fields: the packet, with the keys of a line of C{msmq decode}; bytes that are not a packet are a
        line with C{rule} or C{note}. Empty for other kinds.
    @ivar detail: the reason of C{refused}, C{closed} and C{capture_failed}.
    """

    session: int
    kind: str
    time: float
    is_from_initiator: bool = True
    fields: dict[str, Any] = attrs.field(factory=dict)
    detail: str = ""
