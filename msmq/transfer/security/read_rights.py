"""The access right that reading a queue needs. [MS-MQMQ] 2.2.23 and 2.2.24.

The system queues of a queue manager are protected by its own security descriptor, a queue and its journal by
that of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msmq.windows.access_masks import QueueAccess, QueueManagerAccess


class ReadSource(Enum):
    """What a reader reads."""

    QUEUE = "a queue, or one of its subqueues"
    JOURNAL = "the journal of a queue"
    MACHINE_JOURNAL = "the journal of the queue manager"
    DEAD_LETTERS = "a dead-letter queue of the queue manager"


_RIGHTS: Final[Mapping[ReadSource, tuple[int, int]]] = {
    ReadSource.QUEUE: (QueueAccess.MQSEC_PEEK_MESSAGE, QueueAccess.MQSEC_RECEIVE_MESSAGE),
    ReadSource.JOURNAL: (QueueAccess.MQSEC_PEEK_MESSAGE, QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE),
    ReadSource.MACHINE_JOURNAL: (
        QueueManagerAccess.MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE,
        QueueManagerAccess.MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE,
    ),
    ReadSource.DEAD_LETTERS: (
        QueueManagerAccess.MQSEC_PEEK_DEADLETTER_MESSAGE,
        QueueManagerAccess.MQSEC_RECEIVE_DEADLETTER_MESSAGE,
    ),
}
"""The rights to peek and to receive."""


def read_right(source: ReadSource, *, peek: bool) -> int:
    """The right to peek at, or to receive, the messages of a source.

    @return: a mask of L{QueueAccess} for a queue and its journal, of L{QueueManagerAccess} for the others.
    """
    to_peek, to_receive = _RIGHTS[source]
    return int(to_peek if peek else to_receive)
