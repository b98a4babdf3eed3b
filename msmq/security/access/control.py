"""Access control by the accounts of a directory."""

from __future__ import annotations

from typing import Final

from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.interfaces.security.access import Account, AccountUnknown, IAccessControl, IAccounts
from msmq.quoting import quoted
from msmq.security.access.rules import NO_RULES, Rules
from msmq.security.access.token_access_control import TokenAccessControl, token_of
from msmq.windows.access_check import Token
from msmq.wire.sid import format_sid

LIFETIME: Final = 300.0
"""Time to live of cached group memberships, in seconds."""

MOST: Final = 10_000
"""Limit on accounts in the cache."""


@implementer(IAccessControl)
class AccessControl(TokenAccessControl):
    """Looks up group memberships in a directory, and caches them for a while.

    Without a directory an account is only in the groups Everyone and Authenticated Users.

    @param accounts: the directory.
    """

    def __init__(self, accounts: IAccounts | None, clock: IClock, rules: Rules = NO_RULES) -> None:
        super().__init__(rules)
        self._accounts = accounts
        self._clock = clock
        self._known: dict[bytes, tuple[float, Account]] = {}
        self._changes = 0

    def known_token(self, sid: bytes) -> Token | None:
        """See L{IAccessControl.known_token}."""
        token = super().known_token(sid)
        if token is not None:
            return token
        if self._accounts is None:
            return token_of(sid, ())
        account = self._remembered(sid)
        return None if account is None else token_of(sid, account.groups)

    def forget(self) -> None:
        """Clear the cache, so that all groups are looked up again."""
        self._known.clear()
        self._changes += 1

    def _remembered(self, sid: bytes) -> Account | None:
        until, account = self._known.get(sid, (0.0, None))
        if account is None or until <= self._clock.now().monotonic:
            return None
        return account

    def _remember(self, account: Account, changes: int) -> None:
        if changes != self._changes:
            # The answer may be from before the change; the next request queries again.
            return
        if len(self._known) >= MOST:
            # The oldest half is evicted, as in the caches of [MS-MQQB].
            for sid in list(self._known)[: MOST // 2]:
                del self._known[sid]
        self._known.pop(account.sid, None)
        self._known[account.sid] = (self._clock.now().monotonic + LIFETIME, account)

    async def _account(self, accounts: IAccounts, sid: bytes) -> Account:
        account = self._remembered(sid)
        if account is None:
            changes = self._changes
            account = await accounts.account(sid)
            if account.sid != sid:
                named = quoted(account.name)
                raise AccountUnknown(
                    f"the directory answers for {format_sid(sid)} with {named}, which has another SID"
                )
            self._remember(account, changes)
        return account

    async def _groups(self, sid: bytes) -> frozenset[bytes]:
        if self._accounts is None:
            return frozenset()
        try:
            return (await self._account(self._accounts, sid)).groups
        except DirectoryError as error:
            raise AccountUnknown(f"the groups of {format_sid(sid)} are not known: {error}") from error

    async def _is_domain_user(self, sid: bytes) -> bool:
        if self._accounts is None:
            return False
        try:
            return (await self._account(self._accounts, sid)).is_user
        except DirectoryError as error:
            if error.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
                return False
            raise AccountUnknown(f"whether {format_sid(sid)} is a user is not known: {error}") from error

    async def _named(self, name: str) -> Account | None:
        if self._accounts is None:
            return None
        changes = self._changes
        try:
            account = await self._accounts.account_named(name)
        except DirectoryError as error:
            raise AccountUnknown(f"{quoted(name)} cannot be found: {error}") from error
        self._remember(account, changes)
        return account

    def _known_name(self, sid: bytes) -> str | None:
        account = self._remembered(sid)
        return None if account is None else account.name
