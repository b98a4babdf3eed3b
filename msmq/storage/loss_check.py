"""Loss check: detects a replaced, restored or missing store by its generation mark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, StoreIncomplete
from msmq.persistence.changes import AppendEvent
from msmq.storage.damage import LOSS_ACCEPTED, DamagePolicy
from msmq.storage.generation_mark import GenerationMark


class LossCheck:
    """Compares a store with its generation mark.

    @param location: the name of the store, for people.
    @param read: reads the file of the mark.
    @raise StorageError: the mark cannot be read, and no loss is accepted.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, location: str, policy: DamagePolicy, read: Callable[[Path], bytes] = Path.read_bytes
    ) -> None:
        self._place = location
        self._policy = policy
        self._accepted: list[str] = []
        self.mark: GenerationMark | None = None
        try:
            self.mark = GenerationMark.read(policy.mark, read)
        except StorageError as error:
            if not policy.accepts_loss:
                raise
            self._accept(str(error))

    def check_empty(self) -> None:
        """Check, for a missing store, that none was used here before.

        @raise StoreIncomplete: there was one, and no loss is accepted.
        """
        if self.mark is not None:
            self.found(
                "the store that was used last is missing or empty; restore it, or start with --accept-loss to"
                " begin with an empty one"
            )

    def check_store(self, store: bytes) -> None:
        """Check that it is the store that the mark names.

        @raise StoreIncomplete: it is another one, and no loss is accepted.
        """
        if self.mark is not None and self.mark.store != store:
            self.found(
                "not the store that was used last; put that one back, or start with --accept-loss to use this"
                " one"
            )

    def check(self, store: bytes, number: int, remedy: str) -> None:
        """Check that the store is not behind its mark.

        @param number: the progress of the store.
        @param remedy: what may be missing in a store that is behind.
        @raise StoreIncomplete: it is, or is another one, and no loss is accepted.
        """
        self.check_store(store)
        mark = self.mark
        if mark is not None and number < mark.number:
            self.found(
                f"an older copy, or incomplete: it ends with generation {number}, but had {mark.number};"
                f" restore {remedy}, or start with --accept-loss to use what is there"
            )

    def found(self, text: str) -> None:
        """Refuse or accept a loss.

        @param text: what is missing and what to do.
        @raise StoreIncomplete: no loss is accepted.
        """
        if not self._policy.accepts_loss:
            raise StoreIncomplete(f"{self._place}: {text}")
        self.mark = None
        self._accept(f"{self._place}: {text}")

    def events(self) -> list[AppendEvent]:
        """The events of accepted losses."""
        now = self._policy.now()
        return [AppendEvent(now, b"", LOSS_ACCEPTED, text) for text in self._accepted]

    def _accept(self, text: str) -> None:
        self._accepted.append(text)
        self.log.warn("{text}: accepted", text=text)
