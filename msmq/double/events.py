"""What a double has done: events for assertions of tests, and for the lines of C{msmq double}."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class DoubleEvent:
    """One event of a double.

    @ivar kind: C{session} (a request to open one), C{opened}, C{closed}, C{ping}, C{arrived} (a message came
        over a session, sent again or not), or C{received} (a message was received from its queue, once).
    @ivar time: seconds since 1970-01-01 UTC.
    @ivar address: of the peer; empty for C{received}.
    @ivar action: the fault of a message, empty for none, or the answer to a ping or a session: the text of a
        L{FaultAction<msmq.double.script.FaultAction>} or a L{PeerAnswer<msmq.double.script.PeerAnswer>}.
    @ivar detail: the reason of C{closed}.
    @ivar message: the message of C{arrived} and C{received} with the keys of C{msmq receive --json}; C{None}
        for others.
    """

    kind: str
    time: float
    address: str = ""
    action: str = ""
    detail: str = ""
    message: dict[str, Any] | None = None
