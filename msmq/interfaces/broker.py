"""IBroker: receives the events and messages of all sessions."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from msmq.errors import RemoteProtocolError
from msmq.interfaces.session import ISession
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView


class IBroker(Interface):
    """Receives all events of the sessions of one session factory.

    Each call is made after the session has changed, never in its middle, and in the order in which
    things happened on that session.
    An exception closes that one session and is logged; it reaches nothing else.
    """

    def session_opened(session: ISession) -> None:
        """The handshake is complete; C{session.remote_identifier} is the peer."""

    def session_progress(session: ISession, progress: ConnectionProgress) -> None:
        """An attempt of ours came this far, or failed here ([MS-MQQB] 3.1.5.2)."""

    def messages_arrived(
        session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        """These messages arrived, in this order.

        Recoverable ones are numbered on from C{first_recoverable}, and the broker calls
        C{session.persisted(number)} when they are stored up to that number; not before.
        The session reads no further until a Deferred that is given here has fired.
        """

    def messages_acknowledged(session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """The peer has these; they may be forgotten."""

    def room_for_messages(session: ISession) -> None:
        """C{session.capacity} may have grown."""

    def session_closed(
        session: ISession,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """The session has ended; C{unacknowledged} have to be sent again, in this order."""

    def connection_lost(session: ISession) -> None:
        """The connection of a session is gone; its L{session_closed} was called before."""

    def reconnect(session: ISession) -> None:
        """The retry timer of a session that we had dialled expired: dial again."""
