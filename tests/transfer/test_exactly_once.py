"""[MS-MQQB] 1.3.2.1.3: exactly once and in order, under any failures.

Two nodes of the cores and nothing else, a network that may deliver anything that was ever sent, at any time
and as often as it likes, and stores that fail, or are cut off in the middle of what they were asked for.
What stands in either store is judged, not what a process knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.settings import SessionSettings
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import final_ack, order_ack, read_acknowledgement
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.outgoing_streams import OutgoingStreams
from msmq.transfer.stream_changes import AckOutcome
from tests.builders import ALPHA, BETA
from tests.samples import examples
from tests.transfer.support import START, Position, Receiver, transactional_packet

SETTINGS = SessionSettings(unacknowledged_messages=12, order_ack_messages=5)
REFUSED_EVERY = 7
"""Of so many messages the receiver refuses one, for a reason of its own."""


@attrs.define
class Commit:
    """A request to the sender's store, and its consequences."""

    apply: Callable[[], object]
    done: Callable[[], object]
    failed: Callable[[], object]


class SendingNode:
    """A queue manager with one outgoing queue.

    @ivar store: the packets in the queue, in their order.
    @ivar state: the other values that the store keeps.
    @ivar committed: the bodies of all messages that ever were in the store.
    @ivar commits: what the store was asked for and has not done.
    """

    def __init__(self) -> None:
        self.now = START
        self.store: dict[int, bytes] = {}
        self.state: dict[str, bytes] = {}
        self.committed: set[int] = set()
        self.numbers = 0
        self.begin()

    def begin(self) -> None:
        """A process begins with what the store keeps, and has read no packet."""
        self.commits: deque[Commit] = deque()
        self.streams: OutgoingStreams[Position] = OutgoingStreams(ALPHA, SETTINGS, self.state, self.now)
        self.stream = self.streams.stream("orders")
        self.positions: dict[Position, int] = {}
        self.locked: set[Position] = set()
        for number, packet in self.store.items():
            position = Position(packet)
            position.view = None
            self.positions[position] = number
        self.stream.restore(list(self.positions))

    def put(self, count: int) -> None:
        """A transaction commits; the store is asked to keep its messages."""
        assignment = self.stream.assign(count)
        numbers = list(range(self.numbers + 1, self.numbers + count + 1))
        self.numbers += count
        views = [
            UserMessageView(transactional_packet(b"%d" % number, message_id=number)) for number in numbers
        ]
        packets = assignment.stamp(views)
        reservation = self.streams.reservation()
        positions = [Position(packet) for packet in packets]

        def apply() -> None:
            self.store.update(zip(numbers, packets, strict=True))
            self.committed.update(numbers)
            if reservation is not None and reservation[1] is not None:
                self.state[reservation[0]] = reservation[1]

        def done() -> None:
            if reservation is not None:
                self.streams.reserved(reservation)
            self.positions.update(zip(positions, numbers, strict=True))
            self.stream.committed(assignment, positions)

        self.commits.append(Commit(apply, done, lambda: self.stream.withdrawn(assignment)))

    def burn(self) -> None:
        """A very large transaction fails; the numbers of the sequence are nearly used up."""
        self.stream.withdrawn(self.stream.assign(0xFFFFFFF8))

    def finish_commit(self, is_done: bool) -> None:
        """The store has done what it was asked for first, or could not."""
        if self.commits:
            commit = self.commits.popleft()
            if is_done:
                commit.apply()
                commit.done()
            else:
                commit.failed()

    def crash(self, done: int) -> None:
        """The process dies; the store completed some more commits, without a report."""
        for commit in list(self.commits)[:done]:
            commit.apply()
        self.now = self.now.later(1)
        self.begin()

    def remove(self, positions: list[Position]) -> None:
        """These leave; until that is stored they are in the queue after a crash."""
        numbers = [self.positions.pop(position) for position in positions]

        def apply() -> None:
            for number in numbers:
                del self.store[number]

        def again() -> None:
            self.commits.append(commit)

        commit = Commit(apply, lambda: self.stream.removed(positions), again)
        self.commits.append(commit)

    def leave(self, outcome: AckOutcome[Position]) -> None:
        """Remove the messages that the receiver has acknowledged."""
        gone = [*outcome.delivered, *(settlement.message for settlement in outcome.settled)]
        if gone:
            self.remove(gone)

    def expire(self, index: int) -> int | None:
        """One message has waited too long."""
        if not self.positions:
            return None
        position = list(self.positions)[index % len(self.positions)]
        number = self.positions[position]
        self.stream.left([position])
        self.remove([position])
        return number

    def pump(self, limit: int) -> list[bytes]:
        """Send the messages that are due, as many as the session accepts."""
        due = self.stream.due(limit)
        assert self.locked.isdisjoint(due)
        for position in due:
            if position.view is None:
                position.view = UserMessageView(position.stored)
        self.locked.update(due)
        transmission = self.stream.transmit(due, self.now)
        self.locked.difference_update(transmission.held)
        self.leave(transmission.outcome)
        return [message.packet for message in transmission.outgoing]

    def give_back(self, positions: list[Position]) -> None:
        assert self.locked.issuperset(positions)
        self.locked.difference_update(positions)

    def reconnect(self) -> None:
        """The session is gone, and another has opened."""
        self.give_back(self.stream.disconnected())
        self.stream.connected(self.now)

    def hear(self, packet: bytes) -> None:
        """An acknowledgement arrives."""
        ack = read_acknowledgement(packet, ALPHA)
        assert ack is not None
        if isinstance(ack, OrderAck):
            found = self.streams.order_acknowledged(ack, self.now)
        else:
            found = self.streams.final_acknowledged(ack)
        if found is not None:
            self.leave(found[1])

    def advance(self, until: Moment) -> None:
        self.now = until
        for _, positions in self.streams.expire(self.now):
            self.give_back(positions)


