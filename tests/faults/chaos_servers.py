"""The servers of a run of chaos: processes with disks, clocks and networks of their own, which are killed.

A run has a pair of servers, or three, of which the one in the middle is a relay.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.faults.machine import JumpingClock, MachineFault, SmallDisk
from tests.servers.prepared import PreparedProcess

PATIENCE: Final = 90.0
"""Seconds without any progress after which a run has failed."""

NAMES: Final = {2: ("ALPHA", "BETA"), 3: ("ALPHA", "RELAY", "BETA")}
"""The servers of a pair, and of one with a relay."""


_SMALL = {"sqlite", "small-log"}
"""Stores that fit on a small disk; a database server has a disk of its own."""
_TIMERS = """
[timers]
session_retry = 0.2
session_retry_maximum = 1
resend_short = 1
resend_medium = 2
resend_long = 2
resend_final = 2
"""


@attrs.frozen
class Plan:
    """How much of everything; the seed decides when."""

    seed: int
    messages: int
    queues: int
    """Those of transactional messages; every server has one more, for recoverable ones."""

    kills: int
    disturbances: int
    storages: tuple[str, ...] = ("sqlite", "sqlite")
    """The store of each server; the messages are for the first and the last."""

    machine_faults: tuple[MachineFault, ...] = ()
    """Each happens once, to one of the servers."""


_RELAY = """
[enterprise]
id = "00000000-0000-0000-0000-0000000000e1"
[[site]]
name = "Berlin"
id = "00000000-0000-0000-0000-0000000000b1"
"""
"""An enterprise of one site, in which all messages go by the server in the middle."""

_MEMBER = """
[[queue_manager]]
name = "{name}"
id = "00000000-0000-0000-0000-0000000000a{number}"
sites = ["Berlin"]
{role}
"""


class Server:
    """A C{twistd msmq} that is killed and started again on what it left behind."""

    def __init__(
        self,
        directory: Path,
        name: str,
        address: str,
        routes: dict[str, str],
        storage: str,
        enterprise: Path | None,
        plan: Plan,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self.address = address
        data = directory / name
        configuration = directory / f"{name}.toml"
        hosts = "".join(f'"{host}" = "{endpoint}"\n' for host, endpoint in routes.items())
        configuration.write_text(f"[hosts]\n{hosts}{_TIMERS}")
        self.log = directory / f"{name}.log"
        self._command = [
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", "msmq", "--name", name, "--address", address),
            *("--data", os.fspath(data), "--config", os.fspath(configuration), "--storage", storage),
            *(() if enterprise is None else ("--directory", f"file:{enterprise}")),
        ]
        self.client = ControlClient(data / "control.sock")
        # A clock has to be there when an interpreter starts.
        is_small = storage in _SMALL and MachineFault.FULL in plan.machine_faults
        self.disk = SmallDisk(data) if is_small else None
        self.clock = (
            JumpingClock(directory / f"{name}.clock") if MachineFault.JUMP in plan.machine_faults else None
        )
        clock = {} if self.clock is None else self.clock.environment
        self._environment = {**os.environ, **environment, **clock}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self._process = PreparedProcess(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def start(self) -> None:
        """Start the process, and wait until it runs."""
        self.begin()
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                if self.client.status()["state"] == "running":
                    return
            except MQError:
                time.sleep(0.02)
        raise AssertionError(f"{self.name} does not start:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """Kill the process at any moment."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self.clock is not None:
                self.clock.forget(self._process.pid)

    def pause(self) -> Callable[[], None]:
        """Stop the process where it is; returns what lets it go on."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it, and leave nothing of its disk."""
        self.kill()
        if self.disk is not None:
            self.disk.close()


def enterprise_file() -> str:
    """The file of an enterprise in which the server in the middle is the relay."""
    relay = NAMES[3][1]
    roles = (
        f'out_routing_servers = ["{relay}"]',
        "routing_server = true",
        f'out_routing_servers = ["{relay}"]',
    )
    return _RELAY + "".join(
        _MEMBER.format(name=name, number=number, role=role)
        for number, (name, role) in enumerate(zip(NAMES[3], roles, strict=True))
    )
