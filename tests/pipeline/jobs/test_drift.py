"""Drift of bodies: what producers change on purpose is found, with its first message, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import duckdb
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.drift import SETTLED, changes, numbered, paths
from tests.pipeline.jobs.builders import QUEUE, SECOND, SENT, Row, message, messages, name_of
from tests.pipeline.local_spark import rows

OTHER = "BE7A0000-0000-4000-8000-000000000002"
COUNT = 60
NAMES = ("source", "change", "path", "kind", "before", "id")


def body(number: int) -> tuple[str, Any]:
    """The body of a producer that changes at 31, 36, 41 and 51, with its format."""
    found: dict[str, Any] = {"id": number, "total": number * 0.5, "lines": [{"sku": "a"}]}
    if number % 4 == 0:
        # Optional from the beginning, and never long away.
        found["note"] = None if number % 8 else "x"
    if number > 30:
        found["customer"] = {"name": "Ada", "city": "London"}
    if number > 35:
        found["id"] = f"A-{number}"
    if number <= 40:
        found["legacy"] = 1
    return ("xml" if number > 50 else "json"), found


class DriftTests(SynchronousTestCase):
    """Changes of two producers, of which one never changes."""

    def changes(
        self, held: list[Row], names: tuple[str, ...], settled: int = SETTLED
    ) -> list[tuple[Any, ...]]:
        """These columns of the changes; what they are computed from several times is kept."""
        each = numbered(messages(*held)).cache()
        self.addCleanup(each.unpersist)
        their_paths = paths(each).cache()
        self.addCleanup(their_paths.unpersist)
        return rows(changes(each, their_paths, settled), names)

    def held(self) -> list[Row]:
        """The messages of both; some are in two places, as in a queue and its log."""
        found: list[Row] = []
        for number in range(1, COUNT + 1):
            form, value = body(number)
            steady = {"format": "json", "value": {"id": number, "lines": [] if number % 2 else [{"sku": 1}]}}
            at = SENT + number * SECOND
            decoded = json.dumps({"format": form, "value": value})
            places = ("log", "queue") if number % 3 == 0 else ("log",)
            found += [message(number, place, arrived=at, decoded=decoded) for place in places]
            other = message(
                number, "log", id=name_of(number, OTHER), source=OTHER, arrived=at, decoded=json.dumps(steady)
            )
            found.append(other)
        # An acknowledgement is no message of a producer.
        found.append(message(999, "queue", **{"class": 2, "decoded": None}))
        return found

    def test_changes(self) -> None:
        """Each change once, with the first message that has it; no optional field, and no steady producer."""
        held = self.held()
        source = held[0]["source"]
        found = self.changes(held, NAMES)
        expected = [
            (source, "added", "$.customer", "object", None, name_of(31)),
            (source, "removed", "$.legacy", None, "number", name_of(40)),
            (source, "reformatted", "format", "xml", "json", name_of(51)),
            (source, "retyped", "$.id", "string", "number", name_of(36)),
        ]
        self.assertEqual(found, sorted(expected, key=repr))
        self.assert_first_by_duckdb(held)

    def assert_first_by_duckdb(self, held: list[Row]) -> None:
        """DuckDB finds the same first and last messages in the same bodies."""
        bodies = [
            (row["id"], row["arrived"], json.dumps(json.loads(row["decoded"])["value"]))
            for row in held
            if row["place"] == "log" and row["source"] == held[0]["source"]
        ]
        database = duckdb.connect()
        database.execute("CREATE TABLE b (id VARCHAR, arrived BIGINT, body JSON)")
        database.executemany("INSERT INTO b VALUES (?, ?, ?)", bodies)
        query = """SELECT min_by(id, arrived) FILTER (json_exists(body, '$.customer')),
            max_by(id, arrived) FILTER (json_exists(body, '$.legacy')),
            min_by(id, arrived) FILTER (json_type(body, '$.id') = 'VARCHAR') FROM b"""
        self.assertEqual(database.sql(query).fetchall(), [(name_of(31), name_of(40), name_of(36))])

    def test_settled(self) -> None:
        """With a higher number of settled messages, changes near an end do not count."""
        found = self.changes(self.held(), ("change", "path"), 35)
        self.assertEqual(found, [("reformatted", "format"), ("retyped", "$.id")])

    def test_undecodable(self) -> None:
        """Bodies that cannot be decoded any more are a change of format."""
        readable = json.dumps({"format": "json", "value": {"id": 1}})
        held = [
            message(number, "log", arrived=SENT + number, decoded=readable if number < 15 else None)
            for number in range(1, 18)
        ]
        found = self.changes(held, ("queue", "change", "kind", "before", "turn", "messages"))
        self.assertEqual(found, [(QUEUE, "reformatted", "not decodable", "json", 15, 17)])
