"""A record log that begins where its process was killed, or where the disk failed, and then loses power."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutState
from msmq.storage.damage import DamagePolicy
from msmq.storage.log import LogMessageStore
from msmq.storage.scrub_policy import ScrubPolicy
from msmq.testing.network import MemoryHost, Network
from tests.simulation.clock import EventClock, HostReactor
from tests.simulation.disk import SimulatedDisk
from tests.simulation.system import SimulatedSystem

ADDRESS = "127.0.0.2"
T = TypeVar("T")


class Lives:
    """A log on a simulated disk, and the lives of its process."""

    def __init__(self, seed: int) -> None:
        self.clock = EventClock()
        self.network = Network(self.clock)
        self.disk = SimulatedDisk(Random(seed))
        self.host: MemoryHost
        self.system: SimulatedSystem
        self.store: LogMessageStore

    def start(self) -> dict[str, bytes]:
        """Begin a life; returns the stored values."""
        self.host = host = self.network.host(ADDRESS)
        self.system = SimulatedSystem(self.disk, host, lambda: self.end(0.0))
        self.store = LogMessageStore(
            Path("/log"),
            DamagePolicy(
                Path("/mark"),
                False,
                self.clock.seconds,
                ScrubPolicy(1024, interval=0.5, delay=60.0, pause=500.0),
            ),
            clock=self.system.measured,
            segment_bytes=64 * 1024,
            reactor=HostReactor(host),
            system=self.system,
        )
        return dict(self.result(self.store.open()).state)

    def end(self, likelihood: float) -> None:
        """The process is killed; a power cut has a likelihood with which what is not synchronised is lost."""
        if not self.host.is_dead:
            self.network.crash(ADDRESS)
        self.disk.lose_power(likelihood)

    def commit(self, name: str) -> Deferred[None]:
        """Store a value of this name."""
        return self.store.commit([PutState(name, b"value")])

    def result(self, done: Deferred[T]) -> T:
        """What a Deferred has in the end.

        @raise StorageError: it failed.
        """
        results: list[Any] = []
        done.addBoth(results.append)
        self.clock.advance(1.0)
        [found] = results
        if hasattr(found, "raiseException"):
            found.raiseException()
        result: T = found
        return result


class LastGroupTests(SynchronousTestCase):
    def live(self, seed: int, disturb: Callable[[Lives], None]) -> bool:
        """Whether a start finds a group that may not be on the disk, behind which it writes another one."""
        lives = Lives(seed)
        lives.start()
        lives.result(lives.commit("before"))
        disturb(lives)
        found = lives.start()
        lives.result(lives.commit("after"))
        lives.end(1.0)
        self.assertEqual(lives.start(), {**found, "after": b"value"})
        self.assertIn("before", found)
        return "disturbed" in found

    def test_after_a_kill(self) -> None:
        """The process ends during the write, which is in the page cache whole, in part or not at all."""

        def disturb(lives: Lives) -> None:
            lives.system.cut_after = 1
            lives.commit("disturbed").addErrback(lambda _: None)
            lives.clock.advance(1.0)

        self.assertEqual({self.live(seed, disturb) for seed in range(20)}, {False, True})

    def test_after_errors_of_the_disk(self) -> None:
        """The write fails, and so does the one that would make it invalid."""

        def disturb(lives: Lives) -> None:
            lives.system.failing = errno.EIO
            with contextlib.suppress(StorageError):
                lives.result(lives.commit("disturbed"))
            lives.end(0.0)

        self.assertEqual({self.live(seed, disturb) for seed in range(40)}, {False, True})
