"""A broker behind a session policy, which receives only what the policy accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import HookResult, IBroker, IRefusingBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.interfaces.session_policy import ISessionPolicy, MessageRefusal, SessionPeer
from msmq.line_limit import LineLimit
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView


@attrs.frozen
class PolicyRefusal:
    """A peer or a message that is refused.

    @ivar message_class: of the negative acknowledgement of a message.

    @ivar is_failure: the policy has not decided: it raised an error, or its result has another type.
    """

    reason: str
    message_class: MessageClass = MessageClass.NACK_ACCESS_DENIED
    is_failure: bool = False


LINES: Final = 2
"""Log lines in a minute about a policy that fails; the end of each session has the reason."""

_FAILED: Final = PolicyRefusal("the session policy failed", is_failure=True)


class GuardedSessionPolicy:
    """Queries a session policy; an error, or a result of another type, refuses.

    @param policy: the session policy; C{None} refuses nothing.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, policy: ISessionPolicy | None, clock: IClock) -> None:
        self._policy = policy
        self._clock = clock
        self._lines = LineLimit.a_minute(LINES)

    def session_refusal(self, session: ISession) -> PolicyRefusal | None:
        """Why a peer may not open a session; C{None} if it may."""
        return None if self._policy is None else self._ask(self._policy.session_refusal, _peer_of(session))

    def message_refusal(self, session: ISession, message: UserMessageView) -> PolicyRefusal | None:
        """Why a peer may not send a message; C{None} if it may."""
        if self._policy is None:
            return None
        return self._ask(self._policy.message_refusal, _peer_of(session), message)

    def _ask(self, question: Callable[..., object], *args: object) -> PolicyRefusal | None:
        try:
            reason = question(*args)
        except Exception:
            if (others := self._lines.take(self._clock.now())) is not None:
                self.log.failure(
                    "a session policy failed, and the peer is refused{others}", Failure(), others=others
                )
            return _FAILED
        if isinstance(reason, MessageRefusal):
            return PolicyRefusal(reason.reason, reason.message_class)
        if isinstance(reason, str):
            return PolicyRefusal(reason) if reason else None
        if (others := self._lines.take(self._clock.now())) is not None:
            self.log.error(
                "a session policy returned {kind} instead of a text or a MessageRefusal, and the peer is"
                " refused{others}",
                kind=type(reason).__name__,
                others=others,
            )
        return _FAILED


def _peer_of(session: ISession) -> SessionPeer:
    return SessionPeer(
        session.remote_address, session.remote_identifier, session.is_initiator, session.is_encrypted
    )


@implementer(IBroker)
class PolicedBroker:
    """Passes to a broker what a session policy accepts.

    An L{IRefusingBroker} gets the refusals of single messages as well, and the session continues.
    For any other broker, and when the policy fails, a refused message closes the session: nothing of its
    batch is passed or acknowledged, so the peer keeps all of it.

    @param refused: called with the session and the reason of each closure.
    """

    def __init__(
        self, broker: IBroker, policy: GuardedSessionPolicy, refused: Callable[[ISession, str], None]
    ) -> None:
        self._broker = broker
        self._refusing: IRefusingBroker | None = IRefusingBroker(broker, None)
        self._policy = policy
        self._refused = refused

    def session_opened(self, session: ISession) -> None:
        """See L{IBroker.session_opened}; a session that the peer has opened was checked in its handshake."""
        if session.is_initiator and (refusal := self._policy.session_refusal(session)):
            self._refuse(session, refusal)
        else:
            self._broker.session_opened(session)

    def messages_arrived(
        self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> HookResult:
        """See L{IBroker.messages_arrived}."""
        refused: dict[UserMessageView, MessageRefusal] = {}
        for message in messages:
            if (refusal := self._policy.message_refusal(session, message)) is None:
                continue
            if self._refusing is None or refusal.is_failure:
                session.report_rejection(message, refusal.reason)
                self._refuse(session, refusal)
                return None
            refused[message] = MessageRefusal(refusal.reason, refusal.message_class)
        if self._refusing is None or not refused:
            return self._broker.messages_arrived(session, messages, first_recoverable)
        return self._refusing.messages_arrived_with_refusals(session, messages, first_recoverable, refused)

    def _refuse(self, session: ISession, refusal: PolicyRefusal) -> None:
        self._refused(session, refusal.reason)
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
