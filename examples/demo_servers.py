"""The queue managers of the demo: real C{twistd msmq} processes, each with a directory of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import attrs

from msmq import MQError
from msmq.control.client.client import ControlClient

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0


class ServerFailed(Exception):
    """A queue manager could not be started or has failed; the text is the reason, in one line."""


@attrs.define(eq=False)
class QueueManager:
    """Running queue manager.

    @ivar client: its control client, over the control socket in its data directory.
    """

    name: str
    address: str
    client: ControlClient
    _command: Sequence[str] = attrs.field(repr=False)
    _complaints: Path = attrs.field(repr=False)
    _process: Popen[bytes] | None = attrs.field(default=None, init=False, repr=False)

    def start(self) -> None:
        """Start the process on its data directory.

        @raise ServerFailed: it does not start.
        """
        with self._complaints.open("wb") as stderr:
            self._process = Popen(self._command, stdin=DEVNULL, stdout=DEVNULL, stderr=stderr)
        _wait_until_running(self.client, self._process, self.name, self._complaints)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the process cleanly."""
        if self._process is not None:
            _stop(self._process)


@contextmanager
def queue_manager(
    name: str,
    address: str,
    hosts: Mapping[str, str],
    directory: Path,
    *,
    enterprise: Path | None = None,
    settings: str = "",
) -> Iterator[QueueManager]:
    """Run a queue manager on TCP 1801 and UDP 3527 of an address, and stop it at the end of the block.

    @param hosts: addresses of other queue managers, and the addresses to connect to instead.
    @param enterprise: the enterprise file that it belongs to.
    @param settings: further settings of its configuration.
    @raise ServerFailed: it does not start.
    """
    data = directory / name
    configuration = directory / f"{name}.toml"
    places = "".join(f'"{host}" = "{place}"\n' for host, place in hosts.items())
    configuration.write_text(f"{settings}\n[hosts]\n{places}", encoding="utf-8")
    manager = QueueManager(
        name,
        address,
        ControlClient(data / "control.sock"),
        [
            str(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", f"--logfile={directory / name}.log"),
            *("msmq", "--name", name, "--address", address),
            *("--data", str(data), "--config", str(configuration)),
            *(("--directory", f"file:{enterprise}") if enterprise is not None else ()),
        ],
        directory / f"{name}.stderr",
    )
    try:
        manager.start()
        yield manager
    finally:
        manager.stop()


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
            pass  # Its socket does not exist yet.
        time.sleep(0.05)
    raise ServerFailed(f"{name} is not running after {START_TIMEOUT:.0f} seconds")


def _stop(process: Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
