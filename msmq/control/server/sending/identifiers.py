"""Identifiers of accepted messages, as ranges of consecutive ones."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.structures.identifiers import MessageIdentifier


@attrs.define
class IdentifierRange:
    """Consecutive identifiers of one queue manager; a million fit into one of these."""

    first: MessageIdentifier
    count: int = 1

    def is_followed_by(self, identifier: MessageIdentifier) -> bool:
        """Whether C{identifier} would make this range one longer."""
        return (
            identifier.queue_manager == self.first.queue_manager
            and identifier.ordinal == self.first.ordinal + self.count
        )

    def texts(self, start: int, count: int) -> list[str]:
        """At most C{count} identifiers from C{start} on, as text."""
        first, last = start, min(start + count, self.count)
        return [
            str(MessageIdentifier(self.first.queue_manager, self.first.ordinal + number))
            for number in range(first, last)
        ]


def add_identifiers(ranges: list[IdentifierRange], identifiers: Iterable[MessageIdentifier]) -> None:
    """Append identifiers to ranges, the last of which grows where it can."""
    for identifier in identifiers:
        if ranges and ranges[-1].is_followed_by(identifier):
            ranges[-1].count += 1
        else:
            ranges.append(IdentifierRange(identifier))
