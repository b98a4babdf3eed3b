# Generated from msmq/interfaces/access.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
import attrs
from twisted.internet.defer import Deferred
from zope.interface import Interface
from msmq.errors import MsmqError
from msmq.windows.access_check import AccessDecision, Token
from msmq.windows.access_masks import ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor

class AccountUnknown(MsmqError):
    ...

@attrs.frozen
class Account:
    sid: bytes
    name: str
    groups: frozenset[bytes] = frozenset()
    is_user: bool = True

class IAccounts(Interface, _Protocol):

    def account(self, sid: bytes) -> Deferred[Account]:
        ...

    def account_named(self, name: str) -> Deferred[Account]:
        ...

@attrs.frozen
class Ruling:
    descriptor: SecurityDescriptor
    source: str

class IAccessControl(Interface, _Protocol):

    def known_token(self, sid: bytes) -> Token | None:
        ...

    def token(self, sid: bytes) -> Deferred[Token]:
        ...

    def check(self, descriptor: SecurityDescriptor, sid: bytes, asked: int, kind: ObjectKind) -> AccessDecision | Deferred[AccessDecision]:
        ...

    def is_domain_user(self, sid: bytes) -> Deferred[bool]:
        ...

    def resolve(self, principal: str) -> Deferred[bytes]:
        ...

    def name_of(self, sid: bytes) -> str:
        ...

    def ruling(self, path: str) -> Ruling | None:
        ...

    def machine_ruling(self) -> Ruling | None:
        ...
