"""Plan of a group of batches for one part of the messages: durable or express."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from msmq.persistence.changes import MoveMessage, PutMessage

Place: TypeAlias = tuple[int, int]
"""Location of a message: the row of its queue, and its LookupIdentifier in stored form."""

Move: TypeAlias = tuple[int, int, int, int, int | None, int, int]
"""The former and the new location of a message, and its new due, aborts and moves."""

Messages: TypeAlias = dict[int, PutMessage | None]
"""The messages put, by LookupIdentifier in stored form; C{None} for a removed message."""


@attrs.define
class Stage:
    """Changes that can be written kind by kind, in the order of these fields.

    @ivar moves: moves of stored messages; no location is the source of two moves, or both a target and a
        source.
    @ivar aborts: new AbortCounts of stored messages.
    @ivar messages: puts and removals, by row of the queue.
    """

    moves: list[Move] = attrs.field(factory=list)
    aborts: dict[Place, int] = attrs.field(factory=dict)
    messages: dict[int, Messages] = attrs.field(factory=dict)
    _moved: set[Place] = attrs.field(factory=set)

    def conflicts_with(self, source: Place, target: Place) -> bool:
        """Whether this move conflicts with the puts and moves of this stage."""
        row, lookup_id = target
        # Without a message at the source, a message at the target stays unchanged.
        return source in self._moved or target in self.aborts or lookup_id in self.messages.get(row, ())

    def move(self, source: Place, target: Place, change: MoveMessage) -> None:
        """Add a move of a stored message."""
        self.moves.append((*source, *target, change.due, change.aborts, change.moves))
        self._moved |= {source, target}
        self.aborts.pop(source, None)


@attrs.define
class PartPlan:
    """Net effect of changes, as stages that are written in order.

    There is one stage, unless a message moves to the location of another, or moves on.
    """

    stages: list[Stage] = attrs.field(factory=lambda: [Stage()])

    @property
    def is_changed(self) -> bool:
        """Whether there are any changes."""
        return any(stage.moves or stage.aborts or stage.messages for stage in self.stages)

    def messages_of(self, row: int) -> Messages:
        """The planned puts and removals of a queue up to the next move, to be extended by the caller."""
        messages = self.stages[-1].messages
        planned = messages.get(row)
        if planned is None:
            planned = messages[row] = {}
        return planned

    def move(self, source: Place, target: Place, change: MoveMessage) -> None:
        """Add a move of a message."""
        stage = self.stages[-1]
        row, lookup_id = source
        planned = stage.messages.get(row)
        if planned is not None and lookup_id in planned:
            message = planned[lookup_id]
            if message is not None:
                planned[lookup_id] = None
                moved = attrs.evolve(message, due=change.due, aborts=change.aborts, moves=change.moves)
                target_row, new_lookup_id = target
                self.messages_of(target_row)[new_lookup_id] = moved
            return
        if stage.conflicts_with(source, target):
            stage = Stage()
            self.stages.append(stage)
        stage.move(source, target, change)

    def put_aborts(self, place: Place, aborts: int) -> None:
        """Add a change of an AbortCount."""
        stage = self.stages[-1]
        row, lookup_id = place
        planned = stage.messages.get(row)
        if planned is None or lookup_id not in planned:
            stage.aborts[place] = aborts
        elif (message := planned[lookup_id]) is not None:
            planned[lookup_id] = attrs.evolve(message, aborts=aborts)

    def forget_queue(self, row: int) -> None:
        """Drop the planned changes of a removed queue; any that are written are deleted with it."""
        self.stages[-1].messages.pop(row, None)
