"""Sizes, ages and rates as texts for people."""

from __future__ import annotations

from typing import Final

_EXACT: Final = 10_000
"""Numbers below it are printed with all their digits."""

_STEP: Final = 1024
_WITH_DECIMAL: Final = 100
"""Values below it are printed with one decimal."""

_SUFFIXES: Final = ("K", "M", "G", "T", "P", "E")
_AGES: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def size_text(size: int) -> str:
    """A number of bytes as C{ls -h} prints it: C{648}, C{12.7K}, C{3.1G}; a suffix is a power of 1024."""
    if size < _EXACT:
        return str(size)
    value, number = size / _STEP, 0
    while value >= _STEP - 0.5 and number + 1 < len(_SUFFIXES):
        value, number = value / _STEP, number + 1
    suffix = _SUFFIXES[number]
    return f"{value:.1f}{suffix}" if value < _WITH_DECIMAL else f"{value:.0f}{suffix}"


def age_text(seconds: float) -> str:
    """A duration in its two largest units: C{0 s}, C{45 s}, C{3 m 5 s}, C{2 d 4 h}."""
    left = max(0, int(seconds))
    parts: list[tuple[int, str]] = []
    for unit, length in _AGES:
        count, left = divmod(left, length)
        if count or (parts and len(parts) < 2):
            parts.append((count, unit))
    shown = [f"{count} {unit}" for count, unit in parts[:2] if count]
    return " ".join(shown) or "0 s"


def rate_text(rate: float) -> str:
    """A rate a second, with one decimal below 100: C{0}, C{0.5}, C{99.9}, C{1234}."""
    return f"{rate:.1f}".removesuffix(".0") if rate < _WITH_DECIMAL else f"{rate:.0f}"
