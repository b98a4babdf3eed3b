"""Budget of items and characters that decoding one body may use."""

from __future__ import annotations

from typing import Final

from msmq.interfaces.decoding import BodyNotDecoded, Limits

ITEMS: Final = 10_000
"""Items that a body may have however small it is, and C{ITEMS_A_BYTE} more for each of its bytes."""
ITEMS_A_BYTE: Final = 4
CHARACTERS: Final = 64 * 1024
"""The same of characters."""
CHARACTERS_A_BYTE: Final = 32


class Budget:
    """How much of the limits is left for one body.

    @param size: bytes of the body, in a format in which a few can expand to many: a caller that decodes
        thousands must not be drowned by bodies that are small.
    """

    def __init__(self, limits: Limits, size: int | None = None) -> None:
        self.limits = limits
        self._most_items, self._most_characters = limits.items, limits.characters
        if size is not None:
            self._most_items = min(limits.items, ITEMS + ITEMS_A_BYTE * size)
            self._most_characters = min(limits.characters, CHARACTERS + CHARACTERS_A_BYTE * size)
        self._items, self._characters = self._most_items, self._most_characters

    def item(self, count: int = 1) -> None:
        """Take C{count} items.

        @raise BodyNotDecoded: so many are not left.
        """
        if count > self._items:
            raise BodyNotDecoded(f"has more than {self._most_items} items")
        self._items -= count

    def characters(self, count: int) -> None:
        """Take C{count} characters.

        @raise BodyNotDecoded: so many are not left.
        """
        if count > self._characters:
            raise BodyNotDecoded(f"has more than {self._most_characters} characters")
        self._characters -= count

    def depth(self, depth: int) -> None:
        """See that values may lie so deep.

        @raise BodyNotDecoded: they may not.
        """
        if depth > self.limits.depth:
            raise BodyNotDecoded(f"is nested deeper than {self.limits.depth}")
