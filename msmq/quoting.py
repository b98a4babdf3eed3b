"""Quotes values in errors, log lines and events: on one line, bounded, and ready to be pasted back."""

from __future__ import annotations

from typing import Final

LONGEST_QUOTED: Final = 300
"""Characters of a value that an error quotes, of those that callers and peers choose."""

LONGEST_SHOWN: Final = 200
"""Characters of a name that a log line or an event shows."""


def quoted(value: object, longest: int = LONGEST_QUOTED) -> str:
    r"""A value that is refused, in quotation marks if it is text.

    Backslashes stay as they are, since queue paths are full of them; C{repr} doubles them.
    Characters that do not print, which a terminal or a log viewer would obey, are escaped.

    @param longest: how many characters are quoted; three dots stand for the rest.
    """
    if not isinstance(value, str):
        return shown(repr(value), longest)
    mark = '"' if "'" in value and '"' not in value else "'"
    return f"{mark}{shown(value, longest)}{mark}"


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """A text that any peer may have chosen, on one line, and as it can be pasted.

    @param longest: how many of its characters are shown; three dots stand for the rest.
    """
    cut = text[: longest + 1]
    if not cut.isprintable():
        cut = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in cut
        )
    return cut if len(cut) <= longest else cut[:longest] + "..."


def kind_of(value: object) -> str:
    """The type of a value that is refused, with its article: C{an int}."""
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun with its indefinite article; names that begin like C{UUID} have C{a}."""
    return f"{'an' if noun[:1] in 'aeioAEIO' else 'a'} {noun}"
