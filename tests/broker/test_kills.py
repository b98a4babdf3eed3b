"""A broker that is killed at any moment, again and again, loses no message and gets none twice."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.broker.ledger import FILE
from tests.faults import IS_THOROUGH, seed_of, tell
from tests.servers.own_address import own_address
from tests.servers.prepared import PreparedProcess

PROJECT = Path(__file__).resolve().parents[2]
KILLS = 100 if IS_THOROUGH else 3
MESSAGES = 15 * KILLS
SEED = seed_of(20261123)

SENDER = """
[listen]
session = "tcp:1801:interface={sender}"
ping = "off"

[timers]
session_retry = 0.1
session_retry_maximum = 0.2
"""
BROKER = """
[listen]
session = "tcp:1801:interface={broker}"
ping = "off"
"""


class KilledBrokerTests(SynchronousTestCase):
    """Two real processes: a queue manager that sends, and a broker on the record log that is killed."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="msmq-broker-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.addresses = {"sender": own_address(61), "broker": own_address(62)}
        self.ledger = self.home / "ledger"
        self.ledger.touch()
        self.passed: Counter[str] = Counter()

    def start(self, name: str, configuration: str, *options: str) -> subprocess.Popen[str]:
        """Start a server."""
        file = self.home / f"{name}.toml"
        file.write_text(configuration.format(**self.addresses))
        process = PreparedProcess(
            [
                os.fspath(Path(sys.executable).with_name("twistd")),
                *("-n", "--pidfile=", "msmq", "--config", os.fspath(file)),
                *("--data", os.fspath(self.home / name), "--name", name.upper(), *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
            env={**os.environ, FILE: os.fspath(self.ledger)},
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
            process.communicate()

    def send(self, queue: str, bodies: Sequence[bytes], *options: str) -> None:
        """Send messages with C{msmq send}."""
        file = self.home / "lines"
        file.write_bytes(b"".join(body + b"\n" for body in bodies))
        destination = f"DIRECT=TCP:{self.addresses['broker']}\\private$\\{queue}"
        program = os.fspath(Path(sys.executable).with_name("msmq"))
        data = os.fspath(self.home / "sender")
        with PreparedProcess(
            [program, "--data", data, "send", destination, "--lines", os.fspath(file), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            output, _ = process.communicate()
        self.assertEqual(process.returncode, 0, output)

    def live(self, lines: int | None) -> int:
        """One run of the broker, until it has printed this number of lines, or every message is in the
        ledger: then it prints no more.

        @return: how many lines it has printed.
        """
        process = self.start("broker", BROKER, "--broker", "tests.broker.ledger:Ledger")
        assert process.stdout is not None
        output: list[str] = []
        for line in process.stdout:
            output.append(line)
            if (found := re.search(r"passed (\S+)", line)) is not None:
                self.passed[found[1]] += 1
            if len(output) == lines or self.ledger.read_text().count("\n") == 2 * MESSAGES:
                break
        else:
            self.fail(f"it ended with {process.wait()}: {''.join(output[-30:])}")
        process.kill()
        process.communicate()
        return len(output)

    def test_kills(self) -> None:
        """Each message is in the ledger once, in order; it was passed again only after a kill.

        At most one message is in process when the process ends, since the broker has no concurrency.
        """
        chance = random.Random(SEED)
        sender = self.start("sender", SENDER)
        assert sender.stdout is not None
        for line in sender.stdout:
            if "] store " in line:
                break
        bodies = [b"%d" % number for number in range(MESSAGES)]
        self.send("orders", bodies, "--recoverable")
        self.send("payments", bodies, "--transactional")
        for _ in range(KILLS):
            self.live(chance.choice((chance.randrange(1, 12), chance.randrange(8, 60))))
        self.live(None)
        lines = [line.split(" ") for line in self.ledger.read_text().splitlines()]
        for queue in ("orders", "payments"):
            written = [body.encode() for _, path, body in lines if path.endswith(queue)]
            self.assertEqual(written, bodies)
        self.assertEqual(len({identifier for identifier, *_ in lines}), 2 * MESSAGES)
        again = sum(self.passed.values()) - len(self.passed)
        self.assertLessEqual(again, KILLS)
        tell(f"{KILLS} kills of a broker, {2 * MESSAGES} messages, {again} of them passed again")