class World:
    """Both nodes and all that was ever in transit between them.

    @ivar sent: every packet that the sender has sent, in order; C{fresh} the first that never arrived.
    @ivar acks: every acknowledgement, likewise.
    @ivar lost: messages that need not arrive: expired, or refused.
    """

    def __init__(self) -> None:
        self.sender = SendingNode()
        self.receiver = Receiver(settings=SETTINGS)
        self.sent: list[bytes] = []
        self.fresh = 0
        self.acks: list[bytes] = []
        self.fresh_acks = 0
        self.lost: set[int] = set()

    def deliver(self, packet: bytes, *, is_full: bool = False) -> None:
        view = UserMessageView(packet)
        (verdict,) = self.receiver.classify(packet, address="TCP:127.0.0.1")
        if is_full:
            self.receiver.streams.take_back()
            if verdict is Verdict.ACCEPTED:
                self.receiver.accepted.pop()
            return
        number = int(bytes(view.body))
        if verdict is Verdict.ACCEPTED and number % REFUSED_EVERY == 0:
            self.receiver.accepted.pop()
            self.lost.add(number)
            ack = final_ack(
                view,
                MessageClass.NACK_ACCESS_DENIED,
                answer_to=ALPHA,
                source=BETA,
                message_id=1,
                sent_time=0,
            )
            self.acks.append(ack.to_bytes())

    def step(self, name: str, amount: int) -> None:
        """One thing happens."""
        sender, receiver = self.sender, self.receiver
        match name:
            case "go on":
                for work in WORK[:amount]:
                    self.step(work, 9)
            case "put":
                sender.put(amount % 4 + 1)
            case "burn":
                sender.burn()
            case "commit":
                sender.finish_commit(amount % 4 > 0)
            case "pump":
                self.sent += sender.pump(amount)
            case "reconnect":
                sender.reconnect()
            case "kill the sender":
                sender.crash(amount % 3)
            case "expire":
                number = sender.expire(amount)
                if number is not None:
                    self.lost.add(number)
            case "arrive":
                for packet in self.sent[self.fresh : self.fresh + amount]:
                    self.deliver(packet)
                self.fresh = min(len(self.sent), self.fresh + amount)
            case "be full" if self.fresh < len(self.sent):
                self.deliver(self.sent[self.fresh], is_full=True)
                self.fresh += 1
            case "lose":
                self.fresh = min(len(self.sent), self.fresh + amount)
            case "stray" if self.sent:
                self.deliver(self.sent[-1 - amount * 7 % len(self.sent)])
            case "hear":
                for packet in self.acks[self.fresh_acks : self.fresh_acks + amount]:
                    sender.hear(packet)
                self.fresh_acks = min(len(self.acks), self.fresh_acks + amount)
            case "stray ack" if self.acks:
                sender.hear(self.acks[-1 - amount * 7 % len(self.acks)])
            case "store" if receiver.in_turn is None:
                receiver.begin()
            case "stored" if receiver.in_turn is not None:
                receiver.stored()
            case "store fails" if receiver.in_turn is not None:
                receiver.failed()
                sender.reconnect()
            case "kill the receiver":
                if receiver.in_turn is not None and amount % 2:
                    receiver.write()
                self.receiver = receiver.restart()
                sender.reconnect()
            case "time":
                self.advance(0.3 * amount)
            case "much time":
                self.advance(40 * amount)

    def advance(self, seconds: float) -> None:
        for owed in self.receiver.advance(seconds):
            self.acks.append(order_ack(owed, source=BETA, message_id=1, sent_time=0).to_bytes())
        self.sender.advance(self.sender.now.later(seconds))

    def settle(self) -> None:
        """From now on nothing fails, and nothing is lost."""
        receiver = self.receiver
        if receiver.in_turn is not None:
            receiver.stored()
        for _ in range(60):
            while self.sender.commits:
                self.sender.finish_commit(True)
            self.step("pump", 64)
            self.step("arrive", 1000)
            receiver.begin()
            receiver.stored()
            self.advance(1)
            self.step("hear", 1000)
            if not self.sender.store:
                return
            deadline = self.sender.streams.deadline
            if not self.sender.stream.due(1) and deadline is not None:
                self.advance(max(0.0, deadline - self.sender.now.monotonic))

    def delivered(self) -> list[int]:
        return [int(body) for body in self.receiver.queue]


