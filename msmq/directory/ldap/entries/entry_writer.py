"""Converts directory objects to attributes of LDAP entries. [MS-MQDSSM] 3.1.6.1 and 3.1.6.7."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msmq.directory.ldap.entries.attribute_mapping import CLASSES, MappedAttribute
from msmq.directory.ldap.entries.entry_reader import REMOTE_ACCESS, ROUTES, SERVER_BITS
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import QueueManagerObject, QueueObject

SERVICES: Final = frozenset(
    {
        "routing_server",
        "directory_server",
        "supporting_server",
        "directory_server_type",
        "remote_access_server",
    }
)
"""The attributes of a queue manager that are copied to its mSMQSettings."""

_SERVER_MASK: Final = sum(SERVER_BITS.values())


def packed(held: DirectoryObject, names: Collection[str], *, is_new: bool) -> dict[str, Sequence[bytes]]:
    """The LDAP values of attributes in the entry of an object; an empty sequence for no value.

    Attributes that other entries hold, or that refer to other entries, are left out.

    @param is_new: whether the entry is new; otherwise attributes that cannot be changed are left out.
    """
    columns = {
        name: column
        for name, column in CLASSES[type(held)].columns.items()
        if name in names and (is_new or column.is_changeable)
    }
    return _pack(held, columns)


def packed_for_computer(held: DirectoryObject, names: Collection[str]) -> dict[str, Sequence[bytes]]:
    """The LDAP values of attributes in the entry of the computer."""
    columns = {name: column for name, column in CLASSES[type(held)].of_computer.items() if name in names}
    return _pack(held, columns)


def service_type(held: QueueManagerObject, names: Collection[str], before: int) -> int:
    """Compute mSMQServiceType; only the bits of the given attributes change. [MS-MQDSSM] 3.1.6.1.1.5.

    @param before: the previous value; 0 for a new entry.
    """
    value = before
    if "routing_server" in names:
        value = value & ~ROUTES | (ROUTES if held.routing_server else 0)
    if "remote_access_server" in names:
        value = value & ~REMOTE_ACCESS | (REMOTE_ACCESS if held.remote_access_server else 0)
    if not SERVICES.isdisjoint(names) and {"directory_server", "directory_server_type"} & set(names):
        value &= ~_SERVER_MASK
        if held.directory_server and held.directory_server_type is not None:
            value |= SERVER_BITS.get(held.directory_server_type, 0)
    return value


def security_flags(descriptor: bytes) -> int:
    """The parts that a security descriptor has ([MS-DTYP] 2.4.6): 1 owner, 2 group, 4 DACL, 8 SACL."""
    if len(descriptor) < 20:
        return 0
    offsets = [int.from_bytes(descriptor[place : place + 4], "little") for place in (4, 8, 16, 12)]
    return sum(1 << bit for bit, offset in enumerate(offsets) if offset)


def path_parts(queue: QueueObject) -> tuple[str, str]:
    """The computer and the queue of a Pathname."""
    computer, _, name = queue.pathname.partition("\\")
    return computer, name


def _pack(held: DirectoryObject, columns: Mapping[str, MappedAttribute]) -> dict[str, Sequence[bytes]]:
    found: dict[str, Sequence[bytes]] = {}
    for name, column in columns.items():
        value: Any = getattr(held, name)
        found[column.attribute] = () if value is None else column.syntax.pack(value)
    return found
