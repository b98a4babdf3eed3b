"""How much of the limits is left for one body."""

from __future__ import annotations

from msmq.interfaces.decoding import BodyNotDecoded, Limits


class Budget:
    """How much of the limits is left for one body."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._items = limits.items
        self._characters = limits.characters

    def item(self, count: int = 1) -> None:
        """Take C{count} items.

        @raise BodyNotDecoded: so many are not left.
        """
        if count > self._items:
            raise BodyNotDecoded(f"has more than {self.limits.items} items")
        self._items -= count

    def characters(self, count: int) -> None:
        """Take C{count} characters.

        @raise BodyNotDecoded: so many are not left.
        """
        if count > self._characters:
            raise BodyNotDecoded(f"has more than {self.limits.characters} characters")
        self._characters -= count

    def depth(self, depth: int) -> None:
        """See that values may lie so deep.

        @raise BodyNotDecoded: they may not.
        """
        if depth > self.limits.depth:
            raise BodyNotDecoded(f"is nested deeper than {self.limits.depth}")
