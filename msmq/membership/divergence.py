"""Divergence of a directory object from the queue manager's own object, and the policy for it.

[MS-MQDMPR] 3.1.7.1.25 adopts every value of the directory.  A directory has more writers than the queue
manager: a change there that loosens a queue (authentication, encryption or journaling off, a smaller quota, a
wider list) is not adopted unless the configuration allows it, and reported in both cases.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError
from msmq.membership.objects import NO_KEYS, QueueManagerObject, QueueObject
from msmq.membership.rights import (
    CONTROL_ACCESS,
    DENYING,
    MESSAGE_RIGHTS,
    PEEK,
    RECEIVE,
    RECEIVE_JOURNAL,
    SEND,
    from_directory,
    is_untranslated,
    lists_rights,
    named_entries,
)
from msmq.membership.rights_change import message_entries
from msmq.persistence.definition import QueuePrivacy
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceFlags, Acl
from msmq.windows.well_known_sids import ADMINISTRATORS, LOCAL_SYSTEM, domain_of, sid_text

MOST_DIFFERENCES: Final = 20
"""Limit on reported differences of one access list; the first ones are reported."""


class DirectoryChanges(enum.Enum):
    """Policy for changes that others make to the queue manager's objects in the directory."""

    KEEP = "keep"
    FOLLOW = "follow"


@attrs.frozen
class Divergence:
    """Attribute whose values in the directory and in the queue manager differ.

    @ivar name: of the attribute.
    @ivar here: its local value, C{there} the value in the directory; readable texts.
    @ivar is_kept: whether the value of the queue manager stays in effect.
    """

    name: str
    here: str
    there: str
    is_kept: bool

    def __str__(self) -> str:
        if self.is_kept:
            return f"{self.name} is {self.there} in the directory; {self.here} stays in effect here"
        return f"{self.name} is {self.there} from now on, as in the directory; it was {self.here}"


def _is_turned_off(here: Any, there: Any) -> bool:
    return bool(here) and not there


def _is_smaller(here: Any, there: Any) -> bool:
    return bool(there < here)


def _is_weaker(here: Any, there: Any) -> bool:
    return here is QueuePrivacy.BODY and there is not QueuePrivacy.BODY


_LOOSENS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "authentication": _is_turned_off,
    "journaling": _is_turned_off,
    "privacy_level": _is_weaker,
    "quota": _is_smaller,
    "journal_quota": _is_smaller,
}
"""Queue attributes whose change from the first to the second value loosens the queue."""

_IDENTITY: Final = ("pathname", "transactional")
"""Attributes that are fixed at creation, and never adopted from the directory."""

_KEYS: Final = ("public_encryption_key_list", "public_signing_key_list")

_UNREPORTED: Final = frozenset({"create_time", "modify_time", "full_path", "directory_path", "security"})
"""Attributes that the directory sets itself, or that are reported entry by entry."""


_NO_LIST: Final = Divergence(
    "the list", "the list of the queue", "without any right to messages", is_kept=True
)


def take_over_queue(
    held: QueueObject, found: QueueObject, changes: DirectoryChanges
) -> tuple[QueueObject, tuple[Divergence, ...]]:
    """Merge a queue with its directory object; returns the result and the differences.

    @param held: the local object.
    @param found: the directory's object, with the identity of C{held} where it was not read.
    """
    kept = {
        name: getattr(held, name)
        for name in _IDENTITY
        if _folded(getattr(held, name)) != _folded(getattr(found, name))
    }
    if changes is DirectoryChanges.KEEP:
        kept |= {
            name: getattr(held, name)
            for name, loosens in _LOOSENS.items()
            if loosens(getattr(held, name), getattr(found, name))
        }
    differences = _differences(held, found, kept)
    if _has_list(held.security) and not _has_list(found.security):
        kept["security"] = held.security
        differences += (_NO_LIST,)
    # The directory does not preserve the case of names.
    same = {"pathname": held.pathname, "transactional": held.transactional}
    return attrs.evolve(found, **{**kept, **same}), differences


def take_over_queue_manager(
    held: QueueManagerObject, found: QueueManagerObject
) -> tuple[QueueManagerObject, tuple[Divergence, ...]]:
    """Merge the queue manager's own object with its directory object.

    The public keys are those whose private keys the queue manager has. The directory decides all other
    values, quotas included: no command of the queue manager changes them.
    """
    kept: dict[str, Any] = {
        name: getattr(held, name)
        for name in _KEYS
        if getattr(held, name) not in (NO_KEYS, getattr(found, name))
    }
    return attrs.evolve(found, **kept), _differences(held, found, kept)


