"""Events of a queue manager, for subscribers. [MS-MQDMPR] 3.1.4."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

import attrs


class QueueManagerEvent(enum.Enum):
    """[MS-MQDMPR] 3.1.4.1, 3.1.4.2, 3.1.4.4, 3.1.4.5, 3.1.4.12 and 3.1.4.13.

    The other events belong to DTC, which is not supported.
    """

    STARTED = "started"
    """It has begun to send pending messages."""
    STOPPED = "stopped"
    """It has ended, and its store is closed."""
    TRANSACTION_COMMITTED = "transaction committed"
    """The commit of a transaction is stored."""
    TRANSACTION_ABORTED = "transaction aborted"
    TAKEN_OFFLINE = "taken offline"
    BROUGHT_ONLINE = "brought online"


@attrs.frozen
class Occurrence:
    """An event.

    @ivar transaction: TransactionIdentifier of an event of a transaction.
    """

    event: QueueManagerEvent
    transaction: UUID | None = None


Subscriber: TypeAlias = Callable[[Occurrence], object]
"""Called once for each event, after its effects. It must not block; if it raises, the error is
logged, and the other subscribers are called."""
