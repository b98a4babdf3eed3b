"""What a drain keeps in the store: its destination, its counts, and the identifiers that it has moved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.structures.identifier_digest import add_to_digest

RECORD: Final = "drain."
"""The prefix of a value in the store; the identifier of the queue follows."""

PAGE: Final = "drain-page."
"""The prefix of a page of identifiers; the identifier of the queue and the number of the page follow."""

PAGE_LENGTH: Final = 512
"""Identifiers of one page."""

MOST_PAGES: Final = 2048
"""Limit on pages of one drain; of the oldest identifiers only the count and the digest are kept."""

IDENTITY_SIZE: Final = 20


@attrs.frozen(kw_only=True)
class DrainFigures:
    """The counts of a drain.

    @ivar digest: of the identifiers at the destination.
    @ivar first: identifiers that are not kept any more.
    """

    moved: int = 0
    size: int = 0
    digest: int = 0
    first: int = 0


@attrs.define(eq=False, kw_only=True)
class DrainRecord:
    """A drain as the store has it; it changes with the same commit as the messages that it moves.

    @ivar queue: the identifier of the queue.
    @ivar owner: the queue manager that hosts the destination, as far as packets state it.
    @ivar acknowledge_to: the format name of the queue that gets acknowledgements of arrival; empty if none
        are requested.
    @ivar began: seconds since 1970-01-01 UTC.
    @ivar identities: the identifiers from C{figures.first} on.
    """

    queue: UUID
    destination: str
    owner: UUID
    in_clear: bool
    acknowledge_to: str
    began: float
    figures: DrainFigures = DrainFigures()
    identities: bytearray = attrs.field(factory=bytearray, repr=False)

    def created(self) -> Change:
        """The change that stores a new drain."""
        return self._put(self.figures)

    def removed(self) -> list[Change]:
        """The changes that remove it from the store."""
        first, figures = self.figures.first // PAGE_LENGTH, self.figures
        pages = range(first, -(-figures.moved // PAGE_LENGTH))
        return [RemoveState(self._name), *(RemoveState(self._page(number)) for number in pages)]

    def after(self, identities: Sequence[bytes], size: int) -> tuple[DrainFigures, list[Change]]:
        """The figures after these messages have been moved too, and the changes to store with that.

        L{moved} has to follow once they are stored.
        """
        before = self.figures
        moved = before.moved + len(identities)
        last = moved // PAGE_LENGTH
        first = max(before.first, (last - MOST_PAGES + 1) * PAGE_LENGTH)
        figures = DrainFigures(
            moved=moved,
            size=before.size + size,
            digest=add_to_digest(before.digest, identities),
            first=first,
        )
        changes: list[Change] = [self._put(figures)]
        begun = before.moved // PAGE_LENGTH
        kept = self.identities[(begun * PAGE_LENGTH - before.first) * IDENTITY_SIZE :] + b"".join(identities)
        page_size = PAGE_LENGTH * IDENTITY_SIZE
        for index, start in enumerate(range(0, len(kept), page_size), begun):
            changes.append(PutState(self._page(index), bytes(kept[start : start + page_size])))
        for number in range(before.first // PAGE_LENGTH, first // PAGE_LENGTH):
            changes.append(RemoveState(self._page(number)))
        return figures, changes

    def moved(self, figures: DrainFigures, identities: Sequence[bytes]) -> None:
        """The changes of L{after} are stored."""
        self.identities += b"".join(identities)
        del self.identities[: (figures.first - self.figures.first) * IDENTITY_SIZE]
        self.figures = figures

    def part(self, after: int, count: int) -> list[bytes]:
        """At most C{count} identifiers, without the first C{after} of the drain."""
        start = max(after - self.figures.first, 0)
        end = min(start + count, len(self.identities) // IDENTITY_SIZE)
        return [
            bytes(self.identities[index * IDENTITY_SIZE : (index + 1) * IDENTITY_SIZE])
            for index in range(start, end)
        ]

    @property
    def _name(self) -> str:
        return f"{RECORD}{self.queue}"

    def _page(self, number: int) -> str:
        return f"{PAGE}{self.queue}.{number:08d}"

    def _put(self, figures: DrainFigures) -> PutState:
        document = {
            "destination": self.destination,
            "owner": str(self.owner),
            "in_clear": self.in_clear,
            "acknowledge_to": self.acknowledge_to,
            "began": self.began,
            **attrs.asdict(figures),
        }
        return PutState(self._name, json.dumps(document).encode())


@attrs.frozen
class DamagedDrain:
    """A stored drain that cannot be read.

    @ivar queue: the identifier of the queue, as the name of the value has it.
    @ivar reason: what is wrong with it.
    @ivar names: the names of its values in the store.
    """

    queue: str
    reason: str
    names: Sequence[str]

    def removed(self) -> list[Change]:
        """The changes that remove its values from the store."""
        return [RemoveState(name) for name in self.names]


def stored_drains(state: Mapping[str, bytes]) -> tuple[list[DrainRecord], list[DamagedDrain]]:
    """The drains in the store, the oldest first, and those that cannot be read."""
    found: list[DrainRecord] = []
    damaged: list[DamagedDrain] = []
    for name in state:
        if name.startswith(RECORD):
            queue = name[len(RECORD) :]
            try:
                found.append(_read(UUID(queue), json.loads(state[name]), state))
            except (ValueError, KeyError, TypeError) as error:
                missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
                pages = [each for each in state if each.startswith(f"{PAGE}{queue}.")]
                damaged.append(DamagedDrain(queue, missing, [name, *pages]))
    return sorted(found, key=lambda record: record.began), damaged


def _read(queue: UUID, document: Mapping[str, object], state: Mapping[str, bytes]) -> DrainRecord:
    values = {name: document[name] for name in ("moved", "size", "digest", "first")}
    if not all(isinstance(value, int) and value >= 0 for value in values.values()):
        raise ValueError("figures that are not numbers")
    figures = DrainFigures(**values)  # type: ignore[arg-type]
    pages = range(figures.first // PAGE_LENGTH, -(-figures.moved // PAGE_LENGTH))
    identities = bytearray(b"".join(state[f"{PAGE}{queue}.{number:08d}"] for number in pages))
    if len(identities) != (figures.moved - figures.first) * IDENTITY_SIZE:
        raise ValueError("pages that do not match the figures")
    return DrainRecord(
        queue=queue,
        destination=str(document["destination"]),
        owner=UUID(str(document["owner"])),
        in_clear=bool(document["in_clear"]),
        acknowledge_to=str(document.get("acknowledge_to", "")),
        began=float(str(document["began"])),
        figures=figures,
        identities=identities,
    )
