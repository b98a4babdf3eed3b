"""Quotes values in errors, log lines and events: on one line, bounded, and paste-able."""

from __future__ import annotations

from typing import Final

LONGEST_QUOTED: Final = 300
"""Maximum length of a quoted value in an error, in characters."""

LONGEST_SHOWN: Final = 200
"""Maximum length of a name in a log line or an event, in characters."""


def quoted(value: object, longest: int = LONGEST_QUOTED) -> str:
    r"""Quote a refused value; text is in quotation marks.

    Backslashes are not doubled, as C{repr} does, since queue paths are full of them. Non-printable
    characters, which a terminal or a log viewer would interpret, are escaped.

    @param longest: the maximum number of characters; three dots replace the rest.
    """
    if not isinstance(value, str):
        return shown(repr(value), longest)
    mark = '"' if "'" in value and '"' not in value else "'"
    return f"{mark}{shown(value, longest)}{mark}"


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Show untrusted text on one line, paste-able.

    @param longest: the maximum number of characters; three dots replace the rest.
    """
    cut = text[: longest + 1]
    if not cut.isprintable():
        cut = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in cut
        )
    return cut if len(cut) <= longest else cut[:longest] + "..."


def is_unicode(text: str) -> bool:
    """Whether a text is valid Unicode, which databases and directories require: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of(value: object) -> str:
    """The type of a refused value, with its article: C{an int}."""
    return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun with its indefinite article; names that begin like C{UUID} have C{a}."""
    return f"{'an' if noun[:1] in 'aeioAEIO' else 'a'} {noun}"
