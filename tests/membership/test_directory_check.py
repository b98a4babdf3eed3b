"""How the objects in the directory are compared with what a queue manager has, and what is reported."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.membership.access import DirectoryAccess
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.entry import DirectoryEntry
from msmq.membership.local import LocalQueueManager, queue_change
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    Outcome,
    QueueManagerChanged,
    ReadObject,
    ReportDivergence,
    Store,
    UpdateLocally,
)
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    DONE,
    FAILED,
    NOT_FOUND,
    ORDERS,
    OWN,
    QUEUE,
    SITE,
    access,
    found,
    play,
    replies,
)

BILLS = QueueObject(identifier=UUID(int=0xB2), pathname="ALPHA\\bills", label="bills")
QUOTA_KEPT = ("quota is 5 in the directory; 100 stays in effect here",)
GONE = ("its object is not in the directory; the local queue is unchanged",)


def keeping(*queues: QueueObject) -> DirectoryAccess:
    """A queue manager that does not adopt changes that loosen its queues."""
    local = LocalQueueManager(ALPHA, directory_integrated=True)
    local.public_queues = {queue.identifier: queue for queue in queues}
    return DirectoryAccess(local, DirectoryChanges.KEEP)


def read_of(held: QueueObject) -> ReadObject:
    return ReadObject(QueueObject, (equals("identifier", held.identifier),))


READ_OWN = ReadObject(QueueManagerObject, (equals("identifier", OWN),))


class OwnObjectsTests(SynchronousTestCase):
    """The check of all own objects while the directory is online."""

    def test_all_are_read(self) -> None:
        """The own object and each queue are read, and what has changed is adopted."""
        machine = access(ORDERS, BILLS)
        changed = attrs.evolve(ALPHA, journal_quota=7)
        label = attrs.evolve(BILLS, label="new")
        _, played = play(machine.check_own_objects(), replies(found(changed), found(ORDERS), found(label)))
        self.assertEqual(played.requests, [READ_OWN, read_of(ORDERS), read_of(BILLS)])
        self.assertEqual(machine.local.object, changed)
        self.assertEqual(machine.local.public_queues, {QUEUE: ORDERS, BILLS.identifier: label})
        self.assertEqual(played.of(QueueManagerChanged), [QueueManagerChanged(changed)])
        self.assertEqual(played.of(Store), [Store([machine.local.object_change()])])
        self.assertEqual(played.of(UpdateLocally), [UpdateLocally(label, [queue_change(label)])])

    def test_nothing_to_ask(self) -> None:
        """Without a directory, and while it is offline, nothing is asked."""
        for machine in (access(ORDERS, integrated=False), access(ORDERS, offline=True)):
            self.assertEqual(play(machine.check_own_objects())[1].effects, [])

    def test_own_object_cannot_be_read(self) -> None:
        """The queues are checked all the same, and the own object stays."""
        for outcome in (NOT_FOUND, FAILED):
            machine = access(ORDERS)
            _, played = play(machine.check_own_objects(), replies(outcome, found(ORDERS)))
            self.assertEqual(played.requests, [READ_OWN, read_of(ORDERS)])
            self.assertEqual(machine.local.object, ALPHA)
            self.assertEqual(len(played.effects), 2)

    def test_away_in_the_middle(self) -> None:
        """As soon as the directory is away nothing more is read or adopted."""
        for outcomes, count in (([DISCONNECTED], 1), ([found(ALPHA), DISCONNECTED], 2)):
            machine = access(ORDERS, BILLS)
            _, played = play(machine.check_own_objects(), replies(*outcomes))
            self.assertEqual((len(played.requests), len(played.effects)), (count, count))
            self.assertTrue(machine.local.directory_offline)

    def test_unset_values(self) -> None:
        """A check adopts what the directory has of a queue; a directory that was away decides all of it."""
        held = attrs.evolve(ORDERS, base_priority=3)
        partly = DirectoryEntry.holding(attrs.evolve(held, quota=9), ("identifier", "pathname", "quota"))
        machine = access(held)
        play(machine.check_own_objects(), replies(found(ALPHA), Outcome(value=partly)))
        self.assertEqual(machine.local.public_queues[QUEUE], attrs.evolve(held, quota=9))
        machine = access(held, offline=True)
        play(machine.check_directory_online(), replies(found(ALPHA), Outcome(value=partly)))
        self.assertEqual(
            machine.local.public_queues[QUEUE],
            QueueObject(identifier=QUEUE, pathname=held.pathname, quota=9),
        )

    def test_by_identifier(self) -> None:
        """An object is read whole by its identifier, or not at all."""
        london = SiteObject(identifier=SITE, name="london")
        read, played = play(access().read_by_identifier(SiteObject, SITE), replies(found(london)))
        self.assertEqual(
            (read, played.requests), (london, [ReadObject(SiteObject, (equals("identifier", SITE),))])
        )
        for outcome in (NOT_FOUND, DISCONNECTED, FAILED):
            self.assertIsNone(play(access().read_by_identifier(SiteObject, SITE), replies(outcome))[0])

    def test_handles(self) -> None:
        """A read object by object that breaks off does not take the directory for away."""
        for procedure in (DirectoryAccess.read_directory_next, DirectoryAccess.read_directory_end):
            machine = access()
            outcome, _ = play(procedure(machine, 7), replies(DISCONNECTED))
            self.assertEqual((outcome, machine.local.directory_offline), (DISCONNECTED, False))
            self.assertIsNone(machine.timers.deadline())

    def test_publication(self) -> None:
        """No refusal is known as long as there was none."""
        self.assertEqual((access().publication_refusal, access().is_provisioned), ("", True))


class ReportTests(SynchronousTestCase):
    """Reports about a queue whose object has changed."""

    def reports(self, machine: DirectoryAccess, outcome: Outcome) -> list[Any]:
        held = machine.local.public_queues.get(QUEUE)
        _, played = play(machine.take_over_queue(held, outcome), lambda effect: DONE)
        return played.of(ReportDivergence)

    def test_kept(self) -> None:
        """What is kept is reported each time, and its end once."""
        held = attrs.evolve(ORDERS, quota=100)
        machine = keeping(held)
        smaller = found(attrs.evolve(held, quota=5))
        expected = [ReportDivergence(held.pathname, QUOTA_KEPT, ())]
        self.assertEqual(self.reports(machine, found(held)), [])
        for _ in range(2):
            self.assertEqual(self.reports(machine, smaller), expected)
        self.assertEqual(self.reports(machine, found(held)), [ReportDivergence(held.pathname, (), ())])
        self.assertEqual(self.reports(machine, found(held)), [])
        self.assertEqual(machine.local.public_queues[QUEUE], held)

    def test_taken(self) -> None:
        """What is adopted is reported once, together with what is kept; there is no end of it."""
        held = attrs.evolve(ORDERS, quota=100)
        machine = keeping(held)
        other = found(attrs.evolve(held, quota=5, label="new"))
        taken = ('label is "new" from now on, as in the directory; it was "orders"',)
        self.assertEqual(self.reports(machine, other), [ReportDivergence(held.pathname, QUOTA_KEPT, taken)])
        self.assertEqual(self.reports(machine, other), [ReportDivergence(held.pathname, QUOTA_KEPT, ())])
        machine = keeping(held)
        label = found(attrs.evolve(held, label="new"))
        self.assertEqual(self.reports(machine, label), [ReportDivergence(held.pathname, (), taken)])
        self.assertEqual(self.reports(machine, label), [])

    def test_gone(self) -> None:
        """An object that is gone is reported, and that it is back; a failed read says nothing."""
        machine = keeping(ORDERS)
        self.assertEqual(self.reports(machine, NOT_FOUND), [ReportDivergence(ORDERS.pathname, GONE, ())])
        for outcome in (FAILED, DISCONNECTED):
            self.assertEqual(self.reports(machine, outcome), [])
        self.assertEqual(self.reports(machine, found(ORDERS)), [ReportDivergence(ORDERS.pathname, (), ())])
        self.assertEqual(self.reports(keeping(), NOT_FOUND), [])
