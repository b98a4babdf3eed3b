"""LDIF text of changes to entries, for C{ldapmodify} and C{ldbmodify}. RFC 2849."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from msmq.directory.ldap.transport.wire import Add, Delete, Modify

Change: TypeAlias = Add | Modify | Delete
"""A change of one entry."""

_WIDTH: Final = 76
_FIRST: Final = frozenset(" :<")


def to_ldif(changes: Iterable[tuple[Change, str]]) -> str:
    """Format changes in order, each preceded by a comment line, which may be empty."""
    return "\n".join("\n".join(_record(change, comment)) + "\n" for change, comment in changes)


def _record(change: Change, comment: str) -> Iterator[str]:
    if comment:
        yield f"# {comment}"
    yield _line("dn", change.name.encode())
    match change:
        case Add(_, values):
            yield "changetype: add"
            for name, each in values.items():
                for value in each:
                    yield _line(name, value)
        case Modify(_, values):
            yield "changetype: modify"
            for name, each in values.items():
                yield f"replace: {name}"
                for value in each:
                    yield _line(name, value)
                yield "-"
        case Delete():
            yield "changetype: delete"


def _line(name: str, value: bytes) -> str:
    """A name and its value, in base64 where plain text would not round-trip; long lines are folded."""
    line = (
        f"{name}: {value.decode('ascii')}"
        if _is_safe(value)
        else f"{name}:: {base64.b64encode(value).decode()}"
    )
    first, rest = line[:_WIDTH], line[_WIDTH:]
    parts = [rest[place : place + _WIDTH - 1] for place in range(0, len(rest), _WIDTH - 1)]
    return "\n ".join([first, *parts])


def _is_safe(value: bytes) -> bool:
    """RFC 2849 SAFE-STRING, without a trailing space."""
    if not value:
        return True
    text = value.decode("latin-1")
    return all(" " <= each <= "~" for each in text) and text[0] not in _FIRST and text[-1] != " "
