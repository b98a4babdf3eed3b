"""Latency of messages: bounds of a skew and a delay, and any clocks compared with a naive calculation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.latency import bounds, delays, owners_of, percentiles, skews
from msmq.pipeline.spark.running.latency import headline
from tests.pipeline.jobs.builders import SECOND, SENT, Row, message, messages, name_of
from tests.pipeline.local_spark import FEW, rows

BETA = "BE7A0000-0000-4000-8000-000000000002"
GAMMA = "6A33A000-0000-4000-8000-000000000003"


def answer(number: int, about: int, sent: int, arrived: int, store: str = "ALPHA", **facts: Any) -> Row:
    """An acknowledgement that ALPHA got from BETA."""
    return message(
        number,
        "queue",
        store=store,
        id=name_of(number, BETA),
        source=BETA,
        correlation_id=name_of(about),
        destination=r"DIRECT=OS:alpha\private$\admin",
        sent=sent,
        arrived=arrived,
        **{"class": 2, **facts},
    )


Bound = tuple[int, int | None, int | None]


def naive(held: list[Row]) -> tuple[dict[Any, tuple[Any, ...]], dict[Any, Bound]]:
    """The skew of each route, and of each message the difference and its bounds."""
    came: dict[Any, Row] = {}
    for row in held:
        usable = row["place"] in ("queue", "log", "journal") and None not in (row["sent"], row["arrived"])
        if usable and not row["class"] and row["source"]:
            key = (row["id"], row["source"], row["store"])
            if key not in came or row["arrived"] < came[key]["arrived"]:
                came[key] = row
    owners: dict[str, set[str]] = {}
    for row in held:
        if row["place"] == "source_journal" and row["source"]:
            owners.setdefault(row["store"], set()).add(row["source"])
    answers: dict[Any, tuple[int, int]] = {}
    for key in came:
        found = [
            (row["arrived"], row["sent"])
            for row in held
            if row["class"] in (2, 0x4000)
            and row["correlation_id"] == key[0]
            and None not in (row["sent"], row["arrived"])
            and (len(owners.get(row["store"], ())) != 1 or owners[row["store"]] == {key[1]})
        ]
        if found:
            answers[key] = min(found)
    skew: dict[Any, tuple[Any, ...]] = {}
    for route in {key[1:] for key in came}:
        keys = [key for key in came if key[1:] == route]
        high = min(came[key]["arrived"] - came[key]["sent"] for key in keys)
        reported = [
            max(came[key]["arrived"], answers[key][1]) - answers[key][0] for key in keys if key in answers
        ]
        low = max(reported, default=None)
        skew[route] = (len(keys), len(reported), low, high, low is None or low <= high)
    bound: dict[Any, Bound] = {}
    for key, row in came.items():
        _, _, low, high, steady = skew[key[1:]]
        apparent = row["arrived"] - row["sent"]
        most = [apparent - low] if steady and low is not None else []
        if key in answers:
            most.append(answers[key][0] - row["sent"])
        bound[key] = (
            apparent,
            max(0, apparent - high - SECOND) if steady else 0,
            min(most, default=None),
        )
    return skew, bound


class LatencyTests(SynchronousTestCase):
    """How long messages take."""

    def check(self, held: list[Row]) -> None:
        """Assert that the result equals that of the naive calculation."""
        delayed = delays(messages(*held), {}).cache()
        skewed = skews(delayed)
        skew, bound = naive(held)
        found = {
            (row["id"], row["source"], row["store"]): (row["apparent"], row["at_least"], row["at_most"])
            for row in bounds(delayed, skewed).collect()
        }
        self.assertEqual(found, bound)
        names = ("messages", "answers", "skew_at_least", "skew_at_most", "steady")
        reported = {
            (row["source"], row["store"]): tuple(row[name] for name in names) for row in skewed.collect()
        }
        self.assertEqual(reported, skew)

    def test_skew(self) -> None:
        """A clock that is a minute ahead is found, and taken out of every delay."""
        ahead = 60 * SECOND
        held = []
        # Each takes 0.2 s, and is answered a tenth of a second later, which arrives 0.1 s after that.
        for number in range(1, 11):
            sent = SENT + number * SECOND + number * 90_000
            arrived = sent + 200_000 + ahead
            held.append(message(number, "log", sent=sent // SECOND * SECOND, arrived=arrived))
            held.append(message(number, "source_journal", sent=sent // SECOND * SECOND))
            answered = arrived + 100_000
            held.append(answer(100 + number, number, answered // SECOND * SECOND, answered + 100_000 - ahead))
        self.check(held)
        delayed = delays(messages(*held), {})
        [skew] = skews(delayed).collect()
        self.assertLessEqual(skew["skew_at_least"], ahead)
        self.assertLessEqual(ahead, skew["skew_at_most"])
        self.assertLess(abs(skew["skew"] - ahead), 300_000)
        [taken] = percentiles(bounds(delayed, skews(delayed))).collect()
        self.assertEqual((taken["messages"], taken["bounded"]), (10, 10))
        for name in ("p50", "p90", "p99", "max"):
            self.assertLessEqual(taken[f"{name}_at_least"], 200_000)
            self.assertGreaterEqual(taken[f"{name}_at_most"], 200_000)
            self.assertLess(taken[f"{name}_at_most"], 2 * SECOND)

    def test_owners(self) -> None:
        """A store that names its owner is trusted; of another one only its owner's own messages count."""
        held = [
            # BETA keeps dead letters of ALPHA, and none of its own.
            message(1, "dead_letter", store="BETA"),
            message(2, "source_journal", store="GAMMA", source=GAMMA),
            message(3, "source_journal", store="DELTA", source=BETA),
            message(4, "source_journal", store="DELTA"),
            message(5, "source_journal", store="EPSILON"),
        ]
        found = owners_of(messages(*held), {"EPSILON": BETA})
        self.assertEqual(rows(found, ("store_name", "owner")), [("EPSILON", BETA), ("GAMMA", GAMMA)])
        self.assertEqual(rows(owners_of(messages(*held[:1]), {}), ("store_name", "owner")), [])

    def test_unbounded_latency(self) -> None:
        """Without answers nothing bounds a delay from above, nor without times; or if a clock was set."""
        held = [
            message(1, "log", sent=SENT, arrived=SENT - 5 * SECOND, store="ALONE"),
            message(2, "log", sent=SENT, arrived=SENT - 3 * SECOND, store="ALONE"),
            message(2, "queue", sent=SENT, arrived=SENT - 2 * SECOND, store="ALONE"),
            message(3, "log", arrived=None),
            message(4, "log", sent=None),
            message(5, "log", source=None),
            # BETA's clock was set back between these two.
            message(6, "log", sent=SENT, arrived=SENT + 100 * SECOND),
            answer(106, 6, SENT + 100 * SECOND, SENT + SECOND),
            message(7, "log", sent=SENT, arrived=SENT),
            # An answer that a third one got, by whose clock nothing follows.
            message(9, "source_journal", source=GAMMA, store="GAMMA"),
            answer(107, 7, SENT, SENT + SECOND, store="GAMMA"),
        ]
        self.check(held)
        taken = bounds(delays(messages(*held), {}), skews(delays(messages(*held), {})))
        found = {row["id"]: (row["at_least"], row["at_most"]) for row in taken.collect()}
        self.assertEqual(
            {int(name.split("\\")[1]): bound for name, bound in found.items()},
            {1: (0, None), 2: (SECOND, None), 6: (0, SECOND), 7: (0, None)},
        )

    def test_headline(self) -> None:
        """The headline gives upper bounds of a route only if they are those of all its messages."""
        held = [
            message(6, "log", sent=SENT, arrived=SENT + 100 * SECOND),
            answer(106, 6, SENT + 100 * SECOND, SENT + SECOND),
            # BETA's clock was set back, so nothing bounds these.
            *(message(number, "log", sent=SENT, arrived=SENT) for number in range(10, 15)),
        ]
        delayed = delays(messages(*held), {})
        taken = percentiles(bounds(delayed, skews(delayed))).collect()
        self.assertEqual([(row["messages"], row["bounded"]) for row in taken], [(6, 1)])
        said = headline(taken, lambda guid: guid, 1)
        self.assertEqual(said, "6 messages on 1 routes; on 1 a clock was set meanwhile")
        delayed = delays(messages(*held[:2]), {})
        taken = percentiles(bounds(delayed, skews(delayed))).collect()
        self.assertIn("half took no more than 1.000 s", headline(taken, lambda guid: guid, 0))

    def test_no_messages(self) -> None:
        """Without messages there are no routes."""
        delayed = delays(messages(), {})
        self.assertEqual(rows(percentiles(bounds(delayed, skews(delayed)))), [])

    @FEW
    @given(st.data())
    def test_any_clocks(self, data: st.DataObject) -> None:
        """For any clocks, the bounds are those of the naive calculation."""
        held = []
        times = st.none() | st.integers(SENT - 3 * SECOND, SENT + 3 * SECOND) | st.just(0)
        for number in range(data.draw(st.integers(0, 25))):
            place = data.draw(st.sampled_from(["log", "queue", "journal", "source_journal"]))
            store = data.draw(st.sampled_from(["ALPHA", "BETA"]))
            sent, arrived = data.draw(times), data.draw(times)
            if data.draw(st.booleans()):
                held.append(message(number % 9, place, store=store, sent=sent, arrived=arrived))
            else:
                # Two messages have the same time of sending wherever they are.
                held.append(answer(50 + number, number % 9, sent or SENT, arrived or SENT, store))
        for row in held:
            if not row["class"] and row["sent"] is not None:
                row["sent"] = SENT
        self.check(held)
