"""A store that raises other errors than its interface has, as a provider of others may do."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from twisted.internet.defer import CancelledError
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import provider

from msmq.persistence.changes import RemoveMessages
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError, Status
from tests.manager.support import FULL, FaultyStore
from tests.nodes.support import Node, NodesTestCase

AT_BETA = "DIRECT=OS:BETA\\private$\\orders"
ORDERS = ".\\private$\\orders"
MISTAKE = KeyError("no such row")


class MistakenStoreTests(NodesTestCase):
    """Such an error is a failure of the store: nothing hangs, and nothing is lost."""

    def setUp(self) -> None:
        self.stores: dict[str, FaultyStore] = {}
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        store = self.stores.setdefault(name, FaultyStore())
        return super().node(name, identifier, store=store, **kwargs)

    def test_arrivals(self) -> None:
        """What was not stored is not acknowledged, and comes again; that of a transaction, too."""
        for name, options in (("orders", {}), ("payments", {"transactional": True})):
            queue = self.queue(self.beta, name, **options)
            self.stores["BETA"].break_down(MISTAKE)
            sent = {"delivery": Delivery.RECOVERABLE, **options}
            self.send(self.alpha, f"DIRECT=OS:BETA\\private$\\{name}", b"1", b"2", **sent)
            self.clock.advance(5)
            waiting = self.alpha.service.inspection.outgoing_queue(f"DIRECT=OS:BETA\\private$\\{name}")
            self.assertEqual(waiting.messages, 2)
            self.stores["BETA"].recover()
            self.clock.advance(120)
            self.assertEqual(self.bodies(self.beta, queue), [b"1", b"2"])

    def test_cancelled_commit_of_arrivals(self) -> None:
        """A store that cancels one commit fails once: the messages, and all later ones, arrive."""
        queue = self.queue(self.beta)
        for number, error in enumerate((CancelledError(), asyncio.CancelledError())):
            self.stores["BETA"].fail_commit(1, error)
            self.send(self.alpha, AT_BETA, b"%d" % number, delivery=Delivery.RECOVERABLE)
            self.clock.advance(120)
            self.send(self.alpha, AT_BETA, b"later", delivery=Delivery.RECOVERABLE)
            self.clock.advance(120)
            self.assertEqual(self.bodies(self.beta, queue), [b"%d" % number, b"later"])

    def test_cancelled_commit_of_removals(self) -> None:
        """So is the removal of messages that were acknowledged."""
        queue = self.queue(self.beta)
        self.stores["ALPHA"].fail_commit(1, CancelledError(), of=RemoveMessages)
        self.send(self.alpha, AT_BETA, b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, queue), [b"1"])
        self.assertEqual([one.messages for one in self.alpha.service.inspection.outgoing()], [0])

    def test_cancelled_read(self) -> None:
        """A read that the store cancels has failed; the reader is not cancelled, and may try again."""
        orders = self.queue(self.alpha)
        self.send(self.alpha, orders, b"1", delivery=Delivery.RECOVERABLE)
        self.successResultOf(self.alpha.service.stopService())
        self.alpha.deaf()
        self.alpha = self.node("ALPHA", self.alpha.model.identifier)
        self.alpha.start()
        for error in (CancelledError(), asyncio.CancelledError()):
            self.stores["ALPHA"].unreadable = error
            reading = self.deferred(self.alpha.service.receive(orders, timeout=0))
            refused = self.failureResultOf(reading, MQError).value
            self.assertEqual(refused.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.stores["ALPHA"].recover()
        self.assertEqual(self.bodies(self.alpha, orders), [b"1"])

    def test_reads(self) -> None:
        """Stored messages that cannot be read are sent when they can be."""
        self.queue(self.beta)
        self.beta.deaf()
        self.send(self.alpha, AT_BETA, b"1", b"2", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        self.successResultOf(self.alpha.service.stopService())
        self.alpha.deaf()
        self.alpha = self.node("ALPHA", self.alpha.model.identifier)
        self.alpha.start()
        self.stores["ALPHA"].unreadable = MISTAKE
        self.beta.listen()
        self.clock.advance(30)
        self.stores["ALPHA"].recover()
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2"])

    def test_the_log_has_the_error(self) -> None:
        """An operator finds it there, a few times a minute; peers get none, and try again."""
        lines: list[str] = []

        @provider(ILogObserver)
        def observer(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        orders = self.queue(self.beta)
        self.stores["BETA"].break_down(MISTAKE)
        self.send(self.alpha, AT_BETA, b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        text = "a commit of the store failed: the store failed: KeyError: 'no such row'"
        self.assertIn(text, lines)
        for _ in range(20):
            message = Message(b"2", delivery=Delivery.RECOVERABLE)
            self.failureResultOf(self.deferred(self.beta.service.send(orders, [message])), MQError)
        self.assertEqual(lines.count(text), 5)
        self.stores["BETA"].recover()
        self.clock.advance(120)

    def test_full_store(self) -> None:
        """A full store that fails so when it is probed for space is probed again."""
        orders = self.queue(self.alpha)
        self.stores["ALPHA"].break_down(FULL)
        message = Message(b"1", delivery=Delivery.RECOVERABLE)
        self.failureResultOf(self.deferred(self.alpha.service.send(orders, [message])), MQError)
        self.assertTrue(self.alpha.service.inspection.status().throttled)
        self.stores["ALPHA"].break_down(MISTAKE)
        self.clock.advance(30)
        self.stores["ALPHA"].recover()
        self.clock.advance(30)
        self.assertFalse(self.alpha.service.inspection.status().throttled)
        self.send(self.alpha, orders, b"1", delivery=Delivery.RECOVERABLE)
        self.assertEqual(self.bodies(self.alpha, orders), [b"1"])

    def test_senders(self) -> None:
        """A sender gets the error of a store, with the text of the mistake."""
        self.queue(self.alpha)
        self.stores["ALPHA"].break_down(MISTAKE)
        sending = self.deferred(self.alpha.service.create_queue(".\\private$\\other"))
        error = self.failureResultOf(sending, MQError).value
        self.assertIn(
            "MQ_ERROR_MESSAGE_STORAGE_FAILED: the store failed: KeyError: 'no such row'", str(error)
        )
        self.stores["ALPHA"].recover()
