"""A drain between two real queue managers that are killed, while a third one sends to the old name."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final

import attrs

from msmq.client import MessageToSend, message_to
from msmq.control.client.client import ControlClient
from tests.leaving.servers import KilledServer
from tests.servers.own_address import own_address

ORDERS: Final = ".\\private$\\orders"
ARRIVALS: Final = ".\\private$\\arrivals"
_KEPT: Final = ("dead_letters", "awaiting_acknowledgements")
"""Numbers of messages in the status of the old queue manager that are 0 in the end."""

PATIENCE: Final = 300.0
"""Seconds after which the run has failed."""

PAUSE: Final = 0.1
"""Seconds between two batches of the sender."""


@attrs.define
class DrainRun:
    """One run.

    @ivar present: messages that are in the queue when the drain begins.
    @ivar rate: messages of the sender in a second.
    @ivar kills: of the old and the new queue manager, by chance.
    @ivar is_kept: the queues are not transactional, and messages are kept until they have arrived.
    @ivar interval: the mean of the seconds between two kills.
    @ivar proof: what the command has printed at the end.
    """

    present: int
    rate: int
    kills: int
    interval: float
    seed: int
    directory: Path
    is_kept: bool = False
    proof: dict[str, Any] = attrs.field(factory=dict, init=False)
    sent: int = attrs.field(default=0, init=False)

    def run(self) -> list[str]:
        """Run all steps; returns what is wrong."""
        chance = Random(self.seed)
        hosts = {
            name: own_address(number) for name, number in (("ALPHA", 131), ("BETA", 132), ("GAMMA", 133))
        }
        alpha, beta, gamma = (
            KilledServer(self.directory, name, address, hosts, patience=PATIENCE)
            for name, address in hosts.items()
        )
        with ExitStack() as stack:
            for server in (alpha, beta, gamma):
                stack.callback(server.kill)
                server.start()
            alpha.client.create_queue(ARRIVALS)
            alpha.client.create_queue(ORDERS, transactional=not self.is_kept)
            beta.client.create_queue(ORDERS, transactional=not self.is_kept, log=True)
            alpha.client.send_all(
                self._message(ORDERS, b"present %d" % number) for number in range(self.present)
            )
            stopping = Event()
            sender = Thread(target=self._send, args=(gamma, stopping))
            sender.start()
            try:
                self._begin(alpha)
                victims = [(alpha, beta)[number % 2] for number in range(self.kills)]
                chance.shuffle(victims)
                for victim in victims:
                    time.sleep(chance.uniform(0.5, 1.5) * self.interval)
                    victim.kill()
                    victim.start()
                self._prove(alpha, beta)
            finally:
                stopping.set()
                sender.join()
            self._wait_for_all(alpha)
            self.proof = self._command(alpha, "--end", "--verify", f"unix:{beta.socket}")
            left = alpha.take(ORDERS, 1, 0)
            arrived = beta.take(ORDERS, self.present + self.sent + 1, 0)
            kept = self._kept(alpha)
        return [*kept, *self._judge(arrived, left)]

    def _kept(self, alpha: KilledServer) -> list[str]:
        """Which messages the old queue manager has in the end; acknowledgements may still be in transit."""
        give_up = time.monotonic() + PATIENCE
        while True:
            status = ControlClient(alpha.socket).status()
            kept = [f"{name}: {status[name]}" for name in _KEPT if status[name]]
            if not kept or time.monotonic() > give_up:
                return kept
            time.sleep(PAUSE)

    def _message(self, queue: str, body: bytes) -> MessageToSend:
        return message_to(queue, body, transactional=not self.is_kept)

    def _send(self, server: KilledServer, stopping: Event) -> None:
        batch = max(1, round(self.rate * PAUSE))
        destination = "DIRECT=OS:ALPHA\\private$\\orders"
        while not stopping.wait(PAUSE):
            server.client.send_all(
                self._message(destination, b"later %d" % (self.sent + number)) for number in range(batch)
            )
            self.sent += batch

    def _begin(self, alpha: KilledServer) -> None:
        ended = alpha.msmq("drain", ORDERS, *self._destination(), "--no-wait")
        if ended.returncode:
            raise AssertionError(ended.stderr)

    def _prove(self, alpha: KilledServer, beta: KilledServer) -> None:
        """The proof of everything that is there now, while messages arrive."""
        self.proof = self._command(alpha, *self._destination(), "--verify", f"unix:{beta.socket}")

    def _destination(self) -> list[str]:
        acknowledge_to = ["--acknowledge-to", "DIRECT=OS:ALPHA\\private$\\arrivals"] if self.is_kept else []
        return ["--to", "DIRECT=OS:BETA\\private$\\orders", *acknowledge_to]

    def _wait_for_all(self, alpha: KilledServer) -> None:
        """Wait until everything that was sent has left the old queue."""
        give_up = time.monotonic() + PATIENCE
        control = ControlClient(alpha.socket)
        while control.drain(ORDERS)["moved"] < self.present + self.sent:
            if time.monotonic() > give_up:
                raise AssertionError(control.drain(ORDERS))
            time.sleep(PAUSE)

    def _command(self, alpha: KilledServer, *arguments: str) -> dict[str, Any]:
        """Repeat the command until no kill has interrupted it."""
        give_up = time.monotonic() + PATIENCE
        while True:
            ended = alpha.msmq("drain", ORDERS, *arguments, "--json", timeout=PATIENCE)
            if ended.returncode == 0:
                found = json.loads(ended.stdout)
                assert isinstance(found, dict)
                return found
            if time.monotonic() > give_up or ended.stdout:
                raise AssertionError(f"{ended.stderr}{ended.stdout}")
            time.sleep(PAUSE)

    def _judge(self, arrived: list[bytes], left: list[bytes]) -> list[str]:
        wanted = [b"present %d" % number for number in range(self.present)]
        later = [b"later %d" % number for number in range(self.sent)]
        counts = Counter(arrived)
        proof = self.proof
        total = len(wanted) + len(later)
        return [
            *(f"{body!r} is still in the old queue" for body in left),
            *(f"lost {body!r}" for body in (*wanted, *later) if not counts[body]),
            *(f"{body!r} has arrived {times} times" for body, times in counts.items() if times > 1),
            *([] if [each for each in arrived if each[0] == ord("p")] == wanted else ["not in order"]),
            *(
                []
                if [each for each in arrived if each[0] == ord("l")] == later
                else ["later ones not in order"]
            ),
            *(
                f"the proof says {key} {proof.get(key)}, not {value}"
                for key, value in {
                    "moved": total,
                    "sent": total,
                    "arrived": total,
                    "missing": 0,
                    "twice": 0,
                    "reordered": 0,
                    "arrived_digest": proof.get("digest"),
                    "sent_digest": proof.get("digest"),
                }.items()
                if proof.get(key) != value
            ),
        ]
