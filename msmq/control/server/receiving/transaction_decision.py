"""Transactional receive of a stream: commits or aborts all that it has received."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, Protocol

from twisted.logger import Logger

from msmq.control.server.http.disconnection import running
from msmq.interfaces.manager.queue_manager import ITransaction


class ReaderDecision(Protocol):
    """Interface of messages that a reader holds until it confirms or releases them: an L{IReservation}."""

    def confirm(self) -> Awaitable[None]:
        """Remove the messages; fires once the removal is durable."""

    def release(self) -> None:
        """Return the messages to their positions."""


class TransactionDecision:
    """Commits or aborts a whole transaction."""

    _log: ClassVar[Logger] = Logger()

    def __init__(self, transaction: ITransaction) -> None:
        self._transaction = transaction

    async def confirm(self) -> None:
        """Commit.

        @raise MQError: the transaction is not committed and has to be released.
        """
        await self._transaction.commit()

    def release(self) -> None:
        """Abort, unless the transaction has ended already, for example by an administrator's abort."""
        if self._transaction.state in ("active", "prepared"):
            running(self._transaction.abort()).addErrback(
                lambda failure: self._log.failure("A transaction could not be aborted", failure)
            )
