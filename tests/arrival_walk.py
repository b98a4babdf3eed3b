"""The walk of one recoverable message through a queue manager, counted: calls, files, changes of room.

    python -m tests.arrival_walk [--leaving] [--calls] [--json]

A message of a warmed-up session arrives at BETA, on the memory store, and C{sys.setprofile} records every
function of C{msmq} that is called between the bytes of the packet and the acknowledgement that answers it.
With C{--leaving} it is a message that leaves ALPHA, from the call of C{send} to its result.
A room is a folder directly below C{msmq}; it changes where two calls that follow each other are of two rooms.
C{docs/design/house.md} has the counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
from twisted.internet.defer import Deferred

import msmq
from msmq.queues.arriving.message import Delivery, Message
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA
from tests.nodes.support import Node

ROOT = Path(msmq.__file__).resolve().parent
MOMENT = ROOT / "moment.py"
"""Its only function that is called is called by the clock of the tests."""
WARM_UP = 3
"""Messages that pass before the one that is counted, so that what happens once is not counted."""


@attrs.frozen
class Walk:
    """Recorded calls of one message.

    @ivar steps: file below C{msmq} and qualified name of each function, in the order of the calls.
    """

    steps: tuple[tuple[str, str], ...]

    @property
    def rooms(self) -> list[str]:
        """The room of each call."""
        return [file.split("/")[0] for file, _ in self.steps]

    @property
    def counts(self) -> dict[str, int]:
        """Calls, files, changes of room."""
        rooms = self.rooms
        return {
            "calls": len(self.steps),
            "files": len({file for file, _ in self.steps}),
            "room_changes": sum(one != other for one, other in pairwise(rooms)),
        }


def recorded(work: Callable[[], object]) -> Walk:
    """Record the calls of C{work} to functions of C{msmq}, without comprehensions and resumed generators."""
    steps: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / "testing") or path == MOMENT:
            return
        if code.co_name.startswith("<") and code.co_name != "<lambda>":
            return
        if frame.f_lasti > 4:
            # A coroutine or a generator that goes on.
            return
        steps.append((str(path.relative_to(ROOT)), code.co_qualname))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Walk(tuple(steps))


class Arrival:
    """ALPHA and BETA on a network in memory; ALPHA sends, BETA is watched."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        network = Network(self.clock.reactor)
        self.alpha = self._node(network, "ALPHA", ALPHA)
        self.beta = self._node(network, "BETA", BETA)

    def _node(self, network: Network, name: str, identifier: Any) -> Node:
        store = MemoryMessageStore(durable=True)
        node = Node(network, self.clock, name, identifier, SessionSettings(), store)
        node.start()
        return node

    def walk(self, *, transactional: bool = False) -> Walk:
        """The calls at BETA for the last of some messages."""
        self._run(self.beta.service.create_queue(".\\private$\\orders", transactional=transactional))
        for _ in range(WARM_UP):
            self._send(transactional)
            self.clock.advance(5)
        walks: list[Walk] = []
        [session] = self.beta.factory.connections
        protocol: Any = session
        received = protocol.dataReceived
        protocol.dataReceived = lambda data: walks.append(recorded(lambda: received(data)))
        self._send(transactional)
        for _ in range(10):
            if walks:
                break
            self.clock.advance(0)
        assert len(walks) == 1, "one packet arrives"
        return walks[0]

    def leaving_walk(self, *, transactional: bool = False) -> Walk:
        """The calls at ALPHA for another message, after L{walk}."""
        return recorded(lambda: self._send(transactional))

    def _send(self, transactional: bool) -> None:
        message = Message(body=b"walk", delivery=Delivery.RECOVERABLE, transactional=transactional)
        name = f"DIRECT=TCP:{self.beta.address}\\private$\\orders"
        self._run(self.alpha.service.send(name, [message]))

    def _run(self, coroutine: Any) -> None:
        failures: list[Any] = []
        Deferred.fromCoroutine(coroutine).addErrback(failures.append)
        assert not failures, failures


def main() -> None:
    """Print the counts, and the calls if they are wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", action="store_true", help="print every call, in order")
    parser.add_argument("--leaving", action="store_true", help="record a message that leaves")
    parser.add_argument("--json", action="store_true", help="print the counts as one JSON object a line")
    options = parser.parse_args()
    for kind in ("recoverable", "transactional"):
        messages = Arrival()
        walk = messages.walk(transactional=kind == "transactional")
        if options.leaving:
            walk = messages.leaving_walk(transactional=kind == "transactional")
        counts = walk.counts
        if options.json:
            print(json.dumps({"kind": kind, **counts}))
        else:
            print(f"{kind}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        if options.calls:
            for file, name in walk.steps:
                print(f"    {file}  {name}")


if __name__ == "__main__":
    main()
