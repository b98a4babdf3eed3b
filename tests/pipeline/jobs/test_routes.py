"""The routes of traced messages, rebuilt from reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.jobs.routes import _NEXT_HOP, judged, paths, steps
from msmq.routing.route import route
from tests.pipeline.jobs.builders import SECOND, SENT, Row, message, messages, name_of
from tests.pipeline.local_spark import FEW
from tests.routing.builders import Estate, guid
from tests.routing.enterprises import Plan, well_kept

REPORTS = r".\private$\reports"


def report(traced: int, source: UUID, reporter: UUID, hops: int, next_hop: str | None, turn: int = 0) -> Row:
    """The report of a queue manager about one hop, in the format of the documents."""
    name = str(source).upper()
    lines = [f"<MESSAGE ID>{traced:08X}</MESSAGE ID>", "<TARGET QUEUE>PUBLIC=X</TARGET QUEUE>"]
    if next_hop is not None:
        lines += [f"<NEXT HOP>{next_hop}</NEXT HOP>", f"<HOP COUNT>{hops:02X} </HOP COUNT>"]
    return message(
        1000 * traced + turn,
        "queue",
        queue=REPORTS,
        source=str(reporter).upper(),
        label=f"{name[:4]}:{traced:08X}:{hops:02X} received by {name} at 01:02:03 AM Sat,Nov 21 26",
        body="".join(f"{line}\r\n" for line in lines).encode("utf-16-le"),
        sent=SENT + turn * SECOND,
        **{"class": 1},
    )


class ExpressionTests(SynchronousTestCase):
    """Patterns for the next hop in the body of a report, which may be forged."""

    def test_a_long_body_is_looked_through_once(self) -> None:
        """However often an address begins in it that does not end."""
        self.assertIs(re.search(_NEXT_HOP, "<NEXT HOP>" * 200_000), None)
        found = re.search(_NEXT_HOP, "<NEXT HOP>" * 200_000 + "10.0.0.1</NEXT HOP>")
        assert found is not None
        self.assertEqual(found[1], "10.0.0.1")


def reports(traced: int, way: Sequence[UUID], arrives: bool = True) -> list[Row]:
    """The reports of a message on this route."""
    reported = []
    for turn, reporter in enumerate(way):
        is_last = turn == len(way) - 1
        if is_last and not arrives:
            break
        # Routing servers alone count, so that where it arrives the number is that of the last of them.
        hops = min(turn, max(len(way) - 2, 0))
        reported.append(report(traced, way[0], reporter, hops, None if is_last else f"10.0.0.{turn}", turn))
    return reported


class RouteTests(SynchronousTestCase):
    """Routes of messages, compared with those of the enterprise file."""

    def test_judgement(self) -> None:
        """The route of least cost, others that cost as much, more or less, unfinished and unknown ones."""
        estate = Estate("A-B 1, B-D 1, A-C 1, C-D 1, A-E 2, E-D 2, A-F 1")
        topology = estate.build().topology

        def way(names: str) -> list[UUID]:
            return [guid(name) for name in names.split()]

        taken = {
            1: (way("cA gA gB gD cD"), "least_cost"),
            2: (way("cA gA gC gD cD"), "equal_cost"),
            3: (way("cA gA gE gD cD"), "detour"),
            4: (way("cA gA gD cD"), "unknown"),
            5: (way("cA gA gF cF"), "least_cost"),
            6: (way("cA cX"), "unknown"),
            7: (way("gA gB"), "least_cost"),
        }
        held = [row for traced, (path, _) in taken.items() for row in reports(traced, path)]
        held += reports(8, way("cA gA gB gD"), arrives=False)
        # A report that came twice, one of a second try, and what is none.
        held += [held[1], report(1, guid("cA"), guid("gA"), 1, "10.9.9.9", 9)]
        held += [message(90, "queue"), message(91, "queue", label="no report", **{"class": 1})]
        found = paths(steps(messages(*held))).cache()
        reported = {row["id"]: row for row in found.collect()}
        self.assertEqual(len(reported), 8)
        for traced, (path, _) in taken.items():
            row = reported[name_of(traced, str(path[0]).upper())]
            self.assertEqual([UUID(one) for one in row["path"]], path)
            self.assertTrue(row["arrived"])
        first = reported[name_of(1, str(guid("cA")).upper())]
        self.assertEqual(first["next_hops"], ["10.0.0.0", "10.9.9.9", "10.0.0.2", "10.0.0.3"])
        self.assertEqual((first["first"], first["last"]), (SENT, SENT + 4 * SECOND))
        verdicts = {
            tuple(UUID(one) for one in row["path"]): (row["verdict"], row["cost"], row["least"])
            for row in judged(found, topology).collect()
        }
        costs = {1: (2, 2), 2: (2, 2), 3: (4, 2), 4: (None, 2), 5: (1, 1), 6: (None, None), 7: (1, 1)}
        expected = {tuple(path): (verdict, *costs[traced]) for traced, (path, verdict) in taken.items()}
        expected[tuple(way("cA gA gB"))] = ("unfinished", 1, 1)
        self.assertEqual(verdicts, expected)

    def test_cheaper(self) -> None:
        """A route that costs less than that of the file: the queue managers know another enterprise."""
        # The message passed x, of which the file says that it is in both sites.
        estate = Estate("A-B 5, B-C 5, A-C 11")
        estate.machine("x", "A C", routing_server=False)
        topology = estate.build().topology
        way = [guid("cA"), guid("x"), guid("cC")]
        [row] = judged(paths(steps(messages(*reports(1, way)))), topology).collect()
        self.assertEqual((row["verdict"], row["cost"], row["least"]), ("cheaper", 0, 10))

    def test_no_reports(self) -> None:
        """Without reports there are no routes."""
        topology = Estate("A-B 1").build().topology
        self.assertEqual(judged(paths(steps(messages())), topology).collect(), [])

    @FEW
    @given(well_kept(), st.data())
    def test_any_enterprise(self, plan: Plan, data: st.DataObject) -> None:
        """In any enterprise the routes are rebuilt, and are of least cost."""
        topology = plan.builder().build().topology
        held, taken = [], {}
        for traced in range(1, 9):
            ends = st.sampled_from([machine.identifier for machine in topology.queue_managers])
            found = route(topology, data.draw(ends), data.draw(ends))
            if found.arrives:
                way = [found.source, *(hop.queue_manager for hop in found.hops)]
                taken[name_of(traced, str(way[0]).upper())] = way
                held += reports(traced, way)
        rebuilt = paths(steps(messages(*data.draw(st.permutations(held))))).cache()
        self.assertEqual({row["id"]: [UUID(one) for one in row["path"]] for row in rebuilt.collect()}, taken)
        verdicts = {row["verdict"] for row in judged(rebuilt, topology).collect()}
        self.assertLessEqual(verdicts, {"least_cost"})
