"""A queue manager that is killed at any moment, again and again, and a model of what it may have lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from tests.faults import IS_THOROUGH, seed_of, tell
from tests.faults.history import History
from tests.faults.inventory import Inventory, Logs
from tests.faults.server import PROJECT, ServerTestCase

KILLS = 300 if IS_THOROUGH else 8
LOG_KILLS = 1000 if IS_THOROUGH else 6
SEED = seed_of(20261121)


class KilledTests(ServerTestCase):
    """No confirmed message is missing, partial or duplicated, and the order is kept.

    @cvar storage: the description of the store; C{kills} is how often it is killed.
    """

    storage = "sqlite"
    kills = KILLS

    def setUp(self) -> None:
        super().setUp()
        self.data = self.home / "data"
        self.history = History()
        self.logs = Logs()
        self.checks = 0
        self.child = 0
        self.said: deque[str] = deque(maxlen=4000)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.life"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.end)

    def end(self) -> None:
        """Have it end, and the life that it may still lead."""
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
        self.process.communicate()

    def live(
        self,
        life: int,
        seed: int,
        *,
        early: int | None = None,
        late: int | None = None,
        operations: int | None = None,
    ) -> None:
        """One run, to a clean stop after this number of operations, or to a kill.

        @param early: the number of output lines before the kill; C{late}: the number after its inventory.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        arguments = [
            os.fspath(self.data),
            self.storage,
            life,
            seed,
            operations,
            self.logs.logged,
            self.logs.noted,
        ]
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        inventory = Inventory(self.history, self.logs)
        count, count_of_late, was_killed = 0, 0, False
        for text in self.process.stdout:
            self.said.append(text)
            line = _read(text)
            if line is None:
                continue
            if line[0] == "process":
                self.child = line[1]
            if line[0] == "died":
                self.child = 0
                if line[1] != (-9 if was_killed else 0):
                    self.fail(f"it ended with {line[1]}; {self.story(seed)}")
                break
            self.history.hear(line)
            inventory.hear(line)
            if self.history.faults:
                break
            count += 1
            count_of_late += inventory.is_complete
            if early == count or late == count_of_late > 0:
                os.kill(self.child, signal.SIGKILL)
                was_killed = True
        if self.history.faults:
            self.fail("\n".join([*self.history.faults[:20], self.story(seed)]))
        self.checks += inventory.is_complete

    def story(self, seed: int) -> str:
        """Where to read what was done."""
        path = Path(self.mktemp())
        path.write_text("".join(self.said))
        return f"seed {seed}; the last lines are in {path.resolve()}"

    def test_kills(self) -> None:
        """Whenever it is killed, what it has promised is there, and nothing else."""
        chance = random.Random(SEED)
        for life in range(self.kills):
            if chance.random() < 0.25:
                self.live(life, chance.getrandbits(32), early=chance.randrange(1, 30))
            else:
                self.live(life, chance.getrandbits(32), late=chance.randrange(1, 600))
            if life % 10 == 9:
                self.live(1000 + life, chance.getrandbits(32), operations=100)
        self.live(2000, chance.getrandbits(32), operations=0)
        self.assertEqual(self.history.under_way, {})
        tell(f"{self.storage}: {self.kills} kills, {self.checks} restarts that were looked at")


class LogKilledTests(KilledTests):
    """The same with the record log."""

    storage = "log"
    kills = LOG_KILLS


def _read(text: str) -> list[Any] | None:
    """A line, unless the kill has cut it."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, list) else None
