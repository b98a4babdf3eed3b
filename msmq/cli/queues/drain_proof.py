"""The proof of a drain: which of the messages that have left a queue have arrived at its destination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msmq.structures.identifier_digest import add_to_digest, digest_text
from msmq.structures.identifiers import MessageIdentifier


class DrainProof:
    """Compares identifiers that were sent with those that arrive.

    @param sent: the identifiers of the messages that have left, in that order.
    """

    def __init__(self, sent: Sequence[str]) -> None:
        self._sent = {identifier: index for index, identifier in enumerate(sent)}
        self._digest = _digest(sent)
        self._arrived: dict[str, None] = {}
        self._twice = 0
        self._reordered = 0
        self._last = -1

    def add(self, arrived: Iterable[str]) -> None:
        """More identifiers from the message log of the destination; those of other messages do not count."""
        for identifier in arrived:
            index = self._sent.get(identifier)
            if index is None:
                continue
            if identifier in self._arrived:
                self._twice += 1
                continue
            self._arrived[identifier] = None
            self._reordered += index < self._last
            self._last = index

    @property
    def is_complete(self) -> bool:
        """Whether all have arrived."""
        return len(self._arrived) == len(self._sent)

    @property
    def holds(self) -> bool:
        """Whether each has arrived, and has arrived once."""
        return self.is_complete and not self._twice

    def result(self) -> dict[str, Any]:
        """The counts and the digests of both sides."""
        missing = [identifier for identifier in self._sent if identifier not in self._arrived]
        return {
            "sent": len(self._sent),
            "sent_digest": self._digest,
            "arrived": len(self._arrived),
            "arrived_digest": _digest(self._arrived),
            "missing": len(missing),
            "first_missing": missing[0] if missing else None,
            "twice": self._twice,
            "reordered": self._reordered,
        }


def _digest(identifiers: Iterable[str]) -> str:
    return digest_text(add_to_digest(0, (MessageIdentifier.parse(each).to_bytes() for each in identifiers)))
