"""A server as operators run it, C{twistd -n msmq}, with C{strace} around it if that is wanted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread, Timer

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from tests.faults.careless import write_plugin
from tests.faults.tracing import FILTER, attach
from tests.servers.prepared import PreparedProcess

PROJECT = Path(__file__).resolve().parent.parent.parent

LIMIT = 60
"""Seconds after which a server, or a process that waits for it, counts as hung."""

_CONFIGURATION = '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\n'
_READY = re.compile(r"\] store \w+")


class ServerProcess:
    """One life of a server over a data directory.

    @param home: where its configuration is and its data directory, which outlives it.
    @param tracer: the command that traces it: in front of its own if it asks for the filter in the kernel,
        which only a start can have, or else attached to a fork before that begins.
    @param environment: its environment in addition to our own.
    @param hosts: the table of that name in its configuration.
    @param limit: seconds after which it is taken to hang.
    """

    def __init__(
        self,
        home: Path,
        *,
        tracer: Sequence[str] = (),
        name: str = "ALPHA",
        storage: str = "sqlite",
        environment: Mapping[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
        limit: float = LIMIT,
    ) -> None:
        self.data = home / "data"
        file = home / "msmq.toml"
        lines = [f'{host} = "{address}"' for host, address in (hosts or {}).items()]
        file.write_text("\n".join([_CONFIGURATION, "[hosts]", *lines, ""]))
        is_attached = bool(tracer) and FILTER not in tracer
        command = [
            *(() if is_attached else tracer),
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", "msmq", "--config", os.fspath(file), "--data", os.fspath(self.data)),
            *("--name", name, "--storage", storage),
        ]
        self.is_hung = False
        self._lines: list[str] = []
        self._is_ready = False
        self._started = Event()
        self._process = (_StoppedProcess if is_attached else PreparedProcess)(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
            env={**os.environ, **(environment or {})},
        )
        self._tracer = attach(tracer, self._process.pid) if is_attached else None
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self._watchdog = Timer(limit, self._give_up)
        self._watchdog.daemon = True
        self._watchdog.start()
        self.client = ControlClient(self.data / "control.sock")

    @property
    def session_address(self) -> str:
        """Where it listens for sessions: C{127.0.0.1:40001}."""
        [address] = self.client.status()["addresses"]
        return str(address).removeprefix("TCP ")

    @property
    def output(self) -> str:
        """The output of the server."""
        return "".join(self._lines)

    def is_ready(self) -> bool:
        """Wait until it is ready to be asked, or has ended."""
        self._started.wait()
        return self._is_ready

    def terminate(self) -> int:
        """Have it stop in order; gives its exit status."""
        self._process.terminate()
        return self.ended()

    def kill(self) -> int:
        """End it at once."""
        self._process.kill()
        return self.ended()

    def ended(self) -> int:
        """Wait for its end, and its tracer's; gives its exit status."""
        status = self._process.wait()
        # A tracer in front has the other end of the pipe too, and its log is complete when it has ended.
        self._reader.join()
        if self._tracer is not None:
            self._tracer.wait()
        self._watchdog.cancel()
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line)
                if _READY.search(line):
                    self._is_ready = True
                    self._started.set()
        self._started.set()

    def _give_up(self) -> None:
        self.is_hung = True
        self._process.kill()


class _StoppedProcess(PreparedProcess):
    is_stopped = True


class ServerTestCase(SynchronousTestCase):
    """Tests with servers that keep their data in C{home}."""

    def setUp(self) -> None:
        self.home = self.directory()

    def directory(self) -> Path:
        """A new one; a path of trial's own may be longer than a unix socket's may be."""
        directory = Path(tempfile.mkdtemp(prefix="msmq-faults-")).resolve()
        self.addCleanup(shutil.rmtree, directory)
        return directory

    def plugins(self) -> Mapping[str, str]:
        """An environment in which C{twistd} finds the stores of L{tests.faults.careless}."""
        return write_plugin(self.home)

    def server(self, home: Path | None = None, **arguments: object) -> ServerProcess:
        """Start a server, which ends with the test."""
        server = ServerProcess(self.home if home is None else home, **arguments)  # type: ignore[arg-type]
        self.addCleanup(server.kill)
        return server
