"""Update of a queue's security descriptor in the directory after an access list change. [MS-ADTS] 5.1.3.2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.membership.rights import (
    ALLOWED_BY,
    CONTROL_ACCESS,
    DELETE_JOURNAL,
    DELETE_MESSAGE,
    DENIED_BY,
    DENYING,
    GENERIC,
    MESSAGE_RIGHTS,
    OBJECT_RIGHTS,
    PEEK_MESSAGE,
    PLAIN_OF,
    deciding,
    depends_on_the_object,
    lists_rights,
)
from msmq.windows.access_masks import QUEUE_KIND
from msmq.windows.security_descriptor import SecurityDescriptor, allow
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, AnyAce
from msmq.windows.well_known_sids import EVERYONE, sid_text

_OBJECT_OF: Final = {
    AceType.ACCESS_ALLOWED: AceType.ACCESS_ALLOWED_OBJECT,
    AceType.ACCESS_DENIED: AceType.ACCESS_DENIED_OBJECT,
}
_MOST_BYTES: Final = 0xFFFF

_WRITTEN: Final = CONTROL_ACCESS | sum(of_object for _, of_object in OBJECT_RIGHTS)


def to_directory(
    present: SecurityDescriptor,
    before: SecurityDescriptor | None,
    after: SecurityDescriptor,
    about: bytes | None = None,
) -> SecurityDescriptor:
    """Compute the descriptor of a queue's directory object after its access list has changed.

    Entries of others stay, and so do audits, inherited entries and the owner.  Only what the change adds or
    removes is written, and the whole list if the directory has none yet.  A right to the object itself is
    written only for an account that the change gives it to: what a queue manager allows by default does not
    become a right to change the directory.

    @param present: the descriptor in the directory.
    @param before: the previous access list of the queue; C{None} to write all of the new one.
    @param after: its new access list.
    @param about: the SID that the change concerns: missing message rights of the new list are added, and all
        of its message rights are removed if the new list does not name it.
    @raise LocalProtocolError: the new list cannot be expressed, or the object has a denial for the account
        of the change with a condition on its attributes; names the entry and the remedy.
    """
    if present.dacl is None:
        raise LocalProtocolError(
            "the object in the directory has no access control list, so every account has every right to "
            "it; create the list there first"
        )
    if about is not None and any(
        ace.sid == about and ace.type in DENYING and depends_on_the_object(ace) for ace in deciding(present)
    ):
        # Read without its condition, it would be written so too.
        raise LocalProtocolError(
            f"the object in the directory has a denial for {sid_text(about)} whose condition depends on its"
            " attributes, which are not read; change that entry there first"
        )
    had = () if before is None else _listed(before)
    given = _listed(after)
    old, new = set(_message_entries(had, lenient=True)), _message_entries(given)
    if lists_rights(present):
        wanted = [entry for entry in new if entry not in old or entry.sid == about]
    else:
        wanted = list(new)
    dropped = old - set(new)
    there: Iterable[AnyAce] = present.dacl.aces
    if about is not None and not any(ace.sid == about for ace in given):
        there = _without_messages(there, about)
    wanted += _gained(had, given)
    kept = list(_without(there, {*dropped, *_gained(given, had)}))
    missing = _joined(entry for entry in dict.fromkeys(wanted) if not _is_present(entry, kept))
    denials = [entry for entry in missing if entry.type in DENYING]
    grants = [entry for entry in missing if entry.type not in DENYING]
    own_end = next((at for at, ace in enumerate(kept) if ace.flags & AceFlags.INHERITED), len(kept))
    first_grant = next(
        (at for at, ace in enumerate(kept[:own_end]) if not (isinstance(ace, Ace) and ace.type in DENYING)),
        own_end,
    )
    aces = (*kept[:first_grant], *denials, *kept[first_grant:own_end], *grants, *kept[own_end:])
    if sum(len(ace.to_bytes()) for ace in aces) > _MOST_BYTES - 8:
        raise LocalProtocolError(
            f"{len(aces)} entries are more than the list of an object can hold; allow groups instead of "
            f"accounts"
        )
    return attrs.evolve(present, dacl=Acl(aces))


def _joined(entries: Iterable[Ace]) -> list[Ace]:
    """Merge the entries for the object itself into one per account."""
    joined: dict[tuple[AceType, bytes, UUID | None], Ace] = {}
    for entry in entries:
        key = entry.type, entry.sid, entry.object_type
        former = joined.get(key)
        joined[key] = entry if former is None else attrs.evolve(former, mask=former.mask | entry.mask)
    return list(joined.values())


def message_entries(listed: SecurityDescriptor) -> list[Ace]:
    """The entries of a queue's object for the rights to messages in the list of the queue.

    Rights that a directory cannot express are left out.
    """
    return _message_entries(_listed(listed), lenient=True)


def _listed(descriptor: SecurityDescriptor) -> tuple[Ace, ...]:
    """The entries of a queue's list that allow or deny, with rights of L{QueueAccess}."""
    if descriptor.dacl is None:
        return (allow(EVERYONE, QUEUE_KIND.every_right),)
    return tuple(
        attrs.evolve(ace, mask=QUEUE_KIND.mapping.specific(ace.mask), flags=0)
        for ace in deciding(descriptor)
        if ace.type in PLAIN_OF and not ace.is_object
    )


