"""Reads the rows around one that is damaged in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msmq.storage.readers import RowDamaged

_Page = TypeVar("_Page")


def until_damage(read: Callable[[int], _Page], end: int) -> tuple[_Page, RowDamaged | None]:
    """A page that ends at a number, or before the first damaged row.

    If the page has no next one, the rows after the damaged one have to be read from the number after it on.

    @param read: reads rows up to a number.
    @raise StorageError: the store cannot be read.
    """
    damage: RowDamaged | None = None
    while True:
        try:
            return read(end), damage
        except RowDamaged as error:
            # A page is verified in order, but other rows of it may have been damaged or trimmed meanwhile.
            damage, end = error, min(end - 1, error.number)
