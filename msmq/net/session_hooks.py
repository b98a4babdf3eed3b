"""The hooks of a session, for subclasses of L{SessionProtocol<msmq.net.session.SessionProtocol>}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import HookResult
from msmq.interfaces.session import ISession
from msmq.net.hooks import call_hook, call_slow_hook
from msmq.net.session_owner import SessionOwner
from msmq.session.effects import CloseReason
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView


class SessionHooks(Protocol):
    """The hooks of a session; by default they call the broker of its factory, if there is one."""

    _factory: SessionOwner[Any]

    @property
    def _session(self) -> ISession:
        """This session, as the broker knows it."""
        return cast(ISession, self)

    def connection_accepted(self) -> None:
        """Hook: an initiator's connection was accepted; nothing was received yet."""

    def may_open(self) -> bool:
        """Hook: whether an initiator, which has just stated its identifier, may open a session ([MS-MQQB]
        2.2.1).

        By default, if fewer than C{max_sessions} are open.
        """
        return not self._factory.is_full

    def session_opened(self) -> None:
        """The handshake is complete."""
        if self._factory.broker is not None:
            call_hook(self._factory.broker.session_opened, self._session)

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> HookResult:
        """Hook: these messages arrived together, in this order; by default they are passed to the broker.

        A coroutine, or a Deferred that it returns, suspends the session until it is done: nothing further is
        read. What is passed to L{persisted} meanwhile is acknowledged, and the peer gets an acknowledgement
        at intervals, so that AckWaitTimeout does not expire there. A peer that has nothing else to send
        closes the session after its Session Cleanup Timer, 5 minutes, and sends again what was not
        acknowledged.
        Recoverable messages are numbered consecutively from C{first_recoverable}; call L{persisted} when they
        are stored. If the session ends meanwhile, L{session_ending} is called.
        """
        if self._factory.broker is None:
            return None
        return self._factory.broker.messages_arrived(self._session, messages, first_recoverable)

    def message_arriving(self, message: UserMessageView) -> HookResult:
        """Hook: one message arrived; called for each before L{messages_arriving} is called for all.

        It may be a coroutine or return a Deferred, as L{messages_arriving} may; the next message is passed
        when it is done.
        """
        return None

    def message_sent(self, message: OutgoingMessage) -> None:
        """One message was written to the connection."""

    def messages_acknowledged(self, messages: Sequence[OutgoingMessage]) -> None:
        """Hook: the peer has acknowledged these messages; by default the broker removes them."""
        if self._factory.broker is not None:
            call_hook(self._factory.broker.messages_acknowledged, self._session, messages)

    def message_acknowledged(self, message: OutgoingMessage) -> None:
        """Hook: the peer has acknowledged this message; called for each after L{messages_acknowledged}."""

    def room_for_messages(self) -> None:
        """Hook: L{capacity} may have grown; by default the broker sends pending messages."""
        if self._factory.broker is not None:
            call_hook(self._factory.broker.room_for_messages, self._session)

    def message_rejected(self, message: UserMessageView, reason: str) -> None:
        """Hook: the broker refused a message that arrived, for this C{reason}."""

    def session_ending(self, reason: CloseReason) -> None:
        """Hook: the session has ended while L{messages_arriving} or L{message_arriving} is at work.

        Nothing more is acknowledged to the peer, which sends again what was not. A subclass can end its work
        here, by cancelling what it waits for; otherwise it goes on. L{session_closed} follows when it has
        ended.
        """

    def session_closed(
        self,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """Hook: the session has ended; the peer may or may not have received the C{unacknowledged}
        messages.
        """
        if self._factory.broker is not None:
            call_hook(self._factory.broker.session_closed, self._session, reason, unacknowledged, error)

    # Called by the session

    def _call_arrival_hooks(
        self, messages: Sequence[UserMessageView], first_recoverable: int, *, each: bool
    ) -> Deferred[None] | None:
        """Call the hooks for messages that have arrived.

        @param each: call L{message_arriving} for each of them before.
        @return: fires when the hooks are done; C{None} if they are.
        """
        if each:
            return Deferred.fromCoroutine(self._deliver_each(messages, first_recoverable))
        return call_slow_hook(self.messages_arriving, messages, first_recoverable)

    async def _deliver_each(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
        for message in messages:
            waits_for = call_slow_hook(self.message_arriving, message)
            if waits_for is not None:
                await waits_for
        waits_for = call_slow_hook(self.messages_arriving, messages, first_recoverable)
        if waits_for is not None:
            await waits_for
