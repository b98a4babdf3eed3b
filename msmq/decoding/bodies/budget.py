"""Budget of items and characters that decoding one body may use."""

from __future__ import annotations

from typing import Final

from msmq.interfaces.decoding import BodyNotDecoded, Limits

ITEMS: Final = 10_000
"""Limit on items of an empty body, and C{ITEMS_A_BYTE} more for each byte."""
ITEMS_A_BYTE: Final = 4
CHARACTERS: Final = 64 * 1024
"""Limit on characters, likewise."""
CHARACTERS_A_BYTE: Final = 32


class Budget:
    """The remaining limits of one body.

    @param size: size of the body in bytes. In some formats a few bytes can expand to many, and a caller that
        decodes thousands of small bodies has to be protected.
    """

    def __init__(self, limits: Limits, size: int | None = None) -> None:
        self.limits = limits
        self._most_items, self._most_characters = limits.items, limits.characters
        if size is not None:
            self._most_items = min(limits.items, ITEMS + ITEMS_A_BYTE * size)
            self._most_characters = min(limits.characters, CHARACTERS + CHARACTERS_A_BYTE * size)
        self._items, self._characters = self._most_items, self._most_characters

    def item(self, count: int = 1) -> None:
        """Consume C{count} items. @raise BodyNotDecoded: the limit is exceeded."""
        if count > self._items:
            raise BodyNotDecoded(f"has more than {self._most_items} items")
        self._items -= count

    def characters(self, count: int) -> None:
        """Consume C{count} characters. @raise BodyNotDecoded: the limit is exceeded."""
        if count > self._characters:
            raise BodyNotDecoded(f"has more than {self._most_characters} characters")
        self._characters -= count

    def depth(self, depth: int) -> None:
        """Check the nesting depth of values.

        @raise BodyNotDecoded: the limit is exceeded.
        """
        if depth > self.limits.depth:
            raise BodyNotDecoded(f"is nested deeper than {self.limits.depth}")
