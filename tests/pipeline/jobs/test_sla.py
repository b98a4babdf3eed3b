"""Service levels: a limit is kept, exceeded, or not decided by the input."""

from __future__ import annotations

from argparse import ArgumentTypeError

import duckdb
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.latency import bounds, delays, skews
from msmq.pipeline.spark.jobs.loss import FATE_COLUMNS, fates
from msmq.pipeline.spark.jobs.sla import Limit, judge, judged, trusted
from msmq.pipeline.spark.running.sla import limit_of
from tests.pipeline.jobs.builders import QUEUE, SECOND, SENT, event, events, message, messages
from tests.pipeline.local_spark import table as local_table
from tests.pipeline.spark_support import jobs_so_far

BILLS = r".\private$\bills"
NOW = SENT + 3600 * SECOND
STORES = ("ALPHA", "BETA")
DELAYS = [100_000 * number for number in range(1, 101)]


class LimitTests(SynchronousTestCase):
    """Values of C{--limit}."""

    def test_parsed(self) -> None:
        """A limit is for all queues or for one, whose path may have a colon."""
        for text, expected in (
            ("p99=2.5", Limit("", "p99", 2.5)),
            (r".\private$\orders:lost=0", Limit(r".\private$\orders", "lost", 0)),
            (r"a:b:age=60", Limit("a:b", "age", 60)),
        ):
            self.assertEqual(limit_of(text), expected)

    def test_refused(self) -> None:
        """Anything else is refused by name."""
        for text, reason in (
            ("p98=1", "is not [QUEUE:]NAME=VALUE, NAME one of p50, p90"),
            ("lost", "is not [QUEUE:]NAME=VALUE"),
            ("delivered=1", "is not [QUEUE:]NAME=VALUE"),
            ("lost=1.5", "the value of lost is a whole number of at least 0"),
            ("p50=-1", "the value of p50 is a number of at least 0"),
            ("p50=nan", "the value of p50 is a number"),
            ("p50=", "the value of p50 is a number"),
            ("p50=inf", "the value of p50 is a number"),
        ):
            self.assertIn(reason, str(self.assertRaises(ArgumentTypeError, limit_of, text)))

    def test_bounds(self) -> None:
        """A limit between the bounds of a value is not decided, nor is one on a value that is not known."""
        limit = Limit("", "p50", 1.0)
        for least, most, verdict in (
            (0.2, 1.0, "kept"),
            (1.1, 2.0, "exceeded"),
            (0.9, 1.1, "unknown"),
            (0.9, None, "unknown"),
            (1.1, None, "exceeded"),
            (None, None, "unknown"),
        ):
            self.assertEqual(judge(limit, least, most, 1).verdict, verdict)


class JudgedTests(SynchronousTestCase):
    """Limits on the messages of an estate."""

    def test_limits(self) -> None:
        """Each limit has the verdict of a calculation in SQL on the same rows."""
        held = [
            message(number, "log", sent=SENT, arrived=SENT + delay) for number, delay in enumerate(DELAYS, 1)
        ]
        held += [message(number, "queue", queue=BILLS, arrived=NOW - 90 * SECOND) for number in (201, 202)]
        held.append(message(301, "dead_letter", **{"class": 0x8002}))
        happened = [event(302, "refused", queue=r"private$\orders", reason="full")]
        table = messages(*held)
        every, delayed = fates(table, events(*happened)), delays(table, {})
        database = duckdb.connect()
        database.execute("CREATE TABLE d AS SELECT unnest($1) / 1000000.0 AS delay", [DELAYS])
        exact = database.sql("SELECT quantile_cont(delay, 0.9), max(delay) FROM d").fetchall()[0]
        limits = [
            limit_of(text)
            for text in (
                f"{QUEUE}:p90={exact[0] + 0.01}",
                f"{QUEUE}:p90={exact[0] - 1.01}",
                f"{QUEUE}:max={exact[1] - 0.5}",
                f"{BILLS}:p50=1",
                f"{QUEUE}:age=1",
                "age=89",
                f"{BILLS}:age=90",
                "dead_letter=0",
                "refused=1",
                f"{QUEUE}:refused=0",
                "lost=0",
                r".\private$\other:lost=0",
                r".\private$\misspelt:age=3600",
                f"{BILLS.rpartition(chr(92))[2]}:age=1",
            )
        ]
        found = judged(limits, every, trusted(delayed), table, NOW, stores=STORES)
        verdicts = [one.verdict for one in found]
        self.assertEqual(
            verdicts,
            [
                *("kept", "exceeded", "unknown", "exceeded", "kept", "exceeded", "kept"),
                *("exceeded", "kept", "exceeded", "kept", "unknown"),
                *("unknown", "exceeded"),
            ],
        )
        self.assertEqual([found[place].messages for place in (0, 3, 4, 5, 11)], [100, 2, 0, 2, 0])
        # Without acknowledgements the clocks give no upper bound.
        uncertain = judged(limits[:1], every, bounds(delayed, skews(delayed)), table, NOW, stores=STORES)
        self.assertEqual([one.verdict for one in uncertain], ["unknown"])

    def test_age_without_queues(self) -> None:
        """An age is known if queues were read, though none has a message; a log has no age."""
        table = messages(message(1, "log", sent=SENT, arrived=SENT + SECOND))
        every, delayed = fates(table, events()), trusted(delays(table, {}))
        limits = [limit_of("age=60"), limit_of(f"{QUEUE}:age=60")]
        for stores, verdict in (((), "unknown"), (STORES, "kept")):
            found = judged(limits, every, delayed, table, NOW, stores=stores)
            self.assertEqual([verdict] * 2, [one.verdict for one in found])

    def test_age_of_an_empty_queue(self) -> None:
        """It is known of a queue that a store has, though no message of it is in the input."""
        table = messages(message(1, "log", sent=SENT, arrived=SENT + SECOND))
        every, delayed = fates(table, events()), trusted(delays(table, {}))
        limits = [limit_of(f"{name}:age=60") for name in (BILLS, "Bills", "misspelt")]
        found = judged(limits, every, delayed, table, NOW, stores=STORES, queues=[QUEUE, BILLS])
        self.assertEqual(["kept", "kept", "unknown"], [one.verdict for one in found])

    def test_queries(self) -> None:
        """More limits are no more queries, unless they are on the latency of another queue; a limit that is
        given twice is judged twice.
        """
        table = messages(message(1, "log", sent=SENT, arrived=SENT + SECOND))
        delayed = trusted(
            local_table([{"queue": QUEUE, "apparent": SECOND}], "queue STRING, apparent BIGINT")
        )
        every = local_table([{"destination": QUEUE, "fate": "delivered"}], FATE_COLUMNS)
        few = ["lost=0", "age=1", "p50=1"]
        more = [*few, f"{QUEUE}:lost=0", f"{QUEUE}:refused=0", f"{QUEUE}:age=1", "p90=1", "p99=1", "lost=0"]
        other = [*more, f"{QUEUE}:max=1", f"{QUEUE}:p50=0.9"]
        both = {"kept", "unknown"}
        for texts, queries, verdicts in ((few, 3, {"kept"}), (more, 3, {"kept"}), (other, 4, both)):
            before = jobs_so_far()
            limits = [limit_of(text) for text in texts]
            found = judged(limits, every, delayed, table, NOW, stores=STORES)
            self.assertEqual(jobs_so_far() - before, queries, texts)
            self.assertEqual([one.limit for one in found], limits)
            self.assertEqual({one.verdict for one in found}, verdicts)
