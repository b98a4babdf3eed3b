# Generated from msmq/interfaces/broker.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias
from twisted.internet.defer import Deferred
from zope.interface import Interface
from msmq.errors import RemoteProtocolError
from msmq.interfaces.session import ISession
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
HookResult: TypeAlias = Deferred[None] | Coroutine[Any, Any, None] | None

class IBroker(Interface, _Protocol):

    def session_opened(self, session: ISession) -> None:
        ...

    def session_progress(self, session: ISession, progress: ConnectionProgress) -> None:
        ...

    def messages_arrived(self, session: ISession, messages: Sequence[UserMessageView], first_recoverable: int) -> HookResult:
        ...

    def messages_acknowledged(self, session: ISession, messages: Sequence[OutgoingMessage]) -> None:
        ...

    def room_for_messages(self, session: ISession) -> None:
        ...

    def session_closed(self, session: ISession, reason: CloseReason, unacknowledged: Sequence[OutgoingMessage], error: RemoteProtocolError | None) -> None:
        ...

    def connection_lost(self, session: ISession) -> None:
        ...

    def reconnect(self, session: ISession) -> None:
        ...
