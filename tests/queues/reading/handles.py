"""Queues that are open, for tests of what is done through their handles."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeAlias

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.queues.effects import Effect, ReadCompleted, ReadFailed
from msmq.queues.queue import MessagePosition
from msmq.queues.reading.cursor import Cursor
from msmq.queues.reading.descriptor import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import Status
from tests.queues.builders import NOW, ORDERS, bodies, completions, create, model, put

Outcome: TypeAlias = bytes | Status | None
"""What a message says, why a read failed, or C{None} if it waits."""


class HandleTestCase(SynchronousTestCase):
    """ALPHA with a queue that is open for receiving.

    @ivar taken: the messages that were received, oldest first.
    """

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)
        self.descriptors = self.model.descriptors
        self.handle = self.open()
        self.tags: Iterator[str] = (f"read {number}" for number in itertools.count(1))
        self.last_tag = ""
        self.now = NOW
        self.taken: list[MessagePosition] = []

    def open(
        self,
        access: QueueAccessType = QueueAccessType.RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
        name: FormatName | str = ORDERS,
    ) -> OpenQueueDescriptor:
        if isinstance(name, str):
            name = parse_format_name(name)
        return self.descriptors.open([name], access, share_mode, now=NOW)

    def cursor(self, handle: OpenQueueDescriptor | None = None) -> Cursor:
        """A new cursor."""
        cursor = self.descriptors.open_cursor(handle or self.handle)
        assert cursor is not None
        return cursor

    def put(self, *arrivals: UserMessageView | bytes) -> list[tuple[object, list[bytes]]]:
        """Let messages arrive; which readers got them."""
        return completions(put(self.model, self.queue, *arrivals, now=self.now))

    def give_back(self, *positions: MessagePosition) -> list[tuple[object, list[bytes]]]:
        """Release messages; which readers got them."""
        return completions(self.model.release(positions, self.now))

    def outcome(self, effects: Sequence[Effect], tag: Hashable, *, is_peek: bool = False) -> Outcome:
        """The result of a read from these effects."""
        for effect in effects:
            if isinstance(effect, ReadFailed) and effect.tag == tag:
                return effect.status
            if isinstance(effect, ReadCompleted) and effect.tag == tag:
                if not is_peek:
                    self.taken += effect.positions
                [body] = bodies(effect.positions)
                return body
        return None

    def deadline(self, seconds: float | None) -> float | None:
        return None if seconds is None else self.now.later(seconds).monotonic

    def tag(self) -> str:
        """A new one."""
        self.last_tag = next(self.tags)
        return self.last_tag

    def receive(
        self,
        cursor: Cursor | None = None,
        *,
        seconds: float | None = 0,
        handle: OpenQueueDescriptor | None = None,
        **keywords: Any,
    ) -> Outcome:
        """Receive one message."""
        tag = self.tag()
        effects = self.descriptors.receive(
            handle or self.handle,
            tag=tag,
            now=self.now,
            cursor=cursor,
            deadline=self.deadline(seconds),
            **keywords,
        )
        return self.outcome(effects, tag)

    def peek(
        self,
        cursor: Cursor | None = None,
        *,
        seconds: float | None = 0,
        handle: OpenQueueDescriptor | None = None,
    ) -> Outcome:
        """Look at one message."""
        tag = self.tag()
        effects = self.descriptors.peek(
            handle or self.handle, tag=tag, now=self.now, cursor=cursor, deadline=self.deadline(seconds)
        )
        return self.outcome(effects, tag, is_peek=True)

    def peek_next(self, cursor: Cursor, *, seconds: float | None = 0) -> Outcome:
        """Look at the next message."""
        tag = self.tag()
        effects = self.descriptors.peek_next(
            cursor.descriptor, cursor, tag=tag, now=self.now, deadline=self.deadline(seconds)
        )
        return self.outcome(effects, tag, is_peek=True)

    def lookup(
        self,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        lookup_id: int = 0,
        *,
        peek: bool = False,
        **keywords: Any,
    ) -> Outcome:
        """Read by lookup identifier."""
        tag = self.tag()
        effects = self.descriptors.read_by_lookup_identifier(
            self.handle, lookup_id, action, tag=tag, now=self.now, peek=peek, **keywords
        )
        return self.outcome(effects, tag, is_peek=peek)

    def find(self, body: bytes) -> MessagePosition:
        """The message that says so."""
        found: MessagePosition
        [found] = [each for each in self.queue.positions.values() if bodies([each]) == [body]]
        return found

    def hold(self, body: bytes, **keywords: Any) -> MessagePosition:
        """Let another reader receive a message, without deciding."""
        tag = self.tag()
        effects = self.descriptors.read_by_lookup_identifier(
            self.handle, self.find(body).lookup_id, tag=tag, now=self.now, **keywords
        )
        assert self.outcome(effects, tag) == body
        return self.taken.pop()

    def confirm(self, *positions: MessagePosition) -> None:
        """Remove messages permanently."""
        self.model.removed(self.model.remove(positions), self.now)

    def wait(self, seconds: float) -> list[tuple[object, Status]]:
        """Let time go by; which reads fail."""
        self.now = Moment(self.now.monotonic + seconds, self.now.wall + seconds)
        return failures(self.model.expire(self.now))


def failures(effects: Sequence[Effect]) -> list[tuple[object, Status]]:
    """Which reads fail, and why."""
    return [(effect.tag, effect.status) for effect in effects if isinstance(effect, ReadFailed)]
