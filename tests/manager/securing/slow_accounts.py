"""Accounts in memory that are looked up slowly."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from msmq.security.access.rules import NO_RULES, Rules
from msmq.testing.access_control import MemoryAccessControl


class SlowAccounts(MemoryAccessControl):
    """Accounts in memory whose groups a test provides when it wants."""

    def __init__(self, rules: Rules = NO_RULES) -> None:
        super().__init__(rules)
        self.waiting: list[Deferred[None]] = []
        self.is_slow = False

    async def _groups(self, sid: bytes) -> frozenset[bytes]:
        if self.is_slow:
            self.waiting.append(Deferred())
            await self.waiting[-1]
        return await super()._groups(sid)
