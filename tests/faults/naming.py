"""Messages whose names say all of them, so that what comes back can be checked."""

from __future__ import annotations

from hashlib import shake_128

import attrs

EXPRESS = "x"
PAIRED = "m"
AWAY = "a"
TIMED = "t"
BURIED = "d"
TRANSACTIONAL = "k"
"""What the marks of a name mean: an express message, one that was sent to two queues, one for another
queue manager, one that expires soon, one that becomes a dead letter then, a transactional one."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@attrs.frozen
class Name:
    """A message: its sender, and its properties.

    @ivar life: in which life it was sent; C{operation} and C{number} say where in that.
    """

    life: int
    operation: int
    number: int
    priority: int
    size: int
    marks: str = ""

    @classmethod
    def of(cls, text: str) -> Name:
        """Read what L{str} gives."""
        name = text.lstrip(_LETTERS)
        life, operation, number, priority, size = map(int, name.split("."))
        return cls(life, operation, number, priority, size, text[: len(text) - len(name)])

    def __str__(self) -> str:
        return f"{self.marks}{self.life}.{self.operation}.{self.number}.{self.priority}.{self.size}"


def body_of(name: str) -> bytes:
    """The body of the message with this name."""
    text = name.encode("ascii")
    return text + b" " + shake_128(text).digest(Name.of(name).size)


def name_of(body: bytes | memoryview) -> str:
    """The name of the message with this body."""
    return bytes(body).partition(b" ")[0].decode("ascii")


def key_of(name: str, place: str | None) -> str:
    """The key of a message in one queue, of which other queues may have copies."""
    return f"{name}@{place}" if PAIRED in marks_of(name) else name


def marks_of(key: str) -> str:
    """The marks in a name, or in what L{key_of} has made of one."""
    return key[: len(key) - len(key.lstrip(_LETTERS))]


def main_queue(place: str) -> str:
    """The queue of a journal or a subqueue, or the queue itself."""
    return place.partition(";")[0] if not place.startswith(".\\system$") else place