def has_other_keys(differences: tuple[Divergence, ...]) -> bool:
    """Whether the directory's public keys differ from the queue manager's, which are then rewritten."""
    return any(each.name in _KEYS for each in differences)


def _differences(held: Any, found: Any, kept: Mapping[str, Any]) -> tuple[Divergence, ...]:
    differences = []
    for field in attrs.fields(type(held)):
        name = field.name
        here, there = getattr(held, name), getattr(found, name)
        if name not in _UNREPORTED and _folded(here) != _folded(there):
            differences.append(Divergence(name, _shown(name, here), _shown(name, there), name in kept))
    return tuple(differences)


def _has_list(security: bytes) -> bool:
    try:
        found = SecurityDescriptor.from_bytes(security)
    except RemoteProtocolError:
        return False
    return lists_rights(found) or is_untranslated(found)


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _shown(name: str, value: Any) -> str:
    if name in _KEYS:
        return "no key" if value == NO_KEYS else "another list of keys"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f'"{value[:100]}"' if isinstance(value, str) else str(value)


# Lists

_RIGHTS: Final[Mapping[UUID | None, str]] = {
    RECEIVE: "receive",
    PEEK: "peek",
    SEND: "send",
    RECEIVE_JOURNAL: "receive-journal",
}
"""Control access rights, as C{msmq access} names them."""


def list_divergence(own: SecurityDescriptor, found: SecurityDescriptor) -> tuple[str, ...]:
    """Differences between the message rights in a queue's directory object and in the queue's access list.

    Entries of the domain's administrators and of the system are ignored.

    @param found: a security descriptor of a directory that lists rights.
    @return: one text per difference; rights that only the directory allows come first.
    """
    here = set(message_entries(own))
    there = {_bare(ace) for ace in named_entries(found)}
    texts = [
        f"the directory {verb} {right} {preposition} {sid_text(sid)}, and the list of the queue does not"
        for verb, preposition, right, sid in _rights_of_entries(there - here)
    ]
    texts += [
        f"the list of the queue {verb} {right} {preposition} {sid_text(sid)}, and the directory does not"
        for verb, preposition, right, sid in _rights_of_entries(here - there)
    ]
    texts = [
        f"the directory allows every right to messages to {sid_text(ace.sid)} by an entry without a right"
        for ace in _sweeping(found)
    ] + texts
    return tuple(texts[:MOST_DIFFERENCES])


def _bare(ace: Ace) -> Ace:
    return attrs.evolve(ace, mask=CONTROL_ACCESS, flags=0, inherited_object_type=None)


def _rights_of_entries(entries: set[Ace]) -> list[tuple[str, str, str, bytes]]:
    rights = []
    for ace in sorted(entries, key=lambda each: (each.type in DENYING, each.sid, str(each.object_type))):
        right = _RIGHTS[ace.object_type]
        is_denial = ace.type in DENYING
        rights.append(("denies" if is_denial else "allows", "to", right, ace.sid))
    return rights


def _sweeping(found: SecurityDescriptor) -> list[Ace]:
    """Entries of the object itself that allow all message rights to non-administrators."""
    aces = () if found.dacl is None else found.dacl.aces
    return [
        ace
        for ace in aces
        if isinstance(ace, Ace)
        and ace.object_type is None
        and not ace.flags & AceFlags.INHERITED
        and not _is_administrator(ace.sid)
        and _allows_messages(found, ace)
    ]


def _allows_messages(found: SecurityDescriptor, ace: Ace) -> bool:
    alone = from_directory(attrs.evolve(found, dacl=Acl((ace,))))
    return alone.dacl is not None and any(
        isinstance(each, Ace) and each.type not in DENYING and each.mask & MESSAGE_RIGHTS == MESSAGE_RIGHTS
        for each in alone.dacl.aces
    )


_ADMINISTRATIVE_RIDS: Final = frozenset({512, 519})
"""Domain Admins and Enterprise Admins ([MS-ADTS] 6.1.1.6)."""


def _is_administrator(sid: bytes) -> bool:
    is_of_domain = domain_of(sid) is not None and int.from_bytes(sid[-4:], "little") in _ADMINISTRATIVE_RIDS
    return is_of_domain or sid in (LOCAL_SYSTEM, ADMINISTRATORS)
