"""A store that does what it is asked for when a test says so, and fails when it says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from msmq.interfaces.storage import UnknownQueue
from msmq.persistence.changes import Change
from msmq.storage.memory_contents import Contents


@attrs.define(eq=False)
class Batch:
    """Changes that are being stored, and what follows when they are, or fail."""

    changes: Sequence[Change]
    done: Callable[[], None]
    failed: Callable[[], None]


def nothing() -> None:
    """No consequence."""


@attrs.define(eq=False)
class Store:
    """Batches in order; each is committed completely or not at all.

    @ivar is_slow: whether batches wait for L{step}.
    @ivar fails: the number of next batches that fail.
    """

    contents: Contents = attrs.field(factory=Contents)
    batches: deque[Batch] = attrs.field(factory=deque)
    is_slow: bool = False
    fails: int = 0
    done: list[Sequence[Change]] = attrs.field(factory=list)

    def ask(
        self,
        changes: Sequence[Change],
        done: Callable[[], None] = nothing,
        failed: Callable[[], None] = nothing,
    ) -> None:
        """Hand a batch over; one without changes is done at once."""
        if not changes:
            done()
            return
        self.batches.append(Batch(list(changes), done, failed))
        if not self.is_slow:
            self.drain()

    def step(self) -> None:
        """Do the oldest batch, or fail to."""
        batch = self.batches.popleft()
        is_known = True
        try:
            self.contents.check(batch.changes)
        except UnknownQueue:
            is_known = False
        if self.fails or not is_known:
            assert is_known or self._had_failed, "a message is put in a queue that the store does not have"
            if is_known:
                self.fails -= 1
            self._had_failed = True
            batch.failed()
            return
        for change in batch.changes:
            self.contents.perform(change)
        self.done.append(batch.changes)
        batch.done()

    def drain(self) -> None:
        """Do everything that waits."""
        while self.batches:
            self.step()
        self._had_failed = False

    _had_failed: bool = attrs.field(default=False, init=False)
