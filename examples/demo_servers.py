"""The queue managers of the demo: real C{twistd msmq} processes, each with a directory of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import attrs

from msmq.control.client import ControlClient
from msmq.structures.status import MQError

START_TIMEOUT = 20.0
STOP_TIMEOUT = 10.0


class ServerFailed(Exception):
    """A queue manager does not run; says why in one line."""


@attrs.frozen
class QueueManager:
    """One queue manager that runs.

    @ivar client: asks it, through the control socket in its data directory.
    """

    name: str
    address: str
    client: ControlClient


@contextmanager
def queue_manager(
    name: str, address: str, hosts: Mapping[str, str], directory: Path
) -> Iterator[QueueManager]:
    """Run a queue manager on TCP 1801 and UDP 3527 of an address; it is stopped whatever happens.

    @param hosts: addresses of others, and where connections to them go instead.
    @raise ServerFailed: it does not start.
    """
    data = directory / name
    configuration = directory / f"{name}.toml"
    configuration.write_text(
        "[hosts]\n" + "".join(f'"{host}" = "{place}"\n' for host, place in hosts.items()), encoding="utf-8"
    )
    complaints = directory / f"{name}.stderr"
    with complaints.open("wb") as stderr:
        process = Popen(
            [
                str(Path(sys.executable).with_name("twistd")),
                *("-n", "--pidfile=", f"--logfile={directory / name}.log"),
                *("msmq", "--name", name, "--address", address),
                *("--data", str(data), "--config", str(configuration)),
            ],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=stderr,
        )
    try:
        client = ControlClient(data / "control.sock")
        _wait_until_running(client, process, name, complaints)
        yield QueueManager(name, address, client)
    finally:
        _stop(process)


def _wait_until_running(client: ControlClient, process: Popen[bytes], name: str, complaints: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            lines = complaints.read_text(encoding="utf-8", errors="replace").splitlines() or ["it just ended"]
            raise ServerFailed(f"{name} cannot start: {lines[-1].removeprefix('msmq cannot start: ')}")
        try:
            if client.status()["state"] == "running":
                return
        except MQError:
            pass  # Its socket is not there yet.
        time.sleep(0.05)
    raise ServerFailed(f"{name} is not running after {START_TIMEOUT:.0f} seconds")


def _stop(process: Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
