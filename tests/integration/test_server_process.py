"""Tests of C{twistd msmq} as operators run it: a process, its output, its exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.prepared import PreparedProcess, run


class _ControlConnection(HTTPConnection):
    """HTTP over the control socket, as C{curl --unix-socket} speaks it."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(os.fspath(self._path))


class ServerProcessTests(SynchronousTestCase):
    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.configuration = self.directory / "msmq.toml"
        self.configuration.write_text(
            '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "udp:0:interface=127.0.0.1"\n'
        )

    def arguments(self, *options: str) -> list[str]:
        return [
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", "msmq"),
            *("--config", os.fspath(self.configuration), "--data", os.fspath(self.directory / "data")),
            *("--storage", "memory"),
            *options,
        ]

    def start(self, kind: type[subprocess.Popen[str]] = PreparedProcess) -> subprocess.Popen[str]:
        """Start a server and wait until it says that it is ready.

        @param kind: how it is started: as a fork, or C{subprocess.Popen}, as users do.
        """
        process = kind(
            self.arguments(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.directory
        )
        self.addCleanup(self.end, process)
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "recoverable and transactional sends are refused" in line:
                return process
        raise self.failureException(output)

    def end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate()

    def refused(self, *options: str) -> str:
        """Standard error of a server that does not start."""
        done = run(self.arguments(*options), timeout=DEADLINE, cwd=self.directory)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stdout + done.stderr)
        return done.stderr

    def status(self) -> dict[str, Any]:
        connection = _ControlConnection(self.directory / "data" / "control.sock")
        try:
            connection.request("GET", "/v1/status")
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            found: dict[str, Any] = json.loads(response.read())
            return found
        finally:
            connection.close()

    def test_starts_answers_and_stops(self) -> None:
        """It answers on its socket, and a signal stops it cleanly."""
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start(subprocess.Popen)
            self.assertEqual(self.status()["state"], "running")
            process.send_signal(number)
            output, _ = process.communicate(timeout=DEADLINE)
            self.assertIn("Server Shut Down.", output)
            self.assertNotIn("Traceback", output)
            self.assertEqual(process.returncode, -number)
            left = sorted(path.name for path in (self.directory / "data").iterdir())
            self.assertEqual(left, ["host.json", "identity.json", "lock"])

    def test_sighup_reloads(self) -> None:
        """SIGHUP applies what changed in the file; a mistake changes nothing; the server works on."""
        process = self.start()
        text = self.configuration.read_text()
        for addition, line in (
            ("[limits]\nquota = 5\n", "configuration reloaded; changed: limits.quota"),
            ("[limits]\nquota = 0\n", "nothing has changed"),
            ("", "configuration reloaded; changed: limits.quota"),
        ):
            self.configuration.write_text(text + addition)
            process.send_signal(signal.SIGHUP)
            assert process.stdout is not None
            self.assertTrue(any(line in each for each in process.stdout), line)
        self.assertEqual(self.status()["state"], "running")

    def test_starts_again_after_it_was_killed(self) -> None:
        """SIGKILL leaves a socket and a lock file behind, and neither keeps the next server from starting.

        [MS-MQQB] note 53: it is the same queue manager as before.
        """
        process = self.start()
        first = self.status()["identifier"]
        process.kill()
        process.communicate(timeout=DEADLINE)
        self.assertTrue((self.directory / "data" / "control.sock").exists())
        self.start()
        self.assertEqual(self.status()["identifier"], first)

    def test_refuses_a_second_server(self) -> None:
        """A second server on the same data is refused; one line names the directory and the process."""
        process = self.start()
        self.assertEqual(
            self.refused(),
            f"msmq cannot start: data directory {self.directory / 'data'} is in use by another server "
            f"(process {process.pid})\n",
        )
        self.assertEqual(self.status()["state"], "running")

    def test_names_a_port_in_use(self) -> None:
        """A port in use is named in one line, and nothing is left behind."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.configuration.write_text(f'[listen]\nsession = "tcp:{port}:interface=127.0.0.1"\n')
            self.assertEqual(
                self.refused(),
                f"msmq cannot start: cannot listen on TCP 127.0.0.1:{port}: Address already in use\n",
            )
        self.assertFalse((self.directory / "data" / "control.sock").exists())

    def test_ends_with_1_when_it_failed_late(self) -> None:
        """A start that fails only while the reactor runs has the same exit status, and loses no output."""
        program = (
            "import atexit; from msmq.service.twistd_service import ExitStatus; "
            "status = ExitStatus(); "
            "atexit.register(status.at_exit); status.failed = True; print('done', end='')"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "done", ""))

    def test_faults_of_the_configuration(self) -> None:
        """Every mistake of the file has a line on standard error, with the line of the file."""
        self.configuration.write_text("[limits]\nqouta = 5\n\n[timers]\nsession_retry = 0\n")
        self.assertEqual(
            self.refused().splitlines(),
            [
                f"{self.configuration}:2: limits.qouta: is not a key of [limits]; did you mean 'quota'?",
                f"{self.configuration}:5: timers.session_retry: must be from 0.1 to 3600 seconds, not 0",
            ],
        )
        self.assertFalse((self.directory / "data").exists())
