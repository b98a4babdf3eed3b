"""Memory that the packets of unread answers take together."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.http.answer_memory import AnswerMemory
from msmq.control.server.http.limits import ControlLimits
from msmq.queues.arriving.message import Delivery
from msmq.structures.names.path_name import parse_path_name
from tests.control.receiving.test_receive_stream import messages, receipts
from tests.control.support import ORDERS, Caller, ControlTestCase

BODY = bytes(1000)


@attrs.define(eq=False)
class Answer:
    """An answer whose reader reads, or not."""

    is_behind: bool = False
    is_cut: bool = False

    def cut(self) -> None:
        self.is_cut = True


class AnswerMemoryTests(SynchronousTestCase):
    """A limit of 100 bytes, ten seconds of patience, and three answers."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.memory = AnswerMemory(100, 10, self.clock)
        self.first, self.second, self.third = self.answers = [Answer() for _ in range(3)]

    def room(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self.memory.room())

    def cut(self) -> list[bool]:
        return [each.is_cut for each in self.answers]

    def test_within_the_limit(self) -> None:
        """Up to the limit nothing waits."""
        self.memory.take(self.first, 40)
        self.memory.take(self.first, 60)
        self.successResultOf(self.room())
        self.assertEqual(self.memory.used, 100)

    def test_beyond_the_limit(self) -> None:
        """Beyond it an answer waits until others were read; releasing twice counts once."""
        self.memory.take(self.first, 90)
        self.memory.take(self.second, 90)
        waiting = [self.room(), self.room()]
        self.assertNoResult(waiting[0])
        self.memory.release(self.first)
        self.memory.release(self.first)
        for each in waiting:
            self.successResultOf(each)
        self.assertEqual(self.memory.used, 90)

    def test_reader_that_does_not_read(self) -> None:
        """Who has read nothing for ten seconds while another waits is cut, the longest first."""
        self.memory.take(self.first, 60)
        self.clock.advance(1)
        self.memory.take(self.second, 60)
        self.first.is_behind = self.second.is_behind = True
        waiting = self.room()
        self.clock.pump([1] * 8)
        self.assertEqual(self.cut(), [False, False, False])
        self.clock.pump([1] * 2)
        self.assertEqual(self.cut(), [True, False, False])
        self.memory.release(self.first)
        self.successResultOf(waiting)
        self.clock.advance(20)
        self.assertEqual(self.cut(), [True, False, False])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_reader_that_reads_slowly(self) -> None:
        """Who reads something now and then, or waits for nothing to be read, is not cut."""
        self.memory.take(self.first, 60)
        self.memory.take(self.second, 60)
        self.first.is_behind = True
        waiting = self.room()
        for _ in range(5):
            self.clock.pump([1] * 6)
            self.memory.read(self.first)
        self.assertEqual(self.cut(), [False, False, False])
        self.assertNoResult(waiting)
        self.clock.advance(20)
        self.assertEqual(self.cut(), [True, False, False])

    def test_no_receiver_waits(self) -> None:
        """Without others that wait a reader may take as long as it likes."""
        self.memory.take(self.first, 200)
        self.first.is_behind = True
        self.clock.advance(1000)
        self.assertEqual(self.cut(), [False, False, False])

    def test_cancelled_wait(self) -> None:
        """An answer whose caller went away waits no longer."""
        self.memory.take(self.first, 200)
        waiting = self.room()
        waiting.addErrback(lambda failure: None)
        waiting.cancel()
        self.memory.release(self.first)
        self.assertEqual(self.memory.used, 0)


