"""Creation, alteration and deletion of queues, as pending changes."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.persistence.changes import Change
from msmq.persistence.definition import QueueDefinition
from msmq.queues.effects import Effect
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.queue_positions import RemovedPositions


@attrs.frozen
class Creation:
    """A queue that exists once its changes are stored; its name is reserved until then."""

    queue: Queue
    changes: Sequence[Change]


@attrs.frozen
class Alteration:
    """A queue whose new properties take effect once its changes are stored."""

    queue: Queue
    definition: QueueDefinition
    changes: Sequence[Change]


@attrs.frozen
class Deletion:
    """A queue that is deleted.

    @ivar fence: an empty change; when it is stored, all earlier changes are decided.
    @ivar effects: the failures of its waiting readers.
    @ivar positions: its messages, in the order of arrival; they may be removed in slices, as their negative
        acknowledgements are sent.
    """

    queue: Queue
    fence: Sequence[Change]
    changes: Sequence[Change]
    effects: Sequence[Effect]
    positions: RemovedPositions[MessagePosition] = attrs.field(repr=False)

    @property
    def is_decided(self) -> bool:
        """Whether no enqueue or removal is pending, once all positions are removed.

        The changes must not be stored before: after a crash there would be messages without an
        acknowledgement.
        """
        return not any(member.positions for member in self.family)

    @property
    def family(self) -> Sequence[Queue]:
        """The queue and its subqueues."""
        return (self.queue, *self.queue.subqueues.values())
