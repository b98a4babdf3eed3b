"""What stands behind the sessions and decides what becomes of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from zope.interface import Interface

from msmq.errors import RemoteProtocolError
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.session.state import OutgoingMessage
from msmq.structures.user_message_view import UserMessageView

if TYPE_CHECKING:
    from msmq.net.session import SessionProtocol


class IBroker(Interface):
    """Told of everything that happens on the sessions of one L{msmq.net.session.SessionFactory}.

    Each call is made after the session has changed, never in its middle, and in the order in which
    things happened on that session.
    An exception closes that one session and is logged; it reaches nothing else.
    """

    def session_opened(session: SessionProtocol) -> None:
        """The handshake is complete; C{session.remote_identifier} says with whom."""

    def session_progress(session: SessionProtocol, progress: ConnectionProgress) -> None:
        """An attempt of ours came this far, or failed here ([MS-MQQB] 3.1.5.2)."""

    def messages_arrived(
        session: SessionProtocol, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """These messages arrived, in this order.

        Recoverable ones are numbered on from C{first_recoverable}, and the broker calls
        C{session.persisted(number)} when they are stored up to that number; not before.
        The session reads no further until a Deferred that is given here has fired.
        """

    def messages_acknowledged(session: SessionProtocol, messages: Sequence[OutgoingMessage]) -> None:
        """The peer has these; they may be forgotten."""

    def room_for_messages(session: SessionProtocol) -> None:
        """C{session.capacity} may have grown."""

    def session_closed(
        session: SessionProtocol,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """The session is over; C{unacknowledged} are to be sent again, in this order."""

    def connection_lost(session: SessionProtocol) -> None:
        """The connection of a session is gone; its L{session_closed} was called before."""

    def reconnect(session: SessionProtocol) -> None:
        """The retry timer of a session that we had dialled expired: dial again."""
