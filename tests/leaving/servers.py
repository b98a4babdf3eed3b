"""A C{twistd msmq} that is killed and started again on what it left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from msmq.client import Client
from tests.servers.prepared import PreparedProcess, run

PROGRAMS = Path(sys.executable).parent


class KilledServer:
    """One queue manager.

    @param address: its own address of loopback.
    @param hosts: the addresses of others by their names.
    @ivar client: waits for the server while it is away.
    """

    def __init__(
        self, directory: Path, name: str, address: str, hosts: dict[str, str], *, patience: float = 120
    ) -> None:
        self.name = name
        self.address = address
        self._data = directory / name
        self.socket = self._data / "control.sock"
        self.configuration = directory / f"{name}.toml"
        lines = [f'{host} = "{where}"' for host, where in hosts.items()]
        timers = ["[timers]", "session_retry = 0.1", "session_retry_maximum = 0.5"]
        self.configuration.write_text("\n".join(["[hosts]", *lines, *timers, ""]))
        self._log = directory / f"{name}.log"
        self._command = [
            os.fspath(PROGRAMS / "twistd"),
            *("-n", "--pidfile=", "msmq", "--name", name, "--address", address),
            *("--data", os.fspath(self._data), "--config", os.fspath(self.configuration)),
        ]
        self.client = Client(self._data, reconnect=patience)
        self._process: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        """Start the process; the client waits until it runs."""
        with self._log.open("ab") as log:
            self._process = PreparedProcess(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Kill the process at any moment."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def msmq(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the command against it."""
        program = os.fspath(PROGRAMS / "msmq")
        return run([program, "--control", f"unix:{self.socket}", *arguments], timeout=timeout)

    def take(self, queue: str, count: int, timeout: float) -> list[bytes]:
        """Receive this many messages, or what comes until there is nothing for that long."""
        bodies: list[bytes] = []
        with self.client.consume(queue, timeout=timeout) as consumer:
            while len(bodies) < count and (batch := consumer.next_batch()):
                bodies += [message.body for message in batch]
                batch.confirm()
        return bodies