class UnreadAnswerTests(ControlTestCase):
    """A hundred messages of 1000 bytes; 5000 bytes a read, and 16000 for all answers."""

    limits = attrs.evolve(
        ControlLimits(), receive_bytes=5000, answer_memory=16000, answer_patience=10, slice_bytes=1000
    )
    packet_memory = 0

    def setUp(self) -> None:
        super().setUp()
        self.put(*[BODY] * 100, delivery=Delivery.RECOVERABLE)

    def unread(self, request: str) -> Caller:
        """A request whose caller reads nothing but the beginning of the answer."""
        caller = self.caller()
        path = ORDERS.replace("\\", "%5C")
        head = request.replace("ORDERS", path) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        caller.protocol.dataReceived(head.encode("ascii"))
        caller.pause()
        self.clock.advance(0)
        return caller

    def test_peek_of_everything(self) -> None:
        """A peek shows all that is there, though it is read in parts."""
        answer = self.receive(count=10000, peek="true").answer
        self.assertTrue(answer.is_whole)
        self.assertEqual(len(messages(answer.records)), 100)
        self.assertEqual(answer.records[-1].header, {"end": "count"})
        self.assertEqual(len(self.bodies()), 100)

    def test_peek_of_some(self) -> None:
        """A peek ends with its count, in whichever part that is."""
        answer = self.receive(count=37, peek="true").answer
        self.assertEqual(len(messages(answer.records)), 37)

    def test_unread_answers_hold_no_more_than_the_limit(self) -> None:
        """Beyond the limit answers wait, until the one that was not read for longest is cut."""
        kinds = (
            "POST /v1/receive?queue=ORDERS&count=100&peek=true",
            "POST /v1/receive?queue=ORDERS&count=100",
        )
        for kind in kinds:
            with self.subTest(kind=kind):
                stuck = [self.unread(kind) for _ in range(4)]
                late = self.receive(queue=ORDERS, count=1, peek="true")
                self.assertFalse(late.is_answered)
                for _ in range(9):
                    self.clock.advance(1)
                self.assertFalse([each for each in stuck if each.transport.disconnected])
                self.clock.advance(1)
                cut = [each for each in stuck if each.transport.disconnected]
                self.assertEqual(cut, stuck[:1])
                for each in stuck:
                    each.hang_up()
                self.clock.advance(0)
                self.assertEqual(messages(late.answer.records), [BODY])
                self.assertEqual(len(self.bodies()), 100)

    def test_browsing(self) -> None:
        """A page of messages that is not read within a second is dropped, and read again later."""
        stuck = self.caller()
        write = stuck.transport.writeSequence

        def fill(data: Iterable[bytes]) -> None:
            write(data)
            stuck.pause()

        self.patch(stuck.transport, "writeSequence", fill)
        stuck.ask("GET", f"/v1/queues/{quote(ORDERS)}/messages?limit=100")
        late, browsing = self.receive(count=1, peek="true"), self.caller()
        browsing.ask("GET", f"/v1/queues/{quote(ORDERS)}/messages?limit=1")
        self.assertFalse(late.is_answered)
        self.assertEqual(browsing.answer.body, b"")
        self.clock.advance(1)
        self.assertEqual(messages(late.answer.records), [BODY])
        self.assertEqual(browsing.answer.lines[-1]["end"], "limit")
        self.patch(stuck.transport, "writeSequence", write)
        stuck.resume()
        self.assertEqual(len(stuck.answer.lines), 101)

    def test_one_message(self) -> None:
        """An answer with one message waits like the others."""
        stuck = [self.unread("POST /v1/receive?queue=ORDERS&count=100&peek=true") for _ in range(4)]
        late = self.caller()
        late.ask("GET", "/v1/messages", queue=ORDERS)
        self.assertFalse(late.is_answered)
        for each in stuck:
            each.hang_up()
        self.clock.advance(0)
        self.assertEqual(late.answer.body, BODY)
        for _ in range(50):
            self.assertEqual(self.call("GET", "/v1/messages", queue=ORDERS, peek="true").body, BODY)

    def test_waiting_for_a_message_takes_no_memory(self) -> None:
        """Receives of an empty queue hold nothing."""
        self.take()
        waiting = [self.receive(count=100) for _ in range(20)]
        self.put(BODY)
        self.clock.advance(0)
        self.assertEqual(messages(waiting[0].answer.records), [BODY])
        self.assertFalse(waiting[1].is_answered)

    def test_what_is_delivered_leaves_memory(self) -> None:
        """Messages that were read and not confirmed are only in the store; confirmed, they are removed."""
        caller = self.receive(count=100)
        first, second = receipts(caller.answer.records)
        held = self.node.model.find(parse_path_name(ORDERS))
        assert held is not None
        self.assertEqual([each for each in held.positions.values() if each.view is not None], [])
        for each in (first, second):
            self.assertEqual(self.confirm(each).status, 200)
        caller.hang_up()
        self.assertEqual(len(self.bodies()), 100 - first.header["messages"] - second.header["messages"])
