"""The queue managers of public queues, as the directory reports them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.memory import MemoryDirectory
from msmq.manager.membership import public_names
from msmq.manager.membership.procedure_runner import DirectoryRunner
from msmq.manager.membership.public_names import FRESH, RETRY, PublicNames, PublicQueue, UnknownPublicQueue
from msmq.membership.access import DirectoryAccess
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.requests import DirectoryEffect
from msmq.structures.names.format_name import PublicFormatName
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA

ORDERS = PublicFormatName(UUID(int=0x0F))
PATH = parse_path_name("BETA\\orders")


class PublicNamesTests(SynchronousTestCase):
    """ALPHA asks for queues of BETA."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.directory = MemoryDirectory(self.clock)
        self.directory.add(QueueManagerObject(identifier=BETA, computer_name="BETA"))
        self.directory.add(QueueObject(identifier=ORDERS.queue, pathname="BETA\\orders", base_priority=5))
        self.successResultOf(self.directory.open())
        local = LocalQueueManager(
            QueueManagerObject(identifier=ALPHA, computer_name="ALPHA"), directory_integrated=True
        )
        self.local = local
        access = DirectoryAccess(local, DirectoryChanges.FOLLOW)
        runner = DirectoryRunner(self.directory, self.clock, self.perform)
        self.found: list[UUID] = []
        self.names = PublicNames(access, runner.run, self.clock, self.clock.reactor, self)
        self.addCleanup(self.names.stop)

    def owner_found(self, identifier: UUID) -> None:
        """See L{PublicQueueListener}."""
        self.found.append(identifier)

    async def perform(self, effect: DirectoryEffect) -> Any:
        raise AssertionError(f"nothing but reading: {effect}")

    def done(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.successResultOf(Deferred.fromCoroutine(coroutine))
        self.clock.advance(0)

    def refused(self, name: PublicFormatName | PathName) -> Status:
        failed = self.failureResultOf(Deferred.fromCoroutine(self.names.learn(name)), MQError).value
        assert isinstance(failed, MQError)
        return failed.status

    def move(self, computer: str, identifier: UUID) -> None:
        """The queue is somewhere else."""
        self.directory.add(QueueManagerObject(identifier=identifier, computer_name=computer))
        self.successResultOf(self.directory.delete(QueueObject(identifier=ORDERS.queue)))
        self.directory.add(QueueObject(identifier=ORDERS.queue, pathname=f"{computer}\\orders"))

    def test_names_are_cached(self) -> None:
        """A location that was looked up by one name is found by the other too, case-insensitively."""
        for name in (PATH, ORDERS):
            self.assertRaises(UnknownPublicQueue, self.names.find, name)
        self.done(self.names.learn(PATH))
        for name in (PATH, ORDERS, parse_path_name("beta\\ORDERS")):
            self.assertEqual(self.names.find(name), PublicQueue(ORDERS, BETA, 5))

    def test_owner(self) -> None:
        """An unknown owner is looked up, once, and reported when it is found."""
        self.names.owner_of(ORDERS.queue)
        self.clock.advance(0)
        self.assertEqual(self.names.owner_of(ORDERS.queue), BETA)
        self.assertEqual(self.found, [ORDERS.queue])

    def test_not_found(self) -> None:
        """An unknown queue is reported as such, and not cached."""
        unknown = self.refused(PublicFormatName(UUID(int=1)))
        self.assertEqual(unknown, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        self.assertEqual(self.refused(parse_path_name("BETA\\nothing")), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertRaises(UnknownPublicQueue, self.names.find, PublicFormatName(UUID(int=1)))

    def test_owner_that_is_not_found(self) -> None:
        """The caller is asked to repeat a minute later; meanwhile the directory is not queried."""
        identifier = UUID(int=3)
        self.assertIsNone(self.names.owner_of(identifier))
        self.directory.add(QueueObject(identifier=identifier, pathname="BETA\\late"))
        self.assertIsNone(self.names.owner_of(identifier))
        self.assertEqual(self.found, [])
        self.clock.advance(RETRY)
        self.assertEqual(self.found, [identifier])
        self.names.owner_of(identifier)
        self.assertEqual(self.names.owner_of(identifier), BETA)

    def test_freshness(self) -> None:
        """After ten minutes the directory is asked anew, and what waits already goes on as before."""
        self.done(self.names.learn(ORDERS))
        self.move("GAMMA", UUID(int=0x6A))
        self.clock.advance(FRESH)
        self.assertEqual(self.names.find(ORDERS), PublicQueue(ORDERS, BETA, 5))
        self.clock.advance(1)
        self.assertRaises(UnknownPublicQueue, self.names.find, ORDERS)
        self.assertEqual(self.names.owner_of(ORDERS.queue), BETA)
        self.done(self.names.learn(ORDERS))
        self.assertEqual(self.names.find(ORDERS), PublicQueue(ORDERS, UUID(int=0x6A)))
        self.assertEqual(self.found, [ORDERS.queue])

    def test_directory_away(self) -> None:
        """Known locations stay valid under both names; unknown format names are looked up later, paths are
        refused.
        """
        self.done(self.names.learn(PATH))
        self.directory.is_connected = False
        self.clock.advance(FRESH + 1)
        for name in (PATH, ORDERS):
            self.done(self.names.learn(name))
            self.assertEqual(self.names.find(name), PublicQueue(ORDERS, BETA, 5))
            self.clock.advance(FRESH + 1)
        other = PublicFormatName(UUID(int=4))
        for _ in range(2):
            self.assertEqual(self.refused(parse_path_name("BETA\\other")), Status.MQ_ERROR_NO_DS)
            self.assertRaises(UnknownPublicQueue, self.names.find, other)
            self.done(self.names.learn(other))
            self.assertEqual(self.names.find(other), PublicQueue(other, NULL_GUID))
            self.clock.advance(RETRY + 1)
        self.directory.is_connected = True
        self.directory.add(QueueObject(identifier=other.queue, pathname="BETA\\other"))
        self.local.directory_offline = False
        self.done(self.names.learn(other))
        self.assertEqual(self.names.find(other), PublicQueue(other, BETA))

    def test_bound(self) -> None:
        """Beyond the limit the least recently used location is removed, with its path."""
        self.patch(public_names, "REMEMBERED", 2)
        for number in (0x20, 0x21):
            self.directory.add(QueueObject(identifier=UUID(int=number), pathname=f"BETA\\q{number}"))
        self.done(self.names.learn(PATH))
        self.done(self.names.learn(parse_path_name("BETA\\q32")))
        self.done(self.names.learn(PATH))
        self.done(self.names.learn(parse_path_name("BETA\\q33")))
        self.assertEqual(self.names.find(PATH), PublicQueue(ORDERS, BETA, 5))
        self.assertRaises(UnknownPublicQueue, self.names.find, parse_path_name("BETA\\q32"))

    def test_stopped(self) -> None:
        """No further look-ups are made."""
        self.names.owner_of(UUID(int=5))
        self.clock.advance(0)
        self.names.stop()
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        self.assertIsNone(self.names.owner_of(ORDERS.queue))
        self.assertEqual(self.found, [])
