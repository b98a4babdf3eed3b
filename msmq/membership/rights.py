"""Translation of queue access rights between MSMQ and directory objects. [MS-ADTS] 5.1.3.2.

[MS-MQDMPR] 3.1.1.2 gives the access masks of Security their values in MQQUEUEACCESSMASK, and [MS-MQDSSM]
3.1.6.1.2 copies Security into nTSecurityDescriptor, where [MS-ADTS] 5.1.3.2 gives the same bits other
meanings: 0x20 is the right to read the properties of a queue in MSMQ, and the right to write those of the
object in the directory.  So the masks are translated (docs/design/directory.md):

  - taking, looking at and sending messages are control access rights of [MS-ADTS] 6.1.1.2.7.14 to
    6.1.1.2.7.17, each an object entry with RIGHT_DS_CONTROL_ACCESS and the GUID of the right;
  - the rights to the object itself (its properties, its permissions, its owner, its deletion) are those of
    the directory with the same purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

import attrs

from msmq.windows.access_masks import QUEUE_KIND, AccessMask, GenericMapping, QueueAccess
from msmq.windows.conditions import Attribute, AttributeSource, read_condition
from msmq.windows.security_descriptor import SecurityDescriptor, allow
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, AnyAce
from msmq.windows.well_known_sids import AUTHENTICATED_USERS, LOCAL_SYSTEM, with_rid

RECEIVE: Final = UUID("06bd3200-df3e-11d1-9c86-006008764d0e")
"""Control access right msmq-Receive. [MS-ADTS] 6.1.1.2.7.14."""

PEEK: Final = UUID("06bd3201-df3e-11d1-9c86-006008764d0e")
"""Control access right msmq-Peek. [MS-ADTS] 6.1.1.2.7.15."""

SEND: Final = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")
"""Control access right msmq-Send. [MS-ADTS] 6.1.1.2.7.16."""

RECEIVE_JOURNAL: Final = UUID("06bd3203-df3e-11d1-9c86-006008764d0e")
"""Control access right msmq-Receive-journal. [MS-ADTS] 6.1.1.2.7.17."""

QUEUE_CLASS: Final = UUID("9a0dc343-c100-11d1-bbc5-0080c76670c0")
"""schemaIdGuid of mSMQQueue. [MS-ADSC] 2.166."""

READ_PROPERTY: Final = 0x10
WRITE_PROPERTY: Final = 0x20
CONTROL_ACCESS: Final = 0x100
"""RIGHT_DS_READ_PROPERTY, RIGHT_DS_WRITE_PROPERTY, RIGHT_DS_CONTROL_ACCESS. [MS-ADTS] 5.1.3.2."""

EVERY_DIRECTORY_RIGHT: Final = 0x000F01FF
"""RPWPCRCCDCLCLORCWOWDSDDTSW, as [MS-ADSC] writes it: every right that [MS-ADTS] 5.1.3.2 lists."""

_READ_CONTROL: Final = int(AccessMask.READ_CONTROL)
GENERIC: Final = GenericMapping(
    generic_read=_READ_CONTROL | 0x04 | READ_PROPERTY | 0x80,
    generic_write=_READ_CONTROL | WRITE_PROPERTY | 0x08,
    generic_execute=_READ_CONTROL | 0x04,
    generic_all=EVERY_DIRECTORY_RIGHT,
)
"""GR, GW, GX and GA of objects of a directory. [MS-ADTS] 5.1.3.2."""

DELETE_MESSAGE: Final = int(QueueAccess.MQSEC_DELETE_MESSAGE)
PEEK_MESSAGE: Final = int(QueueAccess.MQSEC_PEEK_MESSAGE)
WRITE_MESSAGE: Final = int(QueueAccess.MQSEC_WRITE_MESSAGE)
DELETE_JOURNAL: Final = int(QueueAccess.MQSEC_DELETE_JOURNAL_MESSAGE)

MESSAGE_RIGHTS: Final = DELETE_MESSAGE | PEEK_MESSAGE | WRITE_MESSAGE | DELETE_JOURNAL
"""Rights to the messages of a queue; unrelated to its object in the directory."""

ALLOWED_BY: Final[Mapping[UUID, int]] = {
    RECEIVE: DELETE_MESSAGE | PEEK_MESSAGE,
    PEEK: PEEK_MESSAGE,
    SEND: WRITE_MESSAGE,
    RECEIVE_JOURNAL: DELETE_JOURNAL | PEEK_MESSAGE,
}
"""Rights that each control access right allows; receiving messages includes peeking them
([MS-MQMQ] 2.2.24 MQSEC_RECEIVE_MESSAGE)."""

DENIED_BY: Final[Mapping[UUID, int]] = {
    RECEIVE: DELETE_MESSAGE,
    PEEK: PEEK_MESSAGE,
    SEND: WRITE_MESSAGE,
    RECEIVE_JOURNAL: DELETE_JOURNAL,
}
"""Rights that each one denies; denying receive permits peek ([MS-ADTS] 5.1.3.3.4 evaluates each right)."""

OBJECT_RIGHTS: Final = (
    (int(QueueAccess.MQSEC_SET_QUEUE_PROPERTIES), WRITE_PROPERTY),
    (int(QueueAccess.MQSEC_GET_QUEUE_PROPERTIES), READ_PROPERTY),
    (int(QueueAccess.MQSEC_DELETE_QUEUE), int(AccessMask.DELETE)),
    (int(QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS), _READ_CONTROL),
    (int(QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS), int(AccessMask.WRITE_DAC)),
    (int(QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP), int(AccessMask.WRITE_OWNER)),
)
"""Rights to the queue itself, and those to its object: [MS-MQDSSM] 5.1.2, [MS-ADTS] 5.1.3.2."""

DENYING: Final = frozenset(
    {
        AceType.ACCESS_DENIED,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
    }
)
_CONDITIONAL: Final = (AceType.ACCESS_ALLOWED_CALLBACK, AceType.ACCESS_DENIED_CALLBACK)
PLAIN_OF: Final = {
    AceType.ACCESS_ALLOWED: AceType.ACCESS_ALLOWED,
    AceType.ACCESS_DENIED: AceType.ACCESS_DENIED,
    AceType.ACCESS_ALLOWED_CALLBACK: AceType.ACCESS_ALLOWED_CALLBACK,
    AceType.ACCESS_DENIED_CALLBACK: AceType.ACCESS_DENIED_CALLBACK,
    AceType.ACCESS_ALLOWED_OBJECT: AceType.ACCESS_ALLOWED,
    AceType.ACCESS_DENIED_OBJECT: AceType.ACCESS_DENIED,
    AceType.ACCESS_ALLOWED_CALLBACK_OBJECT: AceType.ACCESS_ALLOWED_CALLBACK,
    AceType.ACCESS_DENIED_CALLBACK_OBJECT: AceType.ACCESS_DENIED_CALLBACK,
}
"""Types of allow and deny entries, and the same kind without an object type."""


def class_default(domain: bytes | None) -> SecurityDescriptor:
    """The defaultSecurityDescriptor of mSMQQueue. [MS-ADSC] 2.166.

    @param domain: the SID of the domain, whose administrators have an entry; C{None} if there is none.
    """
    aces = [allow(LOCAL_SYSTEM, EVERY_DIRECTORY_RIGHT), allow(AUTHENTICATED_USERS, 0x00020094)]
    if domain is not None:
        aces.insert(0, allow(with_rid(domain, 512), EVERY_DIRECTORY_RIGHT))
    return SecurityDescriptor(dacl=Acl(tuple(aces)))


# From a directory


def lists_rights(found: SecurityDescriptor) -> bool:
    """Whether a security descriptor of the directory governs access to the messages of a queue.

    It does if an entry of the object itself names a control access right of queues.  One that has nothing but
    what the class and the containers give every object does not: the queue manager's own list holds.
    """
    return any(True for _ in named_entries(found))


def is_untranslated(found: SecurityDescriptor) -> bool:
    """Whether an entry looks like one with the masks of MQQUEUEACCESSMASK, as earlier versions wrote them.

    These versions replaced the whole list, so that every entry of the object itself is a plain one with
    rights to a queue and no others; the class gives each object others.
    """
    own = [ace for ace in deciding(found) if not ace.flags & AceFlags.INHERITED]
    return bool(own) and all(
        ace.object_type is None
        and ace.type not in (AceType.ACCESS_ALLOWED_OBJECT, AceType.ACCESS_DENIED_OBJECT)
        and not ace.mask & ~QUEUE_KIND.every_right
        for ace in own
    )


def from_directory(found: SecurityDescriptor) -> SecurityDescriptor:
    """Convert the security descriptor of a directory object to that of its queue.

    An entry that applies to other objects only (inherit only, or of another class) allows nothing.  An entry
    for one attribute or property set, or with an unknown GUID, allows nothing on the object, and denies it as
    a whole ([MS-ADTS] 5.1.3.3.3: a denial for a part denies the object).
    The same holds for an entry whose condition depends on the attributes of the object, which are in its SACL
    and are not read.
    Entries without a meaning for queues, such as audits, are left out.

    @return: with rights of L{QueueAccess} and the owner that the directory has.
    """
    if found.dacl is None:
        return SecurityDescriptor(found.owner, found.group)
    aces: list[Ace] = []
    for ace in deciding(found):
        mask = _rights_of(ace)
        kind, condition = PLAIN_OF[ace.type], ace.data
        if depends_on_the_object(ace):
            if kind not in DENYING:
                continue
            kind, condition = AceType.ACCESS_DENIED, b""
        if mask:
            _append(aces, Ace(kind, mask, ace.sid, data=condition))
    return SecurityDescriptor(found.owner, found.group, Acl(tuple(aces)))


def depends_on_the_object(ace: Ace) -> bool:
    """Whether an entry has a condition on the attributes of the object, which are not read."""
    tokens = (read_condition(ace.data) if PLAIN_OF.get(ace.type) in _CONDITIONAL else None) or ()
    return any(isinstance(each, Attribute) and each.source is AttributeSource.RESOURCE for each in tokens)


def _rights_of(ace: Ace) -> int:
    is_denial = ace.type in DENYING
    if ace.inherited_object_type not in (None, QUEUE_CLASS) and not is_denial:
        return 0
    mask = GENERIC.specific(ace.mask)
    rights = 0
    if mask & CONTROL_ACCESS:
        meaning = DENIED_BY if is_denial else ALLOWED_BY
        if ace.object_type is None:
            rights |= MESSAGE_RIGHTS
        else:
            rights |= meaning.get(ace.object_type, 0)
    if is_denial or ace.object_type in (None, QUEUE_CLASS):
        rights |= sum(right for right, of_object in OBJECT_RIGHTS if mask & of_object)
    return rights


def _append(aces: list[Ace], entry: Ace) -> None:
    """Append an entry, or merge it with the last one if account and kind are the same."""
    if aces and (aces[-1].type, aces[-1].sid, aces[-1].data) == (entry.type, entry.sid, entry.data):
        aces[-1] = attrs.evolve(aces[-1], mask=aces[-1].mask | entry.mask)
    else:
        aces.append(entry)


def deciding(descriptor: SecurityDescriptor) -> Iterator[Ace]:
    """The entries of the DACL that allow or deny rights to this object."""
    for ace in () if descriptor.dacl is None else descriptor.dacl.aces:
        if isinstance(ace, Ace) and ace.type in PLAIN_OF and not ace.flags & AceFlags.INHERIT_ONLY:
            yield ace


def named_entries(found: SecurityDescriptor) -> Iterator[Ace]:
    """The explicit entries of the object that name a control access right of queues."""
    for ace in deciding(found):
        is_right = ace.object_type in ALLOWED_BY and bool(GENERIC.specific(ace.mask) & CONTROL_ACCESS)
        if is_right and not ace.flags & AceFlags.INHERITED:
            yield ace


def entries_of_others(found: SecurityDescriptor) -> tuple[AnyAce, ...]:
    """The entries of a list with the masks of MSMQ (L{is_untranslated}) that its writer did not write: those
    that are inherited, and those that say nothing about the object itself.
    """
    aces = () if found.dacl is None else found.dacl.aces
    written = [ace for ace in deciding(found) if not ace.flags & AceFlags.INHERITED]
    return tuple(ace for ace in aces if not any(ace is each for each in written))