WORK = ("commit", "pump", "arrive", "store", "stored", "time", "hear", "commit", "put", "commit", "pump")
"""How messages go their way when nothing is in it."""

STEPS = (
    "go on",
    "go on",
    "go on",
    "go on",
    "put",
    "put",
    "commit",
    "commit",
    "pump",
    "pump",
    "arrive",
    "arrive",
    "store",
    "stored",
    "hear",
    "time",
    "burn",
    "expire",
    "reconnect",
    "kill the sender",
    "kill the receiver",
    "lose",
    "be full",
    "stray",
    "stray ack",
    "store fails",
    "much time",
)
# Lists are five long on the average unless they have to be longer.
histories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 12)), min_size=40, max_size=160)


class ExactlyOnceTests(SynchronousTestCase):
    def live_through(self, history: Iterable[tuple[str, int]]) -> None:
        """Look at both stores after every step, and at the end, when nothing fails any more."""
        world = World()
        for name, amount in history:
            world.step(name, amount)
            delivered = world.delivered()
            self.assertEqual(delivered, sorted(set(delivered)))
            self.assertLessEqual(set(delivered), world.sender.committed)
        world.settle()
        delivered = world.delivered()
        self.assertEqual(delivered, sorted(set(delivered)))
        self.assertLessEqual(world.sender.committed - world.lost, set(delivered))
        self.assertEqual(world.sender.store, {})
        self.assertTrue(world.sender.stream.is_empty)

    @given(histories)
    def test_every_message_once_and_in_order(self, history: list[tuple[str, int]]) -> None:
        """After any interruption, both stores hold the expected messages."""
        self.live_through(history)

    def test_long_lives(self) -> None:
        """The same for longer histories, in each of which some steps are frequent and others never occur."""
        for seed in range(examples(150)):
            chance = Random(seed)
            weights = [chance.random() * (chance.random() < 0.8) for _ in STEPS]
            names = chance.choices(STEPS, weights, k=chance.randint(1, 150))
            self.live_through([(name, chance.randint(0, 12)) for name in names])
