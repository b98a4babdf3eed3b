"""[MS-MQOD] 2.5: the use cases of a message queuing system, each over an estate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msmq.membership.objects import QueueObject
from msmq.membership.queries import equals
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.estates.support import EstateTestCase

ORDERS = ".\\private$\\orders"


class CreateOrModifyQueueTests(EstateTestCase):
    """[MS-MQOD] 2.5.1 Create or Modify Queue."""

    def test_private_queue(self) -> None:
        """A private queue is created and modified where it is; no directory is notified of it."""
        path = self.queue(self.alpha, label="old", quota=10)
        shown = self.run_to_end(self.alpha.service.set_queue(path, {"label": "new", "quota": 20}))
        self.assertEqual((shown.label, shown.quota, shown.type), ("new", 20, "private"))
        assert self.directory is not None
        reading = self.directory.read(QueueObject, [equals("pathname", "ALPHA\\private$\\orders")])
        self.failureResultOf(reading)

    def test_public_queue(self) -> None:
        """A public queue is created in the directory and on its queue manager; a change reaches both."""
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders", label="old"))
        self.run_to_end(self.zeta.service.set_queue("ZETA\\orders", {"label": "new", "journal": True}))
        assert self.directory is not None
        reading = self.directory.read(QueueObject, [equals("pathname", "ZETA\\orders")])
        held = self.successResultOf(reading).object
        self.assertEqual((held.label, held.journaling), ("new", True))
        shown = self.zeta.service.inspection.queue("ZETA\\orders")
        self.assertEqual((shown.label, shown.journal, shown.type), ("new", True, "public"))


class QueryQueueTests(EstateTestCase):
    """[MS-MQOD] 2.5.2 Query Queue Information."""

    def test_query_leaves_the_state(self) -> None:
        """Querying returns the properties and counts of a queue, and its state stays the same."""
        path = self.queue(self.alpha)
        self.send(self.alpha, path, b"one", b"two")
        first = self.alpha.service.inspection.queue(path)
        self.assertEqual((first.messages, first.path), (2, path))
        self.assertEqual(self.alpha.service.inspection.queue(path), first)
        self.assertEqual([queue.path for queue in self.alpha.service.inspection.queues()], [first.path])
        self.assertEqual(self.bodies(self.alpha, path), [b"one", b"two"])


class SendTests(EstateTestCase):
    """[MS-MQOD] 2.5.3 Send Message to Queue."""

    def test_local(self) -> None:
        """A message to a local queue is there when the send is answered."""
        path = self.queue(self.alpha)
        self.send(self.alpha, path, b"here")
        self.assertEqual(self.bodies(self.alpha, path), [b"here"])

    def test_remote(self) -> None:
        """A message to the queue of another member is put into an outgoing queue, then transferred."""
        name = self.private_name(self.zeta, self.queue(self.zeta))
        self.send(self.alpha, name, b"there")
        self.assertEqual(self.waiting(self.alpha), 1)
        self.wait(20)
        self.assertEqual(self.waiting(self.alpha), 0)
        self.assertEqual(self.bodies(self.zeta, ORDERS), [b"there"])

    def test_name_from_the_directory(self) -> None:
        """The application names a public queue by its path; the directory has its format name."""
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders"))
        self.send(self.alpha, "ZETA\\orders", b"by path")
        self.wait(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"by path"])

    def test_validation(self) -> None:
        """A send that fails its checks is refused with its error, and puts nothing into any queue."""
        path = self.queue(self.alpha, transactional=True)
        failed = self.deferred(self.alpha.service.send(path, []))
        self.successResultOf(failed)
        refused = self.deferred(self.alpha.service.send(".\\private$\\absent", []))
        error = self.failureResultOf(refused, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertEqual(self.bodies(self.alpha, path), [])


class SendInTransactionTests(EstateTestCase):
    """[MS-MQOD] 2.5.4 Send Message in Transaction."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.zeta, transactional=True)
        self.name = self.private_name(self.zeta, ORDERS)

    def send_and_end(self, how: str) -> None:
        transaction = self.alpha.service.begin()
        message = {"transactional": True}
        self.run_to_end(self.sent_in(transaction, b"1", **message))
        self.run_to_end(self.sent_in(transaction, b"2", **message))
        self.wait(5)
        self.assertEqual(self.zeta.service.inspection.queue(ORDERS).messages, 0)
        self.run_to_end(getattr(transaction, how)())
        self.wait(5)

    async def sent_in(self, transaction: Any, body: bytes, **properties: Any) -> None:
        await self.alpha.service.send(self.name, [Message(body=body, **properties)], transaction=transaction)

    def test_commit(self) -> None:
        """Messages leave with the commit, and not before."""
        self.send_and_end("commit")
        self.assertEqual(self.bodies(self.zeta, ORDERS), [b"1", b"2"])

    def test_abort(self) -> None:
        """An aborted transaction has sent nothing."""
        self.send_and_end("abort")
        self.assertEqual(self.bodies(self.zeta, ORDERS), [])
        self.assertEqual(self.waiting(self.alpha), 0)


