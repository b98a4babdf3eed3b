"""How queues fill, and when they are full."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.estate import EVENTS
from msmq.pipeline.spark.jobs.quota import QUOTAS, forecast, growth, refusals
from msmq.pipeline.spark.running.quota import Quota, headline, merged_quotas
from tests.pipeline.jobs.builders import QUEUE, SECOND, SENT, Row, event, message, messages
from tests.pipeline.local_spark import FEW, rows, table

HOUR = 3600 * SECOND
BEGIN = SENT // HOUR * HOUR
NAMES = ("store", "place", "steps", "messages", "bytes", "quota", "held")


def naive(held: list[Row], quotas: list[Row]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """The size of each queue, its slope in bytes an hour, and when it is full."""
    found: defaultdict[tuple[str, str], defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in held:
        if row["arrived"] is not None and row["place"] != "wire":
            found[row["store"], row["place"]][row["arrived"] // HOUR] += row["size"] or 0
    reported = {}
    for (store, place), steps in found.items():
        hours = sorted(steps)
        levels = [sum(steps[hour] for hour in hours[: end + 1]) for end in range(len(hours))]
        mean_hour, mean_level = sum(hours) / len(hours), sum(levels) / len(levels)
        spread = sum((hour - mean_hour) ** 2 for hour in hours)
        slope = (
            sum((hour - mean_hour) * (level - mean_level) for hour, level in zip(hours, levels, strict=True))
            / spread
            if spread
            else None
        )
        limit = next((row for row in quotas if row["place"] == place), None)
        quota: int | None = None if limit is None else limit["quota"]
        level: int = levels[-1] if limit is None or limit.get("held") is None else limit["held"]
        full = None
        if quota is not None and quota <= level:
            full = hours[-1] * 1.0
        elif quota is not None and slope is not None and slope > 0.001:
            full = hours[-1] + (quota - level) / slope
        reported[store, place] = (len(hours), levels[-1], slope, quota, level, full)
    return reported


class QuotaTests(SynchronousTestCase):
    """Growth of queues, and the time when they are full."""

    def check(self, held: list[Row], quotas: list[Row]) -> dict[tuple[str, str], Any]:
        forecasts = forecast(growth(messages(*held)), table(quotas, QUOTAS)).collect()
        found = {(row["store"], row["place"]): row for row in forecasts}
        expected = naive(held, quotas)
        self.assertEqual(set(found), set(expected))
        for key, (steps, size, slope, quota, level, full) in expected.items():
            row = found[key]
            reported = (row["steps"], row["bytes"], row["quota"], row["held"])
            self.assertEqual(reported, (steps, size, quota, level))
            if slope is None:
                self.assertIsNone(row["bytes_an_hour"])
            else:
                self.assertAlmostEqual(row["bytes_an_hour"], slope, 6)
            if full is None:
                self.assertIsNone(row["full_at"])
            else:
                self.assertAlmostEqual(row["full_at"] / HOUR, full, 6)
        return found

    def test_forecast(self) -> None:
        """A queue that grows by a kilobyte an hour is full when its quota is reached; without a quota it
        never is.
        """
        held = [
            message(hour, place, size=1024, arrived=BEGIN + hour * HOUR + 5)
            for hour in range(5)
            for place in ("queue", "journal")
        ]
        held.append(message(9, "dead_letter", size=5000, arrived=BEGIN))
        held.append(message(9, "source_journal", size=7, arrived=None))
        quotas: list[Row] = [
            {"queue": QUEUE.upper(), "place": "queue", "quota": 10 * 1024},
            {"store": "BETA", "queue": QUEUE, "place": "journal", "quota": 20 * 1024, "held": 6 * 1024},
            {"store": "ALPHA", "queue": r".\system$", "place": "dead_letter", "quota": 4000},
        ]
        found = self.check(held, quotas)
        self.assertEqual(found["BETA", "queue"]["full_at"], BEGIN + 4 * HOUR + 5 * HOUR)
        self.assertEqual(found["BETA", "journal"]["full_at"], BEGIN + 4 * HOUR + 14 * HOUR)
        self.assertEqual(found["ALPHA", "dead_letter"]["full_at"], BEGIN)
        self.assertAlmostEqual(found["BETA", "queue"]["messages_an_hour"], 1.0)

    def test_refusals(self) -> None:
        """Refusals over quota are counted for each destination; other refusals are not."""
        refused = [event(number, "refused", **{"class": 0x8003, "queue": QUEUE}) for number in range(3)]
        refused.append(event(9, "refused", **{"class": 0x8004, "queue": QUEUE}))
        found = rows(refusals(table(refused, EVENTS)), ("store", "queue", "messages", "first", "last"))
        self.assertEqual(found, [("BETA", QUEUE, 3, SENT, SENT)])

    def test_nearly_full(self) -> None:
        """A queue that does not grow any more is reported with the used part of its quota."""
        held = [message(1, "queue", size=101_920, arrived=BEGIN)]
        quotas: list[Row] = [{"queue": QUEUE, "place": "queue", "quota": 102_400}]
        row = self.check(held, quotas)["BETA", "queue"]
        self.assertIsNone(row["full_at"])
        self.assertAlmostEqual(row["filled"], 0.9953, 4)

    def test_headline(self) -> None:
        """The headline says that a time is an extrapolation, and that one step shows no growth."""
        once = [message(1, "queue", size=50, arrived=BEGIN)]
        grown = [message(hour, "queue", size=10, arrived=BEGIN + hour * HOUR) for hour in range(2)]
        quotas: list[Row] = [{"queue": QUEUE, "place": "queue", "quota": 100}]
        for held, part in (
            (
                once,
                "holds 50.0% of its quota and its growth is unknown, since all of it came within one --step",
            ),
            (grown, "if it goes on as it did until"),
        ):
            forecasts = forecast(growth(messages(*held)), table(quotas, QUOTAS))
            self.assertIn(part, headline(forecasts, None, 0))

    def test_quota_of_every_store(self) -> None:
        """A quota in an option replaces those of all stores; one for a store only that store's."""
        known: list[Quota] = [("A", QUEUE, "queue", 10, None), ("B", QUEUE, "queue", 20, None)]
        one: Quota = ("B", QUEUE.upper(), "queue", 30, 5)
        every: Quota = (None, QUEUE, "queue", 40, None)
        journal: Quota = (None, QUEUE, "journal", 50, None)
        self.assertEqual(merged_quotas(known, [one]), [known[0], one])
        self.assertEqual(merged_quotas(known, [one, every, journal]), [every, journal])

    def test_quota_of_one_store_after_that_of_every_store(self) -> None:
        """A store that has a quota of its own has one row, with that quota, also if it has no limit."""
        held = [
            message(number, "queue", store=store, size=50, arrived=BEGIN)
            for number, store in enumerate(("ALPHA", "BETA", "GAMMA"))
        ]
        asked: list[Quota] = [
            (None, QUEUE, "queue", 100, None),
            ("BETA", QUEUE, "queue", 200, 60),
            ("GAMMA", QUEUE, "queue", None, None),
        ]
        names = ("store", "queue", "place", "quota", "held")
        quotas: list[Row] = [dict(zip(names, one, strict=True)) for one in merged_quotas([], asked)]
        forecasts = forecast(growth(messages(*held)), table(quotas, QUOTAS))
        self.assertEqual(
            rows(forecasts, ("store", "quota", "held", "filled")),
            [("ALPHA", 100, 50, 0.5), ("BETA", 200, 60, 0.3), ("GAMMA", None, 50, None)],
        )
        self.assertIn("3 queues, journals and logs hold messages", headline(forecasts, None, 0))

    def test_steps(self) -> None:
        """Growth has a row for each step in which something came."""
        held = [
            message(1, "queue", size=10, arrived=BEGIN + 1),
            message(2, "queue", size=None, arrived=BEGIN + 59 * SECOND),
            message(3, "queue", size=5, arrived=BEGIN + 180 * SECOND),
        ]
        self.assertEqual(
            rows(
                growth(messages(*held), 60),
                ("since", "messages", "bytes", "messages_so_far", "bytes_so_far"),
            ),
            [(BEGIN, 2, 10, 2, 10), (BEGIN + 180 * SECOND, 1, 5, 3, 15)],
        )

    def test_no_messages(self) -> None:
        """Without messages there is no growth."""
        self.assertEqual(self.check([], []), {})

    @FEW
    @given(st.data())
    def test_any_growth(self, data: st.DataObject) -> None:
        """For any messages, the forecasts are those of the naive calculation."""
        places = ("queue", "journal", "log", "source_journal", "dead_letter", "wire")
        held = [
            message(
                number,
                data.draw(st.sampled_from(places)),
                queue=QUEUE,
                store=data.draw(st.sampled_from(["ALPHA", "BETA"])),
                size=data.draw(st.none() | st.integers(0, 5000)),
                arrived=data.draw(st.none() | st.integers(BEGIN, BEGIN + 9 * HOUR)),
            )
            for number in range(data.draw(st.integers(0, 40)))
        ]
        quotas = [
            {
                "queue": QUEUE,
                "place": place,
                "quota": data.draw(st.none() | st.integers(0, 20_000)),
                "held": data.draw(st.none() | st.integers(0, 20_000)),
            }
            for place in places
            if data.draw(st.booleans())
        ]
        self.check(held, quotas)
