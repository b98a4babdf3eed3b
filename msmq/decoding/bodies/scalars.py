"""Formats times and numbers of .NET and COM as text."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

from msmq.interfaces.decoding import BodyNotDecoded
from msmq.wire.guid import guid_from_bytes

TICKS: Final = 10_000_000
"""Ticks of .NET, of 100 ns each, in a second."""
LATEST: Final = 3155378976000000000
"""The tick with which the year 10000 begins; ticks are counted from 0001-01-01."""

_FIRST: Final = datetime(1, 1, 1)
_FIRST_OF_COM: Final = datetime(1899, 12, 30)


def ticks_text(ticks: int, *, utc: bool = False) -> str | None:
    """A time in ISO 8601, to 100 ns; C{None} if it is out of range."""
    if not 0 <= ticks < LATEST:
        return None
    seconds, fraction = divmod(ticks, TICKS)
    return _with_fraction((_FIRST + timedelta(seconds=seconds)).isoformat(), fraction) + "Z" * utc


def duration_text(ticks: int) -> str:
    """A duration as .NET writes it: C{[-][days.]hours:minutes:seconds[.fraction]}."""
    seconds, fraction = divmod(abs(ticks), TICKS)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    text = f"{f'{days}.' if days else ''}{hour:02}:{minute:02}:{second:02}"
    return "-" * (ticks < 0) + _with_fraction(text, fraction)


def xml_duration_text(ticks: int) -> str:
    """A duration as XML writes it, C{-PT5M44S} for example."""
    seconds, fraction = divmod(abs(ticks), TICKS)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    date = f"{days}D" if days else ""
    time = (f"{hour}H" if hour else "") + (f"{minute}M" if minute else "")
    if second or fraction or not (date or time):
        time += _with_fraction(str(second), fraction) + "S"
    return f"{'-' * (ticks < 0)}P{date}{'T' if time else ''}{time}"


def finite_or_text(number: float) -> float | str:
    """The number, or its .NET name for NaN and infinities, which JSON cannot express."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def com_date_text(days: float) -> str | None:
    """A DATE of COM, days since 1899-12-30, in ISO 8601; C{None} if it is out of range.

    The fraction is the time of the day, for days before that one too: -1.25 is 06:00 on 1899-12-29.
    """
    if not -657434 <= days < 2958466:
        return None
    day = int(days)
    try:
        return (_FIRST_OF_COM + timedelta(days=day, seconds=round(abs(days - day) * 86400, 3))).isoformat()
    except OverflowError:
        return None


def guid_text(data: bytes) -> str:
    """The sixteen bytes of a GUID in lower case, without braces, as .NET and XML write it."""
    return str(guid_from_bytes(data))


def scaled_text(number: int, scale: int) -> str:
    """C{number} / 10**C{scale}, exactly."""
    sign, digits = "-" * (number < 0), str(abs(number)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :].rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def decimal_text(data: bytes) -> str:
    """The sixteen bytes of a DECIMAL ([MS-OAUT] 2.2.26) as text.

    @raise BodyNotDecoded: its scale is invalid.
    """
    scale, sign = data[2], data[3]
    if scale > 28 or sign not in (0, 0x80):
        raise BodyNotDecoded(f"has a DECIMAL with scale {scale} and sign {sign:#04x}")
    high, low = int.from_bytes(data[4:8], "little"), int.from_bytes(data[8:16], "little")
    number = high << 64 | low
    return scaled_text(-number if sign else number, scale)


def _with_fraction(text: str, fraction: int) -> str:
    digits = f"{fraction:07}".rstrip("0")
    return f"{text}.{digits}" if digits else text
