"""A scrape of /metrics at a thousand queues: CPU time, its part of a core, the longest reactor iteration.

C{python bench/metrics.py [QUEUES]} prints the figures. The queue manager is in this process, and the text is
made as the web endpoint makes it, in slices; sending it over HTTP is not part of the figures.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.internet.task import react as run_reactor

from msmq.interfaces.archive import NoArchive
from msmq.interfaces.bridges import NoBridges
from msmq.interfaces.shadows import NoShadows
from msmq.manager.administration.metered_store import MeteredStore
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.web.exposition import FRESH, Exposition, Instruments
from rig.measuring import Result, table

QUEUES = 1_000
ROUNDS = 15
INTERVAL = 15
"""Seconds between two scrapes, as Prometheus is usually configured."""
_SETTINGS = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'


class _Turns(Clock):
    """A clock that makes one call at a time, each as one iteration of the reactor."""

    def turn(self) -> None:
        """Make the first call that is due."""
        call = self.calls.pop(0)
        call.called = 1
        call.func(*call.args, **call.kw)


async def _scrape(exposition: Exposition, clock: _Turns) -> tuple[float, float, int]:
    """CPU seconds of one text, those of its longest slice, and its bytes."""
    clock.advance(FRESH)
    began = time.process_time()
    done = exposition.text()
    longest = time.process_time() - began
    while not done.called:
        before = time.process_time()
        clock.turn()
        longest = max(longest, time.process_time() - before)
    return time.process_time() - began, longest, len(await done)


async def _measure(reactor: Any, count: int) -> list[tuple[float, float, int]]:
    with tempfile.TemporaryDirectory() as data:
        path = Path(data, "msmq.toml")
        path.write_text(_SETTINGS, encoding="utf-8")
        server = Server(load(path, Overrides(data=data, storage="memory", name="ALPHA")), reactor)
        server.startService()
        await server.started
        manager = server.manager
        for number in range(count):
            queue = rf".\private$\orders{number}"
            await manager.create_queue(queue)
            await manager.send(queue, [Message(body=bytes(100))] * 3)
        clock = _Turns()
        exposition = Exposition(
            manager.inspection,
            Instruments(MeteredStore(manager.store, clock.seconds)),
            clock,
            windows_names=True,
            archive=NoArchive(),
            reloads={},
            bridges=NoBridges(),
            drains=manager.drains,
            shadows=NoShadows(),
            certificates=tuple,
            tokens=tuple,
        )
        found = [await _scrape(exposition, clock) for _ in range(ROUNDS)]
        await server.stopService()
        return found


def measure(count: int = QUEUES) -> list[Result]:
    """The figures of the table."""
    found: list[tuple[float, float, int]] = []

    async def main(reactor: Any) -> None:
        found.extend(await _measure(reactor, count))

    try:
        run_reactor(lambda reactor: ensureDeferred(main(reactor)))
    except SystemExit as end:
        if end.code:
            raise
    seconds = statistics.median(each[0] for each in found)
    longest = statistics.median(each[1] for each in found)
    share = seconds / INTERVAL
    return [
        Result(f"scrape of {count} queues, {found[0][2]} bytes", seconds * 1000, "ms of CPU"),
        Result(
            f"the same every {INTERVAL} s",
            share * 100,
            "% of a core",
            goal="under 1 %",
            is_reached=share < 0.01,
        ),
        Result("longest turn of it", longest * 1000, "ms", goal="under 20 ms", is_reached=longest < 0.02),
    ]


if __name__ == "__main__":
    sys.stdout.write(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else QUEUES)) + "\n")
