"""Access check of a token against a security descriptor, with the deciding entry. [MS-DTYP] 2.5.3.2.

How the parts of the algorithm that go beyond plain allow and deny entries are evaluated:

  - Object entries, which are about parts of an object, decide nothing, since no caller requests access to a
    part: the document looks them up in the object tree, and a queue has none.
  - A conditional entry that allows applies if its condition is TRUE, and one that denies applies if it is
    TRUE or UNKNOWN (2.4.4.17.3). A callback entry whose data is not an expression is UNKNOWN.
  - MAXIMUM_ALLOWED returns the rights that separate requests for each right would grant: a later entry
    removes nothing that an earlier one granted. The document collects both and lets every denial win, so
    that its result would be less than what is really granted.
  - Integrity levels and central access policies do not apply to a queue manager; their entries are
    preserved and ignored.
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
    """Token.Privileges: those that the access check uses. [MS-DTYP] 2.5.2."""

    SECURITY = "SeSecurityPrivilege"
    TAKE_OWNERSHIP = "SeTakeOwnershipPrivilege"


@attrs.frozen
class Token:
    """The identity of a caller: the SIDs of a user and of all its groups. [MS-DTYP] 2.5.2.

    @ivar user: the SID of the account.
    @ivar groups: the SIDs of its groups, including Everyone.
    @ivar device_sids: Token.DeviceSIDs; C{None} if its device is unknown, as it is for the senders
        of messages.
    @ivar claims: the claims of the account; C{None} if unknown.
    """

    user: bytes
    groups: frozenset[bytes] = frozenset()
    privileges: frozenset[Privilege] = frozenset()
    device_sids: frozenset[bytes] | None = None
    claims: Claims | None = attrs.field(default=None, hash=False)

    @property
    def sids(self) -> frozenset[bytes]:
        """Token.Sids. [MS-DTYP] 2.5.2."""
        return self.groups | {self.user}

    def has(self, sid: bytes, principal_self: bytes | None = None) -> bool:
        """SidInToken. [MS-DTYP] 2.5.3.1.1."""
        if sid == PRINCIPAL_SELF:
            return principal_self is not None and self.has(principal_self)
        return sid == self.user or sid in self.groups


class Cause(enum.Enum):
    """The reason for an access decision."""

    ENTRY = "entry"
    NO_ENTRY = "no entry"
    NO_DACL = "no DACL"
    EMPTY_DACL = "empty DACL"
    OWNER = "owner"
    PRIVILEGE = "privilege"


@attrs.frozen
class Decided:
    """Some of the requested rights, and why they are granted or not.

    @ivar rights: a mask.
    @ivar index: the entry of the DACL that decided, counted from 0; C{None} if none did.
    @ivar is_owner_entry: the entry is for OWNER RIGHTS (S-1-3-4), the owner of the object.
    @ivar is_certain: its condition is TRUE, or it has none; otherwise the condition is UNKNOWN.
    """

    rights: int
    granted: bool
    cause: Cause
    index: int | None = None
    ace: Ace | None = None
    is_owner_entry: bool = False
    is_certain: bool = True


@attrs.frozen
class AccessDecision:
    """The result of an access check. [MS-DTYP] 2.5.3.2.

    @ivar kind: the kind of the object.
    @ivar token: the caller.
    @ivar asked: the requested rights, with generic ones mapped to specific ones.
    @ivar granted_rights: the requested rights that are granted; for MAXIMUM_ALLOWED every granted right.
    @ivar decided: each requested right, with what decided it.
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
        """The reason in a sentence: for a refusal the missing rights, for a grant the granted ones."""
        shown = [part for part in self.decided if part.granted is self.granted]
        return "; ".join(self._sentence(part) for part in shown) or "no right was requested"

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
            condition = ", as its condition is met" if part.is_certain else ", as its condition has no result"
        return f"{rights}: entry {part.index + 1} of the DACL {verb} it to {whom}{condition}"


_ALLOWING: Final = frozenset({AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_CALLBACK})
_DENYING: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_CALLBACK})
DECIDING: Final = _ALLOWING | _DENYING
"""The types of entries that apply to an object as a whole."""

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
    """Access Check. [MS-DTYP] 2.5.3.2.

    @param asked: a mask of rights, which may be generic, or MAXIMUM_ALLOWED.
    @param kind: the kind of object that the descriptor protects; it maps generic rights to specific ones.
    @param principal_self: PrincipalSelfSubst, the SID that replaces S-1-5-10.
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
    """Decide each right by the first entry that applies to it."""
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
    circumstances: Circumstances | None = None
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
            # Once, since a list may have a thousand conditions, and the SACL as many attributes.
            circumstances = circumstances or _circumstances(descriptor, token)
            truth = evaluate(ace.data, circumstances)
            if truth is False or (truth is None and is_allowing):
                continue
        yield Decided(about, is_allowing, Cause.ENTRY, index, ace, is_owner_entry, truth is not None)
        remaining &= ~about
    if remaining:
        yield Decided(remaining, False, Cause.NO_ENTRY if descriptor.dacl.aces else Cause.EMPTY_DACL)


def _circumstances(descriptor: SecurityDescriptor, token: Token) -> Circumstances:
    return Circumstances(token.sids, token.device_sids, token.claims, resource_claims(descriptor.sacl))
