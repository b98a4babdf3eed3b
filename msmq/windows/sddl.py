"""SDDL, the text form of security descriptors: C{O:BAG:BAD:(D;;0x4;;;AN)(A;;GA;;;BA)}. [MS-DTYP] 2.5.1.

The document's table has wrong numbers for two conditional types; the numbers here are those of their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn
from uuid import UUID

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.quoting import quoted
from msmq.windows.claim_text import format_attribute, parse_attribute
from msmq.windows.condition_text import ConditionTextError, format_condition, parse_condition
from msmq.windows.security_descriptor import Control, SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, AnyAce
from msmq.windows.well_known_sids import EVERYONE, SDDL_DOMAIN_RIDS, SDDL_SIDS, with_rid
from msmq.wire.guid import GUID_TEXT, format_guid
from msmq.wire.sid import format_sid, parse_sid

MOST_CHARACTERS: Final = 1 << 20
"""Limit on the length of a text; a descriptor has no room for more entries than fit into it."""

_TYPES: Final[Mapping[str, AceType]] = {
    "A": AceType.ACCESS_ALLOWED,
    "D": AceType.ACCESS_DENIED,
    "AU": AceType.SYSTEM_AUDIT,
    "OA": AceType.ACCESS_ALLOWED_OBJECT,
    "OD": AceType.ACCESS_DENIED_OBJECT,
    "OU": AceType.SYSTEM_AUDIT_OBJECT,
    "ML": AceType.SYSTEM_MANDATORY_LABEL,
    "SP": AceType.SYSTEM_SCOPED_POLICY_ID,
}
_CONDITIONAL: Final[Mapping[str, AceType]] = {
    "XA": AceType.ACCESS_ALLOWED_CALLBACK,
    "XD": AceType.ACCESS_DENIED_CALLBACK,
    "XU": AceType.SYSTEM_AUDIT_CALLBACK,
    "ZA": AceType.ACCESS_ALLOWED_CALLBACK_OBJECT,
}

_WITH_ATTRIBUTE: Final[Mapping[str, AceType]] = {"RA": AceType.SYSTEM_RESOURCE_ATTRIBUTE}

_FLAGS: Final[Mapping[str, int]] = {
    "OI": AceFlags.OBJECT_INHERIT,
    "CI": AceFlags.CONTAINER_INHERIT,
    "NP": AceFlags.NO_PROPAGATE_INHERIT,
    "IO": AceFlags.INHERIT_ONLY,
    "ID": AceFlags.INHERITED,
    "SA": AceFlags.SUCCESSFUL_ACCESS,
    "FA": AceFlags.FAILED_ACCESS,
}

_SHOWN_RIGHTS: Final[Mapping[str, int]] = {
    "GA": 0x10000000,
    "GX": 0x20000000,
    "GW": 0x40000000,
    "GR": 0x80000000,
    "WO": 0x00080000,
    "WD": 0x00040000,
    "RC": 0x00020000,
    "SD": 0x00010000,
}
_RIGHTS: Final[Mapping[str, int]] = {
    **_SHOWN_RIGHTS,
    "CR": 0x00000100,
    "LO": 0x00000080,
    "DT": 0x00000040,
    "WP": 0x00000020,
    "RP": 0x00000010,
    "SW": 0x00000008,
    "LC": 0x00000004,
    "DC": 0x00000002,
    "CC": 0x00000001,
    "FA": 0x001F01FF,
    "FX": 0x001200A0,
    "FW": 0x00120116,
    "FR": 0x00120089,
    "KA": 0x000F003F,
    "KR": 0x00020019,
    "KX": 0x00020019,
    "KW": 0x00020006,
}

_ACL_FLAGS: Final[Mapping[str, Mapping[str, Control]]] = {
    "D": {
        "P": Control.DACL_PROTECTED,
        "AR": Control.DACL_COMPUTED_INHERITANCE_REQUIRED,
        "AI": Control.DACL_AUTO_INHERITED,
    },
    "S": {
        "P": Control.SACL_PROTECTED,
        "AR": Control.SACL_COMPUTED_INHERITANCE_REQUIRED,
        "AI": Control.SACL_AUTO_INHERITED,
    },
}
_PRESENT: Final = {"D": Control.DACL_PRESENT, "S": Control.SACL_PRESENT}

_NO_LIST: Final = "NO_ACCESS_CONTROL"
_PART: Final = re.compile(r"([OGDS]):")
_SID: Final = re.compile(r"S-1-(?:0x[0-9A-Fa-f]{12}|[0-9]+)(?:-[0-9]+)*|[A-Z]{2}", re.ASCII)
_LIST_FLAG: Final = re.compile(rf"{_NO_LIST}|P|AR|AI")
_ENTRY: Final = re.compile(r"\(([^()]*)\)")
_CONDITIONAL_ENTRY: Final = re.compile(rf"\(((?:{'|'.join(_CONDITIONAL)});[^()]*);\s*(?=\()")
_ATTRIBUTE_ENTRY: Final = re.compile(r"\((RA;[^()]*);\s*(?=\()")
_NUMBER: Final = re.compile(r"0x[0-9A-Fa-f]{1,16}|[0-9]{1,20}", re.ASCII)


def parse_sddl(text: str, domain: bytes | None = None) -> SecurityDescriptor:
    """Parse the text of a descriptor.

    @param domain: the SID of the domain to which abbreviations of domain accounts refer.
    @raise RemoteProtocolError: it is malformed; the offset counts characters.
    """
    return _Text(text, domain).descriptor()


class _Text:
    def __init__(self, text: str, domain: bytes | None) -> None:
        self._text = text
        self._domain = domain
        self._position = 0
        self._control = Control(0)

    def descriptor(self) -> SecurityDescriptor:
        if len(self._text) > MOST_CHARACTERS:
            self._refuse("text", f"has {len(self._text)} characters, more than {MOST_CHARACTERS}")
        sids: dict[str, bytes] = {}
        lists: dict[str, Acl | None] = {}
        while self._position < len(self._text):
            part = _PART.match(self._text, self._position)
            if part is None:
                self._refuse("text", "expected O:, G:, D: or S:")
            name = part[1]
            if name in sids or name in lists:
                self._refuse(name, "appears twice")
            self._position = part.end()
            if name in "OG":
                found = _SID.match(self._text, self._position)
                if found is None:
                    self._refuse(name, "has no SID")
                sids[name] = self._sid(found[0], self._position)
                self._position = found.end()
            else:
                lists[name] = self._list(name)
        return SecurityDescriptor(sids.get("O"), sids.get("G"), lists.get("D"), lists.get("S"), self._control)

    def _list(self, name: str) -> Acl | None:
        is_absent = False
        while (flag := _LIST_FLAG.match(self._text, self._position)) is not None:
            self._position = flag.end()
            if flag[0] == _NO_LIST:
                is_absent = True
            else:
                self._control |= _ACL_FLAGS[name][flag[0]]
        self._control |= _PRESENT[name]
        aces: list[Ace] = []
        while True:
            if (entry := _ENTRY.match(self._text, self._position)) is not None:
                aces.append(self._ace(entry[1], self._position + 1))
                self._position = entry.end()
            elif (entry := _CONDITIONAL_ENTRY.match(self._text, self._position)) is not None:
                aces.append(self._conditional_ace(entry[1], self._position + 1, entry.end()))
            elif (entry := _ATTRIBUTE_ENTRY.match(self._text, self._position)) is not None:
                aces.append(self._attribute_ace(entry[1], self._position + 1, entry.end()))
            else:
                break
        if is_absent and aces:
            self._refuse(name, f"has entries as well as {_NO_LIST}")
        return None if is_absent else Acl(tuple(aces))

    def _conditional_ace(self, text: str, start: int, condition: int) -> Ace:
        try:
            data, end = parse_condition(self._text, condition, self._sid)
        except ConditionTextError as error:
            self._refuse("cond-expr", str(error), error.offset)
        if not self._text.startswith(")", end):
            self._refuse("conditional-ace", "unexpected text", end)
        self._position = end + 1
        return self._ace(text, start, _CONDITIONAL, data)

    def _attribute_ace(self, text: str, start: int, attribute: int) -> Ace:
        try:
            data, end = parse_attribute(self._text, attribute, self._sid)
        except ConditionTextError as error:
            self._refuse("attribute-data", str(error), error.offset)
        if not self._text.startswith(")", end):
            self._refuse("resource-attribute-ace", "unexpected text", end)
        self._position = end + 1
        ace = self._ace(text, start, _WITH_ATTRIBUTE, data)
        if ace.mask or ace.sid != EVERYONE:
            self._refuse(
                "resource-attribute-ace",
                "an entry with an attribute has no rights, and its trustee is WD",
                start,
            )
        return ace

    def _ace(self, text: str, start: int, types: Mapping[str, AceType] = _TYPES, data: bytes = b"") -> Ace:
        fields = text.split(";")
        kind = fields[0]
        if kind in _CONDITIONAL and types is _TYPES:
            self._refuse("conditional-ace", f"{kind} needs a condition", start)
        if kind == "RA" and types is _TYPES:
            self._refuse("resource-attribute-ace", f"{kind} needs an attribute", start)
        if len(fields) != 6:
            self._refuse("ace", f"has {len(fields)} fields, not 6", start)
        _, flags, rights, object_type, inherited, sid = fields
        if kind not in types:
            self._refuse("ace-type", f"{quoted(kind)} is not one of {', '.join(types)}", start)
        try:
            return Ace(
                types[kind],
                self._mask(rights, start),
                self._sid(sid, start),
                self._letters(flags, _FLAGS, "ace-flag-string", start),
                self._guid(object_type, start),
                self._guid(inherited, start),
                data,
            )
        except LocalProtocolError as error:
            self._refuse("ace", str(error), start)

    def _mask(self, text: str, start: int) -> int:
        if _NUMBER.fullmatch(text) is None:
            return self._letters(text, _RIGHTS, "ace-rights", start)
        is_octal = text.startswith("0") and len(text) > 1 and text[1] != "x"
        try:
            mask = int(text, 8 if is_octal else 16 if text.startswith("0x") else 10)
        except ValueError:
            self._refuse("ace-rights", f"{text} is not a number", start)
        if mask > 0xFFFFFFFF:
            self._refuse("ace-rights", f"{text} does not fit into 32 bits", start)
        return mask

    def _letters(self, text: str, known: Mapping[str, int], field: str, start: int) -> int:
        found = 0
        for index in range(0, len(text), 2):
            letters = text[index : index + 2]
            if letters not in known:
                self._refuse(field, f"{quoted(letters)} is not one of {', '.join(known)}", start)
            found |= known[letters]
        return int(found)

    def _guid(self, text: str, start: int) -> UUID | None:
        if not text:
            return None
        if GUID_TEXT.fullmatch(text) is None:
            self._refuse("guid", f"{quoted(text)} is not a GUID", start)
        return UUID(text)

    def _sid(self, text: str, start: int) -> bytes:
        known = SDDL_SIDS.get(text)
        if known is not None:
            return known
        if text in SDDL_DOMAIN_RIDS:
            if self._domain is None:
                self._refuse("sid-string", f"{text} is an account of a domain, and no domain is given", start)
            return with_rid(self._domain, SDDL_DOMAIN_RIDS[text])
        try:
            return parse_sid(text)
        except ValueError:
            self._refuse("sid-string", f"{quoted(text)} is neither a SID nor an abbreviation of one", start)

    def _refuse(self, field: str, rule: str, offset: int | None = None) -> NoReturn:
        where = self._position if offset is None else offset
        raise RemoteProtocolError("[MS-DTYP] 2.5.1", "SDDL", field, where, rule)


_LETTERS_OF: Final = {sid: letters for letters, sid in SDDL_SIDS.items()}
_CONDITIONAL_OF: Final = {type_: letters for letters, type_ in _CONDITIONAL.items()}
_TYPE_OF: Final = {type_: letters for letters, type_ in _TYPES.items()}


def format_sddl(descriptor: SecurityDescriptor) -> str:
    """Format a descriptor.

    Rights are written as abbreviations if all are generic or standard ones, and otherwise as a number.

    @raise LocalProtocolError: one of its entries has no text form.
    """
    parts = []
    if descriptor.owner is not None:
        parts.append(f"O:{_sid(descriptor.owner)}")
    if descriptor.group is not None:
        parts.append(f"G:{_sid(descriptor.group)}")
    for name, acl in (("D", descriptor.dacl), ("S", descriptor.sacl)):
        if acl is None and not descriptor.control & _PRESENT[name]:
            continue
        flags = "".join(text for text, flag in _ACL_FLAGS[name].items() if descriptor.control & flag)
        parts.append(f"{name}:{flags}")
        parts += [_NO_LIST] if acl is None else [_ace(ace) for ace in acl.aces]
    return "".join(parts)


def _ace(ace: AnyAce) -> str:
    is_conditional = isinstance(ace, Ace) and ace.type in _CONDITIONAL_OF
    if isinstance(ace, Ace) and ace.type is AceType.SYSTEM_RESOURCE_ATTRIBUTE:
        return _attribute_entry(ace)
    if not isinstance(ace, Ace) or not (is_conditional or (ace.type in _TYPE_OF and not ace.data)):
        raise LocalProtocolError(f"SDDL has no text form for an entry of type {int(ace.type)}")
    flags = _shown_flags(ace)
    guids = (
        "" if guid is None else format_guid(guid).lower()
        for guid in (ace.object_type, ace.inherited_object_type)
    )
    fields = [flags, _mask(ace.mask), *guids, _sid(ace.sid)]
    if is_conditional:
        return f"({';'.join((_CONDITIONAL_OF[ace.type], *fields, format_condition(ace.data, _sid)))})"
    return f"({';'.join((_TYPE_OF[ace.type], *fields))})"


def _attribute_entry(ace: Ace) -> str:
    if ace.mask or ace.sid != EVERYONE:
        raise LocalProtocolError(
            "SDDL has no text form for an attribute with rights, or for a trustee other than everyone"
        )
    return f"(RA;{_shown_flags(ace)};;;;{_sid(ace.sid)};{format_attribute(ace.data, _sid)})"


def _shown_flags(ace: Ace) -> str:
    if ace.flags & ~sum(_FLAGS.values()):
        raise LocalProtocolError(f"SDDL has no text form for the flags 0x{ace.flags:02X} of an entry")
    return "".join(text for text, flag in _FLAGS.items() if ace.flags & flag)


def _mask(mask: int) -> str:
    if mask & ~sum(_SHOWN_RIGHTS.values()) or not mask:
        return f"0x{mask:x}"
    return "".join(text for text, right in _SHOWN_RIGHTS.items() if mask & right)


def _sid(sid: bytes) -> str:
    return _LETTERS_OF.get(sid) or format_sid(sid)
