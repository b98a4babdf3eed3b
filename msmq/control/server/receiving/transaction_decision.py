"""Transactional receive of a stream: commits or aborts all that it has received."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, Protocol

from twisted.logger import Logger

from msmq.control.server.http.disconnection import running
from msmq.interfaces.queue_manager import ITransaction


class ReaderDecision(Protocol):
    """Messages that a reader holds until it decides; an L{IReservation} is one."""

    def confirm(self) -> Awaitable[None]:
        """Remove the messages; done once the removal is stored."""

    def release(self) -> None:
        """Release the messages at their positions."""


class TransactionDecision:
    """The decision about everything that a transaction does."""

    _log: ClassVar[Logger] = Logger()

    def __init__(self, transaction: ITransaction) -> None:
        self._transaction = transaction

    async def confirm(self) -> None:
        """Commit.

        @raise MQError: it is not committed; it has to be released.
        """
        await self._transaction.commit()

    def release(self) -> None:
        """Abort, unless it has ended already, as when an administrator aborted it."""
        if self._transaction.state in ("active", "prepared"):
            running(self._transaction.abort()).addErrback(
                lambda failure: self._log.failure("A transaction could not be aborted", failure)
            )
