"""A million stored packets as rows in Spark, compared with the same rows from Parquet, on one core and two.

The messages are in the message log of a queue in a record log, as a server has written them, and 99 % of them
in an archive too.
Spark reads them into its sink C{noop}, all columns except those of the body, or all except C{decoded}: from
the store alone, from archive and store by C{read_archive} and by C{format("msmq")}, and from Parquet.
It also counts the messages of each queue, from archive and store and from Parquet.
Each number of cores has a process of its own, in which these alternate.
C{python bench/pipeline.py [COUNT [ROUNDS [CASE]]]} prints the figures, of cases with this text in their names
if there is one.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from twisted.python.failure import Failure

from msmq.persistence.changes import AppendLog, PutQueue, PutState
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import compact
from msmq.pipeline.columns import Columns
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import MESSAGE_COLUMNS, names_of
from msmq.pipeline.spark import make_session, read_archive
from msmq.storage.damage import DamagePolicy
from msmq.storage.log import LogMessageStore
from msmq.storage.scrub_policy import SCRUBBING
from msmq.testing.contracts.store_history import TurnedReactor
from rig.measuring import Result, compare, table

COUNT: Final = 1_000_000
BODY: Final = 300
ROUNDS: Final = 5
GROUP: Final = 500
RATE: Final = 10
"""Messages a second, so that a file of the archive, which has those of a day, is some 40 MB."""
GOALS: Final = {
    "store: headers": 0.45,
    "store: bodies": 0.35,
    "read_archive: headers": 0.9,
    "read_archive: bodies": 0.9,
    "read_archive: count by queue": 1 / 1.2,
}
QUEUE: Final = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1, log=True)
SOURCE: Final = UUID("11111111-2222-4333-8444-555555555555")
EVERYTHING: Final = tuple(name for name in names_of(MESSAGE_COLUMNS) if name != "decoded")
HEADERS: Final = tuple(name for name in EVERYTHING if name not in ("value", "body", "body_base64"))


def packet(number: int) -> bytes:
    """A recoverable message to a direct name, with a label of its own."""
    text = "OS:beta\\private$\\orders\0".encode("utf-16-le")
    name = struct.pack("<H", len(text)) + text
    name += bytes(-len(name) % 4)
    label = f"order {number}\0".encode("utf-16-le")
    body = b"%d " % number * (BODY // 8)
    user = SOURCE.bytes_le + bytes(16)
    user += (
        struct.pack("<IIII", 0xFFFFFFFF, 1_700_000_000 + number // RATE, number, 0x00200000 | 0x20 | 7 << 10)
        + name
    )
    properties = struct.pack("<BBH", 0, len(label) // 2, 0) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0) + label + body
    properties += bytes(-len(properties) % 4)
    size = 16 + len(user) + len(properties)
    return struct.pack("<BBHIII", 0x10, 0, 3, 0x524F494C, size, 0xFFFFFFFF) + user + properties


def fill(data: Path, first: int, end: int) -> None:
    """Put these messages into the message log of a queue, in the store that a server has by default."""
    data.mkdir(parents=True, exist_ok=True)
    reactor = TurnedReactor()
    policy = DamagePolicy(data / "msmq.log-mark", False, time.time, SCRUBBING)
    store = LogMessageStore(data / "msmq.log", policy, clock=time.perf_counter, reactor=reactor)
    reactor.outcome(store.open())
    if first == 1:
        reactor.outcome(store.commit([PutState("queue_manager", SOURCE.bytes), PutQueue(QUEUE)]))
    for begin in range(first, end, GROUP):
        numbers = range(begin, min(begin + GROUP, end))
        group = [AppendLog(QUEUE.identifier, 4 << 56 | n, packet(n), 1.7e9 + n / RATE) for n in numbers]
        outcome = reactor.outcome(store.commit(group))
        if isinstance(outcome, Failure):
            outcome.raiseException()
    reactor.outcome(store.close())


def archive(place: Path) -> None:
    """Archive what is new, as Parquet."""
    with store_at(str(place / "data")) as store:
        Archiver(store, Archive(place / "archive")).run()
    compact(Archive(place / "archive"), time.time())


def child(cores: int, place: Path, rounds: int, only: str) -> None:
    """Measure with this number of cores; prints seconds by case, round by round."""
    session = make_session("bench", master=f"local[{cores}]", settings={"spark.driver.memory": "2g"})
    session.sparkContext.setLogLevel("ERROR")
    path, parquet = str(place / "archive"), str(place / "parquet")

    def source(where: str, columns: tuple[str, ...]) -> Any:
        options = {"path": str(place / where), "stream": "log", "columns": ",".join(columns)}
        return session.read.format("msmq").options(**options).load()

    def plain(columns: tuple[str, ...]) -> Any:
        return session.read.parquet(parquet).select(*columns)

    def seconds(make: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        make().write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begun

    if not Path(parquet).exists():
        read_archive(session, path).drop("decoded").write.parquet(parquet)
    # What starts once is no part of it.
    seconds(lambda: source("data", HEADERS).limit(1000))
    seconds(lambda: session.read.parquet(parquet).limit(1000))

    def archived(columns: tuple[str, ...]) -> Any:
        return read_archive(session, path, columns=",".join(columns))

    def counted(rows: Any) -> Any:
        return rows.groupBy("topic").count()

    # Of each case the rows, and the same rows of Parquet.
    cases: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    for name, columns in (("headers", HEADERS), ("bodies", EVERYTHING)):
        parquet_rows = partial(plain, columns)
        cases |= {
            f"store: {name}": (partial(source, "data", columns), parquet_rows),
            f"read_archive: {name}": (partial(archived, columns), parquet_rows),
            f"format on archive: {name}": (partial(source, "archive", columns), parquet_rows),
        }
    cases["read_archive: count by queue"] = (
        lambda: counted(archived(("topic",))),
        lambda: counted(plain(("topic",))),
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for case, (ours, theirs) in cases.items():
            if only in case:
                found.setdefault(case, []).append((seconds(ours), seconds(theirs)))
                print(case, *found[case][-1], file=sys.stderr)
    print(json.dumps(found))


def parts(place: Path, count: int) -> dict[str, float]:
    """Where the time goes, in one process without Spark: seconds of reading, and of making columns."""
    found: dict[str, float] = {}
    for name, columns in (("headers", HEADERS), ("bodies", EVERYTHING)):
        options = read_options({"path": str(place / "data"), "stream": "log"})
        scan = StoreScan(options, wanted_columns(columns, options), "log")
        read = made = numbers = 0.0
        for part in scan.slices():
            pages = scan.pages(part)
            while True:
                begun = time.process_time()
                page = next(pages, None)
                read += time.process_time() - begun
                if page is None:
                    break
                numbers += _timed(lambda page=page: Columns(page))  # type: ignore[misc]
                made += _timed(lambda page=page, columns=columns: message_batch(page, columns))  # type: ignore[misc]
        found[f"{name}: reading the store"] = count / read
        found[f"{name}: finding the headers of packets"] = count / numbers
        found[f"{name}: making columns, that included"] = count / made
    return found


def _timed(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def measure(count: int = COUNT, rounds: int = ROUNDS, only: str = "") -> list[Result]:
    """The lines of the table.

    @param only: measure the cases with this text in their names.
    """
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="msmq-bench-") as directory:
        place = Path(directory)
        fill(place / "data", 1, count - count // 100 + 1)
        archive(place)
        fill(place / "data", count - count // 100 + 1, count + 1)
        for cores in (2, 1):
            done = subprocess.run(
                [sys.executable, __file__, "child", str(cores), directory, str(rounds), only],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            for name, times in found.items():
                rates = [(count / ours, count / theirs) for ours, theirs in times]
                shown = f"{name}, {cores} core{'s' * (cores > 1)}"
                results.append(compare(shown, rates, "rows/s", at_least=GOALS.get(name)))
        if not only:
            results += [Result(name, rate, "rows/s") for name, rate in parts(place, count).items()]
    return results


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("case", nargs="?", default="")
    asked = parser.parse_args()
    print(table(measure(asked.count, asked.rounds, asked.case)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        main()
