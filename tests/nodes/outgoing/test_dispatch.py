"""Which of the messages that wait for one next hop is sent first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from msmq.queues.arriving.message import Delivery
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.internal.classification import PacketKind, classify
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView, measure_user_message
from msmq.testing.streams import Conditions
from msmq.wire.framer import StreamFramer
from tests.builders import ALPHA
from tests.manager.support import FaultyStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\"


class DispatchTestCase(NodesTestCase):
    """BETA has three queues, for which ALPHA has outgoing queues of different BasePriority."""

    base_priorities: ClassVar[Mapping[str, int]] = {"first": 5, "second": 0, "third": -5}

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.paths = {name: self.queue(self.beta, name) for name in self.base_priorities}
        self.beta.deaf()
        for name, base_priority in self.base_priorities.items():
            destination = parse_format_name(TO_BETA + name)
            self.alpha.model.outgoing(destination, self.clock.now(), base_priority=base_priority)

    def wait(self, name: str, priority: int, **kwargs: Any) -> None:
        """Have a message wait, whose body names it."""
        self.send(self.alpha, TO_BETA + name, f"{name} {priority}".encode(), priority=priority, **kwargs)

    def connect(self) -> None:
        """Let BETA listen, and give ALPHA the time to dial."""
        self.beta.listen()
        self.clock.advance(20)

    def sent(self) -> list[str]:
        """The bodies of the messages that went over the network, in this order."""
        bodies = []
        for link in self.network.links:
            for packet, _ in StreamFramer(measure_user_message).feed(link.initiator.data):
                if classify(packet) is PacketKind.USER_MESSAGE:
                    bodies.append(bytes(UserMessageView(packet).body).decode())
        return bodies


class OrderTests(DispatchTestCase):
    """[MS-MQDMPR] 3.1.7.1.28 Add Message To Dispatch Collection and 3.1.7.3.9 Dispatch Send Message."""

    SUMS = ("first 3", "second 7", "first 0", "second 3", "third 7", "second 0", "third 3")

    def test_sums(self) -> None:
        """The order depends on the sum of the BasePriority of the queue and the priority of the message.

        MQDMPR-3.1.1.2-15, MQDMPR-3.1.1.18-02, MQDMPR-3.1.7.1.28-01, MQDMPR-3.1.7.3.9-02.
        """
        for name in reversed(self.SUMS):
            queue, _, priority = name.partition(" ")
            self.wait(queue, int(priority))
        self.connect()
        self.assertEqual(self.sent(), list(self.SUMS))

    def test_ties(self) -> None:
        """Of messages with the same sum the oldest is sent first, from any queue (reading 52)."""
        ties = ["second 6", "first 1", "second 6", "first 1", "first 1", "second 6"]
        for name in ties:
            queue, _, priority = name.partition(" ")
            self.wait(queue, int(priority))
        self.connect()
        self.assertEqual(self.sent(), ties)

    def test_after_a_restart(self) -> None:
        """Pending messages and their order are restored from the outgoing queues.

        MQDMPR-3.1.1.18-01.
        """
        for name in reversed(self.SUMS):
            queue, _, priority = name.partition(" ")
            self.wait(queue, int(priority), delivery=Delivery.RECOVERABLE)
        self.alpha.deaf()
        self.successResultOf(self.alpha.service.stopService())
        self.alpha = self.node("ALPHA", ALPHA, store=self.alpha.store)
        self.alpha.start()
        self.connect()
        self.assertEqual(self.sent(), list(self.SUMS))

    def test_paused(self) -> None:
        """A queue that is paused takes no part, and does not hold up the others.

        MQDMPR-3.1.7.3.9-02 (reading 52), MQQB-3.1.7.1-01.
        """
        for name in self.base_priorities:
            self.wait(name, 3)
        self.alpha.service.pause_outgoing(TO_BETA + "first")
        self.connect()
        self.assertEqual(self.sent(), ["second 3", "third 3"])

    def test_deleted(self) -> None:
        """A message that an administrator has removed is skipped; the next one is sent.

        MQDMPR-3.1.7.3.9-02, MQDMPR-3.1.7.1.29-01.
        """
        for priority in (7, 5, 3):
            self.wait("first", priority)
        handle = self.alpha.service.open_queue(TO_BETA + "first", QueueAccessType.RECEIVE_ADMIN)
        message = self.run_to_end(handle.receive(timeout=0))
        self.assertEqual(bytes(message.view.body), b"first 7")
        handle.close()
        self.connect()
        self.assertEqual(self.sent(), ["first 5", "first 3"])

    def test_a_queue_is_emptied(self) -> None:
        """All messages of a purged queue are removed at once; the other queues keep theirs.

        MQDMPR-3.1.7.1.34-01.
        """
        for priority in (7, 5, 3):
            self.wait("second", priority)
            self.wait("first", priority)
        handle = self.alpha.service.open_queue(TO_BETA + "first", QueueAccessType.RECEIVE_ADMIN)
        self.assertEqual(self.run_to_end(handle.purge()), 3)
        handle.close()
        self.connect()
        self.assertEqual(self.sent(), ["second 7", "second 5", "second 3"])

    def test_an_open_session(self) -> None:
        """A message for a peer to which a session is open is sent as soon as it is there.

        MQDMPR-3.1.7.1.28-02.
        """
        self.wait("first", 3)
        self.connect()
        self.wait("second", 3)
        self.assertEqual(self.sent(), ["first 3", "second 3"])

    def test_no_session_without_messages(self) -> None:
        """Without messages to send no connection is opened."""
        self.connect()
        self.assertEqual(self.network.links, [])


class OneByOneTests(DispatchTestCase):
    """A peer that takes one message at a time."""

    settings = SessionSettings(window_size=1)
    conditions = Conditions(delay=1.0)

    def test_each_goes_when_the_one_before_is_done(self) -> None:
        """An acknowledged message is removed, and the next one is sent; each once, and never two at a time.

        MQDMPR-3.1.7.1.29-01, MQDMPR-3.1.7.3.9-03.
        """
        for priority in (1, 2):
            for name in self.base_priorities:
                self.wait(name, priority)
        self.beta.listen()
        in_progress = set()
        for _ in range(1200):
            self.clock.advance(0.1)
            removed = 6 - sum(queue.messages for queue in self.alpha.service.inspection.outgoing())
            in_progress.add(len(self.sent()) - removed)
        self.assertEqual(in_progress, {0, 1})
        self.assertEqual(self.sent(), ["first 2", "first 1", "second 2", "second 1", "third 2", "third 1"])
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [0, 0, 0])

    def test_one_that_comes_late(self) -> None:
        """It is sent before those that have waited longer, if its sum is higher.

        MQDMPR-3.1.7.1.28-02.
        """
        for priority in (0, 0, 0):
            self.wait("third", priority)
        self.beta.listen()
        while len(self.sent()) < 1:
            self.clock.advance(0.5)
        self.wait("second", 0)
        self.clock.advance(60)
        self.assertEqual(self.sent(), ["third 0", "second 0", "third 0", "third 0"])


class LoadingTests(DispatchTestCase):
    """ALPHA keeps no stored packets in memory, and its store takes time to read them."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=FaultyStore(), packet_memory=0, **kwargs)

    def test_nothing_is_sent_while_a_message_is_being_sent(self) -> None:
        """The session sends nothing else while a message is read for it, whatever comes meanwhile: of this
        dispatch, and of another one (MQDMPR-3.1.7.3.9-01).
        """
        self.wait("second", 3, delivery=Delivery.RECOVERABLE)
        self.wait("third", 7)
        store = self.alpha.store
        assert isinstance(store, FaultyStore)
        store.is_slow = True
        self.connect()
        self.assertEqual(self.sent(), [])
        self.wait("first", 7)
        self.assertEqual(self.sent(), [])
        store.catch_up()
        self.clock.advance(1)
        self.assertEqual(self.sent(), ["second 3", "first 7", "third 7"])


