"""Queues that applications have open, and their cursors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from zope.interface.verify import verifyObject

from msmq.errors import LocalProtocolError
from msmq.interfaces import IOpenQueue, IQueueCursor, IQueueManager, ITransaction
from msmq.manager.applications.open_queue import OpenQueue
from msmq.queues.arriving.message import Message
from msmq.queues.reading.descriptor import QueueAccessType, QueueShareMode
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.builders import BETA
from tests.manager.support import ASK_ALL, BROKEN, DEADLETTER, JOURNAL, ManagerTestCase

RECEIVE, PEEK, SEND, MOVE = (
    QueueAccessType.RECEIVE,
    QueueAccessType.PEEK,
    QueueAccessType.SEND,
    QueueAccessType.MOVE,
)
ELSEWHERE = "DIRECT=TCP:127.0.0.4\\private$\\orders"


class OpenQueueTestCase(ManagerTestCase):
    """The fixtures of L{ManagerTestCase}."""

    def open(
        self,
        queue: str,
        access: QueueAccessType = RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> OpenQueue:
        """Open a queue until the end of the test."""
        handle = self.service.open_queue(queue, access, share_mode)
        self.addCleanup(handle.close)
        return handle

    def not_opened(self, status: Status, *arguments: object) -> None:
        """It cannot be opened so."""
        error = self.assertRaises(MQError, self.service.open_queue, *arguments)
        self.assertEqual(error.status, status)


class InterfaceTests(OpenQueueTestCase):
    """What applications are written against."""

    def test_interfaces(self) -> None:
        """The queue manager, its transactions, open queues and cursors have every method of theirs."""
        queue = self.open(self.orders)
        transaction = self.service.begin()
        for interface, provided in (
            (IQueueManager, self.service),
            (ITransaction, transaction),
            (IOpenQueue, queue),
            (IQueueCursor, queue.cursor()),
        ):
            verifyObject(interface, provided)
        for name in ("receive", "peek", "open_queue", "format_name"):
            self.assertIn(name, IQueueManager)
        for name in ("__aenter__", "__aexit__"):
            self.assertIn(name, ITransaction)
        self.run_to_end(transaction.abort())

    def test_a_target_that_is_not_an_open_queue(self) -> None:
        """A path in place of an open queue is refused by its name."""
        wrong: Any = "orders"
        error = self.failureResultOf(self.deferred(self.open(self.orders).move(1, wrong)), LocalProtocolError)
        self.assertIn("target is a str", str(error.value))


class OpenTests(OpenQueueTestCase):
    """L{QueueManagerService.open_queue}."""

    def test_only_for_what_it_is_open(self) -> None:
        """A handle for peeking cannot receive, and so on."""
        self.put(self.orders, b"1")
        [lookup_id] = [message.lookup_id for message in self.messages(self.orders)]
        aside = self.open(f"{self.orders};aside", MOVE)
        denied = Status.MQ_ERROR_ACCESS_DENIED
        peeker, sender = self.open(self.orders, PEEK), self.open(self.orders, SEND)
        receiver = self.open(self.orders)
        for work in (
            peeker.receive(),
            peeker.purge(),
            peeker.send([Message()]),
            peeker.read(lookup_id),
            peeker.move(lookup_id, aside),
            sender.receive(),
            sender.peek(),
            sender.purge(),
            receiver.send([Message()]),
            receiver.move(lookup_id, peeker),
            aside.receive(),
            aside.peek(),
        ):
            self.refused(work, denied)
        self.assertEqual(self.assertRaises(MQError, sender.cursor).status, denied)
        self.assertEqual(bytes(self.run_to_end(peeker.peek()).view.body), b"1")
        self.run_to_end(sender.send([Message(body=b"2")]))
        self.run_to_end(receiver.move(lookup_id, aside))
        self.assertEqual((self.seen(self.orders), self.seen(f"{self.orders};aside")), ([b"2"], [b"1"]))
        self.assertEqual(self.run_to_end(receiver.purge()), 1)

    def test_share_modes(self) -> None:
        """A handle that denies receiving excludes others, which may be opened when it is closed."""
        sharing = Status.MQ_ERROR_SHARING_VIOLATION
        deny = QueueShareMode.DENY_RECEIVE
        alone = self.open(self.orders, RECEIVE, deny)
        self.not_opened(sharing, self.orders)
        self.not_opened(sharing, self.orders, PEEK)
        self.refused(self.service.receive(self.orders, timeout=0), sharing)
        self.refused(self.service.peek(self.orders, timeout=0), sharing)
        self.open(self.orders, SEND)
        alone.close()
        looking = self.open(self.orders, PEEK, deny)
        self.open(self.orders, PEEK)
        self.not_opened(sharing, self.orders, RECEIVE)
        looking.close()
        self.open(self.orders)
        self.not_opened(sharing, self.orders, RECEIVE, deny)
        self.not_opened(Status.MQ_ERROR_UNSUPPORTED_ACCESS_MODE, self.orders, SEND, deny)

    def test_names(self) -> None:
        """Unknown queues, and queues that cannot be opened with this access, are refused."""
        self.not_opened(Status.MQ_ERROR_QUEUE_NOT_FOUND, ".\\private$\\none")
        self.not_opened(Status.MQ_ERROR_QUEUE_NOT_FOUND, ".\\private$\\none;sub")
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        self.not_opened(unsupported, ELSEWHERE)
        self.not_opened(unsupported, JOURNAL, SEND)
        self.not_opened(unsupported, f"{self.orders};sub", SEND)
        self.assertEqual(self.service.inspection.queue(self.orders).subqueues, [])

    def test_private_path_of_another_computer(self) -> None:
        r"""C{HOST\private$\NAME} is the direct name of that queue, by address if the host is given so."""
        for path, name in (
            ("BETA\\private$\\orders", "DIRECT=OS:BETA\\private$\\orders"),
            ("127.0.0.9\\private$\\orders", "DIRECT=TCP:127.0.0.9\\private$\\orders"),
        ):
            handle = self.open(path, SEND)
            self.assertEqual(handle.format_name, name)
            handle.close()
        self.not_opened(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, "BETA\\private$\\q;journal", SEND)
        self.not_opened(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, "BETA\\orders", SEND)

    def test_several(self) -> None:
        """Several are opened together to send to them; each gets its own copy, all of one identifier."""
        other = self.queue(self.alpha, "other")
        names = ",".join(self.service.inspection.queue(path).format_name for path in (self.orders, other))
        handle = self.open(f"{names},{ELSEWHERE}", SEND)
        self.assertEqual(len(handle.format_name.split(",")), 3)
        [identifier] = self.run_to_end(handle.send([Message(body=b"1")]))
        self.assertEqual((self.seen(self.orders), self.seen(other)), ([b"1"], [b"1"]))
        self.assertEqual(len(self.run_to_end(self.service.inspection.explain(identifier)).places), 3)
        self.not_opened(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, names)
        handle.close()
        self.refused(handle.send([Message()]), Status.MQ_ERROR_INVALID_HANDLE)

    def test_closed(self) -> None:
        """It cannot be used any more; its waiting reads end; closing it again is not an error."""
        handle = self.open(self.orders)
        cursor = handle.cursor()
        waits = [
            self.deferred(handle.receive()),
            self.deferred(handle.peek(timeout=100)),
            self.deferred(cursor.receive(timeout=None)),
        ]
        other = self.deferred(self.service.receive(self.orders))
        handle.close()
        for wait in waits:
            failure = self.failureResultOf(wait, MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_OPERATION_CANCELLED)
        self.assertFalse(handle.is_open)
        invalid = Status.MQ_ERROR_INVALID_HANDLE
        for work in (handle.receive(), handle.peek(), handle.purge(), handle.read(1), cursor.peek()):
            self.refused(work, invalid)
        self.assertEqual(self.assertRaises(MQError, handle.cursor).status, invalid)
        handle.close()
        cursor.close()
        self.put(self.orders, b"1")
        self.assertEqual(bytes(self.successResultOf(other).body), b"1")

    def test_block(self) -> None:
        """At the end of a block it is closed, and so are its cursors."""
        self.put(self.orders, b"1")

        async def work() -> bytes:
            async with self.service.open_queue(self.orders) as queue, queue.cursor() as cursor:
                message = await cursor.peek()
                return bytes(message.view.body)

        self.assertEqual(self.run_to_end(work()), b"1")
        self.assertEqual(len(self.alpha.model.descriptors), 0)

    def test_a_subqueue_while_it_is_open(self) -> None:
        """It stays while it is open, be it empty or not."""
        handle = self.open(f"{self.orders};aside")
        [identifier] = self.put(self.orders, b"1")
        self.run_to_end(self.service.move(identifier, f"{self.orders};aside"))
        self.assertEqual(bytes(self.run_to_end(handle.receive()).view.body), b"1")
        self.assertEqual(len(self.service.inspection.queue(self.orders).subqueues), 1)
        handle.close()
        self.assertEqual(self.service.inspection.queue(self.orders).subqueues, [])

    def test_transactions(self) -> None:
        """Receiving, sending, moving and reading through handles in a transaction."""
        self.put(self.payments, b"1", b"2", b"3")
        lookup_ids = [message.lookup_id for message in self.messages(self.payments)]
        receiver, sender = self.open(self.payments), self.open(self.payments, SEND)
        aside = self.open(f"{self.payments};aside", MOVE)
        for is_committed in (False, True):
            transaction = self.service.begin()
            received = self.run_to_end(receiver.receive(transaction=transaction))
            self.assertEqual(bytes(received.view.body), b"1")
            self.run_to_end(receiver.move(lookup_ids[1], aside, transaction=transaction))
            self.run_to_end(receiver.read(lookup_ids[2], transaction=transaction))
            message = Message(body=b"4", transactional=True)
            self.run_to_end(sender.send([message], transaction=transaction))
            self.assertEqual(self.seen(self.payments), [])
            self.run_to_end(transaction.commit() if is_committed else transaction.abort())
        self.assertEqual((self.seen(self.payments), self.seen(f"{self.payments};aside")), ([b"4"], [b"2"]))
        plain = self.open(self.orders)
        receiving = plain.receive(transaction=self.service.begin())
        self.refused(receiving, Status.MQ_ERROR_TRANSACTION_USAGE)


class AdministratorTests(OpenQueueTestCase):
    """Outgoing queues, as administrators open them."""

    def test_look_and_purge(self) -> None:
        """They see pending messages, and may purge them; none of these is sent any more.

        Their senders get no acknowledgement of arrival, so each is kept as a dead letter too.
        """
        self.put(ELSEWHERE, b"1", b"2", acknowledge=ASK_ALL, dead_letter=True)
        looking = self.open(ELSEWHERE, QueueAccessType.PEEK_ADMIN)
        self.assertEqual(bytes(self.run_to_end(looking.peek()).view.body), b"1")
        self.refused(looking.purge(), Status.MQ_ERROR_ACCESS_DENIED)
        purging = self.open(ELSEWHERE, QueueAccessType.RECEIVE_ADMIN)
        self.assertEqual(self.run_to_end(purging.purge()), 2)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_DELETED] * 2)
        self.assertEqual(self.seen(DEADLETTER), [b"1", b"2"])
        self.assertEqual(self.service.inspection.outgoing()[0].messages, 0)
        self.restart()
        self.assertEqual(sum(queue.messages for queue in self.service.inspection.outgoing()), 0)

    def test_receive(self) -> None:
        """Messages that they receive are theirs; no acknowledgement of receipt is sent."""
        self.put(ELSEWHERE, b"1", acknowledge=ASK_ALL)
        taking = self.open(ELSEWHERE, QueueAccessType.RECEIVE_ADMIN)
        self.assertEqual(bytes(self.run_to_end(taking.receive()).view.body), b"1")
        self.assertEqual((self.answers(), self.service.inspection.outgoing()[0].messages), ([], 0))

    def test_not_there(self) -> None:
        """Peeking does not create an outgoing queue that was never used."""
        self.not_opened(Status.MQ_ERROR_QUEUE_NOT_FOUND, ELSEWHERE, QueueAccessType.PEEK_ADMIN)
        self.assertEqual(self.service.inspection.outgoing(), [])


class LookupTests(OpenQueueTestCase):
    """L{OpenQueue.read}."""

    def test_neighbours(self) -> None:
        """First, last, next and previous of a message, and that message itself."""
        self.put(self.orders, b"1", b"2", b"3")
        ids = [message.lookup_id for message in self.messages(self.orders)]
        handle = self.open(self.orders)

        def read(lookup_id: int, action: MessageSeekAction) -> bytes:
            return bytes(self.run_to_end(handle.read(lookup_id, action, peek=True)).view.body)

        seek = MessageSeekAction
        self.assertEqual((read(0, seek.FIRST), read(0, seek.LAST)), (b"1", b"3"))
        self.assertEqual((read(ids[0], seek.NEXT), read(ids[2], seek.PREVIOUS)), (b"2", b"2"))
        self.assertEqual(read(ids[1], seek.CURRENT), b"2")
        none = Status.MQ_ERROR_MESSAGE_NOT_FOUND
        for lookup_id, action in ((ids[2], seek.NEXT), (ids[0], seek.PREVIOUS), (1, seek.CURRENT)):
            self.refused(handle.read(lookup_id, action), none)
        self.assertEqual(bytes(self.run_to_end(handle.read(ids[1])).view.body), b"2")
        self.assertEqual(self.seen(self.orders), [b"1", b"3"])
        held = self.run_to_end(self.service.reserve(self.orders, timeout=0))
        self.refused(handle.read(ids[0]), Status.MQ_ERROR_TRANSACTION_USAGE)
        held.release()

    def test_move(self) -> None:
        """By its LookupIdentifier, to a queue that is open for that."""
        self.put(self.orders, b"1", b"2")
        ids = [message.lookup_id for message in self.messages(self.orders)]
        handle, target = self.open(self.orders), self.open(f"{self.orders};aside", MOVE)
        self.run_to_end(handle.move(ids[0], target))
        self.refused(handle.move(ids[0], target), Status.MQ_ERROR_MESSAGE_NOT_FOUND)
        unrelated = self.open(f"{self.payments};aside", MOVE)
        self.refused(handle.move(ids[1], unrelated), Status.MQ_ERROR_INVALID_PARAMETER)
        self.store.fail_commit(1)
        self.refused(handle.move(ids[1], target), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual((self.seen(self.orders), self.seen(f"{self.orders};aside")), ([b"2"], [b"1"]))


class CursorTests(OpenQueueTestCase):
    """L{QueueCursor}."""

    def setUp(self) -> None:
        super().setUp()
        self.handle = self.open(self.orders)
        self.cursor = self.handle.cursor()

    def browse(self) -> list[bytes]:
        """The messages that the cursor visits from its position."""

        async def browse() -> list[bytes]:
            return [bytes(message.view.body) async for message in self.cursor]

        return self.run_to_end(browse())

    def test_browse(self) -> None:
        """From one message to the next, to the last; then over what has come since."""
        self.assertEqual(self.browse(), [])
        self.put(self.orders, b"1", b"2", b"3")
        self.assertEqual(self.browse(), [b"1", b"2", b"3"])
        self.assertEqual(self.browse(), [])
        self.put(self.orders, b"4", b"5")
        self.assertEqual(self.browse(), [b"4", b"5"])
        self.assertEqual(self.count(self.orders), 5)

    def test_receive_some(self) -> None:
        """While it browses it may receive where it is, and goes on behind that."""
        self.put(self.orders, *(b"%d" % number for number in range(6)))

        async def pick() -> list[bytes]:
            picked = []
            async for message in self.cursor:
                if int(bytes(message.view.body)) % 2:
                    picked.append(bytes((await self.cursor.receive()).view.body))
            return picked

        self.assertEqual(self.run_to_end(pick()), [b"1", b"3", b"5"])
        self.assertEqual(self.seen(self.orders), [b"0", b"2", b"4"])

    def test_others_receive(self) -> None:
        """Messages received by others during browsing are skipped, and no others."""
        self.put(self.orders, b"1", b"2", b"3", b"4")

        async def browse() -> list[bytes]:
            seen = []
            async for message in self.cursor:
                seen.append(bytes(message.view.body))
                if len(seen) == 2:
                    for _ in range(3):
                        await self.service.receive(self.orders, timeout=0)
            return seen

        self.assertEqual(self.run_to_end(browse()), [b"1", b"2", b"4"])

    def test_steps(self) -> None:
        """Looking again, looking further, and receiving, each with its refusals."""
        self.refused(self.cursor.peek(), Status.MQ_ERROR_IO_TIMEOUT)
        self.refused(self.cursor.receive(), Status.MQ_ERROR_MESSAGE_NOT_FOUND)
        self.refused(self.cursor.peek_next(), Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        self.put(self.orders, b"1", b"2")
        for _ in range(2):
            self.assertEqual(bytes(self.run_to_end(self.cursor.peek()).view.body), b"1")
        self.run_to_end(self.service.receive(self.orders, timeout=0))
        self.refused(self.cursor.peek(), Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED)
        self.refused(self.cursor.receive(), Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED)
        self.assertEqual(bytes(self.run_to_end(self.cursor.peek_next()).view.body), b"2")
        self.assertEqual(bytes(self.run_to_end(self.cursor.receive()).view.body), b"2")
        self.refused(self.cursor.peek_next(), Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)

    def test_wait(self) -> None:
        """It waits for its time limit, one wait at a time, and ends when it is closed."""
        waiting = self.deferred(self.cursor.peek(timeout=10))
        self.refused(self.cursor.peek(), Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        self.clock.advance(10)
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_IO_TIMEOUT)
        waiting = self.deferred(self.cursor.receive(timeout=None))
        self.put(self.orders, b"1")
        self.assertEqual(bytes(self.successResultOf(waiting).view.body), b"1")
        waiting = self.deferred(self.cursor.peek(timeout=None))
        self.cursor.close()
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_OPERATION_CANCELLED)
        self.refused(self.cursor.peek(), Status.MQ_ERROR_INVALID_HANDLE)

    def test_a_receive_that_fails(self) -> None:
        """The message is back, and the cursor is behind it."""
        self.put(self.orders, b"1", b"2")
        self.run_to_end(self.cursor.peek())
        self.store.fail_commit(1)
        self.refused(self.cursor.receive(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual(self.browse(), [b"2"])

    def test_a_packet_cannot_be_read(self) -> None:
        """The caller gets an error, and may go on."""
        self.put(self.orders, b"1", b"2")
        self.restart()
        self.handle = self.open(self.orders)
        self.cursor = self.handle.cursor()
        self.store.unreadable = BROKEN
        self.refused(self.cursor.peek(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.assertEqual(bytes(self.run_to_end(self.cursor.peek()).view.body), b"1")
        self.assertEqual(self.browse(), [b"2"])

    def test_in_a_transaction(self) -> None:
        """It receives in a transaction what it has come to."""
        self.put(self.payments, b"1", b"2")
        with_cursor = self.open(self.payments).cursor()
        self.run_to_end(with_cursor.peek())
        self.run_to_end(with_cursor.peek_next())
        transaction = self.service.begin()
        message = self.run_to_end(with_cursor.receive(transaction=transaction))
        self.assertEqual(bytes(message.view.body), b"2")
        self.run_to_end(transaction.abort())
        self.assertEqual(self.seen(self.payments), [b"1", b"2"])


class OutgoingTests(OpenQueueTestCase):
    """L{QueueManagerService.pause_outgoing} and L{QueueManagerService.resume_outgoing}."""

    def test_pause_and_resume(self) -> None:
        """No message is sent while the queue is paused, even with a session; then all are sent, in order."""
        beta = self.node("BETA", BETA)
        beta.start()
        self.addCleanup(beta.service.stopService)
        there = self.queue(beta)
        self.queue(beta, "other")
        to = "DIRECT=TCP:127.0.0.3\\private$\\orders"
        self.run_to_end(self.service.send(to, [Message(body=b"1")]))
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(self.service.pause_outgoing(to)).state, "ONHOLD")
        self.run_to_end(self.service.send(to, [Message(body=b"2"), Message(body=b"3")]))
        self.run_to_end(self.service.send(to.replace("orders", "other"), [Message(body=b"not paused")]))
        self.clock.advance(100)
        self.assertEqual(self.bodies(beta, there), [b"1"])
        self.assertEqual(self.bodies(beta, ".\\private$\\other"), [b"not paused"])
        self.assertEqual(self.service.inspection.outgoing_queue(to).messages, 2)
        self.service.resume_outgoing(to)
        self.clock.advance(1)
        self.assertEqual(self.bodies(beta, there), [b"2", b"3"])
        self.service.resume_outgoing(to)

    def test_paused_before_anything_was_dialled(self) -> None:
        """No connection is made for a queue that is paused."""
        self.run_to_end(self.service.send(ELSEWHERE, [Message()]))
        self.service.pause_outgoing(ELSEWHERE)
        self.clock.advance(1000)
        dialled = len(self.service.inspection.outgoing_queue(ELSEWHERE).history)
        self.clock.advance(1000)
        self.assertEqual(len(self.service.inspection.outgoing_queue(ELSEWHERE).history), dialled)

    def test_refused(self) -> None:
        """A local queue, a name of no outgoing queue, and resuming a queue that does not exist."""
        pause, resume = self.service.pause_outgoing, self.service.resume_outgoing
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        for change, name, status in (
            (pause, self.orders, Status.MQ_ERROR_ILLEGAL_OPERATION),
            (resume, self.orders, Status.MQ_ERROR_ILLEGAL_OPERATION),
            (resume, ELSEWHERE, Status.MQ_ERROR_QUEUE_NOT_FOUND),
            (pause, "nonsense=", Status.MQ_ERROR_ILLEGAL_FORMATNAME),
            (resume, "nonsense=", Status.MQ_ERROR_ILLEGAL_FORMATNAME),
            (pause, "BETA\\orders", unsupported),
            (pause, f"DL={UUID(int=7)}", unsupported),
            (pause, f"PUBLIC={UUID(int=7)};journal", unsupported),
        ):
            with self.subTest(name=name):
                error = self.failureResultOf(change(name), MQError).value
                self.assertEqual(error.status, status)
        self.assertEqual(self.service.inspection.outgoing(), [])

    def test_invalid_next_hops(self) -> None:
        """A next hop is one host."""
        for host in ("", "  ", "a b", "x" * 256, "."):
            error = self.failureResultOf(self.service.pause_next_hop(host), MQError).value
            self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
