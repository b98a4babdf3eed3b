"""The state machine of a cursor, as the document draws it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.queue import MessagePosition
from msmq.queues.reading.cursor import CURSOR_MACHINE, Cursor, CursorAnswer, CursorState
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.seek import END, START
from msmq.testing.diagrams import read_machine
from tests.queues.builders import NOW, ORDERS, create, model
from tests.queues.reading.handles import HandleTestCase

PEEK = "get_message_for_peek"
PEEK_NEXT = "get_next_message_for_peek"
DEQUEUE = "get_next_message_for_dequeue"


class Places:
    """A queue as far as a cursor sees it.

    @ivar next: what is in front of the cursor.
    @ivar current: what is at its position.
    """

    def __init__(self, next: MessagePosition | None, current: MessagePosition | None) -> None:
        self.next = next
        self.current = current

    def ahead(self) -> MessagePosition | None:
        return self.next

    def here(self) -> MessagePosition | None:
        return self.current


class FigureTests(HandleTestCase):
    """[MS-MQDMPR] 3.2.1.1, figure 3."""

    def setUp(self) -> None:
        super().setUp()
        self.message = MessagePosition(self.queue, 5, None, 1, 0.0)
        self.there = Places(self.message, self.message)
        self.nowhere = Places(None, None)

    def in_state(self, state: CursorState) -> Cursor:
        """A cursor that has come to this state."""
        cursor = self.cursor()
        match state:
            case CursorState.READ:
                cursor.inputs.get_message_for_peek(self.there)
            case CursorState.WAIT_PEEK:
                cursor.inputs.get_message_for_peek(self.nowhere)
            case CursorState.WAIT_RECEIVE:
                cursor.inputs.get_next_message_for_dequeue(self.nowhere, False)
        self.assertIs(cursor.state, state)
        return cursor

    def test_states(self) -> None:
        """MQDMPR-3.2.1.2-03: the four of the document, and no other."""
        names = {state.value for state in CursorState}
        self.assertEqual(names, {"Unread", "WaitReceive", "WaitPeek", "Read"})

    def test_from_unread(self) -> None:
        """MQDMPR-3.2.1.1-01: a look that finds something reads; what finds nothing waits."""
        for ask, places, state, answer in (
            (PEEK, self.there, CursorState.READ, CursorAnswer.SUCCEEDED),
            (PEEK, self.nowhere, CursorState.WAIT_PEEK, CursorAnswer.WAITING),
            (PEEK_NEXT, self.there, CursorState.UNREAD, CursorAnswer.ILLEGAL_CURSOR_ACTION),
        ):
            cursor = self.in_state(CursorState.UNREAD)
            getattr(cursor.inputs, ask)(places)
            self.assertEqual((cursor.state, cursor.answer), (state, answer))
        for places, no_wait, state, answer in (
            (self.there, False, CursorState.UNREAD, CursorAnswer.SUCCEEDED),
            (self.nowhere, False, CursorState.WAIT_RECEIVE, CursorAnswer.WAITING),
            (self.nowhere, True, CursorState.UNREAD, CursorAnswer.NOT_FOUND),
        ):
            cursor = self.in_state(CursorState.UNREAD)
            cursor.inputs.get_next_message_for_dequeue(places, no_wait)
            self.assertEqual((cursor.state, cursor.answer), (state, answer))

    def test_from_read(self) -> None:
        """MQDMPR-3.2.1.1-02: a receive takes what is there; a look that reaches the end waits."""
        for ask, arguments, state, answer in (
            (PEEK, (self.there,), CursorState.READ, CursorAnswer.SUCCEEDED),
            (PEEK, (self.nowhere,), CursorState.READ, CursorAnswer.ALREADY_RECEIVED),
            (PEEK_NEXT, (self.there,), CursorState.READ, CursorAnswer.SUCCEEDED),
            (PEEK_NEXT, (self.nowhere,), CursorState.WAIT_PEEK, CursorAnswer.WAITING),
            (DEQUEUE, (self.there, False), CursorState.UNREAD, CursorAnswer.SUCCEEDED),
            (DEQUEUE, (self.nowhere, False), CursorState.READ, CursorAnswer.ALREADY_RECEIVED),
        ):
            cursor = self.in_state(CursorState.READ)
            getattr(cursor.inputs, ask)(*arguments)
            self.assertEqual((cursor.state, cursor.answer), (state, answer))

    def test_from_wait_receive(self) -> None:
        """MQDMPR-3.2.1.1-03: both of its ends make it unread, at the message or at the end."""
        cursor = self.in_state(CursorState.WAIT_RECEIVE)
        cursor.inputs.message_available(self.message)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, 5))
        cursor = self.in_state(CursorState.WAIT_RECEIVE)
        cursor.inputs.wait_time_expired(False)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, END))

    def test_from_wait_peek(self) -> None:
        """MQDMPR-3.2.1.1-04: it has read what comes; if nothing comes it is unread, as the figure has it."""
        cursor = self.in_state(CursorState.WAIT_PEEK)
        cursor.inputs.message_available(self.message)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.READ, 5))
        cursor = self.in_state(CursorState.WAIT_PEEK)
        cursor.inputs.wait_time_expired(False)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, START))

    def test_waiting_cursors_refuse(self) -> None:
        """A second call is refused while a cursor waits (reading 40)."""
        for state in (CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE):
            for ask, arguments in (
                (PEEK, (self.there,)),
                (PEEK_NEXT, (self.there,)),
                (DEQUEUE, (self.there, False)),
            ):
                cursor = self.in_state(state)
                getattr(cursor.inputs, ask)(*arguments)
                self.assertEqual((cursor.state, cursor.answer), (state, CursorAnswer.ILLEGAL_CURSOR_ACTION))

    def test_the_arrows_of_the_figure(self) -> None:
        """Between its states the machine has the transitions of the figure, and no other."""
        machine = read_machine("cursor", CURSOR_MACHINE)
        ways = {(each.origin, each.target) for each in machine.transitions if each.origin != each.target}
        self.assertEqual(
            ways,
            {
                ("Unread", "Read"),
                ("Unread", "WaitPeek"),
                ("Unread", "WaitReceive"),
                ("Read", "WaitPeek"),
                ("Read", "Unread"),
                ("WaitPeek", "Read"),
                ("WaitPeek", "Unread"),
                ("WaitReceive", "Unread"),
            },
        )
        self.assertEqual(machine.missing, [])


def naively(state: CursorState, asked: int, is_there: bool) -> CursorState:
    """The state of a cursor after one call, in the words of 3.2.7.2 to 3.2.7.6."""
    match state, asked, is_there:
        case CursorState.UNREAD, 0, _:
            return CursorState.READ if is_there else CursorState.WAIT_PEEK
        case CursorState.READ, 1, False:
            return CursorState.WAIT_PEEK
        case CursorState.UNREAD, 3, False:
            return CursorState.WAIT_RECEIVE
        case CursorState.READ, 2 | 3, True:
            return CursorState.UNREAD
        case CursorState.WAIT_PEEK, 4, _:
            return CursorState.READ
        case CursorState.WAIT_RECEIVE, 4, _:
            return CursorState.UNREAD
        case CursorState.WAIT_PEEK | CursorState.WAIT_RECEIVE, 5, _:
            return CursorState.UNREAD
    return state


class AnyInputTests(SynchronousTestCase):
    """Any input of a cursor, at any time."""

    @given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
    def test_it_has_an_answer(self, calls: list[tuple[int, bool]]) -> None:
        """No call raises, and the state is the one that the words of the document give."""
        alpha = model()
        queue = create(alpha)
        handle = alpha.descriptors.open([ORDERS], QueueAccessType.RECEIVE, now=NOW)
        cursor = alpha.descriptors.open_cursor(handle)
        assert cursor is not None
        message = MessagePosition(queue, 5, None, 1, 0.0)
        expected = CursorState.UNREAD
        for asked, is_there in calls:
            expected = naively(expected, asked, is_there)
            places = Places(message, message) if is_there else Places(None, None)
            match asked:
                case 0:
                    cursor.inputs.get_message_for_peek(places)
                case 1:
                    cursor.inputs.get_next_message_for_peek(places)
                case 2 | 3:
                    cursor.inputs.get_next_message_for_dequeue(places, asked == 2)
                case 4:
                    cursor.inputs.message_available(message)
                case 5:
                    cursor.inputs.wait_time_expired(is_there)
            self.assertEqual(cursor.state, expected)
            self.assertEqual(queue.ends, int(cursor.reference == END))
