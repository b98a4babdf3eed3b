"""Numbers, sizes and durations with their units: as texts for people, and as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATIONS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_PLAIN_GROUP: Final = 4

KIBIBYTE: Final = 1024
"""The unit of quotas, in bytes."""

_SIZE_UNITS: Final[Mapping[str, int]] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_TIME_UNITS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""The milliseconds of each unit."""

SIZE_FORM: Final = 'text with a unit as "64 MiB" (B, KiB, MiB, GiB, TiB of 1,024; kB, MB, GB, TB of 1,000)'
"""What L{parse_size} accepts, in words."""

DURATION_FORM: Final = 'text with a unit as "12 h" (ms, s, min, h, d, w)'
"""What L{parse_duration} accepts, in words."""

_FRACTION_DIGITS: Final = 9
_PART: Final = r"([0-9]{1,18})(?:\.([0-9]{1,9}))?[ ]?([A-Za-z]{1,3})"
_QUANTITY: Final = re.compile(_PART)
_QUANTITIES: Final = re.compile(rf"{_PART}(?:[ ]?{_PART}){{0,3}}")


def count(number: int) -> str:
    """A number with its thousands separated by thin spaces: C{12 345}; four digits stay together."""
    text = f"{number:,}"
    return str(number) if len(str(abs(number))) <= _PLAIN_GROUP else text.replace(",", "\u202f")


def decimal(number: float) -> str:
    """A number as a file has it, without a zero fraction and, from 0.0001 to 10**15, without an exponent."""
    return f"{number:.15g}"


def size(number: int) -> str:
    """A number of bytes with its unit: C{648 B}, C{12.7 KiB}, C{3.1 GiB}."""
    value, unit = float(number), 0
    while value >= _STEP - 0.05 and unit + 1 < len(_UNITS):
        value, unit = value / _STEP, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def kilobytes(number: int | None) -> str:
    """A quota, which is in units of 1,024 bytes; C{None} is no limit."""
    return "no limit" if number is None else size(number * _STEP)


def seconds(number: float | None) -> str | None:
    """A short time with its unit: C{0.4 ms}, C{37 ms}, C{2.5 s}."""
    if number is None:
        return None
    if number >= 1:
        return f"{number:.1f} s"
    return f"{number * 1000:.1f} ms" if number < 0.01 else f"{number * 1000:.0f} ms"


def duration(seconds: float) -> str:
    """A duration in its two largest units: C{0 s}, C{3 min 5 s}, C{2 d 4 h}."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in _DURATIONS:
        number, left = divmod(left, length)
        if parts or number or unit == "s":
            parts.append(f"{number} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for position, part in enumerate(parts) if position == 0 or part[0] != "0")


def parse_size(text: str) -> int:
    """A number of bytes of a text with a unit: C{64 KiB}, C{1.5GiB}, C{10 GB}; rounded up.

    Units of 1,024 have an i, units of 1,000 have none. KB, which is used for both, is refused.

    @raise ValueError: it is not such a text.
    """
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[3] not in _SIZE_UNITS:
        raise ValueError(f"is not {SIZE_FORM}")
    return -(-_scaled(found[1], found[2]) * _SIZE_UNITS[found[3]] // 10**_FRACTION_DIGITS)


def parse_duration(text: str) -> float:
    """A number of seconds of a text with units: C{30 s}, C{1.5h}, C{500 ms}, C{2 d 4 h}.

    @raise ValueError: it is not such a text.
    """
    total = 0
    used: list[int] = []
    if _QUANTITIES.fullmatch(text.strip()) is not None:
        for whole, fraction, name in _QUANTITY.findall(text):
            unit = _TIME_UNITS.get(name, 0)
            # The larger unit is first, as in what is printed.
            used.append(0 if used and unit >= used[-1] else unit)
            total += _scaled(whole, fraction) * unit
    if not used or 0 in used:
        raise ValueError(f"is not {DURATION_FORM}")
    return total / (1000 * 10**_FRACTION_DIGITS)


def _scaled(whole: str, fraction: str | None) -> int:
    """A decimal number times 10 to the number of digits of a fraction: exact, as a float is not."""
    return int(whole + (fraction or "").ljust(_FRACTION_DIGITS, "0"))
