"""Public queues: what happens here, what in the directory, in which order, and when one of them fails."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.access import DirectoryAccess
from msmq.membership.enumerations import ChangeOperation, DirectoryOperationResult
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import QueueObject
from msmq.membership.public_queues import (
    PublicQueues,
    definition_of,
    new_queue,
    queue_type_of,
    retry_deletions,
)
from msmq.membership.queries import equals
from msmq.membership.requests import (
    AskDirectory,
    CreateLocally,
    CreateObject,
    DeleteLocally,
    DeleteObject,
    DirectoryEffect,
    Outcome,
    ReadObject,
    SendChangeNotification,
    Store,
    UpdateLocally,
    WriteObject,
)
from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.persistence.definition import QueuePrivacy, QueueType
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.status import MQError, Status
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    DONE,
    EXISTS,
    FAILED,
    NOT_FOUND,
    NOW,
    ORDERS,
    QUEUE,
    Played,
    access,
    found,
    play,
    replies,
)

ORDERS_PATH = parse_path_name(".\\orders")
PATHS = ("full_path", "directory_path")
PUBLISHED = attrs.evolve(ORDERS, full_path="CN=orders", directory_path="LDAP://CN=orders")
FULL = MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, "the disk is full")


class Scripted:
    """Answers in order, and fails on demand."""

    def __init__(self, *outcomes: Outcome, failing: type[Any] | tuple[type[Any], ...] = ()) -> None:
        self._outcomes = list(outcomes)
        self._failing = failing

    def __call__(self, effect: DirectoryEffect) -> Outcome:
        if isinstance(effect, self._failing):
            raise FULL
        return self._outcomes.pop(0) if isinstance(effect, AskDirectory) else DONE


def kinds(played: Played) -> list[str]:
    """The kinds of the directory requests."""
    return [
        type(effect.request).__name__ if isinstance(effect, AskDirectory) else type(effect).__name__
        for effect in played.effects
    ]


def names(changes: list[Change]) -> list[str]:
    return [f"{type(change).__name__} {getattr(change, 'name', '')}" for change in changes]


def kept(prefix: str, queue: QueueObject) -> str:
    return f"directory.{prefix}.{str(queue.identifier).upper()}"


class NewQueueTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.3 the attributes of a new queue."""

    def make(self, path: str, **attributes: Any) -> QueueObject:
        return new_queue(LocalQueueManager(ALPHA), parse_path_name(path), NOW, **attributes)

    def test_type(self) -> None:
        """MQDMPR-3.1.7.1.3-06: the form of the path says which kind of queue it is."""
        for path, kind in (
            (".\\private$\\q", QueueType.PRIVATE),
            (".\\system$;deadletter", QueueType.SYSTEM),
            (".\\q", QueueType.PUBLIC),
        ):
            self.assertIs(queue_type_of(parse_path_name(path)), kind)
            self.assertIs(self.make(path).queue_type, kind)

    def test_attributes(self) -> None:
        """MQDMPR-3.1.7.1.3-07: times, scope, and both paths; those in the directory are not known yet."""
        queue = self.make(".\\Orders")
        self.assertEqual((queue.create_time, queue.modify_time), (1_700_000_000, 1_700_000_000))
        self.assertEqual(queue.pathname, "ALPHA\\Orders")
        self.assertEqual(queue.qualified_pathname, "alpha.example.com\\Orders")
        self.assertEqual((queue.scope.value, queue.full_path, queue.directory_path), ("Enterprise", "", ""))

    def test_both_paths(self) -> None:
        """MQDMPR-3.1.1.2-05: the two paths differ by the name of the computer, for any queue."""
        for path in ("orders", "private$\\orders"):
            queue = self.make(f".\\{path}")
            self.assertEqual(str(parse_path_name(queue.pathname)), f"ALPHA\\{path}")
            self.assertEqual(str(parse_path_name(queue.qualified_pathname)), f"alpha.example.com\\{path}")

    def test_copied(self) -> None:
        """MQDMPR-3.1.7.1.3-04: all requested attributes are present."""
        attributes: dict[str, Any] = {
            "label": "orders",
            "type": UUID(int=7),
            "journaling": True,
            "quota": 5,
            "journal_quota": 6,
            "authentication": True,
            "privacy_level": QueuePrivacy.BODY,
            "transactional": True,
            "multicast_address": "234.1.1.1:8001",
            "security": b"descriptor",
            "base_priority": 3,
        }
        queue = self.make("alpha\\orders", **attributes)
        self.assertEqual(queue.pathname, "ALPHA\\orders")
        for name, value in attributes.items():
            self.assertEqual(getattr(queue, name), value, name)

    def test_private_queue_has_no_priority(self) -> None:
        """The base priority of a private queue is 0, for any request (MQMQ-2.3.1.6-01)."""
        self.assertEqual(self.make(".\\private$\\q", base_priority=5).base_priority, 0)

    def test_definition(self) -> None:
        """The part of the object that the queue model stores."""
        queue = self.make(".\\Orders", quota=5, journaling=True, label="l", identifier=QUEUE)
        definition = definition_of(queue)
        self.assertEqual((definition.identifier, definition.path), (QUEUE, "Orders"))
        self.assertEqual((definition.type, definition.quota, definition.journal), (QueueType.PUBLIC, 5, True))
        self.assertEqual((definition.created, definition.label), (1_700_000_000, "l"))


class CreateTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.3 Create Queue."""

    def setUp(self) -> None:
        self.access = access()
        self.queues = PublicQueues(self.access)

    def create(
        self, *outcomes: Outcome, path: str = ".\\orders", **options: Any
    ) -> tuple[QueueObject, Played]:
        failing = options.pop("failing", ())
        procedure = self.queues.create(parse_path_name(path), NOW, **options)
        self.played = Played()
        return play(procedure, Scripted(*outcomes, failing=failing), played=self.played)

    def refused(self, status: Status, *outcomes: Outcome, **options: Any) -> MQError:
        error: MQError = self.assertRaises(MQError, self.create, *outcomes, **options)
        self.assertIs(error.status, status)
        return error

    def test_published_then_made(self) -> None:
        """MQDMPR-3.1.7.1.3-01 MQDMPR-3.1.7.1.3-09 MQDMPR-3.1.7.1.3-10: it has what the directory gives."""
        created = Outcome(value=QUEUE)
        queue, played = self.create(created, found(PUBLISHED, PATHS), label="orders")
        self.assertEqual(
            kinds(played), ["SendChangeNotification", "CreateObject", "ReadObject", "CreateLocally"]
        )
        [publish, read] = played.requests
        assert isinstance(publish, CreateObject)
        self.assertEqual(publish.object, new_queue(self.access.local, ORDERS_PATH, NOW, label="orders"))
        self.assertEqual(read, ReadObject(QueueObject, (equals("identifier", QUEUE),), PATHS))
        self.assertEqual((queue.identifier, queue.full_path), (QUEUE, "CN=orders"))
        self.assertEqual(queue.directory_path, "LDAP://CN=orders")
        [make] = played.of(CreateLocally)
        self.assertEqual((make.queue, names(make.changes)), (queue, [f"PutState {kept('queue', queue)}"]))
        self.assertEqual(self.access.local.public_queues, {QUEUE: queue})

    def test_paths_that_cannot_be_read(self) -> None:
        """MQDMPR-3.1.7.1.3-10: without an answer to the second question the queue is there all the same."""
        queue, _ = self.create(Outcome(value=QUEUE), FAILED)
        self.assertEqual((queue.identifier, queue.full_path), (QUEUE, ""))

    def test_directory_refuses(self) -> None:
        """MQDMPR-3.1.7.1.3-11: what the directory says is the answer, and there is no queue."""
        for outcome, status in (
            (EXISTS, Status.MQ_ERROR_QUEUE_EXISTS),
            (DISCONNECTED, Status.MQ_ERROR_NO_DS),
            (FAILED, Status.MQ_ERROR_DS_ERROR),
        ):
            error = self.refused(status, outcome)
            self.assertIn(outcome.detail, error.detail)
            self.assertIn("ALPHA\\orders", error.detail)
            self.assertEqual((self.played.of(CreateLocally), self.access.local.public_queues), ([], {}))

    def test_skipped_directory(self) -> None:
        """MQDMPR-3.1.7.1.3-12: the directory is left alone if that is asked for."""
        queue, played = self.create(skip_directory=True, identifier=QUEUE)
        self.assertEqual((kinds(played), queue.identifier), (["CreateLocally"], QUEUE))
        self.assertRaises(LocalProtocolError, self.create, skip_directory=True, path=".\\b")
        other = UUID(int=0xB9)
        failing = {"skip_directory": True, "failing": CreateLocally, "identifier": other}
        self.assertRaises(MQError, self.create, path=".\\b", **failing)
        self.assertEqual(kinds(self.played), ["CreateLocally"])

    def test_store_fails(self) -> None:
        """A queue that cannot be made here is taken out of the directory again."""
        outcomes = (Outcome(value=QUEUE), found(PUBLISHED, PATHS), DONE)
        error = self.refused(FULL.status, *outcomes, failing=CreateLocally)
        self.assertEqual(error.detail, FULL.detail)
        [deleted] = [request for request in self.played.requests if isinstance(request, DeleteObject)]
        self.assertEqual(deleted.object.identifier, QUEUE)
        self.assertEqual((self.access.local.public_queues, self.access.local.deletions), ({}, {}))

    def test_store_and_directory_fail(self) -> None:
        """If it cannot be taken out at once, it is later."""
        outcomes = (Outcome(value=QUEUE), found(PUBLISHED, PATHS), DISCONNECTED)
        for failing in (CreateLocally, (CreateLocally, Store)):
            self.setUp()
            self.refused(FULL.status, *outcomes, failing=failing)
            self.assertEqual(list(self.access.local.deletions), [QUEUE])
            [store] = self.played.of(Store)
            self.assertEqual(
                [change.name for change in store.changes], [f"directory.deletion.{_upper(QUEUE)}"]
            )

    def test_illegal_path(self) -> None:
        """A path that is not one of ours, or of no public queue, causes no query.

        So queues of the system, and private ones, are never published.
        MQDMPR-3.1.1.2-22.
        """
        for path in ("beta\\q", ".\\private$\\q", ".\\system$;journal", ".\\q;sub", ".\\q;journal"):
            outcomes = Outcome(value=QUEUE), found(PUBLISHED, PATHS)
            self.refused(Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, *outcomes, path=path)
            self.assertEqual(self.played.effects, [])
            self.assertEqual(self.played.effects, [])

    def test_exists_here(self) -> None:
        """A path that is taken, in whichever case, is refused before the directory is queried."""
        self.access.local.public_queues[QUEUE] = ORDERS
        for path in ("ALPHA\\orders", ".\\ORDERS", "alpha.example.com\\orders"):
            self.refused(Status.MQ_ERROR_QUEUE_EXISTS, path=path)
            self.assertEqual(self.played.effects, [])

    def test_two_at_once(self) -> None:
        """One of two concurrent creations of a queue is refused."""
        first = self.queues.create(ORDERS_PATH, NOW)
        next(first)
        self.refused(Status.MQ_ERROR_QUEUE_EXISTS)
        first.close()
        self.create(Outcome(value=QUEUE), FAILED)

    def test_impossible_property(self) -> None:
        """A property that no queue can have is refused before the directory is queried."""
        self.refused(Status.MQ_ERROR_LABEL_TOO_LONG, label="x" * 125)
        self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, quota=-1)
        self.assertEqual(self.played.effects, [])

    def test_workgroup(self) -> None:
        """Without a directory there are no public queues."""
        self.access = access(integrated=False)
        self.queues = PublicQueues(self.access)
        self.refused(Status.MQ_ERROR_NO_DS)

    def test_name_that_still_has_to_go(self) -> None:
        """A queue of a name that was deleted is made once the former is out of the directory."""
        bills = attrs.evolve(ORDERS, identifier=UUID(int=0xB2), pathname="ALPHA\\bills")
        self.access.local.deletions = {bills.identifier: bills, QUEUE: ORDERS}
        other = UUID(int=0xB9)
        queue, played = self.create(DONE, Outcome(value=other), FAILED)
        self.assertEqual(queue.identifier, other)
        self.assertEqual(played.requests[0], DeleteObject(ORDERS))
        self.assertEqual(list(self.access.local.deletions), [bills.identifier])


class DeleteTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.4 Delete Queue."""

    def setUp(self) -> None:
        self.access = access(ORDERS)
        self.queues = PublicQueues(self.access)
        self.played = Played()

    def delete(self, *outcomes: Outcome, failing: Any = (), **options: Any) -> None:
        play(self.queues.delete(ORDERS, **options), Scripted(*outcomes, failing=failing), played=self.played)

    def test_here_first(self) -> None:
        """MQDMPR-3.1.7.1.4-04: it is deleted here, and in the directory then."""
        self.delete(DONE)
        self.assertEqual(
            kinds(self.played), ["DeleteLocally", "SendChangeNotification", "DeleteObject", "Store"]
        )
        [here] = self.played.of(DeleteLocally)
        self.assertEqual(
            names(here.changes),
            [f"RemoveState {kept('queue', ORDERS)}", f"PutState {kept('deletion', ORDERS)}"],
        )
        [notification] = self.played.of(SendChangeNotification)
        self.assertIs(notification.operation, ChangeOperation.QUEUE_DELETION)
        [store] = self.played.of(Store)
        self.assertEqual(store.changes, [RemoveState(kept("deletion", ORDERS))])
        self.assertEqual((self.access.local.public_queues, self.access.local.deletions), ({}, {}))

    def test_directory_fails(self) -> None:
        """MQDMPR-3.1.7.1.4-05: the directory's refusal is the answer, though the queue is gone here."""
        for outcome, status in (
            (DISCONNECTED, Status.MQ_ERROR_NO_DS),
            (FAILED, Status.MQ_ERROR_DS_ERROR),
        ):
            self.setUp()
            error = self.assertRaises(MQError, self.delete, outcome)
            self.assertIs(error.status, status)
            self.assertEqual(self.access.local.public_queues, {})
            self.assertEqual(self.access.local.deletions, {QUEUE: ORDERS})

    def test_tried_again(self) -> None:
        """A failed change is repeated later; a queue that is not found any more is gone as well."""
        for outcome in (DONE, NOT_FOUND):
            self.setUp()
            self.assertRaises(MQError, self.delete, DISCONNECTED)
            self.access.local.directory_offline = False
            _, played = play(retry_deletions(self.access), replies(outcome))
            self.assertEqual(played.requests, [DeleteObject(ORDERS)])
            self.assertEqual(len(played.of(Store)), 1)
            self.assertEqual(self.access.local.deletions, {})

    def test_a_refused_retry(self) -> None:
        """A refused deletion stays and does not block others; an unavailable directory is not queried
        further.
        """
        bills = attrs.evolve(ORDERS, identifier=UUID(int=0xB2), pathname="ALPHA\\bills")
        self.access.local.deletions = {QUEUE: ORDERS, bills.identifier: bills}
        _, played = play(retry_deletions(self.access), replies(FAILED, DONE))
        self.assertEqual((len(played.requests), list(self.access.local.deletions)), (2, [QUEUE]))
        self.access.local.deletions = {QUEUE: ORDERS, bills.identifier: bills}
        _, played = play(retry_deletions(self.access), replies(DISCONNECTED))
        self.assertEqual((len(played.requests), len(self.access.local.deletions)), (1, 2))

    def test_not_found_in_the_directory(self) -> None:
        """A queue that the directory has lost is removed, and that is reported."""
        error = self.assertRaises(MQError, self.delete, NOT_FOUND)
        self.assertIs(error.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertEqual(self.access.local.deletions, {})

    def test_skipped_directory(self) -> None:
        """The directory is left alone if that is asked for."""
        self.delete(skip_directory=True)
        self.assertEqual(kinds(self.played), ["DeleteLocally"])
        self.assertEqual((self.access.local.public_queues, self.access.local.deletions), ({}, {}))

    def test_store_fails(self) -> None:
        """A queue that cannot be deleted here stays, here and in the directory."""
        self.assertRaises(MQError, self.delete, failing=DeleteLocally)
        self.assertEqual(
            (kinds(self.played), self.access.local.public_queues), (["DeleteLocally"], {QUEUE: ORDERS})
        )

    def test_unknown_queue(self) -> None:
        """A queue that is not one of ours is not found."""
        self.delete(DONE)
        error = self.assertRaises(MQError, self.delete)
        self.assertIs(error.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_workgroup(self) -> None:
        """A public queue that was left from a time with a directory can be deleted without one."""
        self.access.local.directory_integrated = False
        error = self.assertRaises(MQError, self.delete)
        self.assertIs(error.status, Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.access.local.public_queues, {})

    def test_restart(self) -> None:
        """Pending deletions are known after a restart."""
        self.assertRaises(MQError, self.delete, DISCONNECTED)
        [here] = self.played.of(DeleteLocally)
        state = {change.name: change.value for change in here.changes if isinstance(change, PutState)}
        again = access()
        again.local.restore(state)
        self.assertEqual(again.local.deletions, {QUEUE: ORDERS})


class AlterTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.24 other properties."""

    def setUp(self) -> None:
        self.access: DirectoryAccess = access(ORDERS)
        self.queues = PublicQueues(self.access)
        self.played = Played()

    def alter(self, *outcomes: Outcome, failing: Any = (), **attributes: Any) -> QueueObject:
        procedure = self.queues.alter(ORDERS, NOW.later(9), **attributes)
        return play(procedure, Scripted(*outcomes, failing=failing), played=self.played)[0]

    def test_directory_first(self) -> None:
        """The directory gets what has changed, and then we have it too."""
        altered = self.alter(DONE, label="new", quota=5)
        expected = attrs.evolve(ORDERS, label="new", quota=5, modify_time=1_700_000_009)
        self.assertEqual(altered, expected)
        self.assertEqual(kinds(self.played), ["WriteObject", "SendChangeNotification", "UpdateLocally"])
        self.assertEqual(self.played.requests, [WriteObject(expected, ("label", "quota"))])
        [update] = self.played.of(UpdateLocally)
        self.assertEqual(
            (update.queue, names(update.changes)), (expected, [f"PutState {kept('queue', ORDERS)}"])
        )
        self.assertEqual(self.access.local.public_queues, {QUEUE: expected})

    def test_directory_refuses(self) -> None:
        """A change that the directory refuses has no effect."""
        for outcome, status in (
            (NOT_FOUND, Status.MQ_ERROR_QUEUE_NOT_FOUND),
            (DISCONNECTED, Status.MQ_ERROR_NO_DS),
        ):
            error = self.assertRaises(MQError, self.alter, outcome, label="new")
            self.assertIs(error.status, status)
        self.assertEqual(self.access.local.public_queues, {QUEUE: ORDERS})

    def test_store_fails(self) -> None:
        """After a failed local change the directory has the previous values again."""
        self.assertRaises(MQError, self.alter, DONE, DONE, failing=UpdateLocally, label="new")
        self.assertEqual(self.played.requests[-1], WriteObject(ORDERS, ("label",)))
        self.assertEqual(self.access.local.public_queues, {QUEUE: ORDERS})

    def test_unchangeable(self) -> None:
        """Immutable properties of a queue, and unknown attributes, cannot be changed."""
        for name, value in (("transactional", True), ("pathname", "ALPHA\\x"), ("full_path", "x")):
            error = self.assertRaises(MQError, self.alter, **{name: value})
            self.assertIs(error.status, Status.MQ_ERROR_WRITE_NOT_ALLOWED)
            self.assertIn(name, error.detail)
        self.assertRaises(LocalProtocolError, self.alter, colour=1)
        self.assertRaises(MQError, self.alter, quota=-1)
        self.assertEqual(self.played.effects, [])

    def test_while_it_is_deleted(self) -> None:
        """No other operation on a queue begins while one is in progress."""
        deletion = self.queues.delete(ORDERS)
        next(deletion)
        error = self.assertRaises(MQError, self.alter, label="new")
        self.assertIs(error.status, Status.MQ_ERROR_SHARING_VIOLATION)
        deletion.close()

    def test_result(self) -> None:
        """A result that the directory has no status for is the general one."""
        outcome = Outcome(DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        error = self.assertRaises(MQError, self.alter, outcome, label="new")
        self.assertIs(error.status, Status.MQ_ERROR_DS_ERROR)


def _upper(identifier: UUID) -> str:
    return str(identifier).upper()