class ManyQueuesTests(DispatchTestCase):
    """A peer, or an application, may name as many queues of one host as it likes."""

    base_priorities: ClassVar[Mapping[str, int]] = {}

    def calls(self, work: Callable[[], object]) -> int:
        """How many functions are called by that, which says what it costs on any machine."""
        count = 0

        def see(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(see)
        try:
            work()
        finally:
            sys.setprofile(before)
        return count

    def fill(self, count: int) -> None:
        for number in range(count):
            self.wait(f"q{number}", 3)

    def one_more(self) -> int:
        def work() -> None:
            self.wait("q0", 3)
            self.clock.advance(1)

        return self.calls(work)

    def test_empty_queues_are_not_visited(self) -> None:
        """A queue without messages is not looked at again."""
        self.connect()
        self.fill(5)
        self.clock.advance(20)
        few = self.one_more()
        self.fill(500)
        self.clock.advance(100)
        self.assertEqual({queue.messages for queue in self.alpha.service.inspection.outgoing()}, {0})
        self.assertLess(self.one_more(), 2 * few)

    def test_full_ones_cost_what_they_hold(self) -> None:
        """Ten times the queues are about ten times the work, when all of them are sent at last."""
        costs = []
        for count in (50, 500):
            self.setUp()
            self.fill(count)
            costs.append(self.calls(self.connect))
            self.assertEqual(len(self.sent()), count)
        self.assertLess(costs[1], 20 * costs[0])


class AnySumsTests(DispatchTestCase):
    """Any pending messages."""

    @given(st.lists(st.tuples(st.sampled_from(["first", "second", "third"]), st.integers(0, 7)), max_size=40))
    def test_order(self, messages: Sequence[tuple[str, int]]) -> None:
        """All of it goes, once each, in the order of the sums; none is lost.

        MQDMPR-3.1.7.1.28-02.
        """
        self.setUp()
        for name, priority in messages:
            self.wait(name, priority)
        self.connect()
        ranked = sorted(messages, key=lambda message: -self.base_priorities[message[0]] - message[1])
        self.assertEqual(self.sent(), [f"{name} {priority}" for name, priority in ranked])