class TransferTests(EstateTestCase):
    """[MS-MQOD] 2.5.5 Transfer Message; negative acknowledgements that reveal queue names are switched on."""

    options: Mapping[str, Any] = {"send_insecure_nacks": True}

    def test_failed_validation_is_acknowledged(self) -> None:
        """The destination lacks the queue: a negative acknowledgement reaches the administration queue."""
        self.queue(self.alpha, "answers")
        lacking = f"PRIVATE={self.zeta.model.identifier}\\0000FFFF"
        for destination in (lacking, self.direct_name(self.zeta, ".\\private$\\absent")):
            self.send(
                self.alpha,
                destination,
                b"x",
                acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=parse_format_name(self.private_name(self.alpha, ".\\private$\\answers")),
            )
            self.wait(10)
            [view] = self.take(self.alpha, ".\\private$\\answers")
            self.assertEqual(view.message_class, MessageClass.NACK_BAD_DST_Q)

    def test_duplicates_over_lost_acknowledgements(self) -> None:
        """A connection that breaks before its acknowledgement has a message sent again, and stored once."""
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        bodies = [b"%d" % number for number in range(30)]
        for body in bodies:
            self.recoverable(self.alpha, name, body)
            self.clock.advance(0.01)
            self.network.cut(self.nodes["DELTA"].address, self.nodes["EPSILON"].address)
        self.wait(120)
        self.assertEqual(sorted(self.bodies(self.zeta, path)), sorted(bodies))

    def test_over_several_hops(self) -> None:
        """The extension of the use case: each hop is chosen by least cost, up to the destination."""
        path = self.queue(self.zeta)
        self.send(self.alpha, self.private_name(self.zeta, path), b"far")
        self.wait(5)
        [view] = self.take(self.zeta, path)
        self.assertEqual((bytes(view.body), view.hop_count), (b"far", 3))


class ReceiveTests(EstateTestCase):
    """[MS-MQOD] 2.5.6 Receive a Message from a Queue."""

    def test_waiting_reader(self) -> None:
        """A receive waits for a message from afar, and removes it."""
        path = self.queue(self.zeta)
        reading = self.deferred(self.zeta.service.receive(path, timeout=60))
        self.assertNoResult(reading)
        self.send(self.alpha, self.private_name(self.zeta, path), b"awaited")
        self.wait(5)
        self.assertEqual(bytes(self.successResultOf(reading).body), b"awaited")
        self.assertEqual(self.zeta.service.inspection.queue(path).messages, 0)

    def test_time_out_and_cancellation(self) -> None:
        """Without a message a receive ends with its time-out, or when cancelled; neither loses a message."""
        path = self.queue(self.zeta)
        reading = self.deferred(self.zeta.service.receive(path, timeout=10))
        self.wait(11)
        error = self.failureResultOf(reading, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_IO_TIMEOUT)
        cancelled = self.deferred(self.zeta.service.receive(path, timeout=10))
        cancelled.addErrback(lambda _: None)
        cancelled.cancel()
        self.send(self.zeta, path, b"later")
        self.assertEqual(self.bodies(self.zeta, path), [b"later"])


class ReceiveInTransactionTests(EstateTestCase):
    """[MS-MQOD] 2.5.7 Receive Message in Transaction."""

    def test_commit_and_abort(self) -> None:
        """An abort puts the message back to its position; a commit removes it."""
        path = self.queue(self.zeta, transactional=True)
        self.commit(self.alpha, self.private_name(self.zeta, path), b"1", b"2")
        self.wait(5)
        transaction = self.zeta.service.begin()
        view = self.run_to_end(self.zeta.service.receive(path, timeout=0, transaction=transaction))
        self.assertEqual(bytes(view.body), b"1")
        self.run_to_end(transaction.abort())
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"1", b"2"])


class ExchangeTests(EstateTestCase):
    """[MS-MQOD] 2.5.8 Exchange Message."""

    def test_each_pair_of_send_and_receive(self) -> None:
        """Sends and receives in transactions or not, over three gates: each message once, in order."""
        for sends_in_transaction in (False, True):
            for receives_in_transaction in (False, True):
                name = f"q{sends_in_transaction:d}{receives_in_transaction:d}"
                needs = sends_in_transaction or receives_in_transaction
                path = self.queue(self.zeta, name, transactional=needs)
                bodies = [b"%d" % number for number in range(5)]
                send = self.commit if needs else self.recoverable
                send(self.alpha, self.private_name(self.zeta, path), *bodies)
                self.wait(5)
                take = self.take_in_transaction if receives_in_transaction else self.bodies
                self.assertEqual(take(self.zeta, path), bodies)
