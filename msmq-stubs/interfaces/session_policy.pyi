# Generated from msmq/interfaces/session_policy.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from uuid import UUID
import attrs
from zope.interface import Interface
from msmq.structures.packet.user_message_view import UserMessageView

@attrs.frozen
class SessionPeer:
    address: str
    identifier: UUID | None
    is_initiator: bool
    is_encrypted: bool

class ISessionPolicy(Interface, _Protocol):

    def session_refusal(self, peer: SessionPeer) -> str:
        ...

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str:
        ...
