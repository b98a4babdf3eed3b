# Generated from msmq/interfaces/session.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Sequence
from uuid import UUID
import attrs
from zope.interface import Attribute, Interface
from msmq.session.effects import CloseReason
from msmq.session.state import SessionState
from msmq.session.statistics import SessionStatistics
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView

class ISession(Interface, _Protocol):

    @property
    def is_initiator(self) -> bool:
        ...

    @property
    def is_open(self) -> bool:
        ...

    @property
    def state(self) -> SessionState:
        ...

    @property
    def statistics(self) -> SessionStatistics:
        ...

    @property
    def remote_identifier(self) -> UUID | None:
        ...

    @property
    def remote_address(self) -> str:
        ...

    @property
    def opened(self) -> float | None:
        ...

    @property
    def last_heard(self) -> float | None:
        ...

    @property
    def is_encrypted(self) -> bool:
        ...

    @property
    def last_sent(self) -> float | None:
        ...

    @property
    def dialled_for(self) -> object:
        ...

    @property
    def capacity(self) -> int:
        ...

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        ...

    def pause(self) -> None:
        ...

    def resume(self) -> None:
        ...

    def persisted(self, through: int) -> None:
        ...

    def report_rejection(self, message: UserMessageView, reason: str) -> None:
        ...

    def close(self, reason: CloseReason=CloseReason.STOPPED) -> None:
        ...

class IConnector(Interface, _Protocol):

    @property
    def session(self) -> ISession | None:
        ...

    @property
    def addresses(self) -> Sequence[str]:
        ...

    def connect(self, *, is_retry: bool=False) -> None:
        ...

    @property
    def next_attempt(self) -> float | None:
        ...

    def retry_now(self) -> None:
        ...

    def peer_is_there(self) -> None:
        ...

    def stop(self) -> None:
        ...

@attrs.frozen
class RoutedHop:
    identifier: UUID
    host: str
