"""A record log whose machine loses its power during any of its system calls."""

from __future__ import annotations

import copy
import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

from twisted.python.failure import Failure

from tests.faults import IS_THOROUGH, tell
from tests.faults.power import TRACED, WRITES, Disk
from tests.faults.tracing import Call, read_log, tracer, why_not
from tests.storage.crash_model import STEP, Model, batch
from tests.storage.killing import Victims
from tests.storage.log.support import LogTestCase

LINES = 1200 if IS_THOROUGH else 120
LIKELIHOODS = (0, 0.5, 0.9, 1)
CUTS = 1_000_000 if IS_THOROUGH else 6
"""The calls that are tried, of those that change or synchronise a file."""
SEED = 20261122

_SAID = re.compile(rb"([hc]) (\d+)\n")


class PowerCutTests(LogTestCase):
    """A log with segments of 64 KiB: changes of segment, checkpoints, copies and reuse all the time."""

    skip = why_not()

    def live(self) -> list[Call]:
        """The system calls of a process that writes batches until it is killed."""
        trace = self.home / "trace"
        victims = Victims(tracer(trace, TRACED, "-s", "4000000"))
        self.data = self.home / "data"
        self.data.mkdir()
        victims.run_and_kill(f"tiny-log:{self.data / 'log'}", 0, LINES)
        victims.close()
        return list(read_log(trace))

    def wrong(self, calls: list[Call]) -> list[str]:
        """The violations after a power cut during any of these calls."""
        chance = random.Random(SEED)
        disk = Disk(self.data)
        handed = confirmed = at = 0
        model = Model()
        wrong: list[str] = []
        tried: Counter[str] = Counter()
        eligible = [call.ended for call in calls if self.is_change(call)]
        chosen = set(chance.sample(eligible, min(CUTS, len(eligible))))
        for call in calls:
            if call.name == "write":
                for what, number in _SAID.findall(call.data):
                    if what == b"h":
                        handed = max(handed, int(number))
                    else:
                        confirmed = max(confirmed, int(number))
            if call.ended in chosen:
                tried[call.name] += 1
                while at < confirmed:
                    at += 1
                    model.perform(batch(at, takes_runs=True))
                for likelihood in LIKELIHOODS:
                    where = f"step {confirmed} to {handed}, likelihood {likelihood}, during {call}"
                    fault = self.cut(disk, call, chance, likelihood, model, confirmed, handed)
                    wrong += [f"{where}: {fault}"] if fault else []
            disk.follow(call)
        tell(f"the record log: power cuts during {dict(tried)}, {confirmed} batches, {len(wrong)} failed")
        self.assertGreaterEqual(sum(tried.values()), 6)
        return wrong

    def is_change(self, call: Call) -> bool:
        """Whether a call changes, or synchronises, something in the directory."""
        if self.data in Path(call.file).parents:
            return call.name in WRITES or call.name in ("fsync", "fdatasync", "fallocate")
        return call.name in ("rename", "unlink", "mkdir") and os.fsencode(self.data).hex() in (
            call.arguments.replace("\\x", "")
        )

    def cut(
        self,
        disk: Disk,
        call: Call,
        chance: random.Random,
        likelihood: float,
        model: Model,
        confirmed: int,
        handed: int,
    ) -> str:
        """The violations after a power cut; empty without any."""
        home = self.home / "cut"
        home.mkdir()
        try:
            disk.leave(home, chance, likelihood, call)
            store = self.make_store(home)
            snapshot = self.reactor.outcome(store.open())
            if isinstance(snapshot, Failure):
                return str(snapshot.value)
            found = int(snapshot.state.get(STEP, b"0"))
            if not confirmed <= found <= handed:
                return f"it has step {found}"
            expected = copy.deepcopy(model)
            for step in range(confirmed + 1, found + 1):
                expected.perform(batch(step, takes_runs=True))
            try:
                self.assert_holds(store, snapshot, expected)
            finally:
                self.done(store.close())
        except Exception as error:
            return f"{error!r}"[:2000]
        finally:
            shutil.rmtree(home)
        return ""

    def test_power_cuts(self) -> None:
        """Everything confirmed is there, for any part of the unsynchronised writes on the disk."""
        wrong = self.wrong(self.live())
        self.assertEqual(len(wrong), 0, "\n".join(wrong[:10]))
