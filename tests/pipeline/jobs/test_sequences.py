"""The audit of streams: each finding, and any streams compared with a naive calculation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.sequences import audit, findings, numbered
from tests.pipeline.jobs.builders import Row, message, messages
from tests.pipeline.local_spark import FEW, rows

LAST = (1 << 32) - 1
Finding = tuple[int | None, str, str, int | None]


def ordered(stream: int, turn: int, number: int, previous: int, **facts: Any) -> Row:
    """A transactional message; each stream has a number of its own."""
    return message(
        stream * 1000 + turn,
        facts.pop("place", "log"),
        **{"position": turn, **facts},
        sequence_id=stream,
        sequence_number=number,
        previous=previous,
        priority=0,
    )


def stream(sequence: int, *numbers: tuple[int, int] | int) -> list[Row]:
    """Messages that arrived in this order; a number stands for one that follows the number before it."""
    pairs = [(number, number - 1) if isinstance(number, int) else number for number in numbers]
    return [ordered(sequence, turn, number, before) for turn, (number, before) in enumerate(pairs, 1)]


def naive(held: list[Row]) -> tuple[list[Finding], dict[int | None, tuple[int, int, int]]]:
    """The violations of each stream, its number of messages and their sequence numbers."""
    wrong: list[Finding] = []
    streams: dict[tuple[Any, ...], list[Row]] = {}
    for row in held:
        if row["place"] in ("queue", "log", "journal", "wire") and not (row["class"] & 0xC000):
            key = tuple(row.get(name) for name in ("store", "queue", "source", "destination", "sequence_id"))
            if row.get("sequence_id") is None:
                key += (row["priority"],)
            streams.setdefault(key, []).append(row)
    extent = {}
    for key, arrived in streams.items():
        if any(row["place"] == "log" for row in arrived):
            arrived = [row for row in arrived if row["place"] == "log"]
        arrived.sort(key=lambda row: (row["place"] != "journal", row["position"], row["id"]))
        in_turn: list[tuple[str, int, int | None]] = []
        for row in arrived:
            if row.get("sequence_id") is None:
                raw, before = int(row["id"].split("\\")[1]), 0
            else:
                raw, before = row["sequence_number"], row["previous"]
            number = raw
            if in_turn:
                last = in_turn[-1][1]
                number = last + (raw - last + (1 << 31)) % (1 << 32) - (1 << 31)
            back = (raw - before) % (1 << 32) if before else 0
            in_turn.append((row["id"], number, number - back if back else None))
        sequence = key[4]
        seen: dict[int, tuple[str, int | None]] = {}
        for identifier, number, previous in in_turn:
            if number in seen:
                wrong.append((sequence, "duplicate", identifier, None))
                continue
            if seen and number < max(seen):
                wrong.append((sequence, "reordered", identifier, None))
            seen[number] = (identifier, previous)
        for number, (identifier, previous) in seen.items():
            lower = max((other for other in seen if other < number), default=None)
            if previous is None:
                continue
            if lower is None:
                wrong.append((sequence, "begins_late", identifier, None))
            elif lower < previous:
                wrong.append((sequence, "gap", identifier, previous - lower))
        extent[sequence] = (len(in_turn), min(seen), max(seen))
    return sorted(wrong, key=repr), extent


def check(test: SynchronousTestCase, held: list[Row]) -> tuple[list[Finding], DataFrame]:
    """Assert that findings and audit equal those of the naive calculation."""
    placed = numbered(messages(*held)).cache()
    found = findings(placed)
    table = rows(found, ("sequence_id", "kind", "id", "missing"))
    wrong, extent = naive(held)
    test.assertEqual(table, wrong)
    audited = audit(placed, found)
    test.assertEqual(
        {row["sequence_id"]: (row["messages"], row["first"], row["last"]) for row in audited.collect()},
        extent,
    )
    return table, audited


class SequenceTests(SynchronousTestCase):
    """Violations in streams."""

    def test_each_finding(self) -> None:
        """Gaps, duplicates and reordering are found, and what expired or is older is not one of them."""
        held = [
            *stream(1, 1, 2, 3),
            *stream(2, 1, 2, 5, 6),
            *stream(3, 1, 2, 2, 3),
            *stream(4, 1, 3, 2, 4),
            # Of what expired the next one knows.
            *stream(5, 1, 2, (5, 2), 6),
            *stream(6, 8, 9),
            # Behind the last number comes 1; 0 is no number.
            *stream(7, LAST - 1, LAST, (1, LAST), 2),
            *stream(8, LAST, (2, 1)),
            *stream(9, 1),
            # The log has what was received and what lies there; the journal comes before the queue.
            *stream(10, 1, 2, 3),
            *(ordered(10, turn, turn, turn - 1, place="journal") for turn in (1, 2)),
            ordered(11, 2, 1, 0, place="journal"),
            ordered(11, 1, 2, 1, place="queue"),
            # No sequence, but the numbers of identifiers; what tells of another message is not looked at.
            *(message(number, "queue", position=turn) for turn, number in enumerate((50, 53, 51, 53))),
            message(51, "queue", **{"class": 0x4000}),
        ]
        wrong, audited = check(self, held)
        identifiers = [
            (sequence, kind, name.split("\\")[1], missing) for sequence, kind, name, missing in wrong
        ]
        self.assertEqual(
            sorted(identifiers, key=repr),
            sorted(
                [
                    (2, "gap", "2003", 2),
                    (3, "duplicate", "3003", None),
                    (4, "reordered", "4003", None),
                    (6, "begins_late", "6001", None),
                    (7, "begins_late", "7001", None),
                    (8, "begins_late", "8001", None),
                    (8, "gap", "8002", 2),
                    (None, "reordered", "51", None),
                    (None, "duplicate", "53", None),
                ],
                key=repr,
            ),
        )
        once = {row["sequence_id"]: row["exactly_once"] for row in audited.collect()}
        self.assertEqual([name for name, whole in once.items() if whole is False], [2, 3, 4, 8])
        self.assertIsNone(once[None])

    def test_no_messages(self) -> None:
        """Without messages there is no stream."""
        self.assertEqual(check(self, [])[0], [])

    @FEW
    @given(st.data())
    def test_any_streams(self, data: st.DataObject) -> None:
        """For any arrivals, the findings are those of the naive calculation."""
        held: list[Row] = []
        for sequence in range(1, data.draw(st.integers(0, 12)) + 1):
            first = data.draw(st.sampled_from([1, 1, 7, LAST - 3]))
            # Numbers count up; some expired, so that they are no predecessor of any.
            alive = [first + step for step in range(12) if data.draw(st.integers(0, 5))] or [first]
            sent = [
                (number & LAST, (before & LAST) if before is not None else first - 1)
                for number, before in zip(alive, [None, *alive], strict=False)
                if number & LAST
            ]
            arrived = data.draw(st.lists(st.sampled_from(sent), max_size=12)) if sent else []
            for turn, (number, before) in enumerate(arrived, 1):
                place = data.draw(st.sampled_from(["log", "queue", "journal", "wire", "source_journal"]))
                held.append(ordered(sequence, turn, number, before, place=place))
        check(self, held)
