"""Runs: consecutive messages with the same properties in one record of the control API.

A run that is sent has C{run} in its header: the number of messages, whose bodies have equal sizes, or a
list of the sizes of their bodies. The bodies follow each other in the body of the record.
In a run that is received C{run} is an object: C{messages}, their number, C{id}, the beginning of their
identifiers, and C{columns}, the keys whose value is a list with an item for each message; every other key
holds for all of them, C{body_size} too. The items of C{id} are the numbers that follow its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

RUN: Final = "run"
LONGEST: Final = 256
"""Maximum number of messages in one run."""


class MalformedRun(ValueError):
    """A record is not a valid run; the text has the reason."""


def run_header(header: bytes, sizes: Sequence[int]) -> bytes:
    """Build the header of a run to send.

    @param header: the header that its messages share, a JSON object that is not empty.
    @param sizes: the sizes of the bodies.
    """
    first = sizes[0]
    if all(size == first for size in sizes):
        return b'%s,"run":%d}' % (header[:-1], len(sizes))
    return b'%s,"run":[%s]}' % (header[:-1], b",".join(b"%d" % size for size in sizes))


def check_run(value: object) -> int | Sequence[int] | None:
    """Check the run in the header of a sent record; C{None} for a single message.

    @raise MalformedRun: the value is neither a number nor a list of sizes, or has too many messages.
    """
    match value:
        case None:
            return None
        case bool():
            pass
        case int():
            if 1 <= value <= LONGEST:
                return value
            raise MalformedRun(f"run is {value}; it must be from 1 to {LONGEST}")
        case list():
            if not 1 <= len(value) <= LONGEST:
                raise MalformedRun(f"run has {len(value)} sizes; it must have 1 to {LONGEST}")
            if all(type(size) is int and size >= 0 for size in value):
                return value
    raise MalformedRun("run is neither a number of messages nor a list of sizes")


def bodies_of(run: int | Sequence[int], body: bytes) -> list[bytes]:
    """Divide the body of a run into those of its messages.

    @param run: as returned by L{check_run}.
    @raise MalformedRun: the record has more or fewer bytes than the sizes say.
    """
    if isinstance(run, int):
        size, rest = divmod(len(body), run)
        if rest:
            raise MalformedRun(f"{len(body)} bytes are not {run} bodies of equal size")
        return [body[at : at + size] for at in range(0, len(body), size)] if size else [b""] * run
    if sum(run) != len(body):
        raise MalformedRun(f"the bodies of the run have {sum(run)} bytes, and the record {len(body)}")
    return [body[start:end] for start, end in pairwise(accumulate(run, initial=0))]


def messages_of(header: Mapping[str, Any], body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The properties and the body of each message of a received run.

    @raise MalformedRun: the record is not a run.
    """
    try:
        common = dict(header)
        run = common.pop(RUN)
        count, stem = int(run["messages"]), str(run["id"])
        if not 1 <= count <= LONGEST:
            raise MalformedRun(f"a run has 1 to {LONGEST} messages, not {count}")
        columns = {str(key): common[key] for key in run["columns"]}
        if any(not isinstance(column, list) or len(column) != count for column in columns.values()):
            raise MalformedRun("a column of the run has more or fewer items than it has messages")
        sizes = columns.get("body_size") or [common["body_size"]] * count
        numbers = columns.pop("id")
        bodies = bodies_of(sizes, body)
    except MalformedRun:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedRun(f"not a run: {type(error).__name__}: {error}") from error
    items = zip(*columns.values(), strict=True) if columns else iter([()] * count)
    for number, values, part in zip(numbers, items, bodies, strict=True):
        properties = common.copy()
        properties["id"] = f"{stem}{number}"
        properties.update(zip(columns, values, strict=True))
        yield properties, part
