"""[MS-MQQB] 3.1.1.3.1 AwaitingFinalACKTable, and 3.1.5.7."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateChange, StateError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.awaiting_final_acks import PREFIX, AwaitingFinalAcks, AwaitingPage
from msmq.transfer.stream_changes import (
    WANTS_DEAD_LETTER,
    WANTS_FINAL_ACK,
    WANTS_JOURNAL,
    Disposal,
    SettledMessage,
    UnorderedMessage,
)
from tests.builders import ALPHA, BETA
from tests.transfer.support import Position, transactional_packet

X = 1_700_000_000 << 32 | 1
RECEIVED = MessageClass.ACK_RECEIVE
REFUSED = MessageClass.NACK_Q_PURGED


def transfer(number: int, wanted: int = WANTS_JOURNAL, sequence: int = X) -> UnorderedMessage[Position]:
    position = Position(transactional_packet(place=(sequence, number, number - 1)))
    return UnorderedMessage(position, sequence, number, message_id=100 + number, wanted=wanted)


def ack(number: int, message_class: int = RECEIVED, sequence: int = X) -> FinalAck:
    return FinalAck(
        AckEnvelope(BETA, ALPHA),
        message_class,
        TxSequenceID.from_value(sequence),
        number,
        number - 1,
        ALPHA,
        100 + number,
    )


class Table:
    """The table, its store, and the queue in which its messages lie.

    @ivar state: what the store keeps.
    @ivar kept: LookupIdentifiers of the messages in the queue.
    """

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.core = AwaitingFinalAcks(ALPHA, limit)
        self.state: dict[str, bytes] = {}
        self.kept: set[int] = set()

    def apply(self, changes: Sequence[StateChange]) -> None:
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def add(self, *transfers: UnorderedMessage[Position]) -> AwaitingPage:
        """They are order-acknowledged, and their move is stored; they lie under ten times their numbers."""
        page = self.begin(*transfers)
        assert self.core.stored(page) == []
        return page

    def begin(self, *transfers: UnorderedMessage[Position]) -> AwaitingPage:
        lookup_ids = [10 * one.number for one in transfers]
        page = self.core.add(transfers, lookup_ids)
        self.apply([page.change])
        self.kept.update(lookup_ids)
        return page

    def remove(self, settlements: Sequence[SettledMessage[int]]) -> None:
        """They leave one by one, and that is stored."""
        for settlement in settlements:
            self.kept.discard(settlement.message)
            self.apply(self.core.take_changes(settlement.message))
            self.core.removed(settlement.message)

    def restart(self) -> None:
        self.core = AwaitingFinalAcks(ALPHA, self.limit)
        self.apply(self.core.load(self.state, self.kept))


class FinalAckTests(SynchronousTestCase):
    def test_a_received_message_goes_to_the_journal(self) -> None:
        """ACK_RECEIVE, and JP was set."""
        table = Table()
        table.add(transfer(1, WANTS_JOURNAL))
        self.assertEqual(
            table.core.final_acknowledged(ack(1)), [SettledMessage(10, RECEIVED, Disposal.JOURNAL)]
        )

    def test_a_failed_message_becomes_a_dead_letter(self) -> None:
        """Any other class, and JN was set."""
        table = Table()
        table.add(transfer(1, WANTS_DEAD_LETTER))
        settled = table.core.final_acknowledged(ack(1, REFUSED))
        self.assertEqual(settled, [SettledMessage(10, REFUSED, Disposal.DEAD_LETTER)])

    def test_it_leaves_in_every_case(self) -> None:
        """MQQB-3.1.5.7-05: for any request and any result; a second one has no effect."""
        for wanted, message_class in (
            (WANTS_JOURNAL, REFUSED),
            (WANTS_DEAD_LETTER, RECEIVED),
            (WANTS_FINAL_ACK, RECEIVED),
            (WANTS_FINAL_ACK, REFUSED),
        ):
            table = Table()
            table.add(transfer(1, wanted))
            settled = table.core.final_acknowledged(ack(1, message_class))
            self.assertEqual(settled, [SettledMessage(10, message_class, Disposal.FORGET)])
            self.assertIs(table.core.final_acknowledged(ack(1, message_class)), None)
            self.assertEqual(len(table.core), 0)

    def test_all_of_it_has_to_fit(self) -> None:
        """Another sequence, number, MessageID or source is about another message."""
        table = Table()
        table.add(transfer(1))
        for wrong in (
            ack(1, sequence=X + 1),
            ack(2),
            attrs.evolve(ack(1), message_id=7),
            attrs.evolve(ack(1), source_guid=BETA),
        ):
            self.assertIs(table.core.final_acknowledged(wrong), None)
        self.assertEqual(len(table.core), 1)

    def test_one_that_comes_while_the_move_is_stored(self) -> None:
        """It is remembered, and applied when the message is stored where it was moved to."""
        table = Table()
        page = table.begin(transfer(1), transfer(2))
        self.assertEqual(table.core.final_acknowledged(ack(1)), [])
        self.assertEqual(table.core.stored(page), [SettledMessage(10, RECEIVED, Disposal.JOURNAL)])
        self.assertEqual(len(table.core), 1)

    def test_all_may_come_while_the_move_is_stored(self) -> None:
        """Then the page says nothing any more as soon as it is stored."""
        table = Table()
        page = table.begin(transfer(1))
        table.core.final_acknowledged(ack(1))
        table.remove(table.core.stored(page))
        self.assertEqual((table.state, table.kept), ({}, set()))

    def test_the_messages_of_a_sequence_are_counted(self) -> None:
        """EodNoReadCount: order-acknowledged, and no FinalAck yet."""
        table = Table()
        table.add(transfer(1), transfer(2), transfer(1, sequence=X + 1))
        table.core.final_acknowledged(ack(2))
        self.assertEqual([table.core.in_sequence(X + n) for n in range(3)], [1, 1, 0])
        table.core.final_acknowledged(ack(1))
        self.assertEqual(table.core.in_sequence(X), 0)

    def test_the_pages_of_a_sequence_are_listed(self) -> None:
        """The oldest first, with the range of their messages, until the store has removed them."""
        table = Table()
        table.add(transfer(1), transfer(2))
        table.add(transfer(3), transfer(1, sequence=X + 1))

        def seen(sequence: int) -> list[tuple[int, int]]:
            return [(page.first, page.last) for page in table.core.pages(sequence)]

        self.assertEqual((seen(X), seen(X + 1), seen(X + 2)), ([(10, 20), (10, 30)], [(10, 30)], []))
        table.restart()
        self.assertEqual((seen(X), sorted(table.core.sequences())), ([(10, 20), (10, 30)], [X, X + 1]))
        for number in (1, 2):
            table.remove(table.core.final_acknowledged(ack(number)) or [])
        self.assertEqual((seen(X), seen(X + 1)), ([(10, 30)], [(10, 30)]))
        table.remove(table.core.final_acknowledged(ack(3)) or [])
        table.remove(table.core.final_acknowledged(ack(1, sequence=X + 1)) or [])
        self.assertEqual((seen(X), seen(X + 1), list(table.core.sequences())), ([], [], []))


class LimitTests(SynchronousTestCase):
    def test_the_oldest_are_given_up(self) -> None:
        """A sender that asked for dead letters gets one, since the result is unknown."""
        table = Table(limit=2)
        table.add(transfer(1, WANTS_DEAD_LETTER), transfer(2, WANTS_JOURNAL))
        page = table.add(transfer(3), transfer(4))
        self.assertEqual(
            page.evicted,
            [SettledMessage(10, 0, Disposal.DEAD_LETTER), SettledMessage(20, 0, Disposal.FORGET)],
        )
        table.remove(page.evicted)
        self.assertEqual((len(table.core), len(table.state)), (2, 1))

    def test_a_page_that_is_larger_than_the_table(self) -> None:
        """Entries beyond the limit are reported once the page is stored."""
        table = Table(limit=1)
        page = table.begin(transfer(1, WANTS_DEAD_LETTER), transfer(2))
        self.assertEqual(page.evicted, [])
        self.assertEqual(table.core.stored(page), [SettledMessage(10, 0, Disposal.DEAD_LETTER)])


class RestartTests(SynchronousTestCase):
    def test_the_table_survives(self) -> None:
        """MQQB-3.1.1.3.1-20: OrderAck, restart, FinalAck, and the message goes to the journal."""
        table = Table()
        table.add(transfer(1), transfer(2, WANTS_DEAD_LETTER))
        table.restart()
        self.assertEqual(
            table.core.final_acknowledged(ack(1)), [SettledMessage(10, RECEIVED, Disposal.JOURNAL)]
        )
        self.assertEqual(
            table.core.final_acknowledged(ack(2, REFUSED)),
            [SettledMessage(20, REFUSED, Disposal.DEAD_LETTER)],
        )

    def test_removed_messages_are_not_waited_for(self) -> None:
        """A page is not written again; the queue says which of its messages are left."""
        table = Table()
        table.add(transfer(1), transfer(2))
        table.remove(table.core.final_acknowledged(ack(1)) or [])
        self.assertEqual(len(table.state), 1)
        table.restart()
        self.assertEqual(len(table.core), 1)
        self.assertIs(table.core.final_acknowledged(ack(1)), None)

    def test_pages_without_messages_go(self) -> None:
        """With the last message, or when the next process begins."""
        table = Table()
        table.add(transfer(1))
        table.add(transfer(2))
        table.remove(table.core.final_acknowledged(ack(1)) or [])
        self.assertEqual(set(table.state), {f"{PREFIX}2"})
        table.kept.clear()
        table.restart()
        self.assertEqual(table.state, {})

    def test_a_page_stays_with_its_last_message(self) -> None:
        """Two are settled at once: a kill between their removals leaves the second with its entry."""
        for first, second in ((1, 2), (2, 1)):
            table = Table()
            table.add(transfer(1), transfer(2))
            settled = {n: table.core.final_acknowledged(ack(n)) or [] for n in (1, 2)}
            table.remove(settled[first])
            table.restart()
            [again] = table.core.final_acknowledged(ack(second)) or []
            self.assertEqual(again, SettledMessage(10 * second, RECEIVED, Disposal.JOURNAL))
            table.remove([again])
            self.assertEqual(table.state, {})

    def test_a_sequence_counts_until_its_last_message_is_removed(self) -> None:
        """Its receivers are stored as long: a kill before that leaves a message for them to acknowledge."""
        table = Table()
        table.add(transfer(1))
        settled = table.core.final_acknowledged(ack(1)) or []
        self.assertEqual((X in table.core, table.core.in_sequence(X)), (True, 0))
        table.remove(settled)
        self.assertNotIn(X, table.core)

    def test_removals_that_are_stored_together(self) -> None:
        """Neither of two has the page removed while the other is not stored; what is next does."""
        table = Table()
        table.add(transfer(1), transfer(2))
        settled = [
            *(table.core.final_acknowledged(ack(1)) or []),
            *(table.core.final_acknowledged(ack(2)) or []),
        ]
        self.assertEqual([table.core.take_changes(each.message) for each in settled], [[], []])
        for each in settled:
            table.core.removed(each.message)
        table.add(transfer(3))
        table.remove(table.core.final_acknowledged(ack(3)) or [])
        self.assertEqual(table.state, {})

    def test_names_are_not_used_twice(self) -> None:
        """A new page does not overwrite one that is still there."""
        table = Table()
        table.add(transfer(1))
        table.restart()
        table.add(transfer(2))
        table.add(transfer(3))
        table.restart()
        self.assertEqual(len(table.core), 3)
        self.assertEqual([*table.state], [f"{PREFIX}{number}" for number in (1, 2, 3)])

    def test_damage_stops_the_start(self) -> None:
        """A page that is cut short, longer, or of another version is named."""
        table = Table()
        table.add(transfer(1), transfer(2))
        ((name, value),) = table.state.items()
        for other in [*(value[:size] for size in range(len(value))), value + b"\0", b"\2" + value[1:]]:
            error = self.assertRaises(StateError, AwaitingFinalAcks(ALPHA, 9).load, {name: other}, {10, 20})
            self.assertEqual(error.name, name)

    @given(
        st.integers(0, (1 << 64) - 1),
        st.integers(1, 0xFFFFFFFF),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, (1 << 64) - 1),
        st.integers(1, 7),
    )
    def test_any_entry_comes_back(
        self, sequence: int, number: int, message_id: int, lookup_id: int, wanted: int
    ) -> None:
        """Every number up to the largest of its field."""
        core = AwaitingFinalAcks(ALPHA, 9)
        one = transfer(number, wanted, sequence)
        one.message_id = message_id
        page = core.add([one], [lookup_id])
        name, value = page.change
        assert value is not None
        loaded = AwaitingFinalAcks(ALPHA, 9)
        self.assertEqual(loaded.load({name: value}, {lookup_id}), [])
        settled = loaded.final_acknowledged(
            attrs.evolve(ack(number, REFUSED, sequence), message_id=message_id)
        )
        disposal = Disposal.DEAD_LETTER if wanted & WANTS_DEAD_LETTER else Disposal.FORGET
        self.assertEqual(settled, [SettledMessage(lookup_id, REFUSED, disposal)])


class PageTests(SynchronousTestCase):
    """When a value of the store is removed."""

    def test_with_its_last_message(self) -> None:
        """However many it has, and also if that one left without being announced; and once."""
        for count in (1, 2, 3, 4):
            table = Table()
            table.add(*(transfer(number) for number in range(1, count + 1)))
            for number in range(1, count + 1):
                table.core.final_acknowledged(ack(number))
            for number in range(1, count + 1):
                self.assertEqual(table.core.take_changes(0), [])
                table.core.removed(10 * number)
                table.core.removed(10 * number)
            self.assertEqual(table.core.take_changes(0), [(name, None) for name in table.state])
            self.assertEqual(table.core.take_changes(0), [])

    def test_announced(self) -> None:
        """The removal of its last message takes the value along, and no earlier one does."""
        table = Table()
        table.add(transfer(1), transfer(2))
        for number in (1, 2):
            table.core.final_acknowledged(ack(number))
        self.assertEqual(table.core.take_changes(10), [])
        table.core.removed(10)
        [(name, value)] = table.core.take_changes(20)
        self.assertEqual((name in table.state, value), (True, None))
        table.core.removed(20)
        self.assertEqual(table.core.take_changes(0), [])

    def test_another_limit(self) -> None:
        """It applies with the next message: the oldest beyond it leave, and no more."""
        table = Table(limit=3)
        self.assertEqual(table.add(transfer(1), transfer(2), transfer(3)).evicted, [])
        table.core.configure(2)
        page = table.add(transfer(4))
        self.assertEqual([each.message for each in page.evicted], [10, 20])
        self.assertEqual(len(table.core), 2)
