"""Well-known SIDs of accounts and groups, and their abbreviations in SDDL. [MS-DTYP] 2.4.2.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.quoting import quoted
from msmq.wire.sid import format_sid, parse_sid

EVERYONE: Final = parse_sid("S-1-1-0")
"""SECURITY_WORLD_RID with SECURITY_WORLD_SID_AUTHORITY: all users."""

OWNER_RIGHTS: Final = parse_sid("S-1-3-4")
"""OWNER RIGHTS: the owner of the object; an entry for it replaces the implicit rights of the owner."""

ANONYMOUS: Final = parse_sid("S-1-5-7")
"""SECURITY_ANONYMOUS_LOGON_RID: an unauthenticated caller."""

PRINCIPAL_SELF: Final = parse_sid("S-1-5-10")
"""PRINCIPAL SELF: in an entry, the account that the caller of the access check names."""

AUTHENTICATED_USERS: Final = parse_sid("S-1-5-11")
"""All users whose identity was verified."""

LOCAL_SYSTEM: Final = parse_sid("S-1-5-18")
ADMINISTRATORS: Final = parse_sid("S-1-5-32-544")
USERS: Final = parse_sid("S-1-5-32-545")

NAMES: Final[Mapping[str, bytes]] = {
    "everyone": EVERYONE,
    "anonymous": ANONYMOUS,
    "authenticated users": AUTHENTICATED_USERS,
    "owner rights": OWNER_RIGHTS,
    "system": LOCAL_SYSTEM,
    "local service": parse_sid("S-1-5-19"),
    "network service": parse_sid("S-1-5-20"),
    "administrators": ADMINISTRATORS,
    "users": USERS,
    "guests": parse_sid("S-1-5-32-546"),
}
"""Their common names; compared without regard to case."""

_NAME_OF: Final = {sid: name for name, sid in NAMES.items()}

SDDL_SIDS: Final[Mapping[str, bytes]] = {
    letters: parse_sid(text)
    for letters, text in {
        "WD": "S-1-1-0",
        "CO": "S-1-3-0",
        "CG": "S-1-3-1",
        "OW": "S-1-3-4",
        "NU": "S-1-5-2",
        "IU": "S-1-5-4",
        "SU": "S-1-5-6",
        "AN": "S-1-5-7",
        "ED": "S-1-5-9",
        "PS": "S-1-5-10",
        "AU": "S-1-5-11",
        "RC": "S-1-5-12",
        "SY": "S-1-5-18",
        "LS": "S-1-5-19",
        "NS": "S-1-5-20",
        "BA": "S-1-5-32-544",
        "BU": "S-1-5-32-545",
        "BG": "S-1-5-32-546",
        "PU": "S-1-5-32-547",
        "AO": "S-1-5-32-548",
        "SO": "S-1-5-32-549",
        "PO": "S-1-5-32-550",
        "BO": "S-1-5-32-551",
        "RE": "S-1-5-32-552",
        "RU": "S-1-5-32-554",
        "RD": "S-1-5-32-555",
        "NO": "S-1-5-32-556",
        "MU": "S-1-5-32-558",
        "LU": "S-1-5-32-559",
        "IS": "S-1-5-32-568",
        "CY": "S-1-5-32-569",
        "ER": "S-1-5-32-573",
        "CD": "S-1-5-32-574",
        "RA": "S-1-5-32-575",
        "ES": "S-1-5-32-576",
        "MS": "S-1-5-32-577",
        "HA": "S-1-5-32-578",
        "AA": "S-1-5-32-579",
        "RM": "S-1-5-32-580",
        "WR": "S-1-5-33",
        "UD": "S-1-5-84-0-0-0-0-0",
        "AC": "S-1-15-2-1",
        "LW": "S-1-16-4096",
        "ME": "S-1-16-8192",
        "MP": "S-1-16-8448",
        "HI": "S-1-16-12288",
        "SI": "S-1-16-16384",
    }.items()
}
"""SDDL abbreviations that are the same in every domain: sid-token. [MS-DTYP] 2.5.1.1."""

DOMAIN_GUEST: Final = 501
"""DOMAIN_USER_RID_GUEST. [MS-SAMR] 2.2.1.14."""

DOMAIN_USERS: Final = 513
"""The group of all users of a domain."""

SDDL_DOMAIN_RIDS: Final[Mapping[str, int]] = {
    "RO": 498,
    "LA": 500,
    "LG": DOMAIN_GUEST,
    "DA": 512,
    "DU": DOMAIN_USERS,
    "DG": 514,
    "DC": 515,
    "DD": 516,
    "CA": 517,
    "SA": 518,
    "EA": 519,
    "PA": 520,
    "CN": 522,
    "RS": 553,
}
"""The other abbreviations: relative identifiers, which need the SID of a domain."""

_DOMAIN: Final = parse_sid("S-1-5-21-0-0-0")[2:12]


def domain_of(sid: bytes) -> bytes | None:
    """The SID of the domain of an account; C{None} for an account without a domain."""
    return bytes((1, 4)) + sid[2:24] if len(sid) == 28 and sid[2:12] == _DOMAIN else None


def with_rid(domain: bytes, rid: int) -> bytes:
    """The SID of an account of a domain."""
    return bytes((1, domain[1] + 1)) + domain[2:] + rid.to_bytes(4, "little")


def is_guest(sid: bytes) -> bool:
    """Whether it is the guest account of a domain."""
    return domain_of(sid) is not None and int.from_bytes(sid[-4:], "little") == DOMAIN_GUEST


def user_sid(number: int) -> bytes:
    """The SID of a Unix user, by its user ID: S-1-22-1-NUMBER, as Samba maps them too."""
    return parse_sid(f"S-1-22-1-{number}")


def sid_text(sid: bytes) -> str:
    """A SID for display, with its name if it is well known."""
    name = _NAME_OF.get(sid)
    return format_sid(sid) if name is None else f"{name} ({format_sid(sid)})"


def parse_principal(text: str) -> bytes:
    """Parse a SID, one of the L{NAMES}, or an abbreviation of L{SDDL_SIDS} in capitals.

    @raise ValueError: it is none of these.
    """
    found = NAMES.get(text.casefold()) or SDDL_SIDS.get(text)
    if found is not None:
        return found
    try:
        return parse_sid(text)
    except ValueError:
        raise ValueError(f"{quoted(text)} is neither a SID nor any of {', '.join(NAMES)}") from None
