"""Plan of a group of batches for one part of the messages: durable or express."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from msmq.persistence.changes import MoveMessage, PutMessage

Place: TypeAlias = tuple[int, int]
"""The row of a queue, and a LookupIdentifier as it is stored."""

Move: TypeAlias = tuple[int, int, int, int, int | None, int, int]
"""The former and the new location of a message, and its new due, aborts and moves."""

Messages: TypeAlias = dict[int, PutMessage | None]
"""By LookupIdentifier as it is stored, the message that is put there, or C{None} for one that is removed."""


@attrs.define
class Stage:
    """Stage of changes that may be written kind by kind, in the order of these fields.

    @ivar moves: messages that are stored and move; no place is in two of them as a source, nor is the
        target of one the source of another.
    @ivar aborts: the AbortCount of messages that are stored.
    @ivar messages: what is put and removed, by row of the queue.
    """

    moves: list[Move] = attrs.field(factory=list)
    aborts: dict[Place, int] = attrs.field(factory=dict)
    messages: dict[int, Messages] = attrs.field(factory=dict)
    _moved: set[Place] = attrs.field(factory=set)

    def stands_against(self, source: Place, target: Place) -> bool:
        """Whether this move conflicts with the puts and moves of this stage."""
        row, lookup_id = target
        # What lies in the target stays as it is if there is nothing in the source.
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
        """Whether anything is planned."""
        return any(stage.moves or stage.aborts or stage.messages for stage in self.stages)

    def messages_of(self, row: int) -> Messages:
        """What is planned for a queue up to the next move; messages may be put and removed in it."""
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
        if stage.stands_against(source, target):
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
        """Drop what is planned for a queue that is removed; what may be written nevertheless goes with it."""
        self.stages[-1].messages.pop(row, None)
