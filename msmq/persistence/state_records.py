"""State as the store keeps it: a name, and bytes that say in which version they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from msmq.errors import MsmqError, RemoteProtocolError
from msmq.quoting import quoted
from msmq.wire.reader import Reader

StateChange: TypeAlias = tuple[str, bytes | None]
"""The name of a value and what the store is to keep under it; C{None}: nothing any more."""


class StateError(MsmqError):
    """A value that the store kept is damaged, or was written by another version.

    Continuing without it could lose messages or deliver them twice, so loading it has to fail.

    @ivar name: the name of the value.
    @ivar rule: what is wrong with it, in words.
    """

    def __init__(self, name: str, rule: str) -> None:
        super().__init__(f"stored state {quoted(name)}: {rule}")
        self.name = name
        self.rule = rule


@contextmanager
def reading(name: str, value: bytes, version: int) -> Iterator[Reader]:
    """Read the whole of a value whose first byte is its version.

    @raise StateError: the version is another, the value is cut short, or bytes follow it.
    """
    reader = Reader(value)
    try:
        found = reader.u8("Version")
        if found != version:
            raise StateError(name, f"is of version {found}, where this program knows {version}")
        yield reader
    except RemoteProtocolError as error:
        raise StateError(name, f"{error.field} at offset {error.offset} {error.rule}") from error
    if reader.remaining:
        raise StateError(name, f"{reader.remaining} bytes follow it")


def numbered(state: Mapping[str, bytes], prefix: str) -> list[tuple[int, str, bytes]]:
    """The values whose names are C{prefix} and a number, in the order of the numbers.

    @raise StateError: something else than a number follows the prefix.
    """
    found = []
    for name, value in state.items():
        if name.startswith(prefix):
            digits = name[len(prefix) :]
            if not (digits.isascii() and digits.isdigit()):
                raise StateError(name, "ends with no number")
            found.append((int(digits), name, value))
    return sorted(found)
