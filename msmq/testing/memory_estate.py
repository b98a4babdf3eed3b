"""Queue managers in memory for tests: no files, no sockets, and a time that the test advances."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Final, TypeVar, Unpack
from uuid import UUID

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.testing.clock import LONGEST_RUN, ManualClock
from msmq.testing.memory_queue_manager import DOMAIN, ManagerOptions, MemoryQueueManager
from msmq.testing.network import MemoryHost, Network
from msmq.testing.streams import PERFECT, Conditions
from msmq.wire.addresses import read_address

T = TypeVar("T")

MOST_HOSTS: Final = 254
"""Limit on the hosts that an estate names; they have the addresses 10.0.0.1 to 10.0.0.254."""


class MemoryEstate:
    """Queue managers on a simulated network, with one clock.

    C{add} starts a queue manager; C{run} awaits something while the time advances::

        estate = MemoryEstate()
        alpha, beta = estate.add("ALPHA"), estate.add("BETA", queues=["orders"])
        estate.run(alpha.manager.send(r"DIRECT=OS:BETA\\private$\\orders", [Message(body=b"one")]))
        estate.advance(1)
        assert [bytes(view.body) for view in beta.take("orders")] == [b"one"]

    Nothing happens between two calls, and the same calls have the same results.

    @param conditions: delays, loss and the like of every path; by default none.
    @param seed: the seed of randomness.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    @ivar clock: the time of everything in it.
    @ivar network: partitions, cuts and conditions of paths; L{host} has the addresses.
    """

    def __init__(self, *, conditions: Conditions = PERFECT, seed: int = 0) -> None:
        if not isinstance(conditions, Conditions):
            raise LocalProtocolError(
                f"MemoryEstate: conditions is {kind_of(conditions)}; it has to be a Conditions"
            )
        if not isinstance(seed, int):
            raise LocalProtocolError(f"MemoryEstate: seed is {kind_of(seed)}; it has to be an int")
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor, conditions=conditions, seed=seed)
        self._chance = random.Random(seed)
        self._addresses: dict[str, str] = {}
        self._managers: list[MemoryQueueManager] = []

    def add(self, name: str, **options: Unpack[ManagerOptions]) -> MemoryQueueManager:
        """Create and start a queue manager.

        @param name: ComputerName.
        @param options: see L{ManagerOptions}.
        @raise LocalProtocolError: an argument cannot be used; the error names it.
        @raise Exception: it cannot start, as of L{MemoryQueueManager.start}; the name stays free.
        """
        unknown = sorted(set(options) - set(ManagerOptions.__annotations__))
        if unknown:
            raise LocalProtocolError(
                f"MemoryEstate: {quoted(unknown[0])} is not an option of a queue manager; it has"
                f" {', '.join(ManagerOptions.__annotations__)}"
            )
        if any(manager.name.upper() == str(name).upper() for manager in self._managers):
            raise LocalProtocolError(f"MemoryEstate: it has a queue manager {quoted(name)} already")
        manager = MemoryQueueManager(
            name, self.host(name), self.clock, self._address_of, self._new_identifier, options
        )
        manager.start()
        self._managers.append(manager)
        return manager

    def host(self, name: str) -> MemoryHost:
        """The host with this name, which others resolve; it is created at first.

        @param name: a host name without a domain.
        @raise LocalProtocolError: C{name} is no host name, or there are too many hosts.
        """
        given: object = name
        if not isinstance(given, str) or not given or read_address(given) is not None or "." in given:
            words = quoted(given) if isinstance(given, str) else kind_of(given)
            raise LocalProtocolError(
                f"MemoryEstate: the name of a host is {words}; it has to be a name without a domain, such as"
                " ALPHA"
            )
        key = name.upper()
        if key not in self._addresses:
            if len(self._addresses) >= MOST_HOSTS:
                raise LocalProtocolError(f"MemoryEstate: it can have {MOST_HOSTS} hosts")
            self._addresses[key] = f"10.0.0.{len(self._addresses) + 1}"
        return self.network.host(self._addresses[key])

    def advance(self, seconds: float) -> None:
        """Advance the time; what is due by then happens."""
        self.clock.advance(seconds)

    def run(self, awaitable: Awaitable[T], *, within: float = LONGEST_RUN) -> T:
        """The result of something that may take time, which advances until there is one.

        @param awaitable: a coroutine that awaits Deferreds and the like, or such an object.
        @param within: simulated seconds that it may take.
        @raise TimeoutError: it did not end in that time, and was cancelled.
        @raise Exception: what it raises.
        """
        return self.clock.run(awaitable, within=within)

    def until(self, condition: Callable[[], object], *, within: float = LONGEST_RUN) -> None:
        """Advance the time until C{condition} is true.

        @raise TimeoutError: it was not in that time.
        """
        if not self.clock.advance_until(condition, within):
            raise TimeoutError(f"the condition was not true within {within:g} simulated seconds")

    def close(self) -> None:
        """Stop the queue managers that run.

        @raise Exception: one could not be stopped; all others are.
        """
        with ExitStack() as steps:
            for manager in reversed(self._managers):
                steps.callback(manager.stop)

    def _address_of(self, name: str) -> str | None:
        if read_address(name) is not None:
            return name
        return self._addresses.get(name.upper().removesuffix(f".{DOMAIN}".upper()))

    def _new_identifier(self) -> UUID:
        return UUID(int=self._chance.getrandbits(128), version=4)
