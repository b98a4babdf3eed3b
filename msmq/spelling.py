"""Suggestions for misspelt words: names of keys, options, verbs and queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST: Final = 3
"""Limit on the typing errors in a word for which there is a suggestion."""

_LETTERS: Final = 4
"""Characters of a word for each typing error."""

_LONGEST: Final = 500
"""Limit on the characters of a word that is compared; the longest path of a queue is shorter."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that differs least, without case; C{None} if each differs by too much.

    One typing error (a character that is missing, added, different or exchanged with the next) is accepted in
    a word of up to seven characters, another for each further four, three at most. A word of more than 500
    characters has no suggestion.
    """
    if len(word) > _LONGEST:
        return None
    wanted = word.casefold()
    limit = min(_MOST, max(1, len(wanted.lstrip("-")) // _LETTERS))
    best: tuple[int, str] | None = None
    for each in known:
        other = each.casefold()
        if abs(len(other) - len(wanted)) <= limit:
            errors = _distance(wanted, other)
            if errors <= limit and (best is None or errors < best[0]):
                best = errors, each
    return None if best is None else best[1]


def _distance(one: str, other: str) -> int:
    """The number of typing errors between two words."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, right in enumerate(other, 1):
            errors = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                errors = min(errors, older[j - 2] + 1)
            row.append(errors)
    return row[-1]
