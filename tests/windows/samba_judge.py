"""Samba's judgement of descriptors, asked by a test in a process of its own.

This file is a program for /usr/bin/python3, which has Debian's python3-samba.
It reads one JSON object a line.
One with C{descriptor} is an access check, which it answers with the rights that it grants, or null where it
denies; one with C{sddl} is a text, which it answers with the bytes of the descriptor, or null if it cannot.
It knows nothing of the code that it judges: what generic rights to a queue stand for is here again.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

GENERIC = {0x80000000: 0x2002B, 0x40000000: 0x20024, 0x20000000: 0, 0x10000000: 0xF003F}
PRIVILEGES = {
    "SeSecurityPrivilege": "SEC_PRIV_SECURITY_BIT",
    "SeTakeOwnershipPrivilege": "SEC_PRIV_TAKE_OWNERSHIP_BIT",
}
DENIED = (0xC0000022, 0xC0000061)
"""STATUS_ACCESS_DENIED, and STATUS_PRIVILEGE_NOT_HELD."""
DOMAIN = "S-1-5-21-1-2-3"


def mapped(mask: int) -> int:
    """The mask with specific rights for the generic ones."""
    specific = mask & 0x0FFFFFFF
    for generic, meaning in GENERIC.items():
        if mask & generic:
            specific |= meaning
    return specific


def check(samba: Any, asked: dict[str, Any]) -> int | None:
    """The rights that Samba grants."""
    descriptor = samba.unpack(samba.security.descriptor, bytes.fromhex(asked["descriptor"]))
    if descriptor.dacl is not None:
        acl = descriptor.dacl
        aces = acl.aces
        for ace in aces:
            ace.access_mask = mapped(ace.access_mask)
        acl.aces = aces
        descriptor.dacl = acl
    token = samba.security.token()
    token.sids = [samba.security.dom_sid(text) for text in asked["sids"]]
    token.num_sids = len(asked["sids"])
    for privilege in asked["privileges"]:
        token.privilege_mask |= getattr(samba.security, PRIVILEGES[privilege])
    try:
        return int(samba.access_check(descriptor, token, mapped(asked["asked"])))
    except samba.NTSTATUSError as error:
        if error.args[0] in DENIED:
            return None
        raise


class Samba:
    """The functions of Samba that are used."""

    def __init__(self) -> None:
        ndr = import_module("samba.ndr")
        self.NTSTATUSError = import_module("samba").NTSTATUSError
        self.access_check = import_module("samba.security").access_check
        self.security = import_module("samba.dcerpc.security")
        self.pack, self.unpack = ndr.ndr_pack, ndr.ndr_unpack


def main() -> None:
    """Answer requests until the end of the input."""
    samba: Any = Samba()
    for line in sys.stdin:
        asked = json.loads(line)
        if "sddl" in asked:
            domain = samba.security.dom_sid(DOMAIN)
            try:
                answer = samba.pack(samba.security.descriptor.from_sddl(asked["sddl"], domain)).hex()
            except TypeError:
                answer = None
        else:
            answer = check(samba, asked)
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
