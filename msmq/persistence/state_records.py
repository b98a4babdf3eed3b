"""State records of a store: a name, and bytes that begin with their version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from msmq.errors import MsmqError, RemoteProtocolError
from msmq.quoting import quoted
from msmq.wire.reader import Reader

StateChange: TypeAlias = tuple[str, bytes | None]
"""Name and new bytes of a state value; C{None} deletes it."""


class StateError(MsmqError):
    """A stored value is damaged, or was written by another version.

    Continuing without it could lose messages or deliver them twice, so loading fails.

    @ivar name: the name of the value.
    @ivar rule: what is wrong with it, in words.
    """

    def __init__(self, name: str, rule: str) -> None:
        super().__init__(f"stored state {quoted(name)}: {rule}")
        self.name = name
        self.rule = rule


@contextmanager
def reading(name: str, value: bytes, version: int) -> Iterator[Reader]:
    """Read a whole value whose first byte is its version.

    @raise StateError: the version is another, the value is cut short, or unexpected bytes follow its end.
    """
    reader = Reader(value)
    try:
        found = reader.u8("Version")
        if found != version:
            raise StateError(name, f"is of version {found}; this version of msmq reads {version}")
        yield reader
    except RemoteProtocolError as error:
        raise StateError(name, f"{error.field} at offset {error.offset} {error.rule}") from error
    if reader.remaining:
        raise StateError(name, f"{reader.remaining} unexpected bytes follow its end")


def numbered(state: Mapping[str, bytes], prefix: str) -> list[tuple[int, str, bytes]]:
    """List the values whose names are C{prefix} and a number, in the order of the numbers.

    @raise StateError: the prefix is not followed by a number.
    """
    found = []
    for name, value in state.items():
        if name.startswith(prefix):
            digits = name[len(prefix) :]
            if not (digits.isascii() and digits.isdigit()):
                raise StateError(name, "ends without a number")
            found.append((int(digits), name, value))
    return sorted(found)
