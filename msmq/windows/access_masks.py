"""Access masks: the rights to queues, queue managers, sites. [MS-MQMQ] 2.2.23 to 2.2.27 and [MS-DTYP] 2.4.3.

The document adds up the parts of its composite rights; where two parts share a bit (the queue's peek) the sum
would be another right, so the parts are combined with a bitwise OR here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from typing import Final

import attrs

from msmq.quoting import quoted


class AccessMask(enum.IntFlag):
    """ACCESS_MASK: standard and generic rights, which have the same bits for every object. [MS-DTYP] 2.4.3.

    The generic rights (its first four bits) stand for specific ones, by the L{GenericMapping} of the object's
    kind.
    """

    DELETE = 0x00010000
    READ_CONTROL = 0x00020000
    WRITE_DAC = 0x00040000
    WRITE_OWNER = 0x00080000
    SYNCHRONIZE = 0x00100000
    ACCESS_SYSTEM_SECURITY = 0x01000000
    MAXIMUM_ALLOWED = 0x02000000
    GENERIC_ALL = 0x10000000
    GENERIC_EXECUTE = 0x20000000
    GENERIC_WRITE = 0x40000000
    GENERIC_READ = 0x80000000


class QueueManagerAccess(enum.IntFlag):
    """MQQMACCESSMASK: rights to a queue manager. [MS-MQMQ] 2.2.23."""

    MQSEC_DELETE_DEADLETTER_MESSAGE = 0x00000001
    MQSEC_PEEK_DEADLETTER_MESSAGE = 0x00000002
    MQSEC_CREATE_QUEUE = 0x00000004
    MQSEC_SET_MACHINE_PROPERTIES = 0x00000010
    MQSEC_GET_MACHINE_PROPERTIES = 0x00000020
    MQSEC_DELETE_JOURNAL_QUEUE_MESSAGE = 0x00000040
    MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE = 0x00000080
    MQSEC_DELETE_MACHINE = 0x00010000
    MQSEC_GET_MACHINE_PERMISSIONS = 0x00020000
    MQSEC_CHANGE_MACHINE_PERMISSIONS = 0x00040000
    MQSEC_TAKE_MACHINE_OWNERSHIP = 0x00080000
    MQSEC_RECEIVE_DEADLETTER_MESSAGE = MQSEC_DELETE_DEADLETTER_MESSAGE | MQSEC_PEEK_DEADLETTER_MESSAGE
    MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE = (
        MQSEC_DELETE_JOURNAL_QUEUE_MESSAGE | MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE
    )
    MQSEC_MACHINE_GENERIC_READ = (
        MQSEC_GET_MACHINE_PROPERTIES
        | MQSEC_GET_MACHINE_PERMISSIONS
        | MQSEC_RECEIVE_DEADLETTER_MESSAGE
        | MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE
    )
    MQSEC_MACHINE_GENERIC_WRITE = (
        MQSEC_GET_MACHINE_PROPERTIES | MQSEC_GET_MACHINE_PERMISSIONS | MQSEC_CREATE_QUEUE
    )
    MQSEC_MACHINE_GENERIC_ALL = (
        MQSEC_RECEIVE_DEADLETTER_MESSAGE
        | MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE
        | MQSEC_CREATE_QUEUE
        | MQSEC_SET_MACHINE_PROPERTIES
        | MQSEC_GET_MACHINE_PROPERTIES
        | MQSEC_DELETE_MACHINE
        | MQSEC_GET_MACHINE_PERMISSIONS
        | MQSEC_CHANGE_MACHINE_PERMISSIONS
        | MQSEC_TAKE_MACHINE_OWNERSHIP
    )
    MQSEC_MACHINE_WORLD_RIGHTS = MQSEC_GET_MACHINE_PROPERTIES | MQSEC_GET_MACHINE_PERMISSIONS


class QueueAccess(enum.IntFlag):
    """MQQUEUEACCESSMASK: rights to a queue. [MS-MQMQ] 2.2.24."""

    MQSEC_DELETE_MESSAGE = 0x00000001
    MQSEC_PEEK_MESSAGE = 0x00000002
    MQSEC_WRITE_MESSAGE = 0x00000004
    MQSEC_DELETE_JOURNAL_MESSAGE = 0x00000008
    MQSEC_SET_QUEUE_PROPERTIES = 0x00000010
    MQSEC_GET_QUEUE_PROPERTIES = 0x00000020
    MQSEC_DELETE_QUEUE = 0x00010000
    MQSEC_GET_QUEUE_PERMISSIONS = 0x00020000
    MQSEC_CHANGE_QUEUE_PERMISSIONS = 0x00040000
    MQSEC_TAKE_QUEUE_OWNERSHIP = 0x00080000
    MQSEC_RECEIVE_MESSAGE = MQSEC_DELETE_MESSAGE | MQSEC_PEEK_MESSAGE
    MQSEC_RECEIVE_JOURNAL_MESSAGE = MQSEC_DELETE_JOURNAL_MESSAGE | MQSEC_PEEK_MESSAGE
    MQSEC_QUEUE_GENERIC_READ = (
        MQSEC_GET_QUEUE_PROPERTIES
        | MQSEC_GET_QUEUE_PERMISSIONS
        | MQSEC_RECEIVE_MESSAGE
        | MQSEC_RECEIVE_JOURNAL_MESSAGE
    )
    MQSEC_QUEUE_GENERIC_WRITE = MQSEC_GET_QUEUE_PROPERTIES | MQSEC_GET_QUEUE_PERMISSIONS | MQSEC_WRITE_MESSAGE
    MQSEC_QUEUE_GENERIC_ALL = (
        MQSEC_RECEIVE_MESSAGE
        | MQSEC_RECEIVE_JOURNAL_MESSAGE
        | MQSEC_WRITE_MESSAGE
        | MQSEC_SET_QUEUE_PROPERTIES
        | MQSEC_GET_QUEUE_PROPERTIES
        | MQSEC_DELETE_QUEUE
        | MQSEC_GET_QUEUE_PERMISSIONS
        | MQSEC_CHANGE_QUEUE_PERMISSIONS
        | MQSEC_TAKE_QUEUE_OWNERSHIP
    )


class SiteAccess(enum.IntFlag):
    """MQSITEACCESSMASK: rights to a site. [MS-MQMQ] 2.2.25."""

    MQSEC_CREATE_FRS = 0x00000001
    MQSEC_CREATE_BSC = 0x00000002
    MQSEC_CREATE_MACHINE = 0x00000004
    MQSEC_SET_SITE_PROPERTIES = 0x00000010
    MQSEC_GET_SITE_PROPERTIES = 0x00000020
    MQSEC_DELETE_SITE = 0x00010000
    MQSEC_GET_SITE_PERMISSIONS = 0x00020000
    MQSEC_CHANGE_SITE_PERMISSIONS = 0x00040000
    MQSEC_TAKE_SITE_OWNERSHIP = 0x00080000
    MQSEC_SITE_GENERIC_READ = MQSEC_GET_SITE_PROPERTIES | MQSEC_GET_SITE_PERMISSIONS
    MQSEC_SITE_GENERIC_WRITE = MQSEC_GET_SITE_PROPERTIES | MQSEC_GET_SITE_PERMISSIONS | MQSEC_CREATE_MACHINE
    MQSEC_SITE_GENERIC_ALL = (
        MQSEC_CREATE_FRS
        | MQSEC_CREATE_BSC
        | MQSEC_CREATE_MACHINE
        | MQSEC_SET_SITE_PROPERTIES
        | MQSEC_GET_SITE_PROPERTIES
        | MQSEC_DELETE_SITE
        | MQSEC_GET_SITE_PERMISSIONS
        | MQSEC_CHANGE_SITE_PERMISSIONS
        | MQSEC_TAKE_SITE_OWNERSHIP
    )


class EnterpriseAccess(enum.IntFlag):
    """MQENTACCESSMASK: rights to an enterprise. [MS-MQMQ] 2.2.26."""

    MQSEC_CREATE_USER = 0x00000001
    MQSEC_CREATE_SITE = 0x00000002
    MQSEC_CREATE_CN = 0x00000004
    MQSEC_SET_ENTERPRISE_PROPERTIES = 0x00000010
    MQSEC_GET_ENTERPRISE_PROPERTIES = 0x00000020
    MQSEC_DELETE_ENTERPRISE = 0x00010000
    MQSEC_GET_ENTERPRISE_PERMISSIONS = 0x00020000
    MQSEC_CHANGE_ENTERPRISE_PERMISSIONS = 0x00040000
    MQSEC_TAKE_ENTERPRISE_OWNERSHIP = 0x00080000
    MQSEC_ENTERPRISE_GENERIC_READ = (
        MQSEC_CREATE_USER | MQSEC_GET_ENTERPRISE_PROPERTIES | MQSEC_GET_ENTERPRISE_PERMISSIONS
    )
    MQSEC_ENTERPRISE_GENERIC_WRITE = (
        MQSEC_CREATE_USER
        | MQSEC_GET_ENTERPRISE_PROPERTIES
        | MQSEC_GET_ENTERPRISE_PERMISSIONS
        | MQSEC_CREATE_SITE
        | MQSEC_CREATE_CN
    )
    MQSEC_ENTERPRISE_GENERIC_ALL = (
        MQSEC_CREATE_USER
        | MQSEC_CREATE_CN
        | MQSEC_CREATE_SITE
        | MQSEC_SET_ENTERPRISE_PROPERTIES
        | MQSEC_GET_ENTERPRISE_PROPERTIES
        | MQSEC_DELETE_ENTERPRISE
        | MQSEC_GET_ENTERPRISE_PERMISSIONS
        | MQSEC_CHANGE_ENTERPRISE_PERMISSIONS
        | MQSEC_TAKE_ENTERPRISE_OWNERSHIP
    )


class ConnectedNetworkAccess(enum.IntFlag):
    """MQCNACCESSMASK: rights to a connected network; the last name lacks its MQ. [MS-MQMQ] 2.2.27."""

    MQSEC_CN_OPEN_CONNECTOR = 0x00000001
    MQSEC_SET_CN_PROPERTIES = 0x00000010
    MQSEC_GET_CN_PROPERTIES = 0x00000020
    MQSEC_DELETE_CN = 0x00010000
    MQSEC_GET_CN_PERMISSIONS = 0x00020000
    MQSEC_CHANGE_CN_PERMISSIONS = 0x00040000
    MQSEC_TAKE_CN_OWNERSHIP = 0x00080000
    MQSEC_CN_GENERIC_READ = MQSEC_GET_CN_PROPERTIES | MQSEC_GET_CN_PERMISSIONS
    SEC_CN_GENERIC_ALL = (
        MQSEC_CN_OPEN_CONNECTOR
        | MQSEC_SET_CN_PROPERTIES
        | MQSEC_GET_CN_PROPERTIES
        | MQSEC_DELETE_CN
        | MQSEC_GET_CN_PERMISSIONS
        | MQSEC_CHANGE_CN_PERMISSIONS
        | MQSEC_TAKE_CN_OWNERSHIP
    )


@attrs.frozen
class GenericMapping:
    """The specific rights that the generic ones stand for, for one kind of object. [MS-DTYP] 2.4.3."""

    # Plain numbers: the arithmetic of flags costs ten times as much, and every message is checked.
    generic_read: int
    generic_write: int
    generic_execute: int
    generic_all: int

    def specific(self, mask: int) -> int:
        """C{mask} with its generic rights replaced by the specific rights that they stand for."""
        mask = int(mask)
        if not mask & _GENERIC:
            return mask
        mapped = mask & ~_GENERIC
        for right, meaning in zip(
            _GENERIC_RIGHTS,
            (self.generic_read, self.generic_write, self.generic_execute, self.generic_all),
            strict=True,
        ):
            if mask & right:
                mapped |= meaning
        return mapped


_GENERIC_RIGHTS: Final = tuple(
    int(right)
    for right in (
        AccessMask.GENERIC_READ,
        AccessMask.GENERIC_WRITE,
        AccessMask.GENERIC_EXECUTE,
        AccessMask.GENERIC_ALL,
    )
)
_GENERIC: Final = sum(_GENERIC_RIGHTS)


@attrs.frozen
class ObjectKind:
    """A kind of object that descriptors protect.

    @ivar name: for error texts, C{queue} for example.
    @ivar rights: the rights to an object of this kind.
    @ivar mapping: what generic rights stand for.
    @ivar words: short names of rights, for operators; composite rights come before their parts.
    """

    name: str
    rights: type[enum.IntFlag]
    mapping: GenericMapping
    words: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def every_right(self) -> int:
        """All of its rights together."""
        return self.mapping.generic_all

    def names(self, mask: int) -> str:
        """The names of the rights in a mask, as the document has them; composites where they cover the bits.

        Bits that are no right to such an object are given as a number.
        """
        specific = self.mapping.specific(mask)
        for name, member in self.rights.__members__.items():
            if specific == member:
                return name
        names = []
        rest = specific
        for right, name in (*_single(self.rights), *_single(AccessMask)):
            if rest & right:
                names.append(name)
                rest &= ~right
        if rest or not names:
            names.append(f"0x{rest:08X}")
        return " | ".join(names)

    def parse(self, text: str) -> int:
        """The right with this short name, or with this name of the document.

        @raise ValueError: there is no such right; the text lists the known ones.
        """
        word = text.strip().casefold().replace(" ", "-").replace("_", "-")
        if word in self.words:
            return self.words[word]
        if text in self.rights.__members__:
            return int(self.rights[text])
        raise ValueError(f"{quoted(text)} is not a right to a {self.name}, which are {', '.join(self.words)}")

    def words_of(self, mask: int) -> list[str]:
        """The rights in a mask by their short names, as few as possible; other bits are given as a number.

        Two rights may share a bit, as those to receive from a queue and from its journal share peek.
        """
        rest = granted = self.mapping.specific(mask)
        found = []
        for word, right in self.words.items():
            if rest & right and granted & right == right:
                found.append(word)
                rest &= ~right
        return [*found, f"0x{rest:x}"] if rest else found


@cache
def _single(rights: type[enum.IntFlag]) -> tuple[tuple[int, str], ...]:
    """The rights that are not composite, as numbers, with their names."""
    return tuple((int(member), str(member.name)) for member in rights)


def _kind(
    name: str,
    rights: type[enum.IntFlag],
    read: int,
    write: int,
    everything: int,
    words: Mapping[str, int] | None = None,
) -> ObjectKind:
    mapping = GenericMapping(int(read), int(write), 0, int(everything))
    said = {word: int(right) for word, right in (words or {}).items()}
    return ObjectKind(name, rights, mapping, said)


QUEUE_MANAGER_KIND: Final = _kind(
    "queue manager",
    QueueManagerAccess,
    QueueManagerAccess.MQSEC_MACHINE_GENERIC_READ,
    QueueManagerAccess.MQSEC_MACHINE_GENERIC_WRITE,
    QueueManagerAccess.MQSEC_MACHINE_GENERIC_ALL,
    {
        "all": QueueManagerAccess.MQSEC_MACHINE_GENERIC_ALL,
        "receive-dead-letters": QueueManagerAccess.MQSEC_RECEIVE_DEADLETTER_MESSAGE,
        "receive-journal": QueueManagerAccess.MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE,
        "create-queue": QueueManagerAccess.MQSEC_CREATE_QUEUE,
        "peek-dead-letters": QueueManagerAccess.MQSEC_PEEK_DEADLETTER_MESSAGE,
        "delete-dead-letters": QueueManagerAccess.MQSEC_DELETE_DEADLETTER_MESSAGE,
        "peek-journal": QueueManagerAccess.MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE,
        "delete-journal": QueueManagerAccess.MQSEC_DELETE_JOURNAL_QUEUE_MESSAGE,
        "get-properties": QueueManagerAccess.MQSEC_GET_MACHINE_PROPERTIES,
        "set-properties": QueueManagerAccess.MQSEC_SET_MACHINE_PROPERTIES,
        "get-permissions": QueueManagerAccess.MQSEC_GET_MACHINE_PERMISSIONS,
        "set-permissions": QueueManagerAccess.MQSEC_CHANGE_MACHINE_PERMISSIONS,
        "take-ownership": QueueManagerAccess.MQSEC_TAKE_MACHINE_OWNERSHIP,
        "delete": QueueManagerAccess.MQSEC_DELETE_MACHINE,
    },
)
"""L{QueueManagerAccess}."""

QUEUE_KIND: Final = _kind(
    "queue",
    QueueAccess,
    QueueAccess.MQSEC_QUEUE_GENERIC_READ,
    QueueAccess.MQSEC_QUEUE_GENERIC_WRITE,
    QueueAccess.MQSEC_QUEUE_GENERIC_ALL,
    {
        "all": QueueAccess.MQSEC_QUEUE_GENERIC_ALL,
        "receive": QueueAccess.MQSEC_RECEIVE_MESSAGE,
        "send": QueueAccess.MQSEC_WRITE_MESSAGE,
        "receive-journal": QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE,
        "peek": QueueAccess.MQSEC_PEEK_MESSAGE,
        "delete-message": QueueAccess.MQSEC_DELETE_MESSAGE,
        "delete-journal-message": QueueAccess.MQSEC_DELETE_JOURNAL_MESSAGE,
        "get-properties": QueueAccess.MQSEC_GET_QUEUE_PROPERTIES,
        "set-properties": QueueAccess.MQSEC_SET_QUEUE_PROPERTIES,
        "get-permissions": QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS,
        "set-permissions": QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS,
        "take-ownership": QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP,
        "delete": QueueAccess.MQSEC_DELETE_QUEUE,
    },
)
"""L{QueueAccess}."""

SITE_KIND: Final = _kind(
    "site",
    SiteAccess,
    SiteAccess.MQSEC_SITE_GENERIC_READ,
    SiteAccess.MQSEC_SITE_GENERIC_WRITE,
    SiteAccess.MQSEC_SITE_GENERIC_ALL,
)
"""L{SiteAccess}."""

ENTERPRISE_KIND: Final = _kind(
    "enterprise",
    EnterpriseAccess,
    EnterpriseAccess.MQSEC_ENTERPRISE_GENERIC_READ,
    EnterpriseAccess.MQSEC_ENTERPRISE_GENERIC_WRITE,
    EnterpriseAccess.MQSEC_ENTERPRISE_GENERIC_ALL,
)
"""L{EnterpriseAccess}."""

CONNECTED_NETWORK_KIND: Final = _kind(
    "connected network",
    ConnectedNetworkAccess,
    ConnectedNetworkAccess.MQSEC_CN_GENERIC_READ,
    ConnectedNetworkAccess.MQSEC_CN_GENERIC_READ,
    ConnectedNetworkAccess.SEC_CN_GENERIC_ALL,
)
"""L{ConnectedNetworkAccess}; there is no composite for writing, so generic write is that for reading."""
