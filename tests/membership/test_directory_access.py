"""The events that reach the directory, and what happens when it is away."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import ChangeOperation, DirectoryOperationResult
from msmq.membership.objects import EnterpriseObject, QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import AttributeFilter, FilterOperator, SortOrder, equals
from msmq.membership.requests import (
    AskDirectory,
    BeginRead,
    CreateObject,
    DeleteObject,
    DirectoryEffect,
    EndRead,
    NextRead,
    Outcome,
    Procedure,
    QueueManagerChanged,
    ReadObject,
    SendChangeNotification,
    Store,
    UpdateLocally,
    WriteObject,
)
from msmq.membership.timers import DirectoryTimer
from msmq.persistence.changes import PutState
from msmq.persistence.definition import QueueType
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    DONE,
    END,
    EXISTS,
    FAILED,
    NOT_FOUND,
    NOW,
    ORDERS,
    OWN,
    QUEUE,
    SITE,
    access,
    found,
    play,
    replies,
)
from tests.samples import examples

PRIVATE = QueueObject(identifier=UUID(int=2), pathname="ALPHA\\private$\\x", queue_type=QueueType.PRIVATE)
PARIS = SiteObject(identifier=SITE, name="paris")
ONLINE_TIMER = DirectoryTimer.DIRECTORY_ONLINE
BY_OWN = (equals("identifier", OWN),)


class WritingTests(SynchronousTestCase):
    """Create, Delete and Write Directory."""

    def test_create(self) -> None:
        """MQDMPR-3.1.7.1.18-03 MQDMPR-3.1.7.1.18-05: the directory is asked, and its answer is the answer."""
        for outcome in (Outcome(value=SITE), EXISTS, FAILED):
            answered, played = play(access().create_directory_object(PARIS, ("name",)), replies(outcome))
            self.assertEqual(answered, outcome)
            self.assertEqual(played.effects, [AskDirectory(CreateObject(PARIS, ("name",)))])

    def test_create_public_queue(self) -> None:
        """MQDMPR-3.1.7.1.18-02: the notification about a public queue is sent first, even if the creation
        fails.
        """
        for outcome in (Outcome(value=QUEUE), EXISTS, DISCONNECTED):
            _, played = play(access().create_directory_object(ORDERS), replies(outcome))
            notification = SendChangeNotification(ChangeOperation.QUEUE_CREATION, ORDERS)
            self.assertEqual(played.effects, [notification, AskDirectory(CreateObject(ORDERS))])

    def test_delete(self) -> None:
        """MQDMPR-3.1.7.1.19-02: the directory is asked to delete the object."""
        answered, played = play(access().delete_directory_object(PARIS), replies(NOT_FOUND))
        self.assertEqual((answered, played.effects), (NOT_FOUND, [AskDirectory(DeleteObject(PARIS))]))

    def test_delete_public_queue(self) -> None:
        """MQDMPR-3.1.7.1.19-01: others are notified of a public queue first."""
        _, played = play(access().delete_directory_object(ORDERS), replies(FAILED))
        notification = SendChangeNotification(ChangeOperation.QUEUE_DELETION, ORDERS)
        self.assertEqual(played.effects, [notification, AskDirectory(DeleteObject(ORDERS))])

    def test_write(self) -> None:
        """MQDMPR-3.1.7.1.24-01: the directory is asked to write all, or what is named."""
        for attributes in (None, ("name",)):
            answered, played = play(access().write_directory(PARIS, attributes))
            self.assertEqual((answered, played.requests), (DONE, [WriteObject(PARIS, attributes)]))
            self.assertEqual(len(played.effects), 1)

    def test_notified_of_what_was_written(self) -> None:
        """MQDMPR-3.1.7.1.24-03: others are notified of public queues and queue managers, once it is done."""
        for written, operation in (
            (ORDERS, ChangeOperation.QUEUE_UPDATE),
            (ALPHA, ChangeOperation.QUEUE_MANAGER_UPDATE),
        ):
            _, played = play(access().write_directory(written))
            self.assertEqual(
                played.effects,
                [AskDirectory(WriteObject(written)), SendChangeNotification(operation, written)],
            )
            for outcome in (NOT_FOUND, DISCONNECTED):
                _, played = play(access().write_directory(written), replies(outcome))
                self.assertEqual(played.of(SendChangeNotification), [])

    def test_private_queue(self) -> None:
        """MQDMPR-3.1.7.1.24-03: a private queue causes no notification."""
        for procedure in (
            access().create_directory_object(PRIVATE),
            access().delete_directory_object(PRIVATE),
            access().write_directory(PRIVATE),
        ):
            self.assertEqual(play(procedure)[1].of(SendChangeNotification), [])


class GoingOfflineTests(SynchronousTestCase):
    """MQDMPR: what a directory that is away does to a queue manager."""

    def assert_goes_offline(self, attempt: str, *args: Any) -> None:
        directory = access()
        answered, _ = play(getattr(directory, attempt)(*args), replies(DISCONNECTED))
        self.assertIs(answered.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        self.assertTrue(directory.local.directory_offline)
        self.assertEqual(directory.timers.deadline(), NOW.monotonic + 60)

    def test_create(self) -> None:
        """MQDMPR-3.1.7.1.18-04: it is offline, and tries again in a minute."""
        self.assert_goes_offline("create_directory_object", ORDERS)

    def test_delete(self) -> None:
        """MQDMPR-3.1.7.1.19-03: the same for a deletion; every result is passed on."""
        self.assert_goes_offline("delete_directory_object", ORDERS)
        for outcome in (DONE, NOT_FOUND, FAILED):
            directory = access()
            self.assertEqual(play(directory.delete_directory_object(PARIS), replies(outcome))[0], outcome)
            self.assertFalse(directory.local.directory_offline)

    def test_write(self) -> None:
        """MQDMPR-3.1.7.1.24-02: the same for what is written; every result is passed on."""
        self.assert_goes_offline("write_directory", ORDERS)
        for outcome in (DONE, NOT_FOUND, FAILED):
            directory = access()
            self.assertEqual(play(directory.write_directory(PARIS), replies(outcome))[0], outcome)
            self.assertFalse(directory.local.directory_offline)

    def test_read(self) -> None:
        """MQDMPR-3.1.7.1.20-09: the same for a read, unless it was forced."""
        self.assert_goes_offline("read_directory", SiteObject)
        directory = access()
        forced = directory.read_directory(SiteObject, force_directory_read=True)
        self.assertEqual(play(forced, replies(DISCONNECTED))[0], DISCONNECTED)
        self.assertFalse(directory.local.directory_offline)
        self.assertFalse(directory.timers.is_running(ONLINE_TIMER))

    def test_timer_that_runs(self) -> None:
        """MQDMPR-3.1.7.1.20-09 MQDMPR-3.1.7.1.24-02: a second failure does not put the next attempt off."""
        directory = access()
        play(directory.write_directory(PARIS), replies(DISCONNECTED))
        for event in (directory.write_directory(PARIS), directory.read_directory(SiteObject)):
            directory.local.directory_offline = False
            play(event, replies(DISCONNECTED), now=NOW.later(30))
            self.assertEqual(directory.timers.deadline(), NOW.monotonic + 60)


class ReadingTests(SynchronousTestCase):
    """Read Directory, and what reads many objects."""

    def test_delegated(self) -> None:
        """MQDMPR-3.1.7.1.20-08: online or forced, the directory is asked and its answer is the answer."""
        filters = (equals("name", "paris"),)
        for offline, forced in ((False, False), (False, True), (True, True)):
            for outcome in (found(PARIS, ("name",)), NOT_FOUND):
                directory = access(offline=offline)
                procedure = directory.read_directory(
                    SiteObject, filters, ("name",), force_directory_read=forced
                )
                answered, played = play(procedure, replies(outcome))
                self.assertEqual(answered, outcome)
                self.assertEqual(played.requests, [ReadObject(SiteObject, filters, ("name",))])

    def test_offline_queue(self) -> None:
        """MQDMPR-3.1.7.1.20-04: offline, a public queue of ours is read from what we know."""
        directory = access(ORDERS, offline=True)
        for filters in ([equals("identifier", QUEUE)], [equals("pathname", "alpha\\ORDERS")], []):
            answered, played = play(directory.read_directory(QueueObject, filters))
            self.assertIs(answered.result, DirectoryOperationResult.SUCCESS)
            self.assertEqual((answered.value.object, played.effects), (ORDERS, []))
        answered, _ = play(directory.read_directory(QueueObject, (), ("label",)))
        self.assertEqual(dict(answered.value.values), {"label": "orders"})

    def test_offline_other_queue(self) -> None:
        """MQDMPR-3.1.7.1.20-05: offline, a queue of another computer is not found."""
        directory = access(ORDERS, offline=True)
        answered, played = play(directory.read_directory(QueueObject, [equals("identifier", SITE)]))
        self.assertIs(answered.result, DirectoryOperationResult.OBJECT_NOT_FOUND)
        self.assertEqual(played.effects, [])

    def test_offline_queue_manager(self) -> None:
        """MQDMPR-3.1.7.1.20-06: offline, our own object is read from what we know."""
        directory = access(offline=True)
        answered, played = play(directory.read_directory(QueueManagerObject, BY_OWN))
        self.assertIs(answered.result, DirectoryOperationResult.SUCCESS)
        self.assertEqual((answered.value.object, played.effects), (ALPHA, []))

    def test_offline_anything_else(self) -> None:
        """MQDMPR-3.1.7.1.20-07: offline, anything else is answered with the directory being away."""
        directory = access(offline=True)
        other = [equals("identifier", SITE)]
        for of, filters in ((QueueManagerObject, other), (SiteObject, other), (EnterpriseObject, [])):
            answered, played = play(directory.read_directory(of, filters))
            self.assertIs(answered.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
            self.assertEqual(played.effects, [])

    def test_handle(self) -> None:
        """MQDMPR-3.1.7.1.21-01 MQDMPR-3.1.7.1.22-01 MQDMPR-3.1.7.1.23-01: each is left to the directory."""
        directory = access()
        order = (SortOrder(1),)
        begin = directory.read_directory_begin(SiteObject, (), ("name",), order)
        begun, played = play(begin, replies(Outcome(value=7)))
        self.assertEqual((begun.value, played.requests), (7, [BeginRead(SiteObject, (), ("name",), order)]))
        following, played = play(directory.read_directory_next(7), replies(END))
        self.assertEqual((following, played.requests), (END, [NextRead(7)]))
        ended, played = play(directory.read_directory_end(7), replies(FAILED))
        self.assertEqual((ended, played.requests), (FAILED, [EndRead(7)]))

    def test_begin_offline(self) -> None:
        """Offline nothing is begun; an unreachable directory then makes no queue manager offline."""
        answered, played = play(access(offline=True).read_directory_begin(SiteObject))
        self.assertIs(answered.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        self.assertEqual(played.effects, [])
        directory = access()
        play(directory.read_directory_begin(SiteObject), replies(DISCONNECTED))
        self.assertFalse(directory.local.directory_offline)

    def test_read_all(self) -> None:
        """All objects are read, and the handle is closed, also when reading fails in the middle."""
        outcomes = [Outcome(value=7), found(PARIS), END, DONE]
        answered, played = play(access().read_all(SiteObject), replies(*outcomes))
        self.assertEqual(answered.value, [PARIS])
        self.assertEqual(played.requests[-1], EndRead(7))
        outcomes = [Outcome(value=7), found(PARIS), FAILED, DONE]
        answered, played = play(access().read_all(SiteObject), replies(*outcomes))
        self.assertEqual((answered, played.requests[-1]), (FAILED, EndRead(7)))
        self.assertEqual(play(access().read_all(SiteObject), replies(FAILED))[0], FAILED)

    def test_meaningless(self) -> None:
        """A read without a meaning is refused before the directory is queried."""
        less = AttributeFilter("identifier", FilterOperator.LESS_THAN, SITE)
        for directory in (access(), access(integrated=False)):
            self.assertRaises(LocalProtocolError, play, directory.read_directory(SiteObject, [less]))
            self.assertRaises(LocalProtocolError, play, directory.read_directory_begin(SiteObject, [less]))


class WorkgroupTests(SynchronousTestCase):
    """A queue manager that has no directory."""

    def test_nothing_happens(self) -> None:
        """MQDMPR-3.1.1.1-28: every event answers that there is no directory; the flag stays as it is."""
        directory = access(ORDERS, integrated=False)
        events: list[Procedure[Outcome]] = [
            directory.create_directory_object(ORDERS),
            directory.delete_directory_object(ORDERS),
            directory.write_directory(ORDERS),
            directory.read_directory(QueueManagerObject, BY_OWN),
            directory.read_directory(SiteObject, force_directory_read=True),
            directory.read_directory_begin(SiteObject),
            directory.read_directory_next(1),
            directory.read_directory_end(1),
        ]
        for event in events:
            answered, played = play(event, replies(DISCONNECTED))
            self.assertIs(answered.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
            self.assertEqual(played.effects, [])
        self.assertEqual(play(directory.check_directory_online()), (False, play(_nothing())[1]))
        self.assertFalse(directory.local.directory_offline)
        self.assertIsNone(directory.timers.deadline())


def _nothing() -> Procedure[None]:
    return
    yield


class CheckDirectoryOnlineTests(SynchronousTestCase):
    """Whether the directory is back."""

    def test_question(self) -> None:
        """MQDMPR-3.1.7.1.25-01: our own object is asked for, although the directory was away."""
        _, played = play(access(offline=True).check_directory_online(), replies(DISCONNECTED))
        self.assertEqual(played.requests, [ReadObject(QueueManagerObject, BY_OWN)])

    def test_still_away(self) -> None:
        """MQDMPR-3.1.7.1.25-03 MQDMPR-3.1.2.5-01: each failure puts the next attempt a minute off."""
        directory = access(offline=True)
        now = NOW
        for outcome in (DISCONNECTED, FAILED, NOT_FOUND, DISCONNECTED):
            is_there, played = play(directory.check_directory_online(), replies(outcome), now=now)
            self.assertEqual((is_there, len(played.requests)), (False, 1))
            self.assertTrue(directory.local.directory_offline)
            self.assertEqual(directory.timers.expired(now.later(59.9)), [])
            now = now.later(60)
            self.assertEqual(directory.timers.expired(now), [ONLINE_TIMER])

    def test_still_away_before_it_was_due(self) -> None:
        """MQDMPR-3.1.7.1.25-03: a failure while the timer runs puts the next attempt a minute off as well."""
        directory = access(offline=True)
        for seconds in (0, 30):
            now = NOW.later(seconds)
            play(directory.check_directory_online(), replies(DISCONNECTED), now=now)
            self.assertEqual(directory.timers.deadline(), now.monotonic + 60)

    def test_objects_are_updated_when_it_is_back(self) -> None:
        """MQDMPR-3.1.7.1.25-02: our object and our public queues are as the directory has them."""
        directory = access(ORDERS, offline=True)
        directory.timers.start(ONLINE_TIMER, NOW)
        manager = attrs.evolve(ALPHA, queue_manager_quota=99)
        queue = attrs.evolve(ORDERS, label="changed meanwhile")
        is_there, played = play(directory.check_directory_online(), replies(found(manager), found(queue)))
        self.assertTrue(is_there)
        self.assertFalse(directory.local.directory_offline)
        self.assertFalse(directory.timers.is_running(ONLINE_TIMER))
        self.assertEqual(directory.local.object, manager)
        self.assertEqual(directory.local.public_queues, {QUEUE: queue})
        self.assertEqual(played.of(QueueManagerChanged), [QueueManagerChanged(manager)])
        [update] = played.of(UpdateLocally)
        self.assertEqual((update.queue, [change.name for change in update.changes]), (queue, [_name(QUEUE)]))
        [store] = played.of(Store)
        self.assertEqual([change.name for change in store.changes], ["directory.queue_manager"])

    def test_nothing_has_changed(self) -> None:
        """Unchanged objects are not stored again."""
        directory = access(ORDERS, offline=True)
        _, played = play(directory.check_directory_online(), replies(found(ALPHA), found(ORDERS)))
        self.assertEqual(len(played.effects), 2)

    def test_queue_that_is_not_there(self) -> None:
        """A public queue that the directory does not find stays as it is."""
        directory = access(ORDERS, offline=True)
        play(directory.check_directory_online(), replies(found(ALPHA), NOT_FOUND))
        self.assertEqual(directory.local.public_queues, {QUEUE: ORDERS})

    def test_away_again(self) -> None:
        """A directory that goes away in the middle is tried again in a minute."""
        directory = access(ORDERS, offline=True)
        is_there, _ = play(directory.check_directory_online(), replies(found(ALPHA), DISCONNECTED))
        self.assertTrue(is_there)
        self.assertTrue(directory.local.directory_offline)
        self.assertEqual(directory.timers.deadline(), NOW.monotonic + 60)

    def test_queue_that_goes_meanwhile(self) -> None:
        """A queue that is deleted while it is asked for does not come back."""
        directory = access(ORDERS, offline=True)

        def reply(effect: DirectoryEffect) -> Outcome:
            match effect:
                case AskDirectory(ReadObject(of=of)) if of is QueueObject:
                    directory.local.public_queues.clear()
                    return found(attrs.evolve(ORDERS, label="late"))
                case AskDirectory():
                    return found(ALPHA)
            return DONE

        _, played = play(directory.check_directory_online(), reply)
        self.assertEqual((directory.local.public_queues, played.of(UpdateLocally)), ({}, []))


def _name(queue: UUID) -> str:
    return f"directory.queue.{str(queue).upper()}"


class RestartTests(SynchronousTestCase):
    """State of a queue after a restart."""

    def test_restored(self) -> None:
        """MQDMPR-3.1.1-05: what was kept is there again under its Identifier, without the directory."""
        directory = access(ORDERS, offline=True)
        manager = attrs.evolve(ALPHA, queue_manager_quota=99, site_identifier_list=(SITE,))
        queue = attrs.evolve(ORDERS, quota=5)
        _, played = play(directory.check_directory_online(), replies(found(manager), found(queue)))
        state: dict[str, bytes] = {}
        for effect in played.of(Store) + played.of(UpdateLocally):
            for change in effect.changes:
                self.assertIsInstance(change, PutState)
                state[change.name] = change.value
        again = access(own=QueueManagerObject(), offline=True)
        again.local.restore(state)
        self.assertEqual(again.local.object, manager)
        answered, _ = play(again.read_directory(QueueObject, [equals("identifier", QUEUE)]))
        self.assertEqual(answered.value.object, queue)


class DirectoryHistory(RuleBasedStateMachine):
    """Any events, while the directory comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = access(ORDERS)
        self.is_there = True
        self.now = NOW

    def reply(self, effect: DirectoryEffect) -> Outcome:
        if not isinstance(effect, AskDirectory):
            return DONE
        if not self.is_there:
            return DISCONNECTED
        match effect.request:
            case ReadObject(of=of):
                return found(ALPHA if of is QueueManagerObject else ORDERS)
        return DONE

    def run_event(self, procedure: Procedure[Any]) -> Any:
        return play(procedure, self.reply, now=self.now)[0]

    @rule(is_there=st.booleans())
    def change(self, is_there: bool) -> None:
        self.is_there = is_there

    @rule(written=st.sampled_from([ORDERS, ALPHA]))
    def create(self, written: DirectoryObject) -> None:
        self.check(self.directory.create_directory_object(written))

    @rule(written=st.sampled_from([ORDERS, ALPHA]))
    def delete(self, written: DirectoryObject) -> None:
        self.check(self.directory.delete_directory_object(written))

    @rule(written=st.sampled_from([ORDERS, ALPHA]))
    def write(self, written: DirectoryObject) -> None:
        self.check(self.directory.write_directory(written))

    def check(self, event: Procedure[Outcome]) -> None:
        """Assert that requests that change the directory are made exactly while it is available."""
        assert self.run_event(event).succeeded is self.is_there

    @rule()
    def read(self) -> None:
        known = self.run_event(self.directory.read_directory(QueueObject, [equals("identifier", QUEUE)]))
        was_offline = self.directory.local.directory_offline
        assert known.succeeded or (not self.is_there and was_offline)

    @rule(seconds=st.sampled_from([1.0, 30.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now = self.now.later(seconds)
        for timer in self.directory.timers.expired(self.now):
            assert timer is ONLINE_TIMER
            assert self.run_event(self.directory.check_directory_online()) is self.is_there

    @invariant()
    def offline_is_tried_again(self) -> None:
        """An offline queue manager has a running timer, and no other has."""
        running = self.directory.timers.is_running(ONLINE_TIMER)
        assert running is self.directory.local.directory_offline


class HistoryTests(SynchronousTestCase):
    """The state machine of hypothesis, under trial."""

    def test_any_history(self) -> None:
        """A queue manager that is offline is always about to try again."""
        DirectoryHistory.TestCase.settings = settings(
            max_examples=examples(40), stateful_step_count=20, deadline=None
        )
        case = DirectoryHistory.TestCase("runTest")
        case.runTest()
