"""Numbers, sizes and durations with their units, as texts for people."""

from __future__ import annotations

from typing import Final

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATIONS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_PLAIN_GROUP: Final = 4


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
