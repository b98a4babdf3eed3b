"""Procedures of the directory core are run against a directory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.memory import MemoryDirectory
from msmq.errors import LocalProtocolError
from msmq.manager.membership.procedure_runner import LINES, DirectoryRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.local import LocalQueueManager
from msmq.membership.names import expand_format_name, read_machine_sid
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.public_queues import PublicQueues
from msmq.membership.queries import equals
from msmq.membership.requests import (
    Answer,
    AskDirectory,
    CreateLocally,
    DirectoryEffect,
    Procedure,
    ReadObject,
    Store,
)
from msmq.structures.names.format_name import DistributionListFormatName, PublicFormatName
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock


class DirectoryRunnerTests(SynchronousTestCase):
    """The core, a runner, and a directory in memory."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.directory = MemoryDirectory(self.clock)
        own = QueueManagerObject(identifier=UUID(int=1), computer_name="ALPHA")
        self.directory.add(own)
        self.access = DirectoryAccess(
            LocalQueueManager(own, directory_integrated=True), DirectoryChanges.FOLLOW
        )
        self.performed: list[DirectoryEffect] = []
        self.failing: type[Any] | None = None
        self.runner = DirectoryRunner(self.directory, self.clock, self.perform)

    async def perform(self, effect: DirectoryEffect) -> Any:
        self.performed.append(effect)
        if self.failing is not None and isinstance(effect, self.failing):
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, "full")
        return None

    def run_procedure(self, procedure: Procedure[Any]) -> Any:
        return self.successResultOf(self.runner.run(procedure))

    def test_life_of_a_queue(self) -> None:
        """A public queue is made, changed, found by others, and deleted."""
        queues = PublicQueues(self.access)
        path = parse_path_name(".\\orders")
        queue = self.run_procedure(queues.create(path, self.clock.now(), quota=5))
        self.assertTrue(queue.full_path)
        altered = self.run_procedure(queues.alter(queue, self.clock.now(), quota=6))
        read = self.run_procedure(self.access.read_by_identifier(QueueObject, queue.identifier))
        self.assertEqual((read.quota, read.pathname), (6, "ALPHA\\orders"))
        self.run_procedure(queues.delete(altered))
        found = self.run_procedure(self.access.read_all(QueueObject))
        self.assertEqual(found.value, [])

    def test_failure_here(self) -> None:
        """A local failure is thrown into the procedure, which undoes its changes in the directory."""
        self.failing = CreateLocally
        procedure = PublicQueues(self.access).create(parse_path_name(".\\orders"), self.clock.now())
        error = self.failureResultOf(self.runner.run(procedure), MQError).value
        self.assertIs(error.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.run_procedure(self.access.read_all(QueueObject)).value, [])

    def test_every_request(self) -> None:
        """Each request reaches the directory, and its refusal comes back as a result with a reason."""
        name = self.directory.add_distribution_list([PublicFormatName(UUID(int=9))])
        self.directory.set_object_sid("ALPHA", b"\1\2")
        expanded = self.run_procedure(expand_format_name(self.access, [name]))
        self.assertEqual(expanded, (PublicFormatName(UUID(int=9)),))
        self.assertEqual(self.run_procedure(read_machine_sid(self.access, "ALPHA")), b"\1\2")
        site = SiteObject(name="london")
        created = self.run_procedure(self.access.create_directory_object(site))
        again = self.run_procedure(self.access.create_directory_object(site))
        self.assertIs(again.result, DirectoryOperationResult.OBJECT_ALREADY_EXISTS)
        self.assertIn("london", again.detail)
        read = self.run_procedure(
            self.access.read_directory(SiteObject, [equals("identifier", created.value)])
        )
        self.assertEqual(read.value["name"], "london")
        self.assertTrue(self.run_procedure(self.access.delete_directory_object(site)).succeeded)
        unknown = DistributionListFormatName(UUID(int=7))
        failed = self.runner.run(expand_format_name(self.access, [unknown]))
        self.failureResultOf(failed, MQError)

    def test_offline_and_back(self) -> None:
        """A directory that goes away is noticed, and so is its return, a minute later by the clock."""
        self.directory.is_connected = False
        outcome = self.run_procedure(self.access.read_directory(SiteObject))
        self.assertIs(outcome.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        self.assertEqual(self.access.timers.deadline(), self.clock.now().monotonic + 60)
        self.assertFalse(self.run_procedure(self.access.check_directory_online()))
        self.directory.is_connected = True
        self.assertTrue(self.run_procedure(self.access.check_directory_online()))
        self.assertFalse(self.access.local.directory_offline)

    def test_answer_that_takes_time(self) -> None:
        """A procedure waits for its answer, and gets it when it comes."""
        waiting: Deferred[None] = Deferred()
        reported: list[Answer] = []

        async def perform(effect: DirectoryEffect) -> Any:
            await waiting
            return "done"

        def procedure() -> Procedure[str]:
            reported.append((yield Store(())))
            return "over"

        runner = DirectoryRunner(self.directory, self.clock, perform)
        running = Deferred.fromCoroutine(runner.run(procedure()))
        self.assertNoResult(running)
        self.clock.advance(5)
        waiting.callback(None)
        self.assertEqual(self.successResultOf(running), "over")
        [answer] = reported
        self.assertEqual((answer.now, answer.outcome.value), (self.clock.now(), "done"))

    def test_no_directory(self) -> None:
        """Without a directory, callers get the error that it is unreachable."""
        runner = DirectoryRunner(None, self.clock, self.perform)
        outcome = self.successResultOf(runner.run(self.access.read_directory(SiteObject)))
        self.assertIs(outcome.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)

    def test_directory_that_breaks(self) -> None:
        """A directory with a fault is an error of the directory, and the fault is logged."""

        def read(*args: object) -> object:
            raise ZeroDivisionError("oops")

        self.patch(self.directory, "read", read)
        outcome = self.run_procedure(self.access.read_directory(SiteObject))
        self.assertIs(outcome.result, DirectoryOperationResult.GENERIC_ERROR)
        self.assertIn("oops", outcome.detail)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        for _ in range(100):
            self.run_procedure(self.access.read_directory(SiteObject))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), LINES - 1)

    def test_procedure_that_refuses(self) -> None:
        """An error raised by a procedure is passed to its caller."""
        procedure = self.access.read_directory(SiteObject, [equals("colour", 1)])
        self.failureResultOf(self.runner.run(procedure), LocalProtocolError)

    def test_meaningless_request(self) -> None:
        """A request without a meaning is not a connection problem."""

        def procedure() -> Procedure[Any]:
            return (yield AskDirectory(ReadObject(SiteObject, (equals("colour", 1),)))).outcome

        outcome = self.run_procedure(procedure())
        self.assertIs(outcome.result, DirectoryOperationResult.GENERIC_ERROR)
        self.flushLoggedErrors(LocalProtocolError)
