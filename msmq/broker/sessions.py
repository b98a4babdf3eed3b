"""The sessions of a broker: the coroutines for their begin and end, queues on demand, and back-pressure."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import HookResult
from msmq.interfaces.session import ISession
from msmq.net.session import SessionProtocol
from msmq.net.session_owner import SessionOwner
from msmq.session.effects import CloseReason
from msmq.session.session import Session
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView


class Intake(Protocol):
    """The part of a broker that its sessions use."""

    @property
    def is_full(self) -> bool:
        """Whether the limit on pending messages is reached, so that no more are read."""

    def capacity(self) -> Deferred[bool]:
        """Fires with true when more messages may be read, and with false when that has taken too long."""

    def missing_queues(self, messages: Sequence[UserMessageView], address: str) -> Mapping[str, bool]:
        """The paths of queues that have to be created for these messages, and whether as transactional.

        @param address: of the peer that sent them.
        """

    def create_queues(self, missing: Mapping[str, bool]) -> Coroutine[Any, Any, None]:
        """Create these queues."""

    def opened(self, session: ISession) -> None:
        """The handshake of a session is complete."""

    def closed(self, session: ISession, reason: CloseReason) -> None:
        """A session has ended."""


class BrokerSession(SessionProtocol):
    """A session of a broker's queue manager."""

    def __init__(self, factory: SessionOwner[SessionProtocol], session: Session, intake: Intake) -> None:
        super().__init__(factory, session)
        self._intake = intake

    def may_open(self) -> bool:
        """Refuse further sessions while the limit on pending messages is reached."""
        return super().may_open() and not self._intake.is_full

    def session_opened(self) -> None:
        """See L{SessionProtocol.session_opened}."""
        super().session_opened()
        self._intake.opened(self._session)

    def session_closed(
        self,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """See L{SessionProtocol.session_closed}."""
        super().session_closed(reason, unacknowledged, error)
        self._intake.closed(self._session, reason)

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> HookResult:
        """Have the queue manager store the messages; nothing further is read while too many wait."""
        missing = self._intake.missing_queues(messages, self.remote_address)
        if missing:
            return self._create_first(missing, messages, first_recoverable)
        stored = super().messages_arriving(messages, first_recoverable)
        return self._hold(stored) if self._intake.is_full else stored

    async def _create_first(
        self, missing: Mapping[str, bool], messages: Sequence[UserMessageView], first_recoverable: int
    ) -> None:
        await self._intake.create_queues(missing)
        stored = super().messages_arriving(messages, first_recoverable)
        if stored is not None:
            await stored
        if self._intake.is_full:
            await self._hold(None)

    async def _hold(self, stored: HookResult) -> None:
        """Read nothing further until messages were processed; the window of the peer is 1 meanwhile.

        If that takes long the session closes: the peer keeps its messages, and what it has sent on this
        connection, and may send on another one meanwhile, is not read.
        """
        if stored is not None:
            await stored
        self.pause()
        has_capacity = await self._intake.capacity()
        self.resume()
        if not has_capacity:
            self.close(CloseReason.NO_RESOURCES)
