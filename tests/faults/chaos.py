"""Servers that send to each other while they are killed, and their connections and machines fail.

The network is a proxy of ours.  Half of the queues are at either server, the other one sends to them, and
programs receive in transactions all the time.  Faults come at moments of the transfer that are drawn by
chance, so that the same number of them meets a fast machine and a slow one.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

from msmq.control.client.client import Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.structures.status import MQError, Status
from tests.faults.chaos_servers import NAMES, PATIENCE, Plan, Server, enterprise_file
from tests.faults.disturbed_network import Disturbance, DisturbedNetwork
from tests.faults.exactly_once import Ledger, Parcel
from tests.faults.machine import MachineFault
from tests.history_checker.checker import check_history
from tests.history_checker.recorder import Recorder

_RECOVERABLE: Final = "recoverable"
"""The queue of recoverable messages of each server."""


class UnknownReceipt(MQError):
    """A confirmation was cut off: its messages are removed, or not."""


class Chaos:
    """One run.

    @ivar done: how often what was done.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        addresses: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self.history = directory / "history.jsonl"
        self._lines = self.history.open("w", encoding="utf-8")
        self.ledger = Ledger(Recorder(self._lines.write, time.monotonic))
        self.done: Counter[str] = Counter()
        self.network = DisturbedNetwork()
        enterprise = directory / "enterprise.toml" if len(addresses) > 2 else None
        if enterprise is not None:
            enterprise.write_text(enterprise_file())
        members = dict(zip(NAMES[len(addresses)], addresses, strict=True))
        self.servers = tuple(
            Server(
                *(directory, name, here, self._routes(here, members), storage, enterprise),
                *(plan, environment or {}),
            )
            for (name, here), storage in zip(members.items(), plan.storages, strict=True)
        )
        self._repairs: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._ends = (self.servers[0], self.servers[-1])
        self._names: dict[str, str] = {}
        self._chance = Random(plan.seed)
        self._ahead = max(100, plan.messages // 20)
        self._stop = threading.Event()
        self._is_sent = [threading.Event() for _ in self._ends]

    def run(self) -> list[str]:
        """Run all steps; returns the violations of the history."""
        with ExitStack() as stack:
            stack.enter_context(self._lines)
            stack.callback(self.network.close)
            for server in self.servers:
                stack.callback(server.close)
            for server in self.servers:
                server.start()
            for number, server in enumerate(self._ends):
                for queue in self._queues(number):
                    path = f".\\private$\\{queue}"
                    made = server.client.create_queue(path, {"transactional": queue != _RECOVERABLE})
                    direct = f"DIRECT=TCP:{server.address}\\private$\\{queue}"
                    is_routed = len(self.servers) > 2
                    self._names[f"{server.name} {queue}"] = made["format_name"] if is_routed else direct
            threads = [
                threading.Thread(target=self._guarded, args=(work, number), daemon=True, name=name)
                for number, server in enumerate(self._ends)
                for work, name in (
                    (self._send, f"the sender of {server.name}"),
                    (self._receive, f"the receiver of {server.name}"),
                )
            ]
            # They end when the servers do, which the callbacks below this one see to.
            stack.callback(self._stop.set)
            for thread in threads:
                thread.start()
            self._disturb()
            self._calm_down()
            self._stop.set()
            deadline = time.monotonic() + PATIENCE
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    self.ledger.faults.append(f"{thread.name} still waits for an answer")
            self.ledger.ended()
        with self.history.open(encoding="utf-8") as lines:
            verdict = check_history(lines)
        self.done.update({f"{what} in the history": count for what, count in verdict.summary.items()})
        return [*self.ledger.faults, *verdict.violations]

    def _routes(self, here: str, members: dict[str, str]) -> dict[str, str]:
        """How one server reaches the others, by address and by name."""
        routes: dict[str, str] = {}
        for name, there in members.items():
            if there != here:
                routes[there] = routes[name] = self.network.route(here, there)
        return routes

    def _queues(self, number: int) -> list[str]:
        """Those of one server."""
        return [f"orders{queue}" for queue in range(number, self.plan.queues, 2)] + [_RECOVERABLE]

    def _guarded(self, work: object, number: int) -> None:
        try:
            assert callable(work)
            work(number)
        except Exception as error:
            self.ledger.faults.append(f"{self._ends[number].name}: {error!r}")
            self._stop.set()

    # What the programs do

    def _send(self, number: int) -> None:
        """Send to the other, never far ahead of what arrives."""
        chance = Random(f"{self.plan.seed} sender {number}")
        client, other = self._ends[number].client, self._ends[1 - number]
        orders = self._queues(1 - number)[:-1]
        share = self.plan.messages // 2
        sent, serial = 0, 0
        while sent < share and not self._stop.is_set():
            if self.ledger.confirmed - self.ledger.arrived > self._ahead:
                self._stop.wait(0.005)
                continue
            is_transaction = chance.random() < 0.9
            count = chance.choice((1, 1, 2, 5, 20))
            if is_transaction:
                count = min(count, share - sent)
            parcels = []
            for _ in range(count):
                queue = chance.choice(orders) if is_transaction else _RECOVERABLE
                serial += 1
                parcels.append(Parcel(f"{other.name} {queue}", f"{serial:07}"))
            sending = self.ledger.begin(self._ends[number].name, parcels, is_transaction=is_transaction)
            try:
                for _ in client.send(_records(parcels, self._names), one_transaction=is_transaction):
                    pass
            except MQError as error:
                if error.status is Status.MQ_ERROR_INSUFFICIENT_RESOURCES:
                    self.done["refusals of a full disk"] += 1
                    self.ledger.refuse(sending)
                elif error.status is not Status.MQ_ERROR_SERVICE_NOT_AVAILABLE:
                    raise
                self._stop.wait(0.05)
                continue
            self.ledger.confirm(sending)
            if is_transaction:
                sent += count
            else:
                self.done["recoverable messages"] += count
        self._is_sent[number].set()

    def _receive(self, number: int) -> None:
        """Receive from each queue in rotation, and now and then abort or return messages."""
        chance = Random(f"{self.plan.seed} receiver {number}")
        while not self._stop.is_set():
            count = 0
            for queue in self._queues(number):
                try:
                    count += self._receive_from(number, queue, chance)
                except MQError as error:
                    if error.status not in _PASSING:
                        raise
                    self._stop.wait(0.05)
            if not count:
                # Each look is a request for each queue.
                self._stop.wait(0.1)

    def _receive_from(self, number: int, queue: str, chance: Random) -> int:
        server, ledger = self._ends[number], self.ledger
        name = f"{server.name} {queue}"
        seen: list[tuple[str, bytes]] = []
        count = 0
        reading = ledger.reading(name)
        try:
            with server.client.receive(
                f".\\private$\\{queue}",
                count=chance.choice((1, 10, 100)),
                timeout=0.0,
                transactional=queue != _RECOVERABLE,
            ) as stream:
                for item in stream:
                    match item:
                        case Delivered(properties, body):
                            seen.append((properties["label"], body))
                        case Receipt():
                            ledger.shown(reading, name, seen)
                            if chance.random() < 0.1:
                                self.done["aborts"] += 1
                                ledger.returned(reading)
                                break
                            self._take(reading, name, [label for label, _ in seen], item)
                            count += len(seen)
                            seen, reading = [], ledger.reading(name)
            is_returned = bool(seen)
            if not seen:
                ledger.failed(reading)
        except MQError as error:
            is_returned = bool(seen)
            if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                # One of unknown result has no end, and one that was cut off had its messages returned.
                if not isinstance(error, UnknownReceipt):
                    self._cut_off(reading, name, seen)
                raise
            if not seen and not count:
                ledger.nothing(reading, name)
            else:
                self._cut_off(reading, name, seen)
        if is_returned:
            # A reader that receives while another holds the first messages is given the next ones.
            while server.client.transactions() and not self._stop.is_set():
                self._stop.wait(0.002)
        return count

    def _cut_off(self, reading: int, name: str, seen: list[tuple[str, bytes]]) -> None:
        """A reader ends without a receipt."""
        if seen:
            self.ledger.shown(reading, name, seen)
            self.ledger.returned(reading)
        else:
            self.ledger.failed(reading)

    def _take(self, reading: int, name: str, labels: list[str], receipt: Receipt) -> None:
        try:
            receipt.confirm()
        except MQError as error:
            self.done["doubtful receipts"] += 1
            self.ledger.doubt(name, labels)
            raise UnknownReceipt(error.status, str(error)) from error
        self.ledger.received(reading, name, labels)

    # What happens to the servers

    def _disturb(self) -> None:
        """Do everything of the plan, each at its moment, and wait until all is sent."""
        end = 2 * self.plan.messages
        faults: list[Disturbance | MachineFault | None] = [None] * self.plan.kills
        faults += [self._chance.choice(list(Disturbance)) for _ in range(self.plan.disturbances)]
        faults += self.plan.machine_faults
        moments = sorted((self._chance.randrange(end // 50, end), number) for number in range(len(faults)))
        moved = (0, time.monotonic())
        while moments or not all(event.is_set() for event in self._is_sent):
            if self._stop.wait(0.005):
                return
            self._repair(time.monotonic())
            progress = self.ledger.confirmed + self.ledger.arrived
            if progress > moved[0]:
                moved = (progress, time.monotonic())
            elif time.monotonic() - moved[1] > PATIENCE:
                self.ledger.faults.append("nothing moves any more")
                self._stop.set()
                return
            if moments and (progress >= moments[0][0] or all(event.is_set() for event in self._is_sent)):
                fault = faults[moments.pop(0)[1]]
                if fault is None:
                    self._kill()
                    moved = (moved[0], time.monotonic())
                elif isinstance(fault, MachineFault):
                    self._break(fault, self._chance.choice(self.servers))
                elif self.network.disturb(fault, self._chance):
                    self.done[fault.value] += 1

    def _break(self, fault: MachineFault, victim: Server) -> None:
        """Let a machine fail, and see to its repair."""
        repair: Callable[[], object] | None = None
        match fault:
            case MachineFault.PAUSED:
                repair = victim.pause()
            case MachineFault.FULL if victim.disk is not None:
                victim.disk.fill()
                repair = victim.disk.free
            case MachineFault.JUMP if victim.clock is not None:
                victim.clock.jump(self._chance.choice((-1, 1)) * self._chance.choice((5, 600, 7200, 86_400)))
            case _:
                return
        self.done[fault.value] += 1
        if repair is not None:
            lasting = self._chance.choice((0.2, 1.0, 4.0)) * self._chance.uniform(0.5, 1.5)
            heapq.heappush(self._repairs, (time.monotonic() + lasting, next(self._numbers), repair))

    def _repair(self, now: float) -> None:
        """End the faults of machines that have lasted long enough."""
        while self._repairs and self._repairs[0][0] <= now:
            heapq.heappop(self._repairs)[2]()

    def _kill(self) -> None:
        chance = self._chance
        victims = list(self.servers) if chance.random() < 0.15 else [chance.choice(self.servers)]
        for victim in victims:
            self._kill_one(victim)
        self._stop.wait(chance.uniform(0.0, 0.3))
        # A start on a full disk is refused, and one that stands still does not end.
        self._repair(float("inf"))
        for victim in victims:
            if chance.random() < 0.25:
                victim.begin()
                self._stop.wait(chance.uniform(0.0, 1.5))
                self._kill_one(victim)
            victim.start()

    def _kill_one(self, victim: Server) -> None:
        victim.kill()
        self.ledger.killed(victim.name)
        self.done[f"kills of {victim.name}"] += 1

    def _calm_down(self) -> None:
        """Wait until everything has arrived and been acknowledged."""
        self._repair(float("inf"))
        deadline = time.monotonic() + PATIENCE
        while not (self.ledger.is_complete and self._is_settled()):
            if self._stop.wait(0.2):
                return
            if time.monotonic() > deadline:
                self.ledger.faults.append("it does not end")
                return
        for server in self.servers:
            self.ledger.faults += [
                f"{server.name} has a dead letter: {message}" for message in server.client.dead_letters()
            ]

    def _is_settled(self) -> bool:
        """Whether nothing waits to be received, sent, or acknowledged but acknowledgements."""
        return not any(
            queue["messages"]
            for server in self.servers
            for queue in (*server.client.queues(), *server.client.outgoing())
            if "order_queue$" not in queue["format_name"].lower()
        )

    def story(self) -> str:
        """The steps of the run, and their results."""
        done = ", ".join(f"{count} {what}" for what, count in sorted(self.done.items()))
        ledger = self.ledger
        return (
            f"seed {self.plan.seed}: {ledger.confirmed} messages taken, {ledger.doubts} sendings in doubt,"
            f" {ledger.arrived} messages received; {done}; {self.network.connections} connections"
        )


_PASSING = {Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, Status.MQ_ERROR_INSUFFICIENT_RESOURCES}
"""What a program tries again: a server that is not there, and one whose disk is full."""


def _records(parcels: list[Parcel], names: dict[str, str]) -> Iterator[StreamRecord]:
    for parcel in parcels:
        kind: dict[str, object] = (
            {"delivery": "recoverable"} if parcel.queue.endswith(_RECOVERABLE) else {"transactional": True}
        )
        yield StreamRecord({"destination": names[parcel.queue], "label": parcel.label, **kind}, parcel.body)
