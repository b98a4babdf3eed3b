"""Access control by accounts in memory, for tests."""

from __future__ import annotations

from zope.interface import implementer

from msmq.interfaces.security.access import Account, AccountUnknown, IAccessControl
from msmq.quoting import quoted
from msmq.security.access.rules import NO_RULES, Rules
from msmq.security.access.token_access_control import TokenAccessControl
from msmq.wire.sid import format_sid


@implementer(IAccessControl)
class MemoryAccessControl(TokenAccessControl):
    """Access control by accounts that a test defines.

    @ivar is_connected: whether accounts can be looked up; set it to C{False} to make look-ups fail.
    """

    def __init__(self, rules: Rules = NO_RULES) -> None:
        super().__init__(rules)
        self.is_connected = True
        self._accounts: dict[bytes, Account] = {}

    def add(self, account: Account) -> None:
        """Add or replace an account."""
        self._accounts[account.sid] = account

    def _check_connected(self) -> None:
        if not self.is_connected:
            raise AccountUnknown("the accounts in memory are away")

    async def _groups(self, sid: bytes) -> frozenset[bytes]:
        self._check_connected()
        if sid not in self._accounts:
            raise AccountUnknown(f"the groups of {format_sid(sid)} are not known: there is no such account")
        return self._accounts[sid].groups

    async def _is_domain_user(self, sid: bytes) -> bool:
        self._check_connected()
        return sid in self._accounts and self._accounts[sid].is_user

    async def _named(self, name: str) -> Account | None:
        self._check_connected()
        wanted = name.rpartition("\\")[2].casefold()
        for account in self._accounts.values():
            if account.name.casefold() == wanted:
                return account
        raise AccountUnknown(f"{quoted(name)} cannot be found: there is no such account")

    def _known_name(self, sid: bytes) -> str | None:
        return self._accounts[sid].name if sid in self._accounts else None
