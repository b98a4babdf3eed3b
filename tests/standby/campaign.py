"""Faults of the active server, one after the other, under a sender that counts what was accepted."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from random import Random
from threading import Event, Thread

import attrs

from msmq.client import Client
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.standby.pair import Pair

_BATCH = 1000

QUEUE = ".\\private$\\orders"
FAULTS = ("kill", "kill", "kill", "stop", "cut")
"""SIGKILL; SIGSTOP, and SIGCONT when another server is active; the end of the connection to the database."""


@attrs.define
class Sender:
    """Sends numbered transactional messages in a thread, each until a server has accepted it.

    A message keeps its key when it is sent again, so that the servers accept it once.
    """

    pair: Pair
    accepted: int = 0
    refused: int = 0
    _is_ending: Event = attrs.field(factory=Event)
    _thread: Thread = attrs.field(init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop after the message that is being sent."""
        self._is_ending.set()
        self._thread.join(DEADLINE)
        if self._thread.is_alive():
            raise AssertionError(f"message {self.accepted} is not accepted by any server")

    def progress(self, count: int) -> None:
        """Wait until so many more messages are accepted."""
        wanted = self.accepted + count
        node = self.pair.active
        node.until(lambda: self.accepted >= wanted, f"message {self.accepted} is not accepted")

    def _run(self) -> None:
        while not self._is_ending.is_set():
            number = self.accepted
            while not self._is_sent(self.pair.active.client, number):
                self.refused += 1
                time.sleep(0.01)
            self.accepted += 1

    def _is_sent(self, client: Client, number: int) -> bool:
        try:
            client.send(QUEUE, str(number), transactional=True, key=f"order-{number}")
        except MQError:
            return False
        return True


@attrs.define
class Campaign:
    """The faults, and how long each takeover took.

    @ivar seconds: of each takeover, by fault.
    @ivar kept: cut connections after which the active server was faster than its standby.
    """

    pair: Pair
    seconds: dict[str, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    kept: int = 0

    def run(self, faults: int, seed: int) -> list[int]:
        """Do it; returns the numbers of the messages in the queue at the end, in their order."""
        random = Random(seed)
        self.pair.active.client.create_queue(QUEUE, transactional=True)
        sender = Sender(self.pair)
        sender.start()
        for number in range(faults):
            sender.progress(3)
            time.sleep(random.random() * 0.1)
            fault = FAULTS[number % len(FAULTS)]
            {"kill": self._kill, "stop": self._stop, "cut": lambda: self._cut(sender)}[fault]()
        sender.progress(3)
        sender.end()
        if self.pair.stored() != sender.accepted:
            raise AssertionError(f"{sender.accepted} accepted, {self.pair.stored()} in the database")
        found: list[int] = []
        with self.pair.active.client.consume(QUEUE, count=_BATCH, timeout=0) as consumer:
            for batch in consumer:
                with batch:
                    found += [int(message.body) for message in batch]
        if found != list(range(sender.accepted)):
            raise AssertionError(f"{sender.accepted} accepted, and the queue has {found}")
        return found

    def _kill(self) -> None:
        old = self.pair.active
        old.signal(signal.SIGKILL)
        self.seconds["kill"].append(self.pair.taken_over())
        old.wait()
        self._restart()

    def _stop(self) -> None:
        old = self.pair.active
        old.signal(signal.SIGSTOP)
        self.seconds["stop"].append(self.pair.taken_over())
        # It comes back, with a request of the sender that it has not answered yet.
        old.signal(signal.SIGCONT)
        if (status := old.wait()) != 1:
            raise AssertionError(f"{old.name} ended with {status}: {old.output()[-2000:]}")
        self._restart()

    def _cut(self, sender: Sender) -> None:
        old, began = self.pair.active, time.monotonic()
        self.pair.cut()
        before = sender.accepted
        other = self.pair.standby
        other.until(
            # Of two more messages the second was committed after the cut.
            lambda: old.running.poll() is not None or sender.accepted >= before + 2,
            "no server is active after a cut connection",
        )
        if old.running.poll() is None:
            self.kept += 1
            return
        self.pair.taken_over()
        self.seconds["cut"].append(time.monotonic() - began)
        self._restart()

    def _restart(self) -> None:
        self.pair.standby.start()
        self.pair.standby.wait_for("standby")
