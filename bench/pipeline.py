"""A million stored packets as rows in Spark, compared with the same rows from Parquet, on one core and two.

The messages are in a queue of a SQLite store, as a server has written them.
Spark reads them into its sink C{noop}: all columns except those of the body, or all except C{decoded};
then the same columns of a Parquet file with the same rows.
Each number of cores has a process of its own, in which both sources alternate.
C{python bench/pipeline.py [COUNT]} prints the figures.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from msmq.persistence.changes import PutMessage, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.columns import Columns
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import MESSAGE_COLUMNS, names_of
from msmq.pipeline.spark import make_session
from msmq.storage.damage import DamagePolicy
from msmq.storage.scrub_policy import SCRUBBING
from msmq.storage.sqlite.database import FileDatabase
from rig.measuring import Result, compare, table

COUNT: Final = 1_000_000
BODY: Final = 300
ROUNDS: Final = 1
GROUP: Final = 5_000
GOAL: Final = 0.5
QUEUE: Final = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)
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
        struct.pack("<IIII", 0xFFFFFFFF, 1_700_000_000 + number, number, 0x00200000 | 0x20 | 7 << 10) + name
    )
    properties = struct.pack("<BBH", 0, len(label) // 2, 0) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0) + label + body
    properties += bytes(-len(properties) % 4)
    size = 16 + len(user) + len(properties)
    return struct.pack("<BBHIII", 0x10, 0, 3, 0x524F494C, size, 0xFFFFFFFF) + user + properties


def fill(data: Path, count: int) -> None:
    """Put this number of messages into a store."""
    data.mkdir()
    policy = DamagePolicy(data / "msmq.sqlite-mark", False, time.time, SCRUBBING)
    database = FileDatabase(data / "msmq.sqlite", policy)
    try:
        database.write([[PutQueue(QUEUE)]])
        for first in range(1, count + 1, GROUP):
            numbers = range(first, min(first + GROUP, count + 1))
            group = [PutMessage(QUEUE.identifier, 4 << 56 | n, packet(n), 1.7e9 + n) for n in numbers]
            [failed] = database.write([group])
            if failed is not None:
                raise failed
            database.checkpoint()
    finally:
        database.close()


def child(cores: int, place: Path) -> None:
    """Measure with this number of cores; prints seconds by case, round by round."""
    session = make_session("bench", master=f"local[{cores}]", settings={"spark.driver.memory": "2g"})
    session.sparkContext.setLogLevel("ERROR")
    data, parquet = str(place / "data"), str(place / "parquet")

    def source(columns: tuple[str, ...]) -> Any:
        return session.read.format("msmq").options(path=data, columns=",".join(columns)).load()

    def seconds(frame: Any) -> float:
        begun = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begun

    if not Path(parquet).exists():
        source(EVERYTHING).write.parquet(parquet)
    # What starts once is no part of it.
    seconds(source(HEADERS).limit(1000))
    seconds(session.read.parquet(parquet).limit(1000))
    found: dict[str, list[tuple[float, float]]] = {"headers": [], "bodies": []}
    for _ in range(ROUNDS):
        for name, columns in (("headers", HEADERS), ("bodies", EVERYTHING)):
            ours = seconds(source(columns))
            theirs = seconds(session.read.parquet(parquet).select(*columns))
            found[name].append((ours, theirs))
    print(json.dumps(found))


def parts(place: Path, count: int) -> dict[str, float]:
    """Where the time goes, in one process without Spark: seconds of reading, and of making columns."""
    found: dict[str, float] = {}
    for name, columns in (("headers", HEADERS), ("bodies", EVERYTHING)):
        options = read_options({"path": str(place / "data")})
        scan = StoreScan(options, wanted_columns(columns, options), "queue")
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


def measure(count: int = COUNT) -> list[Result]:
    """The lines of the table."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="msmq-bench-") as directory:
        place = Path(directory)
        fill(place / "data", count)
        for cores in (2, 1):
            done = subprocess.run(
                [sys.executable, __file__, "child", str(cores), directory],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            for name, rounds in found.items():
                rates = [(count / ours, count / theirs) for ours, theirs in rounds]
                goal = GOAL if name == "headers" else None
                results.append(
                    compare(f"{name}, {cores} core{'s' * (cores > 1)}", rates, "rows/s", at_least=goal)
                )
        results += [Result(name, rate, "rows/s") for name, rate in parts(place, count).items()]
    return results


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(table(measure(int(sys.argv[1]) if sys.argv[1:] else COUNT)))
