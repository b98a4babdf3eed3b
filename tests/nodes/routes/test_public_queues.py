"""Queue managers in a directory, and their public queues."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.membership.objects import EnterpriseObject, QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.persistence.definition import UNLIMITED
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.status import MQError, Status
from tests.builders import BETA, GAMMA
from tests.control.support import Disk
from tests.manager.directory_status import directory_status
from tests.nodes.support import Node, NodesTestCase

ORDERS = ".\\orders"
NOWHERE = "DIRECT=TCP:127.0.0.9\\private$\\nowhere"


class DirectoryTestCase(NodesTestCase):
    """GAMMA is in a directory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = self.make_directory()
        self.disk = Disk()
        self.gamma = self.make_gamma(self.directory)
        self.gamma.start()
        self.service = self.gamma.service

    def make_gamma(self, directory: MemoryDirectory | None) -> Node:
        return self.node("GAMMA", GAMMA, store=self.disk, directory=directory)

    def make_directory(self, **kwargs: Any) -> MemoryDirectory:
        """A directory without objects."""
        directory = MemoryDirectory(self.clock, **kwargs)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        return directory

    def restart(self, *, directory: MemoryDirectory | None) -> None:
        """Stop GAMMA, and start it again with this directory."""
        self.gamma.deaf()
        self.successResultOf(self.service.stopService())
        self.gamma = self.make_gamma(directory)
        self.gamma.start()
        self.service = self.gamma.service

    def published(self, path: str = "GAMMA\\orders") -> QueueObject:
        """The queue of this path, as the directory has it."""
        found = self.successResultOf(self.directory.read(QueueObject, [equals("pathname", path)]))
        held: QueueObject = found.object
        return held

    def is_published(self) -> bool:
        reading = self.directory.read(QueueObject, [equals("pathname", "GAMMA\\orders")])
        outcome: list[bool] = []
        reading.addCallbacks(lambda _: outcome.append(True), lambda _: outcome.append(False))
        return outcome == [True]

    def create(self, path: str = ORDERS, **properties: Any) -> QueueSummary:
        return self.run_to_end(self.service.create_queue(path, **properties))

    def refused(self, doing: Coroutine[Deferred[object], Any, Any]) -> Status:
        """Why something is refused."""
        status: Status = self.failureResultOf(self.deferred(doing), MQError).value.status
        return status


