"""Messages that are sent to several queues at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import BETA, GAMMA
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
OTHERS = "DIRECT=OS:beta\\private$\\others"


def listed(view: UserMessageView) -> list[str]:
    """The destinations that a message says it was sent to."""
    header = view.multi_queue_format
    assert header is not None
    return [str(element.resolve()) for element in header.destination.elements]


class SeveralTestCase(NodesTestCase):
    """ALPHA has a queue, and BETA two."""

    is_transactional = False

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.local = self.queue(self.alpha, transactional=self.is_transactional)
        self.remote = [
            self.queue(self.beta, name, transactional=self.is_transactional) for name in ("orders", "others")
        ]
        self.own = self.alpha.service.inspection.queue(self.local).format_name
        self.names = f"{self.own},{TO_BETA},{OTHERS}"

    @property
    def service(self) -> QueueManagerService:
        return self.alpha.service

    def arrived(self) -> list[list[UserMessageView]]:
        """The messages in the queue of ALPHA, and in both queues of BETA."""
        self.clock.advance(5)
        return [self.take(self.alpha, self.local), *(self.take(self.beta, path) for path in self.remote)]

    def assert_nothing_arrived(self) -> None:
        self.clock.advance(5)
        for node, path in (
            (self.alpha, self.local),
            *((self.beta, path) for path in self.remote),
        ):
            failed = self.failureResultOf(self.deferred(node.service.peek(path, timeout=0)), MQError)
            self.assertEqual(failed.value.status, Status.MQ_ERROR_IO_TIMEOUT)


class SendTests(SeveralTestCase):
    """[MS-MQDMPR] 3.1.7.1.27 Enqueue Message To An Open Queue."""

    def assert_copies(self, copies: Sequence[Sequence[UserMessageView]]) -> None:
        """Each queue has its copy, with its own name and all names, in alphabetical order."""
        views = [view for [view] in copies]
        for view in views:
            self.assertEqual(listed(view), [OTHERS, TO_BETA, self.own])
            self.assertEqual(bytes(view.body), b"1")
        self.assertEqual(
            [str(view.user_header.resolve_destination()) for view in views], [self.own, TO_BETA, OTHERS]
        )
        self.assertEqual(len({view.identifier for view in views}), 1)

    def test_each_has_a_copy(self) -> None:
        """Each copy is for one queue, and names all.

        MQDMPR-3.1.1.12-25, MQDMPR-3.1.7.1.27-02, MQDMPR-3.1.7.1.30-06, MQMQ-2.2.20.1-02.
        """
        self.send(self.alpha, self.names, b"1")
        self.assert_copies(self.arrived())

    def test_recoverable(self) -> None:
        """Two queues of one queue manager get a copy each, though both copies have one identifier."""
        self.send(self.alpha, self.names, b"1", delivery=Delivery.RECOVERABLE)
        self.assert_copies(self.arrived())
        self.assertEqual(self.beta.service.inspection.status().refused, {})

    def test_by_a_handle(self) -> None:
        """Through one handle for all of them it is the same.

        MQDMPR-3.1.7.1.27-02.
        """
        handle = self.service.open_queue(self.names, QueueAccessType.SEND)
        self.assertEqual(handle.format_name, f"{OTHERS},{TO_BETA},{self.own}")
        self.run_to_end(handle.send([Message(body=b"1")]))
        self.assert_copies(self.arrived())

    def test_one_queue(self) -> None:
        """A message to one queue names no others, by however many names that was given.

        MQDMPR-3.1.7.1.30-06.
        """
        self.send(self.alpha, TO_BETA, b"1")
        self.send(self.alpha, f"{TO_BETA},{TO_BETA.upper()}", b"2")
        self.send(self.alpha, f"{self.own},DIRECT=OS:.\\private$\\orders", b"3")
        local, orders, _ = self.arrived()
        self.assertEqual([bytes(view.body) for view in (*local, *orders)], [b"3", b"1", b"2"])
        self.assertEqual([view.multi_queue_format for view in (*local, *orders)], [None] * 3)

    def test_a_list_in_a_list(self) -> None:
        """No element stands for several queues: a distribution list is refused, and nothing is sent.

        MQDMPR-3.1.1.12-26.
        """
        sending = self.deferred(self.service.send(f"{TO_BETA},{OTHERS},DL={GAMMA}", [Message()]))
        status = self.failureResultOf(sending, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        self.assertEqual(self.service.inspection.outgoing(), [])

    def test_traced(self) -> None:
        """The list comes behind the name of the queue for reports."""
        self.send(self.alpha, self.names, b"1", trace=GAMMA)
        self.assert_copies(copies := self.arrived())
        for [view] in copies:
            debug = view.debug
            assert debug is not None
            self.assertEqual(debug.queue_identifier, GAMMA)


class RefusalTests(SeveralTestCase):
    """Sends that exceed a limit."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, quota=20, **kwargs)

    def assert_refused(self, why: str, name: str, *bodies: bytes) -> None:
        handle = self.service.open_queue(name, QueueAccessType.SEND)
        sending = self.deferred(handle.send([Message(body=body) for body in bodies]))
        error = self.failureResultOf(sending, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertIn(why, str(error))

    def test_one_queue(self) -> None:
        """A sender that has one queue open gets the result of the message there.

        MQDMPR-3.1.7.1.27-01.
        """
        self.run_to_end(self.service.set_queue(self.local, {"quota": 10}))
        self.assert_refused("the quota of the queue is exceeded", self.own, bytes(11 * 1024))
        self.assert_refused("quota of all queues is exceeded", TO_BETA, bytes(21 * 1024))
        handle = self.service.open_queue(self.own, QueueAccessType.SEND)
        [identifier] = self.run_to_end(handle.send([Message(body=b"1")]))
        self.assertEqual([view.identifier for view in self.take(self.alpha, self.local)], [identifier])

    def test_the_second_of_three(self) -> None:
        """The send fails, and no queue gets the message: a send is all or nothing.

        MQDMPR-3.1.7.1.27-04 (reading 29).
        """
        between = "DIRECT=OS:alpha\\private$\\orders"
        names = f"{TO_BETA},{OTHERS},{between.replace('alpha', 'ALPHA')}"
        self.run_to_end(self.service.set_queue(self.local, {"quota": 1}))
        self.assert_refused("the quota of the queue is exceeded", names, bytes(2000))
        self.assertEqual([queue.messages for queue in self.service.inspection.outgoing()], [0, 0])
        self.assert_nothing_arrived()


class TransactionTests(SeveralTestCase):
    """Sends to several queues in a transaction."""

    is_transactional = True

    def test_commit(self) -> None:
        """No copy is there before the commit, and all of them are afterwards.

        MQDMPR-3.1.7.1.27-03.
        """
        transaction = self.service.begin()
        message = Message(body=b"1", transactional=True)
        self.run_to_end(self.service.send(self.names, [message], transaction=transaction))
        self.assert_nothing_arrived()
        self.run_to_end(transaction.commit())
        copies = self.arrived()
        self.assertEqual([len(views) for views in copies], [1, 1, 1])
        self.assertEqual([listed(view) for [view] in copies], [[OTHERS, TO_BETA, self.own]] * 3)
        self.clock.advance(60)
        self.assertEqual([queue.messages for queue in self.service.inspection.outgoing()], [0, 0])

    def test_abort(self) -> None:
        """No copy is ever there."""
        transaction = self.service.begin()
        message = Message(body=b"1", transactional=True)
        self.run_to_end(self.service.send(self.names, [message], transaction=transaction))
        self.run_to_end(transaction.abort())
        self.assert_nothing_arrived()

    def test_without_one(self) -> None:
        """Transactional messages without a transaction are sent in one of their own, all copies in one."""
        self.send(self.alpha, self.names, b"1", transactional=True)
        self.assertEqual([len(views) for views in self.arrived()], [1, 1, 1])


class ListTests(NodesTestCase):
    """Kinds of names in a list."""

    def test_private_names(self) -> None:
        """Queues that are named by the GUID of their queue manager are listed so."""
        path = self.queue(self.beta)
        name = self.beta.service.inspection.queue(path).format_name
        self.assertIn(f"{BETA}".lower(), name.lower())
        self.queue(self.beta, "others")
        self.send(self.alpha, OTHERS, b"0")
        self.clock.advance(1)
        self.send(self.alpha, f"{name},{OTHERS}", b"1")
        self.clock.advance(5)
        [view] = self.take(self.beta, path)
        self.assertEqual(listed(view), [OTHERS, name])
