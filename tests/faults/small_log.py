"""Record logs whose segments are soon full, and whose traces are short, for servers of tests.

C{twistd} finds them by the plugin of L{tests.faults.careless}.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import IMessageStore
from msmq.persistence.changes import Change
from msmq.storage.log import LogMessageStore
from msmq.storage.log.factory import DIRECTORY_NAME, mark_name
from msmq.testing.contracts.store_history import TurnedReactor
from tests.storage.policies import policy_at

SEGMENT = 256 * 1024

Result = TypeVar("Result")


class HastyLogMessageStore(LogMessageStore):
    """Says that it is done before it has begun."""

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """Hand it over, and answer at once."""
        super().commit(changes)
        return succeed(None)


@implementer(IStorageFactory)
@attrs.frozen
class SmallLogStorageFactory:
    """C{small-log}: the record log with segments of 256 KiB.

    @ivar kind: the class of the store.
    """

    name: str = "small-log"
    description: str = "in a record log with small segments"
    kind: type[LogMessageStore] = LogMessageStore

    def open_store(
        self, argument: str, data: Path, reactor: IReactorFromThreads | None = None
    ) -> IMessageStore:
        """See L{IStorageFactory.open_store}.

        @param reactor: in whose thread the Deferreds fire; the running one by default.
        """
        return self.kind(
            data / (argument or DIRECTORY_NAME),
            policy_at(data / mark_name(data / DIRECTORY_NAME)),
            # As if the disk was quick: the reactor's thread writes small groups after the first few.
            clock=lambda: 0.0,
            segment_bytes=SEGMENT,
            reactor=reactor,
        )


SMALL_LOG = SmallLogStorageFactory()
HASTY_LOG = SmallLogStorageFactory("hasty-log", "loses messages on a disk that is slow", HastyLogMessageStore)


def succeeded(reactor: TurnedReactor, asked: Deferred[Result]) -> Result:
    """The result of what was asked for.

    @raise StorageError: it failed.
    """
    outcome = reactor.outcome(asked)
    if isinstance(outcome, Failure):
        outcome.raiseException()
        raise AssertionError
    return outcome
