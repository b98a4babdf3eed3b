"""Queues that come, change and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from msmq.queues.changes import Change
from msmq.queues.definition import QueueDefinition
from msmq.queues.effects import Effect
from msmq.queues.position import MessagePosition
from msmq.queues.queue import Queue


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

    @ivar effects: its readers, who wait in vain.
    @ivar positions: the messages that went with it, in the order of arrival; whoever tells their
        senders may take them out piece by piece.
    """

    queue: Queue
    changes: Sequence[Change]
    effects: Sequence[Effect]
    positions: deque[MessagePosition] = attrs.field(repr=False)
