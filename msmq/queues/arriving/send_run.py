"""Runs: messages to be sent that differ in their bodies alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import attrs

from msmq.queues.arriving.message import Message


def with_body(message: Message, body: bytes) -> Message:
    """The same message with another body."""
    return attrs.evolve(message, body=body)


class SendRun(Sequence[Message]):
    """Messages with the same properties, without an object for each.

    @ivar template: a message with these properties; its own body does not matter.
    @ivar bodies: their bodies, in order.
    """

    __slots__ = ("bodies", "template")

    def __init__(self, template: Message, bodies: Sequence[bytes]) -> None:
        self.template = template
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.bodies)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> SendRun: ...

    def __getitem__(self, index: int | slice) -> Message | SendRun:
        if isinstance(index, slice):
            return SendRun(self.template, self.bodies[index])
        return with_body(self.template, self.bodies[index])


def templates_of(messages: Sequence[Message]) -> Sequence[Message]:
    """Messages with all properties that occur among these, regardless of their bodies."""
    if isinstance(messages, SendRun):
        return (messages.template,) if messages.bodies else ()
    return messages
