"""Decoder of bodies by BodyType, as System.Messaging's ActiveXMessageFormatter and COM write them.

The two differ for some types. If the bytes identify the writer, the result names it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import attrs
from zope.interface import implementer

from msmq.decoding.bodies.scalars import (
    LATEST,
    com_date_text,
    decimal_text,
    finite_or_text,
    guid_text,
    scaled_text,
    ticks_text,
)
from msmq.decoding.values import base64_text
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

_DATE: Final = 7
_BOOL: Final = 11
_STREAMED_OBJECT: Final = 68
_STORED_OBJECT: Final = 69
_FILETIME_EPOCH: Final = 504911232000000000
"""1601-01-01 in ticks since 0001-01-01."""


@attrs.frozen
class _Type:
    """The decoder of one body type.

    @ivar read: returns the value and a remark, which may be empty.
    @ivar size: size of the body in bytes; C{None} for any.
    """

    name: str
    read: Callable[[bytes], tuple[Any, str]]
    size: int | None = None


def _number(name: str, layout: str) -> _Type:
    struct = Struct("<" + layout)

    def read(data: bytes) -> tuple[Any, str]:
        (number,) = struct.unpack(data)
        return number, ""

    return _Type(name, read, struct.size)


def _signed_byte(data: bytes) -> tuple[int, str]:
    number = int.from_bytes(data, "little", signed=True)
    return number, f"; System.Messaging reads it as {data[0]}" if number < 0 else ""


_DOUBLE: Final = Struct("<d")
_SINGLE: Final = Struct("<f")


def _floating(struct: Struct) -> Callable[[bytes], tuple[Any, str]]:
    def read(data: bytes) -> tuple[Any, str]:
        (number,) = struct.unpack(data)
        return finite_or_text(number), ""

    return read


def _currency(data: bytes) -> tuple[str, str]:
    return scaled_text(int.from_bytes(data, "little", signed=True), 4), ""


def _date(data: bytes) -> tuple[str, str]:
    """Ticks of .NET or days of COM: as ticks, every date of COM since 1899 is after the year 9999."""
    ticks = int.from_bytes(data, "little", signed=True)
    if 0 <= ticks < LATEST:
        return str(ticks_text(ticks)), " in ticks, as System.Messaging writes it"
    text = com_date_text(*_DOUBLE.unpack(data))
    if text is None:
        raise BodyNotDecoded("is a VT_DATE that is not a valid time, neither in ticks nor in days")
    return text, " in days, as COM writes it"


def _truth(data: bytes) -> tuple[bool, str]:
    if len(data) == 1:
        return data != b"\0", " of one byte, as System.Messaging writes it"
    if len(data) == 2:
        return data != b"\0\0", " of two bytes, as COM writes it"
    raise BodyNotDecoded(f"is a VT_BOOL of {len(data)} bytes; it has 1 or 2")


def _wide_text(data: bytes) -> tuple[str, str]:
    if len(data) % 2:
        raise BodyNotDecoded(f"is UTF-16 text of {len(data)} bytes, an odd number")
    text = data.decode("utf-16-le", "surrogatepass")
    return text.removesuffix("\0"), ", with its NUL" if text.endswith("\0") else ""


def _narrow_text(data: bytes) -> tuple[str, str]:
    data = data.removesuffix(b"\0")
    try:
        return data.decode("ascii"), ""
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("utf-8"), " in UTF-8"
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), " in code page 1252, a guess"


def _filetime(data: bytes) -> tuple[str, str]:
    text = ticks_text(int.from_bytes(data, "little") + _FILETIME_EPOCH, utc=True)
    if text is None:
        raise BodyNotDecoded("is a VT_FILETIME after the year 9999")
    return text, ""


def _decimal(data: bytes) -> tuple[str, str]:
    return decimal_text(data), ""


def _binary(data: bytes) -> tuple[str, str]:
    return base64_text(data), " in base64"


def _guid(data: bytes) -> tuple[str, str]:
    return guid_text(data), ""


_TYPES: Final = {
    1: _Type("VT_NULL", lambda data: (None, "")),
    2: _number("VT_I2", "h"),
    3: _number("VT_I4", "i"),
    4: _Type("VT_R4", _floating(_SINGLE), 4),
    5: _Type("VT_R8", _floating(_DOUBLE), 8),
    6: _Type("VT_CY", _currency, 8),
    _DATE: _Type("VT_DATE", _date, 8),
    8: _Type("VT_BSTR", _wide_text),
    10: _number("VT_ERROR", "i"),
    _BOOL: _Type("VT_BOOL", _truth),
    14: _Type("VT_DECIMAL", _decimal, 16),
    16: _Type("VT_I1", _signed_byte, 1),
    17: _number("VT_UI1", "B"),
    18: _number("VT_UI2", "H"),
    19: _number("VT_UI4", "I"),
    20: _number("VT_I8", "q"),
    21: _number("VT_UI8", "Q"),
    22: _number("VT_INT", "i"),
    23: _number("VT_UINT", "I"),
    30: _Type("VT_LPSTR", _narrow_text),
    31: _Type("VT_LPWSTR", _wide_text),
    64: _Type("VT_FILETIME", _filetime, 8),
    65: _Type("VT_BLOB", _binary),
    72: _Type("VT_CLSID", _guid, 16),
    0x1011: _Type("VT_VECTOR of VT_UI1", _binary),
}
"""The types by their numbers, see [MS-MQMQ] 2.2.12 and [MS-OAUT] 2.2.7."""

_OBJECTS: Final = {_STREAMED_OBJECT: "VT_STREAMED_OBJECT", _STORED_OBJECT: "VT_STORED_OBJECT"}


@implementer(IBodyDecoder)
class ActiveXDecoder:
    """Values of the types of COM: numbers as numbers, VT_CY and VT_DECIMAL as text of all their digits,
    times in ISO 8601, bytes in base64.
    """

    name = "activex"

    def recognises(self, body: Body) -> bool:
        return body.body_type in _TYPES or body.body_type in _OBJECTS

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        kind = _TYPES.get(body.body_type)
        if kind is None:
            if (name := _OBJECTS.get(body.body_type)) is not None:
                raise BodyNotDecoded(f"is a {name}, which only its own class can read")
            raise BodyNotDecoded(f"has BodyType {body.body_type}, which is not a COM type")
        if kind.size is not None and len(body.data) != kind.size:
            raise BodyNotDecoded(f"is a {kind.name} of {len(body.data)} bytes; it has {kind.size}")
        value, remark = kind.read(body.data)
        return DecodedBody(self.name, f"{kind.name}{remark}", value)
