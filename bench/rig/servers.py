"""Queue managers as real C{twistd} processes on loopback, for benchmarks that drive them from outside."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError

READY: Final = 30.0
"""Seconds that a server gets to start."""


class Manager:
    """One queue manager, until the processes that it belongs to are ended."""

    def __init__(
        self,
        processes: ExitStack,
        name: str,
        settings: str,
        limits: str = "",
        *,
        storage: str = "",
        profiles: Path | None = None,
    ) -> None:
        """Start it.

        @param settings: tables of the configuration, such as C{[hosts]}.
        @param limits: lines of the table C{[limits]}.
        @param storage: C{--storage}; the default of the server if empty.
        @param profiles: a directory in which it leaves a profile, under its name.
        """
        data = Path(processes.enter_context(tempfile.TemporaryDirectory(prefix="msmq-bench-")))
        configuration = data / "msmq.toml"
        configuration.write_text(
            '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\ndiscovery = "off"\n'
            f"[limits]\n{limits}\n{settings}",
            encoding="utf-8",
        )
        with (data / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("twistd")),
                    *("--nodaemon", "--pidfile="),
                    *(_profiling(profiles / f"{name}.profile") if profiles is not None else ()),
                    *("msmq", "--config", str(configuration), "--name", name, "--data", str(data)),
                    *(("--storage", storage) if storage else ()),
                ],
                cwd=data,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        processes.callback(self._end)
        self._log = data / "log"
        self.pid = self._process.pid
        self.socket = data / "control.sock"
        self.client = ControlClient(self.socket)
        self.endpoint = self._started()["addresses"][0].rpartition(" ")[2]

    def _started(self) -> dict[str, Any]:
        deadline = time.monotonic() + READY
        while True:
            try:
                return self.client.status()
            except MQError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{error}\n{self._log.read_text(encoding='utf-8')}") from error
                time.sleep(0.02)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(READY)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _profiling(path: Path) -> tuple[str, ...]:
    return ("--profiler=cProfile", "--savestats", f"--profile={path.resolve()}")


def processor_seconds(pid: int) -> float:
    """The processor time that a process has had so far."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def written_bytes(pid: int) -> int:
    """The bytes that a process has had written to disk so far; 0 where that may not be seen."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def resident(pid: int) -> float:
    """Megabytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6
