"""Conditions of entries, and what they are held against."""

from __future__ import annotations

from struct import pack
from typing import Final

from msmq.windows.claims import Claim, Claims, Value, ValueType, named
from msmq.windows.security_descriptor_aces import Ace, AceType, Acl
from msmq.wire.sid import parse_sid

EVERYONE: Final = parse_sid("S-1-1-0")

CONDITIONS: Final = (
    "(@User.clearance >= @Resource.number && @User.clearance <= 5 && @User.clearance != 6)",
    '(@User.groups Contains {"HR"} || @User.groups Any_of @Resource.text)',
    '(@User.groups Not_Contains {"IT"} && @User.groups Not_Any_of {"IT"})',
    "(@User.badge == #0a0b && @User.badge > #0a)",
    "(@User.smart == 1 && @Resource.truth == 0)",
    "(@User.boss == @Resource.sid || @Resource.octets == #0a)",
    "(Exists title && Not_Exists @Resource.x && !(@Device.managed < 1))",
    "(Member_of {SID(WD)} && Not_Member_of_Any {SID(BA)} && Device_Member_of {SID(BU)})",
)

CLAIMS: Final = Claims(
    local=named(Claim("title", (Value(ValueType.STRING, "VP"),))),
    user=named(
        Claim("clearance", (Value(ValueType.INTEGER, 5),)),
        Claim("groups", (Value(ValueType.STRING, "Sales"), Value(ValueType.STRING, "HR"))),
        Claim("smart", (Value(ValueType.BOOLEAN, True),)),
        Claim("badge", (Value(ValueType.OCTETS, b"\x0a\x0b"),)),
        Claim("boss", (Value(ValueType.SID, EVERYONE),)),
    ),
    device=named(Claim("managed", (Value(ValueType.INTEGER, 1),))),
)


def resource_attributes() -> Acl:
    """[MS-DTYP] 2.4.4.15 one of each type of value."""
    sid = EVERYONE
    values = {
        1: pack("<q", -5),
        2: pack("<Q", 5),
        3: "HR\0".encode("utf-16-le"),
        5: pack("<I", len(sid)) + sid,
        6: pack("<Q", 1),
        16: pack("<I", 1) + b"\x0a",
    }
    names = {1: "signed", 2: "number", 3: "text", 5: "sid", 6: "truth", 16: "octets"}
    return Acl(tuple(_attribute(names[kind], kind, value) for kind, value in values.items()))


def _attribute(name: str, kind: int, value: bytes) -> Ace:
    head = pack("<IHHIII", 20 + len(value), kind, 0, 0, 1, 20)
    data = head + value + f"{name}\0".encode("utf-16-le")
    padded = data + bytes(-len(data) % 4)
    return Ace(AceType.SYSTEM_RESOURCE_ATTRIBUTE, 0, EVERYONE, 0, None, None, padded)
