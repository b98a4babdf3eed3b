"""A server in a network of its own, what it uses, and a peer that must be served all the time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient, Receipt
from tests.budgets.budget import Cost
from tests.budgets.namespace import SERVER, Namespace
from tests.builders import ALPHA, GAMMA, establish, numbered_packet, parameters, session_ack, session_header
from tests.integration.hostile.plain_sockets import PlainPeer
from tests.patience import DEADLINE

SESSION_PORT: Final = 1801
PROJECT: Final = Path(__file__).resolve().parents[2]
HEALTHY: Final = ".\\private$\\healthy"
HONEST: Final = "10.77.0.2"
CONFIGURATION: Final = """
[timers]
session_initialization = 2
linger = 0.3
[security]
unauthenticated = "allow"
[limits]
window_size = 64
"""


@attrs.frozen
class Use:
    """What a process uses at one moment."""

    log_lines: int
    log_bytes: int
    resident: int
    descriptors: int
    disk: int
    processor: int


def _is_spare(file: Path) -> bool:
    """Whether a file is a segment of the log that is not begun: they are made when the server is quiet."""
    if not file.name.startswith("segment"):
        return False
    with file.open("rb") as segment:
        return not any(segment.read(64))


class AttackedServer:
    """C{twistd msmq} with the record log, its default limits, and a queue C{orders} that any peer may use.

    @ivar client: its control API.
    """

    def __init__(self, test: SynchronousTestCase, network: Namespace) -> None:
        self._test = test
        self.network = network
        directory = Path(tempfile.mkdtemp(prefix="msmq-budgets-"))
        test.addCleanup(shutil.rmtree, directory)
        file = directory / "msmq.toml"
        file.write_text(CONFIGURATION, encoding="utf-8")
        self.data = directory / "data"
        self._turns = directory / "turns"
        self._lines: list[str] = []
        self._grown = threading.Condition()
        program = [sys.executable, "-m", "tests.budgets.served", os.fspath(self._turns)]
        options = ["-n", "--pidfile=", "msmq", "--config", os.fspath(file), "--data", os.fspath(self.data)]
        self._process = subprocess.Popen(
            [*network.prefix, *program, *options, "--address", SERVER],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        test.addCleanup(self._stop)
        self._wait(lambda: any("store " in line for line in self._lines), "it did not start")
        self.client = ControlClient(self.data / "control.sock")
        for queue in (HEALTHY, ".\\private$\\orders"):
            self.client.create_queue(queue, {})
        self.client.create_queue(".\\private$\\payments", {"transactional": True})
        self._honest = self.open(HONEST, window_size=2, client=GAMMA)
        self._exchanged = 0
        self.exchange(50)
        self._alone = sorted(self._one_exchange() for _ in range(9))[4]

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._grown:
                self._lines.append(line)
                self._grown.notify_all()
        with self._grown:
            self._lines.append("")
            self._grown.notify_all()

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        with self._grown:
            if not self._grown.wait_for(lambda: is_so() or self._lines[-1:] == [""], DEADLINE) or not is_so():
                raise self._test.failureException(f"{otherwise}:\n{''.join(self._lines[-50:])}")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(DEADLINE)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._test.assertEqual(
            [line for line in self._lines if "Traceback" in line or "Unhandled" in line], []
        )

    # Peers

    def connect(self, source: str) -> PlainPeer:
        """A connection to its session port."""
        peer = PlainPeer(self.network.connect(source, SESSION_PORT, DEADLINE))
        self._test.addCleanup(peer.close)
        return peer

    def open(self, source: str, *, window_size: int = 64, client: object = ALPHA) -> PlainPeer:
        """A connection that has gone through the handshake."""
        peer = self.connect(source)
        peer.send(establish(client), parameters(500, 20000, window_size))  # type: ignore[arg-type]
        peer.read(572 + 32)
        return peer

    def exchange(self, count: int = 1) -> None:
        """The honest peer sends messages one by one: each is acknowledged, and found in its queue."""
        for _ in range(count):
            self._exchanged += 1
            body = b"%d" % self._exchanged
            name = f"TCP:{SERVER}\\private$\\healthy"
            self._honest.send(numbered_packet(body, destination=name, source=GAMMA))
            answer = self._honest.read(36)
            self._test.assertEqual(answer, session_ack(session_header(received=self._exchanged)))
        found = 0
        with self.client.receive(HEALTHY, count=count, timeout=DEADLINE) as stream:
            for item in stream:
                if isinstance(item, Receipt):
                    item.confirm()
                else:
                    found += 1
        self._test.assertEqual(found, count)

    # What it uses

    @property
    def _pid(self) -> int:
        return self._process.pid

    def use(self) -> Use:
        """What it uses now."""
        proc = Path(f"/proc/{self._pid}")
        pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
        processor = 0
        for task in (proc / "task").iterdir():
            try:
                processor += int((task / "schedstat").read_text(encoding="ascii").split()[0])
            except FileNotFoundError:
                continue
        with self._grown:
            lines = list(self._lines)
        return Use(
            log_lines=len(lines),
            log_bytes=sum(map(len, lines)),
            resident=pages * os.sysconf("SC_PAGE_SIZE"),
            descriptors=len(os.listdir(proc / "fd")),
            disk=sum(
                each.stat().st_blocks * 512
                for each in self.data.rglob("*")
                if each.is_file() and not _is_spare(each)
            ),
            processor=processor,
        )

    def longest_turn(self) -> float:
        """The processor time of its longest iteration since the last call, in seconds."""
        self._turns.unlink(missing_ok=True)
        os.kill(self._pid, signal.SIGUSR1)
        # The handler runs in the next iteration of the reactor; an answer is one.
        while not self._turns.exists():
            self.client.status()
        return float(self._turns.read_text(encoding="ascii").split()[0])

    def _one_exchange(self) -> int:
        before = self.use().processor
        self.exchange()
        return self.use().processor - before

    def _settle(self) -> None:
        """Serve the honest peer until what others have sent is processed: it costs what it costs alone."""
        for _ in range(300):
            if self._one_exchange() < 2 * self._alone:
                return
        raise self._test.failureException("it never finishes with what it was sent")

    def measure(
        self, attack: Callable[[AttackedServer], list[PlainPeer]], message: float, turn: float
    ) -> Cost:
        """The cost of an attack; the peers that it returns stay until the honest peer was served.

        @param message: nanoseconds of processor time of one honest message.
        @param turn: seconds of the longest iteration of an honest load.
        """
        self.longest_turn()
        before = self.use()
        peers = attack(self)
        self._settle()
        held = self.use()
        for peer in peers:
            peer.close()
        self._settle()
        cost = self.cost(before, message, turn=self.longest_turn() / turn)
        return attrs.evolve(cost, held=held.descriptors - before.descriptors)

    def cost(self, before: Use, message: float, *, turn: float) -> Cost:
        """The cost of all that has happened since a moment."""
        after = self.use()
        return Cost(
            log_lines=after.log_lines - before.log_lines,
            log_bytes=after.log_bytes - before.log_bytes,
            resident=(after.resident - before.resident) / 1024,
            held=after.descriptors - before.descriptors,
            left=after.descriptors - before.descriptors,
            disk=(after.disk - before.disk) / 1024,
            processor=(after.processor - before.processor) / message,
            turn=turn,
        )
