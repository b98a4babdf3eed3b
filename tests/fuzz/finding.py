"""Reports of the fuzz targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.status import MQError

Value = TypeVar("Value")


class Finding(Exception):
    """An input for which a promise does not hold."""


def expect(condition: object, promise: str) -> None:
    """Report that a promise does not hold."""
    if not condition:
        raise Finding(promise)


def judged(read: Callable[[bytes], Value], data: bytes) -> tuple[Value | None, str | None]:
    """The value, or what the one error says that reading anything may raise."""
    try:
        return read(data), None
    except RemoteProtocolError as error:
        return None, str(error)


def accepted(read: Callable[[bytes], Value], data: bytes) -> Value | None:
    """The value; C{None} where it is malformed."""
    return judged(read, data)[0]


def named(read: Callable[[], Value]) -> Value | None:
    """The value; C{None} where a name, or another text, is refused by the status that says so."""
    try:
        return read()
    except MQError:
        return None


def written(write: Callable[[], bytes]) -> bytes | None:
    """The bytes; C{None} where more was accepted than we would send, such as a window of 0."""
    try:
        return write()
    except LocalProtocolError:
        return None