class SlowDirectory(MemoryDirectory):
    """A directory that creates and changes queues when a test says so.

    @ivar waiting: what is to be done.
    @ivar answers: what was read, and is answered when a test says so; C{None} to answer at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.waiting: list[tuple[Deferred[Any], Callable[[], Deferred[Any]]]] = []
        self.answers: list[tuple[Deferred[Any], Deferred[Any]]] | None = None

    def read(self, of: Any, *args: Any) -> Deferred[Any]:
        """See L{IDirectory.read}."""
        answer = super().read(of, *args)
        if self.answers is None or of is not QueueObject:
            return answer
        later: Deferred[Any] = Deferred()
        self.answers.append((later, answer))
        return later

    def create(self, *args: Any) -> Deferred[Any]:
        """See L{IDirectory.create}."""
        return self._later(super().create, *args)

    def write(self, *args: Any) -> Deferred[Any]:
        """See L{IDirectory.write}."""
        return self._later(super().write, *args)

    def _later(self, do: Callable[..., Deferred[Any]], *args: Any) -> Deferred[Any]:
        if not isinstance(args[0], QueueObject):
            return do(*args)
        done: Deferred[Any] = Deferred()
        self.waiting.append((done, partial(do, *args)))
        return done

    def finish(self) -> None:
        """Do what waits."""
        waiting, self.waiting = self.waiting, []
        for done, do in waiting:
            do().chainDeferred(done)


class CreationMeanwhileTests(DirectoryTestCase):
    """What happens while the directory creates a queue."""

    directory: SlowDirectory

    def make_directory(self, **kwargs: Any) -> MemoryDirectory:
        directory = SlowDirectory(self.clock, **kwargs)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        return directory

    def has_log(self) -> bool:
        """Whether the queue has the property that the directory does not have."""
        return self.service.inspection.queue(ORDERS).log

    def test_a_caller_that_leaves(self) -> None:
        """The queue is created with all its properties, also with those that the directory does not have."""
        creating = self.deferred(self.service.create_queue(ORDERS, log=True))
        self.assertNoResult(creating)
        creating.cancel()
        self.failureResultOf(creating, CancelledError)
        self.directory.finish()
        self.assertTrue(self.is_published())
        self.assertTrue(self.has_log())

    def test_a_change_whose_caller_leaves(self) -> None:
        """All of it is made: what the directory has, and what it does not have."""
        creating = self.deferred(self.service.create_queue(ORDERS))
        self.directory.finish()
        self.successResultOf(creating)
        setting = self.deferred(self.service.set_queue(ORDERS, {"label": "x", "log": True}))
        self.assertNoResult(setting)
        setting.cancel()
        self.failureResultOf(setting, CancelledError)
        self.directory.finish()
        self.assertEqual(self.service.inspection.queue(ORDERS).label, "x")
        self.assertTrue(self.has_log())

    def set_label(self, label: str) -> Deferred[QueueSummary]:
        return self.deferred(self.service.set_queue(ORDERS, {"label": label}))

    def test_a_change_during_a_read(self) -> None:
        """An answer from before a change does not take the change back."""
        creating = self.deferred(self.service.create_queue(ORDERS, label="former"))
        self.directory.finish()
        self.successResultOf(creating)
        self.directory.answers = []
        self.clock.advance(3600)
        [(later, answer)] = self.directory.answers
        self.directory.answers = None
        setting = self.set_label("new")
        self.directory.finish()
        self.assertEqual(self.successResultOf(setting).label, "new")
        answer.chainDeferred(later)
        self.assertEqual(self.service.inspection.queue(ORDERS).label, "new")

    def test_two_changes(self) -> None:
        """A change of one property leaves another one that the directory has changed meanwhile."""
        creating = self.deferred(self.service.create_queue(ORDERS, label="former"))
        self.directory.finish()
        self.successResultOf(creating)
        theirs = self.published()
        setting = self.deferred(self.service.set_queue(ORDERS, {"quota": 7}))
        self.successResultOf(
            MemoryDirectory.write(self.directory, attrs.evolve(theirs, label="theirs"), ("label",))
        )
        self.clock.advance(3600)
        self.directory.finish()
        found = self.successResultOf(setting)
        self.assertEqual((found.label, found.quota), ("theirs", 7))

    def test_another_creation(self) -> None:
        """A second queue of the same path is refused, and its properties are not those of the first."""
        creating = self.deferred(self.service.create_queue(ORDERS, log=True))
        self.assertIs(self.refused(self.service.create_queue(ORDERS)), Status.MQ_ERROR_QUEUE_EXISTS)
        self.directory.finish()
        self.successResultOf(creating)
        self.assertTrue(self.has_log())


class TimeToReachQueueTests(DirectoryTestCase):
    """[MS-MQDMPR] 3.1.1.6 DefaultTimeToLive, and reading 70."""

    def make_directory(self, **kwargs: Any) -> MemoryDirectory:
        """One of an enterprise in which messages have a minute."""
        directory = MemoryDirectory(self.clock, **kwargs)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate", default_time_to_live=60))
        return directory

    def test_the_default_of_the_enterprise(self) -> None:
        """MQDMPR-3.1.1.6-04: a message that does not say leaves after that; what says so has its own time.

        So it is after a start without the directory, which is not an old one.
        """
        self.assertFalse(self.successResultOf(self.directory.read(EnterpriseObject, [])).object.old_directory)
        for is_away in (False, True):
            if is_away:
                self.directory.is_connected = False
                self.restart(directory=self.directory)
            messages = [Message(), Message(time_to_reach_queue=100), Message(time_to_reach_queue=INFINITE)]
            self.run_to_end(self.service.send(NOWHERE, messages))
            for seconds, left in ((59, 3), (2, 2), (41, 1)):
                self.clock.advance(seconds)
                self.assertEqual(self.service.inspection.outgoing()[0].messages, left)


class LifeTests(DirectoryTestCase):
    """A public queue from beginning to end."""

    def test_create(self) -> None:
        """It is published, and its name is its GUID; what only we know of it is kept here."""
        queue = self.create(label="new", transactional=True, journal=True, quota=7, log=True, log_age=60)
        held = self.published()
        self.assertEqual(
            (held.label, held.transactional, held.journaling, held.quota), ("new", True, True, 7)
        )
        self.assertEqual(queue.format_name.lower(), f"public={held.identifier}")
        self.assertEqual(queue.type, "public")
        self.assertEqual((queue.quota, queue.log, queue.log_age), (7, True, 60))
        self.assertEqual(self.service.inspection.queue("GAMMA\\ORDERS"), queue)

    def test_change(self) -> None:
        """The directory has the new properties as well."""
        self.create()
        queue = self.run_to_end(
            self.service.set_queue(ORDERS, {"label": "changed", "privacy": "body", "log": True})
        )
        self.assertEqual((queue.label, queue.privacy, queue.log), ("changed", "body", True))
        held = self.published()
        self.assertEqual((held.label, held.privacy_level.value), ("changed", "body"))

    def test_delete(self) -> None:
        """It is gone from here and from there, and can be made again."""
        former = self.create()
        self.run_to_end(self.service.delete_queue(ORDERS))
        self.assertFalse(self.is_published())
        self.assertEqual(self.service.inspection.queues(), [])
        self.assertNotEqual(self.create().identifier, former.identifier)

    def test_messages(self) -> None:
        """Messages are sent to it by each of its names, from here and from elsewhere."""
        name = self.create().format_name
        self.send(self.gamma, ORDERS, b"1")
        self.send(self.gamma, name, b"2")
        self.send(self.alpha, "DIRECT=TCP:127.0.0.4\\orders", b"3")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1", b"2", b"3"])

    def summaries(self) -> dict[str, QueueSummary]:
        """The local queues by path, without what is counted from the start of the process."""
        return {
            queue.path: attrs.evolve(queue, sent_total=0, received_total=0)
            for queue in self.service.inspection.queues()
        }

    def test_restart(self) -> None:
        """It is there again with its messages, also while the directory is away; so are private ones.

        MQDMPR-3.1.1.2-01, MQDMPR-3.1.1.2-21.
        """
        self.create(label="old", log=True)
        self.queue(self.gamma, "private")
        self.send(self.gamma, ORDERS, b"1", delivery=Delivery.RECOVERABLE)
        before = self.summaries()
        self.restart(directory=self.directory)
        self.assertEqual(self.summaries(), before)
        self.assertEqual([queue.type for queue in before.values()], ["public", "private"])
        self.directory.is_connected = False
        self.restart(directory=self.directory)
        self.assertEqual(self.summaries(), before)
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1"])
        self.directory.is_connected = True
        self.clock.advance(61)
        self.run_to_end(self.service.set_queue(ORDERS, {"label": "new"}))
        self.assertEqual(self.published().label, "new")

    def test_two_of_a_name(self) -> None:
        """Names are unique case-insensitively; a private queue of the same name is a different one."""
        self.create()
        self.assertEqual(self.refused(self.service.create_queue(".\\ORDERS")), Status.MQ_ERROR_QUEUE_EXISTS)
        self.queue(self.gamma)
        self.assertEqual(len(self.service.inspection.queues()), 2)


class RefusalTests(DirectoryTestCase):
    """Operations that fail."""

    def test_workgroup(self) -> None:
        """Without a directory there are no public queues."""
        status = self.refused(self.alpha.service.create_queue(ORDERS))
        self.assertEqual(status, Status.MQ_ERROR_NO_DS)

    def test_directory_is_unavailable(self) -> None:
        """A directory that is away refuses what has to be written there, and private queues are made."""
        self.create()
        self.directory.is_connected = False
        for doing in (
            self.service.create_queue(".\\others"),
            self.service.set_queue(ORDERS, {"label": "new"}),
        ):
            self.assertEqual(self.refused(doing), Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.service.inspection.queue(ORDERS).label, "")
        self.queue(self.gamma)
        self.assertEqual(len(self.service.inspection.queues()), 2)

    def test_the_store_fails(self) -> None:
        """A queue that could not be created locally is removed from the directory."""
        self.disk.is_broken = True
        status = self.refused(self.service.create_queue(ORDERS))
        self.assertEqual(status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.disk.is_broken = False
        self.assertFalse(self.is_published())
        self.create()

    def test_deleted_while_it_is_away(self) -> None:
        """It is gone here at once, also over a restart, and from the directory when that is back."""
        self.create()
        self.directory.is_connected = False
        self.assertEqual(self.refused(self.service.delete_queue(ORDERS)), Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.service.inspection.queues(), [])
        self.restart(directory=self.directory)
        self.directory.is_connected = True
        self.assertTrue(self.is_published())
        self.clock.advance(61)
        self.assertFalse(self.is_published())

    def test_a_workgroup_later(self) -> None:
        """Public queues from before are there, with their messages, and cannot be changed."""
        self.create()
        self.send(self.gamma, ORDERS, b"1", delivery=Delivery.RECOVERABLE)
        self.restart(directory=None)
        for doing in (self.service.set_queue(ORDERS, {"label": "new"}), self.service.delete_queue(ORDERS)):
            self.assertEqual(self.refused(doing), Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.bodies(self.gamma, ORDERS), [b"1"])


class QueueManagerTests(DirectoryTestCase):
    """The queue manager's own object."""

    def own(self) -> QueueManagerObject:
        found = self.successResultOf(self.directory.read(QueueManagerObject, [equals("identifier", GAMMA)]))
        held: QueueManagerObject = found.object
        return held

    def test_published(self) -> None:
        """At its first start it is published, with its names and its quotas."""
        own = self.own()
        self.assertEqual((own.computer_name, own.qualified_computer_name), ("GAMMA", "gamma.example.com"))
        self.assertEqual((own.queue_manager_quota, own.journal_quota), (0x00100000, UNLIMITED))

    def test_system_queues(self) -> None:
        """Queues of the system, and private ones, are never published.

        MQDMPR-3.1.1.2-22.
        """
        self.queue(self.gamma)
        handle = self.successResultOf(self.directory.begin_read(QueueObject))
        self.failureResultOf(self.directory.read_next(handle))
        self.assertEqual(len(self.service.inspection.system_queues()), 3)

    def test_its_quota(self) -> None:
        """The quota in the directory applies from the next start on."""
        self.create()
        self.successResultOf(
            self.directory.write(
                QueueManagerObject(identifier=GAMMA, computer_name="GAMMA", queue_manager_quota=2),
                ("queue_manager_quota",),
            )
        )
        self.restart(directory=self.directory)
        sending = self.service.send(ORDERS, [Message(body=bytes(3000))])
        self.assertEqual(self.refused(sending), Status.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def test_a_start_while_the_directory_is_away(self) -> None:
        """It goes on with what was known; one that was never published is, once the directory is back."""
        self.directory.is_connected = False
        self.restart(directory=self.directory)
        self.assertEqual(self.service.inspection.status().state, "running")
        self.assertFalse(directory_status(self.service).reached)
        fresh = self.node("DELTA", UUID(int=9), directory=self.directory)
        fresh.start()
        self.addCleanup(fresh.service.stopService)
        status = fresh.service.inspection.status()
        self.assertEqual((status.state, directory_status(fresh.service).reached), ("running", False))
        self.assertEqual(directory_status(fresh.service).problem, "the directory could not be reached")
        self.assertEqual(self.events_of(fresh), ["directory_lost"])
        self.clock.advance(61)
        self.assertFalse(directory_status(fresh.service).reached)
        self.directory.is_connected = True
        self.clock.advance(61)
        self.assertTrue(directory_status(fresh.service).reached)
        read = self.directory.read(QueueManagerObject, [equals("identifier", UUID(int=9))])
        self.assertEqual(self.successResultOf(read)["computer_name"], "DELTA")
        self.assertEqual(self.events_of(fresh), ["directory_lost", "directory_reached"])

    def events_of(self, node: Node) -> list[str]:
        """The words of the event log."""
        return [each.event.event for each in self.successResultOf(node.store.read_events(0, 100))]

    def test_a_directory_that_gives_identifiers(self) -> None:
        """A directory that would assign us an identifier that is not ours: the start fails with that
        reason.
        """
        directory = self.make_directory(assigns_identifiers=True)
        fresh = self.node("BETA", BETA, directory=directory)
        failed = self.failureResultOf(self.deferred(fresh.service.open()), MQError).value
        self.assertEqual(failed.status, Status.MQ_ERROR_DS_ERROR)
        self.assertIn("cannot change", str(failed))

    def test_back_again(self) -> None:
        """A minute after the directory went away it is asked again, and what changed there holds here."""
        self.create()
        self.directory.is_connected = False
        self.refused(self.service.set_queue(ORDERS, {"label": "mine"}))
        self.directory.is_connected = True
        held = self.published()
        changed = QueueObject(identifier=held.identifier, pathname=held.pathname, label="theirs")
        self.successResultOf(self.directory.write(changed, ("label",)))
        self.clock.advance(61)
        self.assertEqual(self.service.inspection.queue(ORDERS).label, "theirs")
