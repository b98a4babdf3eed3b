"""Messages whose journal copy waits for an acknowledgement, and answers in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateChange, StateError
from msmq.queues.arriving.message import Acknowledge
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.awaiting_acknowledgements import (
    ANSWERS,
    MESSAGES,
    MOST_ANSWERS,
    AwaitingAcknowledgements,
    AwaitingValue,
    SourceSettlement,
    WaitEnd,
)
from msmq.transfer.source_journaling import (
    AWAITS_RECEIPT,
    KEEPS_DEAD_LETTER,
    AwaitedMessage,
    MessageAnswer,
    answered_destination,
    asks_for_proof,
    end_of_wait,
    source_disposal,
    wanted_of_source,
)
from msmq.transfer.stream_changes import Disposal
from tests.builders import ALPHA, BETA, GAMMA
from tests.nodes.scripted import NEGATIVE, POSITIVE, transactional

ORDERS = "DIRECT=TCP:10.0.0.1\\private$\\Orders"
ADMIN, OTHER = UUID(int=0xAD), UUID(int=0xAE)
ARRIVED, RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE
FULL, PURGED = MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_Q_PURGED
NOW = 1_700_000_000
FOREVER = 0xFFFFFFFF


def message(number: int, wanted: int = 0, **kwargs: Any) -> AwaitedMessage:
    properties: dict[str, Any] = {"destination": ORDERS, "owner": None, "admin_queue": ADMIN, "due": NOW + 10}
    return AwaitedMessage(message_id=number, wanted=wanted, **{**properties, **kwargs})


def answer(number: int, message_class: int = ARRIVED, **kwargs: Any) -> MessageAnswer:
    properties: dict[str, Any] = {"destination": ORDERS.lower(), "source": BETA, "admin_queue": ADMIN}
    return MessageAnswer(message_id=number, message_class=message_class, **{**properties, **kwargs})


class ProofTable:
    """The table, its store, and the queue in which its messages are.

    @ivar state: the stored values.
    @ivar kept: LookupIdentifiers of the messages in the queue.
    @ivar sending: the number of messages in the outgoing queue.
    @ivar ends: the result of each message.
    """

    def __init__(self, limit: int = 100, *, foreign: bool = False) -> None:
        self.limit = limit
        self.foreign = foreign
        self.state: dict[str, bytes] = {}
        self.kept: set[int] = set()
        self.count = 10
        self.ends: list[tuple[int, Disposal, int]] = []
        self.core = self._make()

    def _make(self) -> AwaitingAcknowledgements:
        return AwaitingAcknowledgements(self.limit, lambda owner: self.foreign)

    @property
    def sending(self) -> dict[str, int]:
        return {ORDERS.lower(): self.count} if self.count else {}

    def apply(self, changes: Sequence[StateChange]) -> None:
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def hand_over(self, *messages: AwaitedMessage) -> None:
        """The session acknowledges them, and the consequences are stored; each has its number."""
        value = self.begin(*messages)
        if value is not None:
            self.settle(self.core.stored(value))

    def begin(self, *messages: AwaitedMessage) -> AwaitingValue | None:
        """As before, but what the value causes is yet to come."""
        self.count -= len(messages)
        proven = [(each, self.core.handed_over(each)) for each in messages]
        waiting = [each for each, settlement in proven if settlement is None]
        self.settle([settlement for _, settlement in proven if settlement is not None])
        if not waiting:
            return None
        value = self.core.add(waiting, [each.message_id for each in waiting])
        self.kept |= {each.message_id for each in waiting}
        self.apply([] if value.change is None else [value.change])
        return value

    def say(self, *answers: MessageAnswer) -> None:
        """These acknowledgements come, and all that follows is stored."""
        value = self.core.answer(answers)
        self.apply([] if value.change is None else [value.change])
        self.settle(self.core.answered(value, self.sending))

    def settle(self, settlements: Sequence[SourceSettlement]) -> None:
        for each in settlements:
            self.kept.discard(each.lookup_id or 0)
            self.ends.append((each.message.message_id, each.disposal, each.message_class))
        self.apply(self.core.take_changes())
        self.core.settled(settlements)

    def restart(self, now: float = NOW) -> None:
        """Another life on the same store."""
        self.core = self._make()
        self.core.load(self.state, self.kept, self.sending, now)
        self.settle(self.core.answered_before())

    def verify_empty(self, case: SynchronousTestCase) -> None:
        """Assert that no message waits, and the store holds no value."""
        self.apply(self.core.take_changes())
        case.assertEqual((len(self.core), self.kept, self.state, self.core.due), (0, set(), {}, None))


class RuleTests(SynchronousTestCase):
    """Which messages wait, for what, and for how long."""

    def packet(self, acknowledge: int, flags: int = POSITIVE, **kwargs: Any) -> UserMessageView:
        packet = transactional(b"", (0, 1, 0), user_flags=flags, acknowledge=acknowledge, **kwargs)
        return UserMessageView(packet)

    def test_messages_that_wait(self) -> None:
        """Those that request a copy and a positive acknowledgement, outside a transaction."""
        plain: dict[str, Any] = {"is_transactional": False}
        self.assertTrue(asks_for_proof(self.packet(Acknowledge.POSITIVE_ARRIVAL, **plain)))
        self.assertTrue(asks_for_proof(self.packet(Acknowledge.POSITIVE_RECEIVE, **plain)))
        negative = Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
        self.assertFalse(asks_for_proof(self.packet(negative, **plain)))
        self.assertFalse(asks_for_proof(self.packet(Acknowledge.POSITIVE_ARRIVAL, NEGATIVE, **plain)))
        self.assertFalse(asks_for_proof(self.packet(Acknowledge.POSITIVE_ARRIVAL)))

    def test_what_is_wanted(self) -> None:
        """Receipt, where it is requested; a dead letter, where that is."""
        both = POSITIVE | NEGATIVE
        plain: dict[str, Any] = {"is_transactional": False}
        self.assertEqual(wanted_of_source(self.packet(Acknowledge.POSITIVE_ARRIVAL, **plain)), 0)
        full = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE
        self.assertEqual(
            wanted_of_source(self.packet(full, both, **plain)), AWAITS_RECEIPT | KEEPS_DEAD_LETTER
        )

    def test_outcomes(self) -> None:
        """ACK_RECEIVE journals; ACK_REACH_QUEUE if that was all; everything else is a failure."""
        self.assertEqual(source_disposal(RECEIVED, 0), Disposal.JOURNAL)
        self.assertEqual(source_disposal(RECEIVED, AWAITS_RECEIPT), Disposal.JOURNAL)
        self.assertEqual(source_disposal(ARRIVED, 0), Disposal.JOURNAL)
        self.assertIsNone(source_disposal(ARRIVED, AWAITS_RECEIPT))
        for refused in (FULL, PURGED):
            self.assertEqual(source_disposal(refused, AWAITS_RECEIPT), Disposal.FORGET)
            self.assertEqual(source_disposal(refused, KEEPS_DEAD_LETTER), Disposal.DEAD_LETTER)

    def test_end_of_the_wait(self) -> None:
        """A wait begins at the time limit of its message, or at the handover if that is later."""

        def end(acknowledge: int, reach: int, receive: int) -> int:
            view = self.packet(acknowledge, times=(reach, receive, NOW - 5), is_transactional=False)
            return end_of_wait(view, NOW + 0.5, 100) - NOW

        arrival, receipt = Acknowledge.POSITIVE_ARRIVAL, Acknowledge.POSITIVE_RECEIVE
        self.assertEqual(end(arrival, 60, FOREVER), 155)
        self.assertEqual(end(arrival, 60, 20), 115)
        self.assertEqual(end(arrival, FOREVER, FOREVER), 101)
        self.assertEqual(end(receipt, 60, 80), 175)
        self.assertEqual(end(receipt, 60, FOREVER), 101)
        self.assertEqual(end(receipt, 1, 2), 101)

    def test_answers_about_what_was_sent_here(self) -> None:
        """An acknowledgement about a message of another queue manager is not looked at."""
        self.assertIsNone(answered_destination(self.packet(0, is_transactional=False), ALPHA))


class MeetingTests(SynchronousTestCase):
    """Messages and answers find each other."""

    def setUp(self) -> None:
        self.table = ProofTable()

    def test_either_order(self) -> None:
        """A message ends when both have come."""
        table = self.table
        table.hand_over(message(1))
        table.say(answer(1), answer(2))
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, ARRIVED)])
        self.assertTrue(table.core.has_early)
        table.hand_over(message(2))
        self.assertFalse(table.core.has_early)
        self.assertEqual(table.ends[1:], [(2, Disposal.JOURNAL, ARRIVED)])
        table.verify_empty(self)

    def test_before_the_move_is_stored(self) -> None:
        """An answer that comes while the move is being stored counts once it is."""
        table = self.table
        value = table.begin(message(1))
        table.say(answer(1))
        self.assertEqual(table.ends, [])
        assert value is not None
        table.settle(table.core.stored(value))
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, ARRIVED)])
        table.verify_empty(self)

    def test_an_answer_that_is_not_stored(self) -> None:
        """It does not count."""
        self.table.hand_over(message(1))
        self.table.core.answer([answer(1)])
        self.assertEqual((self.table.ends, len(self.table.core)), ([], 1))

    def test_values_stay_for_each_other(self) -> None:
        """A value is removed only when the last of what it holds is settled, and that is stored."""
        table = self.table
        table.hand_over(message(1), message(2))
        value = table.core.answer([answer(1)])
        [first] = table.core.answered(value, table.sending)
        other = table.core.answer([answer(2)])
        [second] = table.core.answered(other, table.sending)
        table.core.settled([second])
        self.assertEqual([name for name, _ in table.core.take_changes()], [f"{ANSWERS}2"])
        table.core.settled([first])
        self.assertEqual({name for name, _ in table.core.take_changes()}, {f"{ANSWERS}1", f"{MESSAGES}1"})

    def test_the_first_that_decides(self) -> None:
        """Later acknowledgements, and those that do not decide, change nothing."""
        table = self.table
        table.say(answer(1), answer(1, PURGED), answer(1, RECEIVED))
        table.hand_over(message(1, AWAITS_RECEIPT))
        self.assertEqual(table.ends, [(1, Disposal.FORGET, PURGED)])
        table.verify_empty(self)

    def test_answer_about_a_message_that_has_left(self) -> None:
        """An answer about a message that has left without waiting counts for no other."""
        table = self.table
        table.say(answer(1))
        table.core.forget(ORDERS, 1)
        table.hand_over(message(1))
        self.assertEqual((table.ends, len(table.core)), ([], 1))

    def test_destinations(self) -> None:
        """One message to two queues waits for each separately, case-insensitively."""
        other = "PRIVATE=be7a0000-0000-4000-8000-000000000002\\00000010"
        table = self.table
        table.hand_over(message(1))
        table.core.add([message(1, destination=other)], [77])
        table.say(answer(1, FULL, destination=other.upper()))
        self.assertEqual(
            [table.core.is_awaited(message(1, destination=name)) for name in (ORDERS, other)], [True, False]
        )
        table.say(answer(1, destination=ORDERS.upper()))
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, ARRIVED)])

    def test_credibility(self) -> None:
        """Only the owner says that it arrived, any gate that it did not, each in its administration queue."""
        table = self.table
        table.hand_over(message(1, owner=GAMMA), message(2, owner=GAMMA))
        table.say(answer(1), answer(1, RECEIVED), answer(1, source=GAMMA, admin_queue=OTHER))
        self.assertEqual(table.ends, [])
        table.say(answer(1, source=GAMMA), answer(2, FULL))
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, ARRIVED), (2, Disposal.FORGET, FULL)])
        table.verify_empty(self)

    def test_foreign_sites(self) -> None:
        """Other queue managers report arrivals for those of a foreign site."""
        self.table.foreign = True
        self.table.hand_over(message(1, owner=GAMMA))
        self.table.say(answer(1))
        self.assertEqual(self.table.ends, [(1, Disposal.JOURNAL, ARRIVED)])


class BoundTests(SynchronousTestCase):
    """Limits on the state that peers and applications can cause."""

    def test_early_answers(self) -> None:
        """As many as messages are in the outgoing queue; of more than these the latest."""
        table = ProofTable()
        table.count = 3
        for number in range(20):
            table.say(answer(number))
        table.apply(table.core.take_changes())
        self.assertEqual(len(table.state), 3)
        table.hand_over(message(18))
        self.assertEqual(table.ends, [(18, Disposal.JOURNAL, ARRIVED)])
        table.count = 0
        table.core.sweep(table.sending)
        table.verify_empty(self)

    def test_answers_about_one(self) -> None:
        """Repeated answers about one message are few."""
        table = ProofTable()
        table.hand_over(message(1, AWAITS_RECEIPT))
        for _ in range(20):
            table.say(answer(1))
        table.apply(table.core.take_changes())
        self.assertEqual(len(table.state), 1 + MOST_ANSWERS)
        table.say(answer(1, RECEIVED))
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, RECEIVED)])
        table.verify_empty(self)

    def test_the_limit(self) -> None:
        """Beyond it the oldest end, one for each one more."""
        table = ProofTable(limit=2)
        for number, ended in ((1, []), (2, []), (3, [1]), (4, [1, 2])):
            table.hand_over(message(number))
            self.assertEqual([each for each, _, _ in table.ends], ended)
        table.say(answer(3), answer(4))
        table.ends.clear()
        table.hand_over(message(1, KEEPS_DEAD_LETTER))
        table.hand_over(message(2), message(3), message(4))
        timeout = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        self.assertEqual(
            sorted(table.ends), [(1, Disposal.DEAD_LETTER, timeout), (2, Disposal.FORGET, timeout)]
        )
        table.say(answer(3), answer(4))
        table.verify_empty(self)

    def test_another_limit(self) -> None:
        """A limit that is changed while messages wait applies with the next one."""
        table = ProofTable()
        table.hand_over(message(1), message(2), message(3))
        table.core.configure(2)
        table.hand_over(message(4))
        self.assertEqual([number for number, _, _ in table.ends], [1, 2])

    def test_seconds_are_forgotten(self) -> None:
        """Messages that were settled leave nothing, however many different ends of waits they had."""
        table = ProofTable()
        for number in range(1, 1000):
            table.count += 1
            table.hand_over(message(number, due=NOW + 10_000 - number))
            table.say(answer(number))
        self.assertLess(len(table.core._seconds), 200)
        table.verify_empty(self)


class WaitTests(SynchronousTestCase):
    """Waits end."""

    def test_in_order(self) -> None:
        """The earliest first, a limited number at a time, and never before their second."""
        table = ProofTable()
        table.hand_over(message(1, due=NOW + 20), message(2, due=NOW + 10), message(3, due=NOW + 20))
        self.assertEqual(table.core.due, NOW + 10)
        self.assertEqual(table.core.expire(NOW + 9.9, 10), [])
        [end] = table.core.expire(NOW + 10, 10)
        self.assertEqual((end.message.message_id, end.end, table.core.due), (2, WaitEnd.EXPIRED, NOW + 20))
        self.assertEqual(len(table.core.expire(NOW + 99, 1)), 1)
        self.assertEqual(len(table.core.expire(NOW + 99, 1)), 1)
        self.assertEqual((table.core.due, len(table.core)), (None, 0))

    def test_portions(self) -> None:
        """A call ends as many waits as it may, from several seconds."""
        table = ProofTable()
        table.hand_over(*(message(number, due=NOW + number // 3) for number in range(3, 20)))
        counts = [len(table.core.expire(NOW + 99, most)) for most in (4, 5, 0, 7, 7)]
        self.assertEqual(counts, [4, 5, 0, 7, 1])

    def test_what_is_known_by_then(self) -> None:
        """The class says whether the arrival was acknowledged by a trusted peer."""
        table = ProofTable()
        table.hand_over(message(1, AWAITS_RECEIPT), message(2, AWAITS_RECEIPT))
        table.say(answer(1), answer(2, admin_queue=OTHER))
        ends = {each.message.message_id: each.message_class for each in table.core.expire(NOW + 99, 10)}
        arrived, unknown = MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_REACH_QUEUE_TIMEOUT
        self.assertEqual(ends, {1: arrived, 2: unknown})

    def test_after_a_start(self) -> None:
        """Acknowledgements in transit arrive before waits end that have expired: within ten minutes."""
        table = ProofTable()
        table.hand_over(message(1))
        table.restart(NOW + 100)
        self.assertEqual((table.core.due, table.core.expire(NOW + 699, 10)), (NOW + 700, []))
        self.assertEqual(len(table.core.expire(NOW + 700, 10)), 1)


class StoredTests(SynchronousTestCase):
    """Content of the store."""

    def test_everything_comes_back(self) -> None:
        """Messages with all that is known of them, and answers."""
        table = ProofTable()
        owned = message(1, AWAITS_RECEIPT, owner=GAMMA, destination="PUBLIC=\U0001d518", due=1 << 40)
        table.hand_over(owned, message(2, KEEPS_DEAD_LETTER))
        table.say(answer(1, source=GAMMA, destination=owned.destination), answer(3))
        table.restart()
        [settled] = table.core.expire(1 << 41, 1)
        self.assertEqual((settled.message.message_id, len(table.core)), (2, 1))
        [settled] = table.core.expire(1 << 41, 1)
        self.assertEqual(settled.message, attrs.evolve(owned))
        self.assertEqual(settled.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)
        table.hand_over(message(3))
        self.assertEqual(table.ends, [(3, Disposal.JOURNAL, ARRIVED)])

    def test_a_crash_before_the_settlement(self) -> None:
        """Answers that were stored settle their messages after the start."""
        table = ProofTable()
        table.hand_over(message(1))
        value = table.core.answer([answer(1)])
        table.apply([] if value.change is None else [value.change])
        table.restart()
        self.assertEqual(table.ends, [(1, Disposal.JOURNAL, ARRIVED)])
        table.verify_empty(self)

    def test_what_was_settled(self) -> None:
        """Messages that are not in their queue any more, and answers about them, are forgotten."""
        table = ProofTable()
        table.hand_over(message(1))
        value = table.core.answer([answer(1)])
        table.apply([] if value.change is None else [value.change])
        table.kept.clear()
        table.count = 0
        table.restart()
        self.assertEqual(table.ends, [])
        table.verify_empty(self)

    def test_express(self) -> None:
        """Nothing is stored for express messages."""
        table = ProofTable()
        table.hand_over(message(1, is_recoverable=False))
        table.say(answer(2, is_recoverable=False))
        self.assertEqual(table.state, {})
        table.say(answer(1, is_recoverable=False))
        table.hand_over(message(2, is_recoverable=False))
        self.assertEqual(len(table.ends), 2)

    def test_names_are_not_used_twice(self) -> None:
        """Values added after a start continue the existing numbers; the first are 1."""
        table = ProofTable()
        table.restart()
        table.hand_over(message(1))
        table.say(answer(9))
        table.restart()
        table.hand_over(message(2))
        self.assertEqual(set(table.state), {f"{MESSAGES}1", f"{ANSWERS}1", f"{MESSAGES}2"})

    def test_damage_stops_the_start(self) -> None:
        """A value that cannot be read is not passed over."""
        table = ProofTable()
        table.hand_over(message(1))
        table.say(answer(2))
        for (name, value), record in zip(table.state.items(), (25, 10), strict=True):
            unknown_context = value[:-record] + b"\1" + value[1 - record :]
            for damaged in (value[:-1], value + b"\0", b"\2" + value[1:], unknown_context):
                with self.assertRaises(StateError, msg=f"{name} {damaged!r}"):
                    ProofTable().core.load({name: damaged}, {1}, {ORDERS.lower(): 1}, NOW)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hand over"), st.integers(1, 4)),
        st.tuples(st.just("say"), st.integers(1, 4)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=20,
)


class AnyOrderTests(SynchronousTestCase):
    """Any order of handovers, answers and restarts."""

    @given(STEPS)
    def test_each_ends_once(self, steps: list[tuple[str, int]]) -> None:
        """A message ends exactly once, as soon as it was handed over and answered; nothing is left of it."""
        table = ProofTable()
        handed: set[int] = set()
        said: set[int] = set()
        for step, number in steps:
            if step == "restart":
                table.restart()
            elif step == "say" and number not in said:
                said.add(number)
                table.say(answer(number))
            elif step == "hand over" and number not in handed:
                handed.add(number)
                table.hand_over(message(number))
            ended = sorted(each for each, _, _ in table.ends)
            self.assertEqual(ended, sorted(handed & said))
        for number in {1, 2, 3, 4} - handed:
            table.hand_over(message(number))
        table.say(*(answer(number) for number in {1, 2, 3, 4} - said))
        self.assertEqual(sorted(each for each, _, _ in table.ends), [1, 2, 3, 4])
        table.count = 0
        table.core.sweep(table.sending)
        table.verify_empty(self)
