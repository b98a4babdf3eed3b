"""Messages from one queue manager over a broker to another one, while all of them are killed.

The routes are in the queue managers, or in a bridge of its own, which is killed too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import attrs

from msmq.client import Client, message_to
from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.bridge_service.kill_media import PATIENCE, KillMedium
from tests.servers.killed import KilledProcess

ROUND: Final = 100
"""Messages for each kill."""

WINDOW: Final = 64
"""The window of the routes."""

ORDERS: Final = ".\\private$\\orders"


class _Server(KilledProcess):
    """A C{twistd msmq}; the client waits until it runs."""

    def __init__(self, directory: Path, name: str, routes: str) -> None:
        listen = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
        super().__init__(directory, name, "msmq", listen + routes)
        self.client = Client(self.data, reconnect=PATIENCE)


@attrs.define
class KillRun:
    """One run; an independent consumer sees a copy of everything that the broker has accepted.

    @ivar medium: the broker.
    @ivar has_program: whether the routes are in a bridge of its own.
    @ivar done: the kills, by their victims, and the copies that the broker had more than once.
    """

    kills: int
    seed: int
    directory: Path
    medium: KillMedium
    has_program: bool = False
    done: Counter[str] = attrs.field(factory=Counter, init=False)

    def run(self) -> list[str]:
        """Run all steps; returns what was lost or doubled."""
        chance = Random(self.seed)
        processes = self._processes(self.medium.outward, self.medium.inward)
        sender, receiver = processes["sender"], processes["receiver"]
        assert isinstance(sender, _Server) and isinstance(receiver, _Server)
        wanted: list[bytes] = []
        with ExitStack() as stack:
            for process in processes.values():
                stack.callback(process.kill)
                process.start()
            for server in (sender, receiver):
                server.client.create_queue(ORDERS)
            for number, victim in enumerate(self._victims(chance, ["broker", *reversed(processes)])):
                bodies = [b"%d.%d" % (number, each) for each in range(ROUND)]
                split = chance.randrange(ROUND)
                self._send(sender, bodies[:split])
                self.done[victim] += 1
                killed = processes.get(victim, self.medium)
                killed.kill()
                killed.start()
                self._send(sender, bodies[split:])
                wanted += bodies
            arrived = self._arrived(receiver, processes.get("bridge", receiver), len(wanted))
            copied = self.medium.copies(wanted)
        once = copied if self.medium.copies_are_transit else Counter(wanted)
        self.done["copied twice"] = copied.total() - len(copied)
        return [
            *self._judge("the broker", wanted, copied, Counter(dict.fromkeys(wanted, 1 + self.kills))),
            *self._judge("the queue", wanted, arrived, once),
        ]

    def _processes(self, to: str, back: str) -> dict[str, KilledProcess]:
        """The queue managers, and the bridge if it is a process of its own."""
        more = f"window = {WINDOW}\nretry = 0.1\nretry_maximum = 0.3\n"
        if not self.has_program:
            out = f'[[bridge]]\nname = "out"\nfrom = \'{ORDERS}\'\nto = "{to}"\n{more}'
            into = f'[[bridge]]\nname = "in"\nfrom = "{back}"\nto = \'{ORDERS}\'\n{more}'
            return {
                "sender": _Server(self.directory, "ALPHA", out),
                "receiver": _Server(self.directory, "BETA", into),
            }
        sender, receiver = _Server(self.directory, "ALPHA", ""), _Server(self.directory, "BETA", "")
        configuration = (
            f'[control_servers]\nALPHA = "{sender.socket}"\nBETA = "{receiver.socket}"\n'
            f'[[bridge]]\nname = "out"\nfrom = \'ALPHA:{ORDERS}\'\nto = "{to}"\n{more}'
            f'[[bridge]]\nname = "in"\nfrom = "{back}"\nto = \'BETA:{ORDERS}\'\n{more}'
        )
        bridge = KilledProcess(self.directory, "BRIDGE", "msmq-bridge", configuration)
        return {"sender": sender, "receiver": receiver, "bridge": bridge}

    def _victims(self, chance: Random, names: Sequence[str]) -> list[str]:
        found = [names[number % len(names)] for number in range(self.kills)]
        chance.shuffle(found)
        return found

    def _send(self, server: _Server, bodies: Sequence[bytes]) -> None:
        if bodies:
            server.client.send_all([message_to(ORDERS, body) for body in bodies])

    def _arrived(self, server: _Server, bridge: KilledProcess, number: int) -> Counter[bytes]:
        """What a consumer finds in the queue of the receiver."""
        found: Counter[bytes] = Counter()
        with server.client.consume(ORDERS, timeout=PATIENCE) as consumer:
            while found.total() < number and (batch := consumer.next_batch()):
                found.update(message.body for message in batch)
                batch.confirm()
        # The acknowledgement of the last message may be lost as any other.
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up and self._is_busy(bridge):
            time.sleep(0.05)
        with server.client.consume(ORDERS, timeout=0) as consumer:
            while batch := consumer.next_batch():
                found.update(message.body for message in batch)
                batch.confirm()
        return found

    @staticmethod
    def _is_busy(bridge: KilledProcess) -> bool:
        try:
            route = ControlClient(bridge.socket).bridge("in")
        except MQError:
            return True
        return bool(route["in_flight"] or route["condition"] != "running")

    @staticmethod
    def _judge(where: str, wanted: Sequence[bytes], found: Counter[bytes], most: Counter[bytes]) -> list[str]:
        return [
            *(f"{where} lost {body!r}" for body in wanted if not found[body]),
            *(f"{where} has {body!r} {times} times" for body, times in found.items() if times > most[body]),
            *(f"{where} has {body!r}, which was not sent" for body in found.keys() - set(wanted)),
        ]
