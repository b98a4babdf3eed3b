"""Creation, alteration and deletion of queues, as pending changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from msmq.persistence.changes import Change
from msmq.persistence.definition import QueueDefinition
from msmq.queues.effects import Effect
from msmq.queues.queue import MessagePosition, Queue


@attrs.frozen
class Creation:
    """A queue that is not there before its changes are stored; its name is taken meanwhile."""

    queue: Queue
    changes: Sequence[Change]


@attrs.frozen
class Alteration:
    """A queue that has other properties once its changes are stored."""

    queue: Queue
    definition: QueueDefinition
    changes: Sequence[Change]


@attrs.frozen
class Deletion:
    """A queue that is gone.

    @ivar fence: changes nothing; when it is stored, what was being stored before is decided.
    @ivar effects: the failures of its waiting readers.
    @ivar positions: the messages that went with it, in the order of arrival; whoever tells their
        senders may take them out piece by piece.
    """

    queue: Queue
    fence: Sequence[Change]
    changes: Sequence[Change]
    effects: Sequence[Effect]
    positions: deque[MessagePosition] = attrs.field(repr=False)

    @property
    def is_decided(self) -> bool:
        """Whether no enqueue or removal is pending, once all positions were taken out.

        Before that the changes may not be stored: a crash would take messages with it that nobody told of.
        """
        return not any(member.positions for member in self.family)

    @property
    def family(self) -> Sequence[Queue]:
        """The queue and its subqueues."""
        return (self.queue, *self.queue.subqueues.values())
