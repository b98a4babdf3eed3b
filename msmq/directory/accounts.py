"""Users and groups of an enterprise file, and their group memberships."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from msmq.interfaces.security.access import Account
from msmq.quoting import quoted
from msmq.toml.document import nearest
from msmq.toml.lines import Path as KeyPath
from msmq.wire.sid import parse_sid

Refuse = Callable[[KeyPath, str], None]


@attrs.frozen
class DeclaredAccount:
    """A C{[[user]]} or C{[[group]]} of an enterprise file.

    @ivar key_path: its position in the file, for errors.
    @ivar values: C{sid}, and optionally C{name} and C{groups}, which are names of groups or SIDs.
    """

    key_path: KeyPath
    values: Mapping[str, Any]

    @property
    def is_user(self) -> bool:
        """Whether it is a user rather than a group."""
        return self.key_path[0] == "user"

    @property
    def sid(self) -> bytes:
        """Its SID."""
        return parse_sid(self.values["sid"])

    @property
    def name(self) -> str:
        """Its name, or its SID if it has none."""
        return str(self.values.get("name", self.values["sid"]))


def gather(written: Iterable[DeclaredAccount], refuse: Refuse) -> tuple[Account, ...]:
    """The accounts, each with its direct and indirect groups.

    A group that is a member of itself, directly or not, gains nothing by that.

    @param refuse: called with each fault and its position.
    """
    rows = list(written)
    names: dict[str, bytes] = {}
    sids: set[bytes] = set()
    for row in rows:
        if row.sid in sids:
            refuse((*row.key_path, "sid"), "is the SID of another account too")
        sids.add(row.sid)
        if row.name.casefold() in names:
            refuse((*row.key_path, "name"), "is the name of another account too")
        names[row.name.casefold()] = row.sid
    groups = {row.name.casefold(): row.sid for row in rows if not row.is_user}
    direct = {row.sid: set(_groups(row, groups, refuse)) for row in rows}
    return tuple(
        Account(row.sid, row.name, frozenset(_closure(row.sid, direct)), row.is_user) for row in rows
    )


def _groups(row: DeclaredAccount, groups: Mapping[str, bytes], refuse: Refuse) -> Iterable[bytes]:
    for index, text in enumerate(row.values.get("groups", ())):
        found = groups.get(text.casefold())
        if found is None:
            try:
                found = parse_sid(text)
            except ValueError:
                known = nearest(text.casefold(), groups)
                refuse(
                    (*row.key_path, "groups", index),
                    f"{quoted(text)} is not a group of this file, nor a SID{known}",
                )
                continue
        yield found


def _closure(sid: bytes, direct: Mapping[bytes, set[bytes]]) -> set[bytes]:
    found: set[bytes] = set()
    left = [sid]
    while left:
        for group in direct.get(left.pop(), ()):
            if group not in found:
                found.add(group)
                left.append(group)
    return found - {sid}
