"""The routes that traced messages took, rebuilt from the report messages of the queue managers on them.

A report describes one hop: its sender is the reporting queue manager, its label has the traced message and
the number of routing servers it had passed, and its body the address of the next hop, or none if it arrived
([MS-MQQB] 3.1.5.8.9 and 3.1.7.1.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from msmq.routing.route import route
from msmq.routing.topology import Topology
from msmq.wire.guid import format_guid

if TYPE_CHECKING:
    import pyarrow

REPORT: Final = 0x0001

LEAST_COST: Final = "least_cost"
"""Result: the route that routing would choose."""
EQUAL_COST: Final = "equal_cost"
"""Result: another route of the same cost."""
DETOUR: Final = "detour"
"""Result: a route of higher cost; a gate may have been down."""
CHEAPER: Final = "cheaper"
"""Result: a route of lower cost: the enterprise file differs from the topology of the queue managers."""
UNFINISHED: Final = "unfinished"
"""Result: no report of the arrival."""
UNKNOWN: Final = "unknown"
"""Result: the enterprise has no route between the ends, lacks one of them, or has no link for a hop."""

VERDICTS: Final = (LEAST_COST, EQUAL_COST, DETOUR, CHEAPER, UNFINISHED, UNKNOWN)

JUDGED: Final = (
    "path ARRAY<STRING>, arrived BOOLEAN, messages BIGINT, expected ARRAY<STRING>, cost BIGINT, least BIGINT,"
    " verdict STRING"
)
"""The columns of compared routes; C{cost} and C{least} are null where they are unknown."""

_LABEL: Final = (
    r"(?i)^[0-9a-f]{4}:([0-9a-f]{8}):([0-9a-f]{2})"
    r" received by \{?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}? at "
)
_NEXT_HOP: Final = "<NEXT HOP>([^<\r\n]*)</NEXT HOP>"


def steps(messages: DataFrame) -> DataFrame:
    """Content of the reports, without duplicates.

    The columns are C{id} (of the traced message), C{source} (its sender), C{reporter}, C{hops}, C{next_hop}
    (an address; null if it arrived) and C{time}, when the report was sent.
    """
    label = [F.regexp_extract("label", _LABEL, group) for group in (1, 2, 3)]
    text = F.decode("body", "UTF-16LE")
    number = F.conv(label[0], 16, 10)
    source = F.upper(label[2])
    return (
        messages.where((F.col("class") == REPORT) & (label[2] != "") & F.col("source").isNotNull())
        .select(
            F.concat(F.lit("{"), source, F.lit("}\\"), number).alias("id"),
            source.alias("source"),
            F.upper("source").alias("reporter"),
            F.conv(label[1], 16, 10).cast("int").alias("hops"),
            F.nullif(F.regexp_extract(text, _NEXT_HOP, 1), F.lit("")).alias("next_hop"),
            F.col("sent").alias("time"),
        )
        .groupBy("id", "source", "reporter", "hops", "next_hop")
        .agg(F.min("time").alias("time"))
    )


def paths(steps: DataFrame) -> DataFrame:
    """Reported route of each traced message.

    The columns are C{id}, C{source}, C{path} (the GUIDs of the reporting queue managers, in order),
    C{next_hops} (the addresses of the next hops), C{arrived}, C{first} and C{last}, when the first and the
    last report were sent, each by the clock of its sender.
    """
    once = steps.groupBy("id", "source", "reporter").agg(
        F.min("hops").alias("hops"),
        F.max(F.col("next_hop").isNull()).alias("arrived"),
        F.max_by("next_hop", "time").alias("next_hop"),
        F.min("time").alias("time"),
    )
    # The source is first and the destination last; only routing servers count hops.
    place = F.struct(F.col("reporter") != F.col("source"), "arrived", "hops", "reporter")
    sent_on = F.filter("steps", lambda step: step["next_hop"].isNotNull())
    return (
        once.groupBy("id", "source")
        .agg(
            F.sort_array(F.collect_list(F.struct(place.alias("place"), "reporter", "next_hop"))).alias(
                "steps"
            ),
            F.max("arrived").alias("arrived"),
            F.min("time").alias("first"),
            F.max("time").alias("last"),
        )
        .select(
            "id",
            "source",
            F.col("steps")["reporter"].alias("path"),
            F.transform(sent_on, lambda step: step["next_hop"]).alias("next_hops"),
            "arrived",
            "first",
            "last",
        )
    )


def judged(paths: DataFrame, topology: Topology) -> DataFrame:
    """Each route, with its number of messages, and its comparison with the least-cost route.

    The columns are L{JUDGED}; C{least} is the cost of the best route between the same ends.
    """

    def judge(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            rows = [{**row, **judge_path(topology, row["path"], row["arrived"])} for row in batch.to_pylist()]
            columns = [[row[name] for row in rows] for name in _TYPES]
            types = {
                "ARRAY<STRING>": pyarrow.list_(pyarrow.string()),
                "BOOLEAN": pyarrow.bool_(),
                "BIGINT": pyarrow.int64(),
                "STRING": pyarrow.string(),
            }
            arrays = [
                pyarrow.array(column, types[kind])
                for column, kind in zip(columns, _TYPES.values(), strict=True)
            ]
            yield pyarrow.RecordBatch.from_arrays(arrays, names=list(_TYPES))

    counted = paths.groupBy("path", "arrived").agg(F.count("*").alias("messages"))
    return counted.mapInArrow(judge, JUDGED)


_TYPES: Final = {name: kind for name, _, kind in (column.partition(" ") for column in JUDGED.split(", "))}


def judge_path(topology: Topology, path: Sequence[str], arrived: bool) -> dict[str, Any]:
    """Compare a route with the least-cost route between its ends.

    @param path: the GUIDs of the queue managers, beginning with the first sender.
    """
    machines = [UUID(name) for name in path]
    best = route(topology, machines[0], machines[-1])
    known = all(topology.queue_manager(machine) is not None for machine in machines)
    expected = [machines[0], *(hop.queue_manager for hop in best.hops)] if known and best.arrives else None
    cost = _cost_of(topology, machines)
    least = None if expected is None else best.cost
    if not arrived:
        verdict = UNFINISHED
    elif expected is None or cost is None or least is None:
        verdict = UNKNOWN
    elif expected == machines:
        verdict = LEAST_COST
    elif cost == least:
        verdict = EQUAL_COST
    else:
        verdict = DETOUR if cost > least else CHEAPER
    return {
        "expected": None if expected is None else [format_guid(machine) for machine in expected],
        "cost": cost,
        "least": least,
        "verdict": verdict,
    }


def _cost_of(topology: Topology, machines: Sequence[UUID]) -> int | None:
    """The sum of the costs of the links on a route; C{None} if there is no link for a hop."""
    total = 0
    for here, there in pairwise(machines):
        one, two = topology.queue_manager(here), topology.queue_manager(there)
        if one is None or two is None:
            return None
        if set(one.sites) & set(two.sites):
            continue
        links = [topology.link_between(site, other) for site in one.sites for other in two.sites]
        costs = [link.cost for link in links if link is not None]
        if not costs:
            return None
        total += min(costs)
    return total
