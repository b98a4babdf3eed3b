"""Queue managers in memory, as tests of an application use them."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import DatagramProtocol
from twisted.trial.unittest import SynchronousTestCase

from msmq import (
    Broker,
    Delivery,
    LocalProtocolError,
    Message,
    MQError,
    Outcome,
    ReceivedMessage,
    SessionSettings,
    accept,
)
from msmq.broker.program import BrokerStartError
from msmq.interfaces import StorageError
from msmq.testing import Conditions, ManagerOptions, MemoryEstate, MemoryMessageStore

ORDERS = r"DIRECT=OS:BETA\private$\orders"


class OrdersBroker(Broker):
    """Keeps the bodies."""

    def __init__(self) -> None:
        super().__init__(queues=["orders"])
        self.bodies: list[bytes] = []

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Accept."""
        self.bodies.append(bytes(message.view.body))
        return accept()


class BrokerOfAll(Broker):
    """Keeps the bodies of the messages of every queue."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Accept."""
        self.bodies.append(message.body)
        return accept()


class CountedStore(MemoryMessageStore):
    """A store with a length, which is 0 for now."""

    def __len__(self) -> int:
        return 0


class UnwillingStore(MemoryMessageStore):
    """Does not close without an error."""

    def close(self) -> Deferred[None]:
        """Close, and fail."""
        return super().close().addCallback(lambda _: fail(StorageError("it cannot be closed")))


