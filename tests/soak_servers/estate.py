"""Three real servers: ALPHA sends to GAMMA through RELAY, a routing server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final
from uuid import UUID

import attrs

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.budgets import served
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.prepared import PreparedProcess

IDENTIFIERS: Final = {"ALPHA": UUID(int=0xA1), "RELAY": UUID(int=0xA2), "GAMMA": UUID(int=0xA3)}
_ENTERPRISE: Final = UUID(int=0xE0)
_SITE: Final = UUID(int=0xE1)
# Names that do not resolve, and short times, so that much happens and ends in a short run.
_OF_REQUESTS: Final = re.compile(r"#info (1001|2004)\] ")
"""The audit, and the purges, of which the load asks for as many as the machine can do."""
_SETTINGS: Final = """
[timers]
session_retry = 0.5
linger = 0.3
"""


@attrs.frozen
class Sample:
    """What one server uses at one moment.

    @ivar resident: kilobytes of memory.
    @ivar objects: objects that the collector of cycles knows, after a collection.
    @ivar files: kilobytes of its files, and C{file_count} their number.
    @ivar log: kilobytes of its log, without the lines that each request of an operator causes.
    """

    resident: float
    objects: float
    descriptors: float
    file_count: float
    files: float
    log: float
    messages: float
    bytes: float
    queues: float
    outgoing: float
    sessions: float
    transactions: float
    awaiting: float


class SoakedServer:
    """One of the servers.

    @ivar client: its control API.
    @ivar types: the number of objects of each type at the last report.
    """

    def __init__(self, processes: ExitStack, name: str, address: str, enterprise: Path) -> None:
        self.name = name
        self.address = address
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-soak-"))
        processes.callback(shutil.rmtree, self.directory)
        file = self.directory / "msmq.toml"
        file.write_text(_SETTINGS, encoding="utf-8")
        self.data = self.directory / "data"
        self._report = self.directory / "report"
        self.types: Counter[str] = Counter()
        self._lines: list[str] = []
        self._grown = threading.Condition()
        options = ["-n", "--pidfile=", "msmq", "--config", os.fspath(file), "--data", os.fspath(self.data)]
        self._process = PreparedProcess(
            [
                *(sys.executable, served.__file__, os.fspath(self._report), *options),
                *("--name", name, "--address", address, "--directory", f"file:{enterprise}"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        processes.callback(self._end)
        self.client = ControlClient(self.data / "control.sock")

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._grown:
                self._lines.append(line)
                self._grown.notify_all()
        with self._grown:
            self._lines.append("")
            self._grown.notify_all()

    def wait(self) -> None:
        """Wait until it serves."""
        with self._grown:
            self._grown.wait_for(
                lambda: self._lines[-1:] == [""] or any("store " in line for line in self._lines), DEADLINE
            )
        try:
            self.client.status()
        except MQError as error:
            raise RuntimeError(f"{self.name} did not start: {error}\n{self.log}") from error

    @property
    def log(self) -> str:
        """All that it has said so far."""
        with self._grown:
            return "".join(self._lines)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def report(self) -> tuple[float, float]:
        """The longest iteration of its reactor since the last report, and its objects."""
        self._report.unlink(missing_ok=True)
        os.kill(self._process.pid, signal.SIGUSR2)
        while not self._report.exists():
            self.client.status()
        figures, *types = self._report.read_text(encoding="utf-8").splitlines()
        counted = (line.split(" ", 1) for line in types)
        self.types = Counter({kind: int(number) for number, kind in counted})
        turn, objects = figures.split()
        return float(turn), float(objects)

    def sample(self) -> Sample:
        """What it uses now."""
        _, objects = self.report()
        status: dict[str, Any] = self.client.status()
        proc = Path(f"/proc/{self._process.pid}")
        pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
        sizes = []
        for each in self.data.rglob("*"):
            try:
                sizes.append(each.stat().st_blocks / 2)
            except FileNotFoundError:
                continue
        return Sample(
            resident=pages * os.sysconf("SC_PAGE_SIZE") / 1024,
            objects=objects,
            descriptors=len(os.listdir(proc / "fd")),
            file_count=len(sizes),
            files=sum(sizes),
            log=sum(len(line) for line in self.log.splitlines() if not _OF_REQUESTS.search(line)) / 1024,
            messages=status["messages"],
            bytes=status["bytes"],
            queues=status["queues"],
            outgoing=len(self.client.outgoing()),
            sessions=status["sessions"],
            transactions=status["transactions"],
            awaiting=status["awaiting_acknowledgements"],
        )


class Estate:
    """All three; ends with the processes."""

    def __init__(self, processes: ExitStack) -> None:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory(prefix="msmq-soak-")))
        enterprise = directory / "enterprise.toml"
        addresses = {name: own_address(number) for number, name in enumerate(IDENTIFIERS, 61)}
        members = "".join(
            f'[[queue_manager]]\nname = "{name}"\nid = "{identifier}"\naddress = "{addresses[name]}"\n'
            f'sites = ["Here"]\n'
            + ("routing_server = true\n" if name == "RELAY" else 'out_routing_servers = ["RELAY"]\n')
            for name, identifier in IDENTIFIERS.items()
        )
        enterprise.write_text(
            f'[enterprise]\nid = "{_ENTERPRISE}"\n[[site]]\nname = "Here"\nid = "{_SITE}"\n{members}',
            encoding="utf-8",
        )
        self.servers = {
            name: SoakedServer(processes, name, address, enterprise) for name, address in addresses.items()
        }
        for server in self.servers.values():
            server.wait()
