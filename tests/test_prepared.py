"""Programs that are forked with everything imported start as they do by themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.prepared import PROGRAMS, PreparedProcess, run

REFUSED = ("status", "--data", "nowhere")


class PreparedTests(SynchronousTestCase):
    """The command and the server, forked and by themselves."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)

    def both(self, *command: str) -> list[tuple[int, str, str]]:
        """What becomes of a program by itself, and of one that is forked."""
        path = [str(PROGRAMS / command[0]), *command[1:]]
        alone = subprocess.run(path, capture_output=True, text=True, timeout=DEADLINE, cwd=self.directory)
        forked = run(path, timeout=DEADLINE, cwd=self.directory)
        return [(done.returncode, done.stdout, done.stderr) for done in (alone, forked)]

    def test_same_command(self) -> None:
        """The command prints the same, and ends with the same status."""
        for command in (("msmq", "--version"), ("msmq", *REFUSED), ("msmq", "nonsense")):
            with self.subTest(command=command):
                alone, forked = self.both(*command)
                self.assertEqual(alone, forked)

    def test_same_refusal(self) -> None:
        """A server that cannot start says so in the same words, with the same status."""
        (self.directory / "msmq.toml").write_text("[limits]\nquta = 1\n")
        alone, forked = self.both("twistd", "-n", "--pidfile=", "msmq", "--config", "msmq.toml")
        self.assertEqual(alone, forked)
        self.assertEqual(alone[0], 1)

    def test_child_of_its_own(self) -> None:
        """It is a child of this process in a directory of its own, and a signal ends it."""
        process = PreparedProcess(
            [
                "twistd",
                "-n",
                "--pidfile=",
                "msmq",
                "--data",
                "data",
                "--storage",
                "memory",
                "--name",
                "ALPHA",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            env={**os.environ, "MSMQ_LISTEN_SESSION": "off"},
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        found = psutil.Process(process.pid)
        self.assertEqual((found.ppid(), found.cwd()), (os.getpid(), str(self.directory)))
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(DEADLINE), -signal.SIGKILL)

    def test_other_interpreter(self) -> None:
        """With another PYTHONPATH it is not forked, since a fork would not heed it."""
        (self.directory / "sitecustomize.py").write_text("print('from elsewhere')\n")
        with PreparedProcess(
            [PROGRAMS / "msmq", "--version"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(self.directory)},
        ) as process:
            output, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("from elsewhere", output)
