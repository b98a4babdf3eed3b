"""Members of an estate as real C{twistd msmq} processes, each on its own address of loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.structures.status import MQError, Status
from tests.patience import DEADLINE
from tests.servers.prepared import PreparedProcess

TIMERS = "[timers]\nsession_retry = 0.5\nsession_retry_maximum = 2\nack_wait_timeout = 20\n"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Ask again and again until something is true of other processes.

    @raise AssertionError: it is not within the deadline of tests that wait for processes.
    """
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE} s: {what}")
        time.sleep(0.05)


class Member:
    """One queue manager of an estate.

    @ivar client: speaks with it through the control socket in its data directory.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        address: str,
        *,
        enterprise: Path | None = None,
        settings: str = TIMERS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.data = home / name
        self._log = home / f"{name}.log"
        file = home / f"{name}.toml"
        file.write_text(settings)
        self._command = [
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", "msmq", "--name", name, "--address", address),
            *("--data", os.fspath(self.data), "--config", os.fspath(file)),
            *(("--directory", f"file:{enterprise}") if enterprise is not None else ()),
        ]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.client = ControlClient(self.data / "control.sock")

    @property
    def log(self) -> str:
        """The output of the server over all its runs."""
        return self._log.read_text(errors="replace")

    def begin(self) -> None:
        """Start the process; L{ready} waits for it."""
        with self._log.open("ab") as output:
            self._process = PreparedProcess(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
            )

    def ready(self) -> None:
        """Wait until it runs."""

        def is_running() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise AssertionError(f"{self.name} ended:\n{self.log}")
            try:
                return bool(self.client.status()["state"] == "running")
            except MQError:
                return False

        wait_until(is_running, f"{self.name} runs")

    def start(self) -> None:
        """Start it, and wait until it runs."""
        self.begin()
        self.ready()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it in an orderly way."""
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it where it is; its sockets stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the stopped process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait()

    def send(self, destination: str, bodies: Iterable[bytes], **properties: Any) -> list[str]:
        """Send messages, a thousand in each request; transactional ones a thousand in each transaction."""
        identifiers: list[str] = []
        header = {"destination": destination, **properties}
        waiting = [StreamRecord(header, body) for body in bodies]
        for first in range(0, len(waiting), 1000):
            identifiers += self.client.send(
                waiting[first : first + 1000], one_transaction=bool(properties.get("transactional"))
            )
        return identifiers

    def receive(
        self, queue: str, count: int, *, timeout: float = DEADLINE
    ) -> list[tuple[dict[str, Any], bytes]]:
        """Receive this number of messages permanently, or those that arrive before the time-out."""
        found: list[tuple[dict[str, Any], bytes]] = []
        try:
            with self.client.receive(queue, count=count, timeout=timeout) as stream:
                for item in stream:
                    match item:
                        case Delivered(properties, body):
                            found.append((dict(properties), bytes(body)))
                        case Receipt():
                            item.confirm()
        except MQError as error:
            if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                raise
        return found

    def bodies(self, queue: str, count: int, *, timeout: float = DEADLINE) -> list[bytes]:
        """The bodies of what L{receive} gives."""
        return [body for _, body in self.receive(queue, count, timeout=timeout)]

    def create(self, path: str, **options: Any) -> str:
        """Create a queue; gives the format name by which other members reach it."""
        return str(self.client.create_queue(path, options)["format_name"])

    def waiting(self) -> int:
        """How many messages its outgoing queues hold."""
        return sum(queue["messages"] for queue in self.client.outgoing())


def home(running: ExitStack) -> Path:
    """A directory that is removed at the end; its path is short, since sockets have short names."""
    return Path(running.enter_context(tempfile.TemporaryDirectory(prefix="msmq-estate-")))


def started(running: ExitStack, members: Iterable[Member]) -> Iterator[Member]:
    """Start members together; each is stopped at the end."""
    all_members = list(members)
    for member in all_members:
        running.callback(member.stop)
        member.begin()
    for member in all_members:
        member.ready()
        yield member
