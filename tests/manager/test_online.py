"""How soon a queue manager uses a directory that was away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.directory import IDirectory
from msmq.manager.membership.online import PATIENCE, POLLING, SPACING, OnlineChecks
from msmq.manager.membership.procedure_runner import DirectoryRunner
from msmq.manager.membership.public_names import PublicNames
from msmq.membership.access import DirectoryAccess
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.requests import DirectoryEffect, Procedure, UpdateLocally
from msmq.testing.clock import ManualClock
from tests.builders import ALPHA, BETA

OWN = QueueManagerObject(identifier=ALPHA, computer_name="ALPHA")
ORDERS = QueueObject(identifier=UUID(int=0x0F), pathname="ALPHA\\orders")
FAR = QueueObject(identifier=UUID(int=0xF0), pathname="BETA\\far")


@implementer(IDirectory)
class SlowDirectory(MemoryDirectory):
    """A directory whose answers a test delays, as a server that hangs does."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.is_frozen = False
        self.held: list[tuple[Deferred[Any], Callable[[], Deferred[Any]]]] = []
        self.reads = 0

    def read(self, *args: Any, **kwargs: Any) -> Deferred[Any]:
        self.reads += 1
        if not self.is_frozen:
            return super().read(*args, **kwargs)
        answered: Deferred[Any] = Deferred()
        read = super().read
        self.held.append((answered, lambda: read(*args, **kwargs)))
        return answered

    def thaw(self) -> None:
        self.is_frozen = False
        held, self.held = self.held, []
        for answered, read in held:
            read().chainDeferred(answered)


class OnlineChecksTests(SynchronousTestCase):
    """ALPHA has a public queue, and its directory goes away and comes back."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.directory = SlowDirectory(self.clock)
        for held in (OWN, ORDERS, QueueManagerObject(identifier=BETA, computer_name="BETA"), FAR):
            self.directory.add(held)
        self.local = LocalQueueManager(OWN, directory_integrated=True)
        self.local.public_queues[ORDERS.identifier] = ORDERS
        self.access = DirectoryAccess(self.local, DirectoryChanges.FOLLOW)
        self.runner = DirectoryRunner(self.directory, self.clock, self.perform)
        self.performed: list[DirectoryEffect] = []
        self.returned = 0
        self.found: list[UUID] = []
        self.names = PublicNames(self.access, self.ask, self.clock, self.clock.reactor, self)
        self.addCleanup(self.names.stop)
        self.online = OnlineChecks(
            self.access,
            self.run_procedure,
            self.clock,
            self.clock.reactor,
            is_needed=lambda: self.names.is_waiting,
            returned=self.note_return,
        )
        self.addCleanup(self.online.stop)

    def owner_found(self, identifier: UUID) -> None:
        """See L{PublicQueueListener}."""
        self.found.append(identifier)

    async def perform(self, effect: DirectoryEffect) -> None:
        self.performed.append(effect)

    def note_return(self) -> None:
        self.returned += 1
        self.names.look_again()

    async def ask(self, procedure: Procedure[Any]) -> Any:
        await self.online.check()
        return await self.run_procedure(procedure)

    async def run_procedure(self, procedure: Procedure[Any]) -> Any:
        try:
            return await self.runner.run(procedure)
        finally:
            self.online.note()

    def asked(self) -> Deferred[Any]:
        """The path of a queue of BETA, which only the directory knows; C{None} while it is away."""
        asked = Deferred.fromCoroutine(self.ask(self.access.read_by_identifier(QueueObject, FAR.identifier)))
        return asked.addCallback(lambda found: None if found is None else found.pathname)

    def go_away(self) -> None:
        self.directory.is_connected = False
        self.assertIsNone(self.successResultOf(self.asked()))
        self.assertTrue(self.local.directory_offline)

    def test_next_request(self) -> None:
        """The first request after an outage is answered by the directory, and not a minute later."""
        self.go_away()
        self.clock.advance(5)
        self.directory.is_connected = True
        self.assertEqual(self.successResultOf(self.asked()), FAR.pathname)
        self.assertFalse(self.local.directory_offline)
        self.assertEqual(self.returned, 1)

    def test_bounded_rate(self) -> None:
        """A directory that is away is asked four times a second at most, however many requests there are."""
        self.go_away()
        before = self.directory.reads
        for _ in range(1000):
            self.successResultOf(self.asked())
            self.clock.advance(0.002)
        self.assertLessEqual(self.directory.reads - before, 2 / SPACING + 1)
        self.assertGreater(self.directory.reads - before, 1)

    def test_standstill(self) -> None:
        """A directory that stands still delays a request by a second, and none after that."""
        self.go_away()
        self.clock.advance(1)
        self.directory.is_connected, self.directory.is_frozen = True, True
        waiting = [self.asked(), self.asked()]
        self.clock.advance(PATIENCE - 0.1)
        self.assertFalse(any(each.called for each in waiting))
        self.clock.advance(0.1)
        for each in waiting:
            self.assertIsNone(self.successResultOf(each))
        self.assertIsNone(self.successResultOf(self.asked()))
        self.assertEqual(len(self.directory.held), 1)
        self.directory.thaw()
        self.assertFalse(self.local.directory_offline)
        self.assertEqual(self.successResultOf(self.asked()), FAR.pathname)

    def test_caller_that_gives_up(self) -> None:
        """A caller's time-out ends its own wait, and neither the check nor the waits of others."""
        self.go_away()
        self.clock.advance(1)
        self.directory.is_connected, self.directory.is_frozen = True, True
        first, second = self.asked(), self.asked()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.directory.thaw()
        self.assertEqual(self.successResultOf(second), FAR.pathname)

    def test_queues_are_updated_from_the_directory(self) -> None:
        """Our public queues are as the directory has them, after the request that found it was answered."""
        self.go_away()
        self.clock.advance(1)
        self.directory.is_connected = True
        changed = QueueObject(identifier=ORDERS.identifier, pathname=ORDERS.pathname, label="changed")
        self.successResultOf(self.directory.write(changed, ("label",)))
        self.successResultOf(self.asked())
        [update] = [effect for effect in self.performed if isinstance(effect, UpdateLocally)]
        self.assertEqual(update.queue.label, "changed")

    def test_messages_that_wait(self) -> None:
        """Messages for a queue that only the directory knows go on within a second of its return, though no
        request asks for it.
        """
        self.directory.is_connected = False
        self.assertIsNone(self.names.owner_of(FAR.identifier))
        self.assertTrue(self.names.is_waiting)
        self.clock.advance(10)
        self.assertEqual(self.found, [])
        self.directory.is_connected = True
        self.clock.advance(POLLING)
        self.assertEqual(self.found, [FAR.identifier])
        self.assertEqual(self.names.owner_of(FAR.identifier), BETA)

    def test_nothing_waits(self) -> None:
        """A directory that nothing needs is left to the timer of a minute."""
        self.go_away()
        before = self.directory.reads
        self.clock.advance(59)
        self.assertEqual(self.directory.reads, before)

    def test_stop(self) -> None:
        """A queue manager that stops waits for no check."""
        self.go_away()
        self.clock.advance(1)
        self.directory.is_connected, self.directory.is_frozen = True, True
        waiting = self.asked()
        self.online.stop()
        self.assertTrue(waiting.called)
        self.directory.thaw()
        self.assertEqual(self.returned, 0)
        self.successResultOf(self.asked())
