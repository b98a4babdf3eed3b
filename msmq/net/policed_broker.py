"""A broker behind a session policy, which receives only what the policy accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import HookResult, IBroker
from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import ISessionPolicy, SessionPeer
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView

_FAILED = "the session policy failed"


class GuardedSessionPolicy:
    """Queries a session policy; an error, or a result of another type, refuses.

    @param policy: the session policy; C{None} refuses nothing.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, policy: ISessionPolicy | None) -> None:
        self._policy = policy

    def session_refusal(self, session: ISession) -> str:
        """Why a peer may not open a session; empty if it may."""
        return "" if self._policy is None else self._reason(self._policy.session_refusal, _peer_of(session))

    def message_refusal(self, session: ISession, message: UserMessageView) -> str:
        """Why a peer may not send a message; empty if it may."""
        if self._policy is None:
            return ""
        return self._reason(self._policy.message_refusal, _peer_of(session), message)

    def _reason(self, question: Callable[..., object], *args: object) -> str:
        try:
            reason = question(*args)
        except Exception:
            self.log.failure("a session policy failed, and the peer is refused", Failure())
            return _FAILED
        if isinstance(reason, str):
            return reason
        self.log.error(
            "a session policy returned {kind} instead of a text, and the peer is refused",
            kind=type(reason).__name__,
        )
        return _FAILED


def _peer_of(session: ISession) -> SessionPeer:
    return SessionPeer(
        session.remote_address, session.remote_identifier, session.is_initiator, session.is_encrypted
    )


@implementer(IBroker)
class PolicedBroker:
    """Passes to a broker what a session policy accepts, and closes the sessions of what it refuses.

    A batch with a refused message is refused as a whole: nothing of it is acknowledged.

    @param refused: called with the session and the reason of each refusal.
    """

    def __init__(
        self, broker: IBroker, policy: GuardedSessionPolicy, refused: Callable[[ISession, str], None]
    ) -> None:
        self._broker = broker
        self._policy = policy
        self._refused = refused

    def session_opened(self, session: ISession) -> None:
        """See L{IBroker.session_opened}; a session that the peer has opened was checked in its handshake."""
        if session.is_initiator and (reason := self._policy.session_refusal(session)):
            self._refuse(session, reason)
        else:
            self._broker.session_opened(session)

    def messages_arrived(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> HookResult:
        """See L{IBroker.messages_arrived}."""
        for message in messages:
            if reason := self._policy.message_refusal(session, message):
                session.report_rejection(message, reason)
                self._refuse(session, reason)
                return None
        return self._broker.messages_arrived(session, messages, first_recoverable)

    def _refuse(self, session: ISession, reason: str) -> None:
        self._refused(session, reason)
        session.close(CloseReason.REFUSED)

    def session_progress(self, session: ISession, progress: ConnectionProgress) -> None:
        """See L{IBroker.session_progress}."""
        self._broker.session_progress(session, progress)

    def messages_acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        """See L{IBroker.messages_acknowledged}."""
        self._broker.messages_acknowledged(session, messages)

    def room_for_messages(self, session: ISession) -> None:
        """See L{IBroker.room_for_messages}."""
        self._broker.room_for_messages(session)

    def session_closed(
        self,
        session: ISession,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """See L{IBroker.session_closed}."""
        self._broker.session_closed(session, reason, unacknowledged, error)

    def connection_lost(self, session: ISession) -> None:
        """See L{IBroker.connection_lost}."""
        self._broker.connection_lost(session)

    def reconnect(self, session: ISession) -> None:
        """See L{IBroker.reconnect}."""
        self._broker.reconnect(session)
