"""Destinations that are sent to again and again: they are looked up once, and never when that is wrong."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.applications.destinations import Destinations
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from tests.builders import ALPHA

NAME = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class RepeatedDestinationsTests(SynchronousTestCase):
    """L{Destinations.resolve}, for a name that it has resolved before."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.own_addresses: set[str] = set()
        self.model = QueueManagerModel(
            ALPHA,
            computer_names=["ALPHA"],
            is_own_address=lambda address: address in self.own_addresses,
            now=self.clock.now(),
        )
        self.destinations = Destinations(self.model, self.clock, None)

    def resolved(self) -> OutgoingQueue:
        """The queue of the name."""
        [target] = self.destinations.resolve(NAME)
        assert isinstance(target.queue, OutgoingQueue)
        return target.queue

    def test_same_queue(self) -> None:
        """It is the queue of before, which is in use again."""
        queue = self.resolved()
        queue.idle_since = 7.0
        self.assertIs(self.resolved(), queue)
        self.assertIsNone(queue.idle_since)

    def test_deleted_queue(self) -> None:
        """A queue that was deleted meanwhile is created again."""
        queue = self.resolved()
        self.model.delete_queue(queue)
        again = self.resolved()
        self.assertIsNot(again, queue)
        self.assertIs(self.model.collection.find_outgoing(again.destination), again)

    def test_address_of_this_computer(self) -> None:
        """A name whose address this computer has by now is one of its own queues."""
        self.resolved()
        self.own_addresses.add("127.0.0.3")
        refused = self.assertRaises(MQError, self.destinations.resolve, NAME)
        self.assertEqual(refused.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_other_default_time(self) -> None:
        """A new default of TimeToReachQueue applies to the next message."""
        self.resolved()
        self.model.time_to_reach_queue = 7
        [target] = self.destinations.resolve(NAME)
        self.assertEqual(target.builder.time_to_reach_queue, 7)

    def test_changed_result(self) -> None:
        """What a caller does with the list of targets does not change the next one."""
        self.destinations.resolve(NAME).clear()
        self.assertEqual(len(self.destinations.resolve(NAME)), 1)
