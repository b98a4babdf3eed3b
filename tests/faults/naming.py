"""Messages whose names say all of them, so that what comes back can be checked."""

from __future__ import annotations

from hashlib import shake_128

import attrs


@attrs.frozen(order=True)
class Name:
    """A message: who sent it, and what it is like.

    @ivar life: in which life it was sent; C{operation} and C{number} say where in that.
    @ivar marks: C{x}: express, C{m}: sent to two queues, C{a}: sent away.
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


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def body_of(name: str) -> bytes:
    """The body of the message with this name."""
    text = name.encode("ascii")
    return text + b" " + shake_128(text).digest(Name.of(name).size)


def name_of(body: bytes | memoryview) -> str:
    """The name of the message with this body."""
    return bytes(body).partition(b" ")[0].decode("ascii")


def key_of(name: str, queue: str) -> str:
    """What stands for a message in one queue, of which others may have it too."""
    return f"{name}@{queue}" if "m" in marks_of(name) else name


def marks_of(key: str) -> str:
    """The marks in a name, or in what L{key_of} has made of one."""
    return key[: len(key) - len(key.lstrip(_LETTERS))]
