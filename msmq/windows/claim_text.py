"""Resource attributes in SDDL text: attribute-data. [MS-DTYP] 2.5.1.1.

C{("Project",TS,0x0,"Windows","SQL")}.  Blanks between the parts are accepted, and none are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn

from msmq.errors import LocalProtocolError
from msmq.windows.claims import MOST_VALUES, ClaimKind, ResourceAttribute
from msmq.windows.condition_text import NAME, ConditionTextError, ReadSid, escaped, unescaped
from msmq.wire.sid import format_sid

_KINDS: Final = {
    "TI": ClaimKind.INT64,
    "TU": ClaimKind.UINT64,
    "TS": ClaimKind.STRING,
    "TD": ClaimKind.SID,
    "TX": ClaimKind.OCTETS,
    "TB": ClaimKind.BOOLEAN,
}
_LETTERS: Final = {kind: letters for letters, kind in _KINDS.items()}

_NO_TEXT: Final = 0xFFC0
"""Bits of the flags that the text form cannot express."""

_BLANK: Final = r"[\t-\r ]*"
_HEAD: Final = re.compile(
    rf'\({_BLANK}"({NAME.pattern})"{_BLANK},{_BLANK}([A-Z]{{2}}){_BLANK},{_BLANK}0x([0-9A-Fa-f]{{1,8}}){_BLANK}'
)
_NEXT: Final = re.compile(rf"{_BLANK},{_BLANK}")
_END: Final = re.compile(rf"{_BLANK}\)")
_VALUES: Final = {
    ClaimKind.INT64: re.compile(r"([+-]?)(0x[0-9A-Fa-f]{1,16}|[0-9]{1,23})(?![A-Za-z0-9_])", re.ASCII),
    ClaimKind.UINT64: re.compile(r"()(0x[0-9A-Fa-f]{1,16}|[0-9]{1,23})(?![A-Za-z0-9_])", re.ASCII),
    ClaimKind.STRING: re.compile(r'"([^"\0]*)"'),
    ClaimKind.SID: re.compile(r"[A-Za-z0-9-]+", re.ASCII),
    ClaimKind.OCTETS: re.compile(r"#((?:[0-9A-Fa-f]{2})*)(?![0-9A-Fa-f])", re.ASCII),
    ClaimKind.BOOLEAN: re.compile(r"[01](?![A-Za-z0-9_])", re.ASCII),
}
_SHOULD: Final = {
    ClaimKind.INT64: "a whole number of 64 bits",
    ClaimKind.UINT64: "a whole number of 64 bits without a sign",
    ClaimKind.STRING: 'a text as "HR"',
    ClaimKind.SID: "a SID or an abbreviation of one",
    ClaimKind.OCTETS: "octets as #0a",
    ClaimKind.BOOLEAN: "0 or 1",
}


def parse_attribute(text: str, start: int, read_sid: ReadSid) -> tuple[bytes, int]:
    """Parse an attribute in parentheses.

    @return: the Attribute Data, and the offset behind it.
    @raise ConditionTextError: it is malformed.
    """
    head = _HEAD.match(text, start)
    if head is None:
        _refuse('expected an attribute, as ("name",TI,0x0,1)', start)
    kind = _KINDS.get(head[2])
    if kind is None:
        _refuse(f"{head[2]} is not one of {', '.join(_KINDS)}", head.start(2))
    flags = int(head[3], 16)
    if flags & _NO_TEXT:
        _refuse(f"the flags 0x{flags:x} have reserved bits (0x{_NO_TEXT:x})", head.start(3))
    values: list[int | str | bytes] = []
    position = head.end()
    while (following := _NEXT.match(text, position)) is not None:
        found = _VALUES[kind].match(text, following.end())
        if found is None:
            _refuse(f"expected {_SHOULD[kind]}", following.end())
        values.append(_value(kind, found, read_sid))
        if len(values) > MOST_VALUES:
            _refuse(f"the attribute has more than {MOST_VALUES} values", start)
        position = found.end()
    end = _END.match(text, position)
    if end is None:
        _refuse("expected a comma or the end of the attribute", position)
    name = unescaped(head[1])
    if "\0" in name:
        _refuse("a name has no NUL in it", head.start(1))
    attribute = ResourceAttribute(name, kind, tuple(values), flags)
    data = attribute.to_bytes()
    if ResourceAttribute.read(data) is None:
        _refuse("the values of the attribute are too large", start)
    return data, end.end()


def _value(kind: ClaimKind, found: re.Match[str], read_sid: ReadSid) -> int | str | bytes:
    match kind:
        case ClaimKind.INT64 | ClaimKind.UINT64:
            return _number(kind, found)
        case ClaimKind.STRING:
            return found[1]
        case ClaimKind.SID:
            return read_sid(found[0], found.start())
        case ClaimKind.OCTETS:
            return bytes.fromhex(found[1])
        case ClaimKind.BOOLEAN:
            return int(found[0])


def _number(kind: ClaimKind, found: re.Match[str]) -> int:
    sign, digits = found[1], found[2]
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] != "x"
    try:
        number = int(digits, 8 if is_octal else 16 if digits.startswith("0x") else 10)
    except ValueError:
        _refuse(f"{digits} is not a number", found.start())
    number = -number if sign == "-" else number
    low, high = (-(1 << 63), 1 << 63) if kind is ClaimKind.INT64 else (0, 1 << 64)
    if not low <= number < high:
        _refuse(f"{number} does not fit into 64 bits", found.start())
    return number


def format_attribute(data: bytes, show_sid: Callable[[bytes], str] = format_sid) -> str:
    """Format an attribute, in parentheses.

    @raise LocalProtocolError: it is malformed, or has no text form.
    """
    attribute = ResourceAttribute.read(data)
    if attribute is None:
        raise LocalProtocolError("the data is not a resource attribute, or has too many values")
    if not attribute.name or attribute.flags & _NO_TEXT:
        raise LocalProtocolError("an attribute with these flags, or without a name, has no text form")
    parts = [f'"{escaped(attribute.name)}"', _LETTERS[attribute.kind], f"0x{attribute.flags:x}"]
    parts += [_shown(value, attribute.kind, show_sid) for value in attribute.values]
    return f"({','.join(parts)})"


def _shown(value: int | str | bytes, kind: ClaimKind, show_sid: Callable[[bytes], str]) -> str:
    if isinstance(value, bytes):
        return show_sid(value) if kind is ClaimKind.SID else f"#{value.hex()}"
    if isinstance(value, str):
        if '"' in value:
            raise LocalProtocolError("a value with a quotation mark has no text form")
        return f'"{value}"'
    return str(int(value))


def _refuse(rule: str, offset: int) -> NoReturn:
    raise ConditionTextError(rule, offset)
