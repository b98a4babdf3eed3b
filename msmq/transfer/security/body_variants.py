"""Choice between the clear bodies that an encrypted body may stand for (reading 110)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unicodedata import category

_WIDE_TEXTS: Final = frozenset({8, 31})
"""VT_BSTR and VT_LPWSTR: bodies in UTF-16. [MS-MQMQ] 2.2.12."""

_NO_TEXT: Final = frozenset({"Cc", "Cn", "Co"})
"""Categories of Unicode: controls, and characters that are unassigned or private."""

_CONTROLS: Final = frozenset("\0\t\n\v\f\r")
"""Controls that are in texts."""


def choose_body(body_type: int, variants: Sequence[bytes]) -> bytes | None:
    """The body of an unsigned message; C{None} if its type shows that none of several is right.

    A body that has to be text in UTF-16 is one of assigned characters, of the fewest blocks of Unicode, as a
    text is in few and a wrong key gives all. Of others, the first in UTF-8 is preferred, as
    the XML of System.Messaging is, and the first variant where none is.

    @param body_type: BodyType of the message.
    @param variants: the most likely first; a single one is not checked.
    """
    if len(variants) == 1:
        return variants[0]
    if body_type in _WIDE_TEXTS:
        texts = [body for body in variants if _is_wide_text(body)]
        return min(texts, key=lambda body: len(set(body[1::2])), default=None)
    return next((body for body in variants if _is_utf_8(body)), variants[0])


def _is_wide_text(body: bytes) -> bool:
    try:
        text = body.decode("utf-16-le")
    except UnicodeDecodeError:
        return False
    return not any(character not in _CONTROLS and category(character) in _NO_TEXT for character in text)


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
