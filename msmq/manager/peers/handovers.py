"""Hand-over records: the next hop that has acknowledged each message with a dead-letter request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from msmq.interfaces.session import ISession
from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.queues.queue import MessagePosition
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import braced

MOST_HANDOVERS: Final = 10_000
"""Messages that are remembered, the latest."""

_MASK: Final = UserHeader.JN | UserHeader.TH


class Handovers:
    """Remembers which peer has acknowledged each message that becomes a dead letter where it fails.

    Once the session's acknowledgement has come, nothing of such a message is here any more, and no other
    queue manager reports what becomes of it (reading 64).
    This is kept in memory, for the latest messages, and not over a restart.
    """

    def __init__(self) -> None:
        self._handovers: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def note(self, session: ISession, messages: Iterable[OutgoingMessage], now: Moment) -> None:
        """The peer of a session has acknowledged messages. [MS-MQQB] 3.1.5.5.2."""
        handovers = self._handovers
        entry: tuple[float, str] | None = None
        for message in messages:
            view = message.view if isinstance(message, MessagePosition) else None
            if view is None or view.flags & _MASK != UserHeader.JN:
                continue
            if entry is None:
                identifier = session.remote_identifier
                who = "" if identifier is None else f", queue manager {braced(identifier)}"
                entry = now.wall, f"{session.remote_address}{who}"
            handovers[view.identity] = entry
            if len(handovers) > MOST_HANDOVERS:
                handovers.popitem(last=False)

    def notices(self, message: MessageIdentifier) -> Iterator[AppendEvent]:
        """What C{msmq explain} says about a message that was handed over, as an event."""
        entry = self._handovers.get(message.to_bytes())
        if entry is not None:
            time, peer = entry
            yield AppendEvent(
                time,
                message.to_bytes(),
                "handed_over",
                f"acknowledged by {peer}: what became of it after that, and its dead letter if it failed,"
                " are recorded there or beyond",
            )
