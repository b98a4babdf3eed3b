"""Access checks of security tokens against descriptors, for any source of accounts."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.internet.defer import Deferred

from msmq.interfaces.security.access import Account, AccountUnknown, Ruling
from msmq.security.access.rules import NO_RULES, Rules
from msmq.windows.access_check import AccessDecision, Token, check_access
from msmq.windows.access_masks import ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.well_known_sids import (
    ANONYMOUS,
    AUTHENTICATED_USERS,
    EVERYONE,
    parse_principal,
    sid_text,
)
from msmq.wire.sid import format_sid

_WITHOUT_GROUPS = {
    ANONYMOUS: Token(ANONYMOUS, frozenset({EVERYONE})),
    EVERYONE: Token(EVERYONE),
}
"""Accounts whose groups are never looked up."""


class TokenAccessControl:
    """Access control by security tokens, whose groups a subclass looks up.

    @param rules: the access rules of the operator.
    """

    def __init__(self, rules: Rules = NO_RULES) -> None:
        self.rules = rules

    def configure(self, rules: Rules) -> None:
        """Replace the rules, from the next decision on."""
        self.rules = rules

    def known_token(self, sid: bytes) -> Token | None:
        """See L{IAccessControl.known_token}."""
        return _WITHOUT_GROUPS.get(sid)

    def token(self, sid: bytes) -> Deferred[Token]:
        """See L{IAccessControl.token}."""
        return Deferred.fromCoroutine(self._token(sid))

    def check(
        self, descriptor: SecurityDescriptor, sid: bytes, asked: int, kind: ObjectKind
    ) -> AccessDecision | Deferred[AccessDecision]:
        """See L{IAccessControl.check}."""
        known = self.known_token(sid)
        if known is not None:
            return check_access(descriptor, known, asked, kind)
        return self.token(sid).addCallback(lambda token: check_access(descriptor, token, asked, kind))

    def is_domain_user(self, sid: bytes) -> Deferred[bool]:
        """See L{IAccessControl.is_domain_user}."""
        return Deferred.fromCoroutine(self._is_domain_user(sid))

    def resolve(self, principal: str) -> Deferred[bytes]:
        """See L{IAccessControl.resolve}."""
        return Deferred.fromCoroutine(self._resolve(principal))

    def name_of(self, sid: bytes) -> str:
        """See L{IAccessControl.name_of}."""
        name = self.rules.name_of(sid) or self._known_name(sid)
        return sid_text(sid) if name is None else f"{name} ({format_sid(sid)})"

    def ruling(self, path: str) -> Ruling | None:
        """See L{IAccessControl.ruling}."""
        return self.rules.ruling(path)

    def machine_ruling(self) -> Ruling | None:
        """See L{IAccessControl.machine_ruling}."""
        return self.rules.machine

    async def _token(self, sid: bytes) -> Token:
        known = self.known_token(sid)
        return token_of(sid, await self._groups(sid)) if known is None else known

    async def _resolve(self, principal: str) -> bytes:
        found = self.rules.sid_of(principal)
        if found is not None:
            return found
        try:
            return parse_principal(principal)
        except ValueError as error:
            account = await self._named(principal)
            if account is None:
                raise AccountUnknown(str(error)) from error
            return account.sid

    async def _is_domain_user(self, sid: bytes) -> bool:
        raise NotImplementedError

    async def _groups(self, sid: bytes) -> frozenset[bytes]:
        """All groups of an account.

        @raise AccountUnknown: as L{IAccessControl.token}.
        """
        raise NotImplementedError

    async def _named(self, name: str) -> Account | None:
        """The account of a name; C{None} if this source has no names.

        @raise AccountUnknown: as L{IAccessControl.resolve}.
        """
        raise NotImplementedError

    def _known_name(self, sid: bytes) -> str | None:
        raise NotImplementedError


def token_of(sid: bytes, groups: Iterable[bytes]) -> Token:
    """The token of an authenticated account."""
    return Token(sid, frozenset((*groups, EVERYONE, AUTHENTICATED_USERS)))
