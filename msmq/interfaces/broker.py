"""IBroker: receives the events and messages of all sessions."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred
from zope.interface import Interface

from msmq.errors import RemoteProtocolError
from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import MessageRefusal
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView

HookResult: TypeAlias = Deferred[None] | Coroutine[Any, Any, None] | None
"""What a hook for arriving messages returns: C{None} if it is done, or what it is done with later."""


class IBroker(Interface):
    """Receives all events of the sessions of one session factory.

    Each call is made after the session has changed, never in its middle, and in the order in which
    things happened on that session.
    An exception closes only that session, and is logged.
    Only L{messages_arrived} may be a coroutine or return a Deferred; from any other call that is an error.
    """

    def session_opened(session: ISession) -> None:
        """The handshake is complete; C{session.remote_identifier} is the peer."""

    def session_progress(session: ISession, progress: ConnectionProgress) -> None:
        """A local attempt to connect has made this progress, or failed here ([MS-MQQB] 3.1.5.2)."""

    def messages_arrived(
        session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> HookResult:
        """These messages arrived, in this order.

        Recoverable ones are numbered consecutively from C{first_recoverable}; the broker calls
        C{session.persisted(number)} only when they are stored up to that number.
        If it is a coroutine or returns a Deferred, the session does not read further until that is done.
        """

    def messages_acknowledged(session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """The peer has acknowledged these messages; they may be removed."""

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
        """The connection of a session is lost; its L{session_closed} was called before."""

    def reconnect(session: ISession) -> None:
        """The retry timer of a dialled session has expired: dial again."""


class IRefusingBroker(IBroker):
    """A broker that refuses single messages, as a queue manager does: the others of the batch are accepted.

    Of an L{IBroker} without this, a refusal of the session policy closes the session.
    """

    def messages_arrived_with_refusals(
        session: ISession,
        messages: Sequence[UserMessageView],
        first_recoverable: int,
        refused: Mapping[UserMessageView, MessageRefusal],
    ) -> HookResult:
        """As L{messages_arrived}, when the session policy refuses some of these messages.

        They are counted with the others: a refused recoverable message is acknowledged on the session by
        C{persisted} when its refusal is stored, and its sender gets the negative acknowledgement that it has
        requested.

        @param refused: why the policy refuses each of these messages; at least one.
        """
