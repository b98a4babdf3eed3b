"""[MS-DTYP] 2.5.3.2 access check of a token against a security descriptor, with the deciding entry.

What the algorithm has beside the entries that a queue can have is judged so:

- Entries about parts of an object (object entries) decide nothing, as nobody asks for a part: the document
  finds them in the object tree, and there is none.
- An entry that allows under a condition allows if that is TRUE, and one that denies under a condition denies
  if that is TRUE or UNKNOWN (2.4.4.17.3). A callback entry with something else than an expression is UNKNOWN.
- MAXIMUM_ALLOWED answers what asking for each right alone would: a later entry takes nothing away that an
  earlier one gave. The document adds both up, and lets what is denied anywhere win, so that the answer would
  be less than what can be had.
- Integrity levels and central policies are no matter of a queue manager's; their entries are kept, and
  decide nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

import attrs

from msmq.windows.access_masks import AccessMask, ObjectKind
from msmq.windows.claims import Claims, resource_claims
from msmq.windows.conditions import Circumstances, Truth, evaluate
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType
from msmq.windows.well_known_sids import OWNER_RIGHTS, PRINCIPAL_SELF, sid_text


class Privilege(enum.Enum):
    """[MS-DTYP] 2.5.2 Token.Privileges: those that the access check asks for."""

    SECURITY = "SeSecurityPrivilege"
    TAKE_OWNERSHIP = "SeTakeOwnershipPrivilege"


@attrs.frozen
class Token:
    """[MS-DTYP] 2.5.2 who somebody is: the SIDs of a user and of all its groups.

    @ivar user: the SID of the account.
    @ivar groups: those of its groups, everyone's among them.
    @ivar device_sids: Token.DeviceSIDs; C{None} if its device is unknown, as it is for the senders
        of messages.
    @ivar claims: what else is known of it; C{None} if unknown.
    """

    user: bytes
    groups: frozenset[bytes] = frozenset()
    privileges: frozenset[Privilege] = frozenset()
    device_sids: frozenset[bytes] | None = None
    claims: Claims | None = attrs.field(default=None, hash=False)

    @property
    def sids(self) -> frozenset[bytes]:
        """[MS-DTYP] 2.5.2 Token.Sids."""
        return self.groups | {self.user}

    def has(self, sid: bytes, principal_self: bytes | None = None) -> bool:
        """[MS-DTYP] 2.5.3.1.1 SidInToken."""
        if sid == PRINCIPAL_SELF:
            return principal_self is not None and self.has(principal_self)
        return sid == self.user or sid in self.groups


class Cause(enum.Enum):
    """What an access decision rests on."""

    ENTRY = "entry"
    NO_ENTRY = "no entry"
    NO_DACL = "no DACL"
    EMPTY_DACL = "empty DACL"
    OWNER = "owner"
    PRIVILEGE = "privilege"
    NOTHING_ASKED = "nothing asked"


@attrs.frozen
class Decided:
    """Some of the rights that were asked for, and why they are granted or not.

    @ivar rights: a mask.
    @ivar index: which entry of the DACL it was, counted from 0; C{None} if it was none.
    @ivar is_owner_entry: the entry is about whoever owns the object (S-1-3-4).
    @ivar is_told: its condition is TRUE, or it has none; UNKNOWN if not.
    """

    rights: int
    granted: bool
    cause: Cause
    index: int | None = None
    ace: Ace | None = None
    is_owner_entry: bool = False
    is_told: bool = True


@attrs.frozen
class AccessDecision:
    """[MS-DTYP] 2.5.3.2 what an access check answers.

    @ivar kind: of what object.
    @ivar token: who asked.
    @ivar asked: the rights that were asked for, without generic ones.
    @ivar granted_rights: those of them that are granted; all that there are, for MAXIMUM_ALLOWED.
    @ivar decided: each right that was asked for, with what decided about it.
    """

    kind: ObjectKind
    token: Token
    asked: int
    granted: bool
    granted_rights: int
    decided: tuple[Decided, ...] = ()

    @property
    def missing(self) -> int:
        """The rights that are not granted."""
        return self.asked & ~self.granted_rights & ~_MAXIMUM_ALLOWED

    def why(self) -> str:
        """What decides, in a sentence: of a refusal the rights that are missing, of a grant those given."""
        shown = [part for part in self.decided if part.granted is self.granted]
        return "; ".join(self._sentence(part) for part in shown) or "nothing was asked for"

    def _sentence(self, part: Decided) -> str:
        rights = self.kind.names(part.rights)
        if part.cause is Cause.NO_DACL:
            return f"{rights}: the descriptor has no DACL, which grants every right to every account"
        if part.cause is Cause.OWNER:
            return f"{rights}: {sid_text(self.token.user)} owns the {self.kind.name}"
        if part.cause is Cause.PRIVILEGE:
            held = "holds" if part.granted else "does not hold"
            return f"{rights}: {sid_text(self.token.user)} {held} the privilege for it"
        if part.cause is Cause.EMPTY_DACL:
            return f"{rights}: the DACL is empty, which grants no right to any account"
        if part.ace is None or part.index is None:
            return f"{rights}: no entry of the DACL allows it to {sid_text(self.token.user)} or its groups"
        verb = "allows" if part.granted else "denies"
        whom = "the owner" if part.is_owner_entry else sid_text(part.ace.sid)
        condition = ""
        if part.ace.type in _CONDITIONAL:
            condition = ", as its condition is met" if part.is_told else ", as its condition has no result"
        return f"{rights}: entry {part.index + 1} of the DACL {verb} it to {whom}{condition}"


_ALLOWING: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_CALLBACK})
_DENYING: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_CALLBACK})
DECIDING: Final = _ALLOWING | _DENYING
"""The types of entries that say something about an object as a whole."""

_CONDITIONAL: Final = frozenset({AceType.ACCESS_ALLOWED_CALLBACK, AceType.ACCESS_DENIED_CALLBACK})
_MAXIMUM_ALLOWED: Final = int(AccessMask.MAXIMUM_ALLOWED)
_ACCESS_SYSTEM_SECURITY: Final = int(AccessMask.ACCESS_SYSTEM_SECURITY)
_WRITE_OWNER: Final = int(AccessMask.WRITE_OWNER)
_INHERIT_ONLY: Final = int(AceFlags.INHERIT_ONLY)
_OWNERS_OWN: Final = int(AccessMask.READ_CONTROL | AccessMask.WRITE_DAC)


def check_access(
    descriptor: SecurityDescriptor,
    token: Token,
    asked: int,
    kind: ObjectKind,
    *,
    principal_self: bytes | None = None,
) -> AccessDecision:
    """[MS-DTYP] 2.5.3.2 Access Check.

    @param asked: a mask of rights, which may be generic, or MAXIMUM_ALLOWED.
    @param kind: what kind of object the descriptor protects, which says what generic rights stand for.
    @param principal_self: PrincipalSelfSubst, the SID that stands for S-1-5-10.
    """
    asked = kind.mapping.specific(asked)
    wants_all = bool(asked & _MAXIMUM_ALLOWED)
    single = asked & ~_MAXIMUM_ALLOWED
    sought = single | kind.every_right if wants_all else single
    decided = tuple(_decide(descriptor, token, sought, kind, principal_self))
    granted_rights = sum(part.rights for part in decided if part.granted)
    granted = not single & ~granted_rights and not (wants_all and not granted_rights)
    return AccessDecision(kind, token, asked, granted, granted_rights, decided)


def _decide(
    descriptor: SecurityDescriptor,
    token: Token,
    remaining: int,
    kind: ObjectKind,
    principal_self: bytes | None,
) -> Iterator[Decided]:
    """Decide about each right, the first that has something to say about it."""
    if security := remaining & _ACCESS_SYSTEM_SECURITY:
        holds = Privilege.SECURITY in token.privileges
        yield Decided(security, holds, Cause.PRIVILEGE)
        remaining &= ~security
    if descriptor.dacl is None:
        if remaining:
            yield Decided(remaining, True, Cause.NO_DACL)
        return
    taken = remaining & _WRITE_OWNER
    if taken and Privilege.TAKE_OWNERSHIP in token.privileges:
        yield Decided(taken, True, Cause.PRIVILEGE)
        remaining &= ~taken
    is_owner = descriptor.owner is not None and token.has(descriptor.owner, principal_self)
    entries = [
        (index, ace)
        for index, ace in enumerate(descriptor.dacl.aces)
        if isinstance(ace, Ace) and not ace.flags & _INHERIT_ONLY
    ]
    if is_owner and not any(ace.sid == OWNER_RIGHTS for _, ace in entries):
        if own := remaining & _OWNERS_OWN:
            yield Decided(own, True, Cause.OWNER)
        remaining &= ~_OWNERS_OWN
    for index, ace in entries:
        about = remaining & kind.mapping.specific(ace.mask)
        if not about or ace.type not in DECIDING:
            continue
        is_owner_entry = is_owner and ace.sid == OWNER_RIGHTS
        if not is_owner_entry and not token.has(ace.sid, principal_self):
            continue
        is_allowing = ace.type in _ALLOWING
        truth: Truth = True
        if ace.type in _CONDITIONAL:
            truth = evaluate(ace.data, _circumstances(descriptor, token))
            if truth is False or (truth is None and is_allowing):
                continue
        yield Decided(about, is_allowing, Cause.ENTRY, index, ace, is_owner_entry, truth is not None)
        remaining &= ~about
    if remaining:
        yield Decided(remaining, False, Cause.NO_ENTRY if descriptor.dacl.aces else Cause.EMPTY_DACL)


def _circumstances(descriptor: SecurityDescriptor, token: Token) -> Circumstances:
    return Circumstances(token.sids, token.device_sids, token.claims, resource_claims(descriptor.sacl))