def _message_entries(listed: Iterable[Ace], *, lenient: bool = False) -> list[Ace]:
    """The object entries for the rights to messages.

    @param lenient: leave out entries that cannot be expressed.
    """
    entries: list[Ace] = []
    has_grant = False
    for index, ace in enumerate(listed, 1):
        object_type = _OBJECT_OF.get(ace.type)
        is_denial = ace.type in DENYING
        if not lenient:
            _check_expressible(index, ace, is_behind_grant=has_grant and is_denial)
        has_grant |= not is_denial
        if object_type is None:
            continue
        meaning = DENIED_BY if is_denial else ALLOWED_BY
        for right, mask in meaning.items():
            if ace.mask & mask == mask:
                entries.append(Ace(object_type, CONTROL_ACCESS, ace.sid, object_type=right))
    return entries


def _check_expressible(index: int, ace: Ace, *, is_behind_grant: bool) -> None:
    shown = f"entry {index}, about {sid_text(ace.sid)},"
    if ace.type not in _OBJECT_OF:
        raise LocalProtocolError(
            f"{shown} has a condition, which a directory does not evaluate; use a group instead"
        )
    if is_behind_grant:
        raise LocalProtocolError(
            f"{shown} denies behind an entry that allows, and a directory has denials first; put it first"
        )
    takes = ace.mask & (DELETE_MESSAGE | DELETE_JOURNAL)
    if ace.type is AceType.ACCESS_ALLOWED and takes and not ace.mask & PEEK_MESSAGE:
        raise LocalProtocolError(
            f"{shown} allows {', '.join(QUEUE_KIND.words_of(takes))} without peek, for which a directory has"
            " no right; allow receive or receive-journal, or revoke the entry"
        )


def _gained(had: Iterable[Ace], given: Iterable[Ace]) -> list[Ace]:
    """Plain entries for the rights to the object that the accounts have in the second list only."""
    before = _object_rights(had)
    entries = []
    for (kind, sid), rights in _object_rights(given).items():
        gained = rights & ~before.get((kind, sid), 0)
        for right, of_object in OBJECT_RIGHTS:
            if gained & right:
                entries.append(Ace(kind, of_object, sid))
    return entries


def _object_rights(listed: Iterable[Ace]) -> dict[tuple[AceType, bytes], int]:
    rights: dict[tuple[AceType, bytes], int] = {}
    for ace in listed:
        if ace.type in _OBJECT_OF:
            key = ace.type, ace.sid
            rights[key] = rights.get(key, 0) | ace.mask & ~MESSAGE_RIGHTS
    return {key: mask for key, mask in rights.items() if mask}


def _without_messages(aces: Iterable[AnyAce], sid: bytes) -> Iterator[AnyAce]:
    """The entries of the object itself without the rights to messages that name an account.

    This also removes entries of other writers for all control access rights, or for this object and its
    descendants.
    A full control entry stays, and is reported as a difference.
    """
    for ace in aces:
        if isinstance(ace, Ace) and ace.sid == sid and _is_about_messages(ace):
            mask = GENERIC.specific(ace.mask) & ~CONTROL_ACCESS
            if not mask:
                continue
            ace = attrs.evolve(ace, mask=mask)
        yield ace


def _is_about_messages(ace: Ace) -> bool:
    mask = GENERIC.specific(ace.mask)
    if ace.type not in PLAIN_OF or ace.flags & (AceFlags.INHERITED | AceFlags.INHERIT_ONLY):
        return False
    if ace.object_type is None:
        return ace.type not in DENYING and bool(mask & CONTROL_ACCESS) and not mask & ~_WRITTEN
    return ace.object_type in ALLOWED_BY and bool(mask & CONTROL_ACCESS)


def _without(aces: Iterable[AnyAce], dropped: Iterable[Ace]) -> Iterator[AnyAce]:
    """The entries without those rights; an entry of another writer keeps its other rights."""
    gone = tuple(dropped)
    for ace in aces:
        if isinstance(ace, Ace) and not ace.flags:
            lost = 0
            for entry in gone:
                if _is_same(ace, entry):
                    lost |= entry.mask
            # A plain entry with more than queue rights was written by others, and stays whole.
            if lost and not ace.mask & ~_WRITTEN:
                ace = attrs.evolve(ace, mask=ace.mask & ~lost)
                if not ace.mask:
                    continue
        yield ace


def _is_present(entry: Ace, aces: Iterable[AnyAce]) -> bool:
    return any(
        isinstance(ace, Ace)
        and not ace.flags
        and _is_same(ace, entry)
        and GENERIC.specific(ace.mask) & entry.mask == entry.mask
        for ace in aces
    )


def _is_same(ace: Ace, entry: Ace) -> bool:
    """Whether two entries are of one kind for the same account and part of an object."""
    return (
        PLAIN_OF.get(ace.type) is PLAIN_OF[entry.type]
        and ace.sid == entry.sid
        and ace.object_type == entry.object_type
        and not ace.data
        and ace.inherited_object_type is None
    )
