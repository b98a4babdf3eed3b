"""Messages that a destination with transactions has committed, so that none is published twice.

The destination keeps a record of them, which changes in the same transaction as the messages are published:
after a kill at any moment the record tells which messages were published and may be received again.
docs/design/bridge.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import Final, Self
from uuid import UUID

import attrs

from msmq.structures.identifiers import MessageIdentifier

LARGEST: Final = 30_000
"""Limit on the messages of a record; the oldest are dropped first."""

_MAGIC: Final = b"msmq-bridge 1\n"
_ENTRY: Final = Struct(">16sIQ")


@attrs.define
class CommittedMessages:
    """The messages that were committed, and whose removal from their queue is not known.

    @ivar held: their identifiers, in the order of their transactions, and their LookupIdentifiers.
    """

    held: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def read(cls, record: bytes) -> Self:
        """Read a record of L{record}.

        @raise ValueError: it is not one.
        """
        entries = record.removeprefix(_MAGIC)
        if not record.startswith(_MAGIC) or len(entries) % _ENTRY.size:
            raise ValueError("the record of committed messages is not one of a bridge")
        if len(entries) > LARGEST * _ENTRY.size:
            raise ValueError(f"the record of committed messages has more than {LARGEST} of them")
        return cls(
            {
                str(MessageIdentifier(UUID(bytes=queue_manager), ordinal)): lookup
                for queue_manager, ordinal, lookup in _ENTRY.iter_unpack(entries)
            }
        )

    def record(self, added: Mapping[str, int]) -> bytes:
        """The record as it shall be after a transaction.

        @param added: the messages of the transaction, as in C{held}.
        """
        entries = list({**self.held, **added}.items())[-LARGEST:]
        return _MAGIC + b"".join(_entry(identifier, lookup) for identifier, lookup in entries)

    def committed(self, added: Mapping[str, int]) -> None:
        """A transaction with these messages was committed."""
        self.held |= added
        for identifier in list(self.held)[: max(0, len(self.held) - LARGEST)]:
            del self.held[identifier]

    def removed(self, identifiers: Iterable[str]) -> None:
        """Messages are durably removed from their queue."""
        for identifier in identifiers:
            self.held.pop(identifier, None)

    def keep(self, identifiers: Collection[str]) -> None:
        """Forget all messages but these: the others are not in the queue any more."""
        self.held = {
            identifier: lookup for identifier, lookup in self.held.items() if identifier in identifiers
        }


def _entry(identifier: str, lookup: int) -> bytes:
    found = MessageIdentifier.parse(identifier)
    return _ENTRY.pack(found.queue_manager.bytes, found.ordinal, lookup)