class MemoryEstateTests(SynchronousTestCase):
    """One estate."""

    def setUp(self) -> None:
        self.estate = MemoryEstate()
        self.addCleanup(self.estate.close)

    def test_messages_pass(self) -> None:
        """A message is sent by name, and seen before it is taken."""
        alpha, beta = self.estate.add("ALPHA"), self.estate.add("BETA", queues=["orders"])
        alpha.send(ORDERS, b"one", Message(body=b"two", label="2"))
        self.estate.advance(1)
        self.assertEqual([bytes(view.body) for view in beta.waiting("orders")], [b"one", b"two"])
        self.assertEqual([view.label for view in beta.take("orders")], ["", "2"])
        self.assertEqual(beta.take("orders"), [])

    def test_names_of_hosts(self) -> None:
        """A host is found by name, by DNS name and by address; another one is not."""
        alpha, beta = self.estate.add("ALPHA"), self.estate.add("beta", queues=["orders"])
        for address in "OS:BETA", "OS:beta.example.com", f"TCP:{beta.host.address}":
            alpha.send(rf"DIRECT={address}\private$\orders", b"one")
        alpha.send(r"DIRECT=OS:NOBODY\private$\orders", b"one")
        self.estate.advance(1)
        self.assertEqual(len(beta.take("orders")), 3)
        self.estate.advance(60)
        unsent = [each.messages for each in alpha.manager.inspection.outgoing() if each.messages]
        self.assertEqual(unsent, [1])

    def test_time_passes_while_something_runs(self) -> None:
        """What waits for a message ends with it, after the delay of the network and not later."""
        estate = MemoryEstate(conditions=Conditions(delay=1))
        self.addCleanup(estate.close)
        alpha, beta = estate.add("ALPHA"), estate.add("BETA", queues=["orders"])
        began = estate.clock.now().monotonic
        alpha.send(ORDERS, b"one")
        view = estate.run(beta.manager.receive(r".\private$\orders"))
        self.assertEqual(bytes(view.body), b"one")
        self.assertTrue(3 <= estate.clock.now().monotonic - began <= 10)

    def test_what_does_not_end(self) -> None:
        """A wait without an end is cancelled at its limit."""
        beta = self.estate.add("BETA", queues=["orders"])
        began = self.estate.clock.now().monotonic
        error = self.assertRaises(
            TimeoutError, lambda: self.estate.run(beta.manager.receive(r".\private$\orders"), within=5)
        )
        self.assertIn("within 5 simulated seconds", str(error))
        self.assertEqual(self.estate.clock.now().monotonic - began, 5)
        self.assertRaises(TimeoutError, lambda: self.estate.until(lambda: False, within=1))

    def test_refusals_are_raised(self) -> None:
        """An error of the queue manager is that of the call."""
        beta = self.estate.add("BETA")
        self.assertRaises(MQError, beta.waiting, "orders")
        self.assertRaises(MQError, beta.send, r".\private$\orders", b"one")

    def test_a_restart(self) -> None:
        """Recoverable messages are kept over a restart, express ones are not."""
        beta = self.estate.add("BETA", queues=["orders"])
        beta.send(r".\private$\orders", b"express", Message(body=b"kept", delivery=Delivery.RECOVERABLE))
        self.assertRaises(LocalProtocolError, beta.start)
        beta.stop()
        self.assertRaises(MQError, beta.waiting, "orders")
        beta.start()
        self.assertEqual([bytes(view.body) for view in beta.take("orders")], [b"kept"])

    def test_a_receiver_that_is_down(self) -> None:
        """Messages wait for a receiver that starts later, and pass a partition when it ends."""
        settings = SessionSettings(ping_before_session=True)
        alpha, beta = self.estate.add("ALPHA", session=settings), self.estate.add("BETA", queues=["orders"])
        beta.stop()
        alpha.send(ORDERS, b"one")
        self.estate.advance(5)
        beta.start()
        self.estate.until(lambda: beta.waiting("orders"), within=300)
        self.estate.network.partition(alpha.host.address, beta.host.address)
        alpha.send(ORDERS, b"two")
        self.estate.advance(10)
        self.assertEqual(len(beta.waiting("orders")), 1)
        self.estate.network.heal(alpha.host.address, beta.host.address)
        self.estate.until(lambda: len(beta.waiting("orders")) == 2, within=300)

    def test_a_broker(self) -> None:
        """A broker receives what is sent to its queues, once over a restart; its sender is acknowledged."""
        alpha, broker = self.estate.add("ALPHA"), OrdersBroker()
        beta = self.estate.add("BETA", broker=broker)
        alpha.send(ORDERS, Message(body=b"one", delivery=Delivery.RECOVERABLE))
        self.estate.until(lambda: broker.bodies)
        beta.stop()
        beta.start()
        alpha.send(ORDERS, Message(body=b"two", delivery=Delivery.RECOVERABLE))
        self.estate.until(lambda: len(broker.bodies) == 2, within=300)
        self.estate.advance(60)
        self.assertEqual(broker.bodies, [b"one", b"two"])
        self.assertEqual(sum(each.messages for each in alpha.manager.inspection.outgoing()), 0)

    def test_a_broker_without_declared_queues(self) -> None:
        """It processes the messages of a queue that was created later, and by another than a peer."""
        broker = BrokerOfAll()
        beta = self.estate.add("BETA", broker=broker)
        self.estate.run(beta.manager.create_queue(r".\private$\later"))
        beta.send(r".\private$\later", b"one")
        self.estate.until(lambda: broker.bodies)
        self.estate.run(beta.manager.delete_queue(r".\private$\later"))
        self.estate.run(beta.manager.create_queue(r".\private$\later"))
        beta.send(r".\private$\later", b"two")
        self.estate.until(lambda: len(broker.bodies) == 2)
        self.assertEqual(broker.bodies, [b"one", b"two"])

    def test_runs_are_reproducible(self) -> None:
        """The same calls give the same identifiers and times, with a network that varies."""

        def history() -> list[object]:
            estate = MemoryEstate(conditions=Conditions(delay=0.1, jitter=0.1, largest_chunk=50), seed=4)
            alpha, beta = estate.add("ALPHA"), estate.add("BETA", queues=["orders"])
            identifiers = alpha.send(ORDERS, b"one", b"two")
            estate.until(lambda: len(beta.waiting("orders")) == 2)
            seen: list[object] = [*map(str, identifiers), estate.clock.now()]
            estate.close()
            return seen

        self.assertEqual(history(), history())

    def test_a_start_that_fails(self) -> None:
        """Its ports are closed, its store too, and it can be started again; its name stays free."""
        host, other = self.estate.host("BETA"), DatagramProtocol()
        port = host.listenUDP(SessionSettings().ping_port, other)
        store = MemoryMessageStore(durable=True)
        self.assertRaises(CannotListenError, lambda: self.estate.add("BETA", store=store))
        port.stopListening()
        beta = self.estate.add("BETA", queues=["orders"])
        beta.stop()
        port = host.listenUDP(SessionSettings().ping_port, other)
        self.assertRaises(CannotListenError, beta.start)
        self.assertFalse(beta.is_running)
        port.stopListening()
        beta.start()
        beta.send(r".\private$\orders", b"one")
        self.assertEqual(len(beta.take("orders")), 1)

    def test_a_broker_that_refuses(self) -> None:
        """What it has opened is closed, and another queue manager can have its name."""
        options: ManagerOptions = {"queues": {"orders": {"transactional": True}}, "broker": OrdersBroker()}
        self.assertRaises(BrokerStartError, lambda: self.estate.add("BETA", **options))
        self.assertTrue(self.estate.add("BETA", queues=["orders"]).is_running)

    def test_a_stop_that_fails(self) -> None:
        """The others are stopped all the same, and it can be started again."""
        estate = MemoryEstate()
        beta = estate.add("BETA", store=UnwillingStore(durable=True), queues=["orders"])
        alpha = estate.add("ALPHA")
        self.assertRaises(StorageError, estate.close)
        self.assertEqual((alpha.is_running, beta.is_running), (False, False))
        beta.start()
        self.assertRaises(StorageError, beta.stop)

    def test_an_empty_store(self) -> None:
        """A store whose length is 0, as that of an empty mapping, is used all the same."""
        store = CountedStore(durable=True)
        alpha = self.estate.add("ALPHA", store=store, queues=["orders"])
        alpha.stop()
        snapshot = self.successResultOf(store.open())
        self.assertEqual([queue.path for queue in snapshot.queues], ["private$\\orders"])

    def test_two_of_a_name(self) -> None:
        """A name is given once."""
        self.estate.add("ALPHA")
        self.assertRaises(LocalProtocolError, self.estate.add, "alpha")

    def test_run_gives_errors_and_values(self) -> None:
        """A Deferred is run as a coroutine is."""
        waited: Deferred[int] = Deferred()
        self.estate.clock.reactor.callLater(7, waited.callback, 5)
        self.assertEqual(self.estate.run(waited), 5)
