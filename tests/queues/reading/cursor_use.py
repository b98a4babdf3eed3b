"""Cursors in the midst of everything else that is done to queues."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.reading.cursor import Cursor
from msmq.queues.reading.descriptor import OpenQueueDescriptor, QueueAccessType
from tests.queues.simulation import Alpha

ASKS = ("peek", "peek next", "peek next", "receive", "close")
"""What is done with a cursor."""


class CursorUse(RuleBasedStateMachine):
    """Opens some cursors and reads with them; every message that a cursor finds is in the queue.

    @ivar held: the messages of each read that was not decided about.
    @ivar cursors: those that are open, each with its handle.
    """

    alpha: Alpha

    def __init__(self) -> None:
        super().__init__()
        self.held: list[list[MessagePosition]] = []
        self.cursors: list[tuple[OpenQueueDescriptor, Cursor]] = []
        self.cursor_tags = itertools.count()

    def choose(self, data: st.DataObject, queues: list[Queue]) -> Queue:
        """One of these queues."""
        path = data.draw(st.sampled_from([queue.definition.path for queue in queues]))
        return next(queue for queue in queues if queue.definition.path == path)

    @precondition(lambda self: len(self.cursors) < 4 and any(self.alpha.model.queues()))
    @rule(data=st.data())
    def open_cursor(self, data: st.DataObject) -> None:
        queue = self.choose(data, list(self.alpha.model.queues()))
        descriptors, name = self.alpha.model.descriptors, self.alpha.model.format_name(queue)
        handle = descriptors.open([name], QueueAccessType.RECEIVE, now=self.alpha.now)
        cursor = descriptors.open_cursor(handle)
        assert cursor is not None
        self.cursors.append((handle, cursor))

    @precondition(lambda self: self.cursors)
    @rule(number=st.integers(0, 3), asks=st.lists(st.sampled_from(ASKS), min_size=1, max_size=4))
    def use_cursor(self, number: int, asks: list[str]) -> None:
        handle, cursor = self.cursors[number % len(self.cursors)]
        for ask in asks:
            self.read_with(handle, cursor, ask)

    def read_with(self, handle: OpenQueueDescriptor, cursor: Cursor, ask: str) -> None:
        """One read with a cursor, which finds what is there, wherever the cursor was left."""
        if (handle, cursor) not in self.cursors:
            return
        if ask == "close":
            self.close((handle, cursor))
            return
        descriptors, now, tag = (
            self.alpha.model.descriptors,
            self.alpha.now,
            f"cursor {next(self.cursor_tags)}",
        )
        how: dict[str, Any] = {"tag": tag, "now": now, "deadline": now.monotonic}
        if ask == "peek":
            effects = descriptors.peek(handle, cursor=cursor, **how)
        elif ask == "peek next":
            effects = descriptors.peek_next(handle, cursor, **how)
        else:
            effects = descriptors.receive(handle, cursor=cursor, **how)
        self.alpha.perform(effects)
        found = self.alpha.reads.pop(tag)
        if isinstance(found, list):
            [position] = found
            assert position.queue.positions[position.lookup_id] is position, "the cursor dangles"
            state = PositionState.LOCKED_READER if ask == "receive" else PositionState.AVAILABLE
            assert position.state is state
            if ask == "receive":
                self.alpha.load(found)
                self.held.append(found)

    def close(self, opened: tuple[OpenQueueDescriptor, Cursor]) -> None:
        """Close a handle, with its cursor."""
        self.cursors.remove(opened)
        self.alpha.perform(self.alpha.model.descriptors.close(opened[0]))
