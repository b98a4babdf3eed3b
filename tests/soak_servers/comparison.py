"""What did not come back after a soak, and why it may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from msmq.manager.peers.ack_sessions import MOST_SOURCES
from msmq.manager.peers.peer_table import MOST_PEERS
from msmq.storage.log.files import OPEN_FILES
from msmq.transfer.receivers import MOST_SEQUENCES
from tests.soak_servers.estate import Sample


@attrs.frozen
class Remainder:
    """How much more a server may use after the drain than at the start.

    @ivar most: the limit, however long the soak was.
    """

    most: float
    reason: str


REMAINDERS: Final[Mapping[str, Remainder]] = {
    "resident": Remainder(
        30_000,
        "the allocator keeps arenas that were once full; duplicates, keys and delivery records grow to their"
        " limits",
    ),
    "objects": Remainder(float("inf"), "tables grow to their limits; each type of object has a limit below"),
    "descriptors": Remainder(
        2 * OPEN_FILES + 8,
        "two threads of the record log keep the segments that they have used open, up to a limit; sessions",
    ),
    "file_count": Remainder(
        150, "segments of the record log, of 1 MiB here, up to twice the size of a checkpoint with all events"
    ),
    "files": Remainder(
        150_000, "free segments of the record log, which are filled with zeros before they are needed"
    ),
    "log": Remainder(float("inf"), "it grows by at most 20 KB a minute, which is compared with the duration"),
    "outgoing": Remainder(8, "an empty outgoing queue is removed when it was not used for an hour"),
    "sessions": Remainder(4, "a session is closed when it was idle for session_cleanup, five minutes"),
}
"""All other parts of a sample have to be what they were, or less."""

_FORMAT_NAMES: Final = 1024
"""The caches of format names and of the packets' common parts have so many entries."""

TYPES: Final[Mapping[str, Remainder]] = {
    "msmq.manager.peers.peer_table.Peer": Remainder(MOST_PEERS, "queue managers that had a session"),
    "uuid.UUID": Remainder(MOST_PEERS + MOST_SOURCES, "their identifiers, and those of senders"),
    "builtins.list": Remainder(MOST_PEERS, "their sessions"),
    "msmq.transfer.receivers.Receiver": Remainder(MOST_SEQUENCES, "sequences that were sent"),
    "builtins.dict": Remainder(MOST_SEQUENCES, "the receivers of each"),
    "msmq.transfer.duplicates._Page": Remainder(5_000, "identifiers of the last 30 minutes"),
    "msmq.transfer.duplicates._Entry": Remainder(5_000, "identifiers of the last 30 minutes"),
    **{
        f"{module}.{kind}": Remainder(3 * _FORMAT_NAMES, "cached names of queues that came and went")
        for module, kind in (
            ("builtins", "tuple"),
            ("_struct", "Struct"),
            ("msmq.queues.arriving.packet_builder", "_Names"),
            ("msmq.queues.arriving.packet_builder", "PacketBuilder"),
            ("msmq.structures.names.path_name", "PathName"),
            ("msmq.structures.names.format_name", "PrivateFormatName"),
            ("msmq.structures.names.queue_names", "PrivateQueueFormatNameId"),
        )
    },
}
"""The types of objects of which there may be many more, since the table that holds them has a limit."""

MOST_OBJECTS: Final = 1_000
"""How many more objects there may be of any other type, less than one for ten rounds of an hour."""

LOG: Final = 20.0
"""Kilobytes of log in a minute, without the lines about requests of the load."""


def left_over(name: str, first: Sample, last: Sample, minutes: float) -> list[str]:
    """What did not come back and has no reason, in a line each."""
    problems: list[str] = []
    for field in attrs.fields(Sample):
        growth = getattr(last, field.name) - getattr(first, field.name)
        most = REMAINDERS[field.name].most if field.name in REMAINDERS else 0
        if field.name == "log":
            most = LOG * max(1.0, minutes)
        if growth > most:
            problems.append(f"{name}: {field.name} grew by {growth:,.0f}, more than {most:,.0f}")
    return problems


def grown_types(name: str, first: Counter[str], last: Counter[str]) -> list[str]:
    """The types of which there are too many more objects than before, in a line each."""
    problems: list[str] = []
    for kind, growth in (last - first).most_common():
        most = TYPES[kind].most if kind in TYPES else MOST_OBJECTS
        if growth > most:
            problems.append(f"{name}: {growth:,} more objects of {kind}, more than {most:,.0f}")
    return problems


def comparison(samples: Mapping[str, Sequence[Sample]]) -> str:
    """Start, middle, most and end of each server, with the reasons of what is left.

    What has grown as much in the second half as in the first has not reached its limit, if it has one.
    """
    rows = [("server", "what", "start", "half", "most", "end", "reason")]
    for name, taken in samples.items():
        for field in attrs.fields(Sample):
            values = [getattr(sample, field.name) for sample in taken]
            reason = REMAINDERS[field.name].reason if field.name in REMAINDERS else ""
            kept = reason if values[-1] > values[0] else ""
            figures = (values[0], values[len(values) // 2], max(values), values[-1])
            cells = (f"{value:,.0f}" for value in figures)
            rows.append((name, field.name, *cells, kept))  # type: ignore[arg-type]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[6]]).rstrip()
        for row in rows
    )
