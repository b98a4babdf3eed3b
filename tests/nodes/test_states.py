"""A queue manager before its start, while it is offline or hardened, and after it stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.protocol import Factory, Protocol

from msmq.interfaces.storage import StorageError
from msmq.manager.service import QueueManagerService
from msmq.manager.states import ServiceState
from msmq.persistence.snapshot import Snapshot
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status
from tests.builders import BETA, GAMMA
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NOWHERE = "DIRECT=OS:NOWHERE\\private$\\orders"


class SlowToOpen(MemoryMessageStore):
    """A store that opens and closes when a test says so."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.opening: Deferred[None] = Deferred()
        self.closing: Deferred[None] = Deferred()

    def open(self) -> Deferred[Snapshot]:
        return self.opening.addCallback(lambda _: super(SlowToOpen, self).open())

    def close(self) -> Deferred[None]:
        return self.closing.addCallback(lambda _: super(SlowToOpen, self).close())


async def later(call: Callable[[], Any]) -> None:
    """Call a function, so that synchronous and asynchronous errors are handled alike."""
    answer = call()
    if isinstance(answer, Awaitable):
        await answer


class LifeTests(NodesTestCase):
    """[MS-MQDMPR] 3.1.1.1 ServiceState."""

    def setUp(self) -> None:
        super().setUp()
        self.store = SlowToOpen()
        self.gamma = self.node("GAMMA", GAMMA, store=self.store)
        self.service = self.gamma.service

    def assert_does_nothing(self) -> None:
        """Assert that every request is refused."""
        service = self.service
        identifier = MessageIdentifier(GAMMA, 1)
        calls: list[Callable[[], Any]] = [
            lambda: service.create_queue(".\\private$\\orders"),
            lambda: service.set_queue(".\\private$\\orders", {"label": "new"}),
            lambda: service.purge_queue(".\\private$\\orders"),
            lambda: service.delete_queue(".\\private$\\orders"),
            lambda: service.send(".\\private$\\orders", [Message()]),
            lambda: service.send(TO_BETA, [Message()]),
            lambda: service.receive(".\\private$\\orders", timeout=0),
            lambda: service.peek(".\\private$\\orders"),
            lambda: service.open_queue(TO_BETA),
            lambda: service.move(identifier, ".\\private$\\orders"),
            lambda: service.requeue(identifier),
            lambda: service.inspection.explain(identifier),
            lambda: service.inspection.dead_letters(),
            lambda: service.inspection.log_extent(".\\private$\\orders"),
            lambda: service.replay(".\\private$\\orders", TO_BETA),
            lambda: service.abort_transaction(GAMMA),
            lambda: service.inspection.transaction(GAMMA),
            lambda: service.inspection.transactions(),
            lambda: service.inspection.queue(".\\private$\\orders"),
            lambda: service.inspection.outgoing_queue(TO_BETA),
            lambda: service.pause_outgoing(TO_BETA),
            lambda: service.resume_outgoing(TO_BETA),
            lambda: service.enlist(GAMMA),
            service.begin,
            service.inspection.queues,
            service.inspection.system_queues,
            service.inspection.outgoing,
            service.take_offline,
            service.bring_online,
        ]
        for call in calls:
            failed = self.failureResultOf(ensureDeferred(later(call)), MQError)
            self.assertEqual(failed.value.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)

    def test_states(self) -> None:
        """Stopped, Initializing, Ready, Stopping, Stopped; nothing is done before it opens or after it stops.

        MQDMPR-3.1.1.1-33.
        """
        seen = [self.service.inspection.status().state]
        self.assertIs(self.service.state, ServiceState.STOPPED)
        self.assert_does_nothing()
        opening = self.deferred(self.service.open())
        self.assertIs(self.service.state, ServiceState.INITIALIZING)
        seen.append(self.service.inspection.status().state)
        self.assert_does_nothing()
        self.store.opening.callback(None)
        self.successResultOf(opening)
        self.assertIs(self.service.state, ServiceState.INITIALIZING)
        self.service.startService()
        self.assertIs(self.service.state, ServiceState.READY)
        seen.append(self.service.inspection.status().state)
        self.queue(self.gamma)
        stopping = self.service.stopService()
        self.assertIs(self.service.state, ServiceState.STOPPING)
        seen.append(self.service.inspection.status().state)
        self.assert_does_nothing()
        self.store.closing.callback(None)
        self.successResultOf(stopping)
        self.assertIs(self.service.state, ServiceState.STOPPED)
        seen.append(self.service.inspection.status().state)
        self.assertEqual(seen, ["stopped", "starting", "running", "stopping", "stopped"])

    def test_a_store_that_does_not_open(self) -> None:
        """It is stopped again."""
        opening = self.deferred(self.service.open())
        self.store.opening.errback(StorageError("the disk is on fire"))
        self.failureResultOf(opening, StorageError)
        self.assertIs(self.service.state, ServiceState.STOPPED)
        self.assert_does_nothing()


class Dismissed(Protocol):
    """Records the end of its connection."""

    is_over = False

    def connectionLost(self, reason: object = None) -> None:
        self.is_over = True


class DurableNodesTestCase(NodesTestCase):
    """Queue managers that keep what is recoverable."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)


class OfflineTests(DurableNodesTestCase):
    """[MS-MQDMPR] 3.1.4.12 Take Offline and 3.1.4.13 Bring Online."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta)

    def sessions(self) -> list[int]:
        return [len(node.service.inspection.sessions()) for node in (self.alpha, self.beta)]

    def test_offline_and_online_receiver(self) -> None:
        """Offline, its sessions end and no other begins; online, others reach it again.

        MQDMPR-3.1.4.12-01, MQDMPR-3.1.4.13-01, MQDMPR-3.1.1.1-30.
        """
        service = self.beta.service
        self.assertTrue(service.connection_active)
        self.send(self.alpha, TO_BETA, b"before")
        self.clock.advance(60)
        service.take_offline()
        self.assertFalse(service.connection_active)
        self.assertFalse(service.inspection.status().connection_active)
        self.clock.advance(10)
        self.assertEqual(self.sessions(), [0, 0])
        self.send(self.alpha, TO_BETA, b"meanwhile")
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, self.path), [b"before"])
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 1)
        service.bring_online()
        self.assertTrue(service.connection_active)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, self.path), [b"meanwhile"])

    def test_offline_and_online_sender(self) -> None:
        """Offline, messages wait and no connection is opened; online, they leave."""
        service = self.alpha.service
        self.send(self.alpha, TO_BETA, b"before")
        self.clock.advance(60)
        service.take_offline()
        links = len(self.network.links)
        self.send(self.alpha, TO_BETA, b"meanwhile", delivery=Delivery.RECOVERABLE)
        self.clock.advance(60)
        self.assertEqual(len(self.network.links), links)
        self.assertEqual(service.inspection.outgoing()[0].messages, 1)
        service.bring_online()
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.path), [b"before", b"meanwhile"])

    def test_while_it_dials(self) -> None:
        """A connection that is being made when it goes offline comes to nothing."""
        self.send(self.alpha, TO_BETA, b"1")
        self.alpha.service.take_offline()
        self.clock.advance(60)
        self.assertEqual(self.sessions(), [0, 0])
        self.alpha.service.bring_online()
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])

    def test_while_it_waits_to_dial_again(self) -> None:
        """It does not connect at the end of the wait, and does so once it is online."""
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(2)
        self.alpha.service.take_offline()
        self.beta.listen()
        self.clock.advance(60)
        self.assertEqual(self.sessions(), [0, 0])
        self.alpha.service.bring_online()
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])

    def test_online_again_during_a_long_wait(self) -> None:
        """The wait ends, and offline no next attempt is reported."""
        service = self.alpha.service
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(260)
        [queue] = service.inspection.outgoing()
        assert queue.next_attempt is not None
        self.assertGreater(queue.next_attempt, self.clock.now().wall + 50)
        self.beta.listen()
        service.take_offline()
        self.assertIsNone(service.inspection.outgoing()[0].next_attempt)
        self.clock.advance(1)
        service.bring_online()
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])

    def test_local_work_goes_on(self) -> None:
        """Queues are made, filled and read offline."""
        self.beta.service.take_offline()
        path = self.queue(self.beta, "local", transactional=True)
        self.send(self.beta, path, b"1", transactional=True)
        self.assertEqual(self.bodies(self.beta, path), [b"1"])

    def test_a_restart_is_online(self) -> None:
        """Offline is not kept; neither is Throttled.

        MQDMPR-3.1.1.1-29.
        """
        self.beta.service.take_offline()
        self.beta.model.storage.throttled = True
        self.assertTrue(self.beta.service.inspection.status().throttled)
        self.successResultOf(self.beta.service.stopService())
        self.beta.deaf()
        self.beta = self.node("BETA", BETA, store=self.beta.store)
        self.beta.start()
        self.assertTrue(self.beta.service.connection_active)
        self.assertFalse(self.beta.service.inspection.status().throttled)


class HardenedTests(DurableNodesTestCase):
    """[MS-MQDMPR] 3.1.1.1 HardenedSecurity."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta)
        self.gamma = self.node("GAMMA", GAMMA)

    def restart(self, *, is_hardened: bool) -> QueueManagerService:
        """Start GAMMA, with what it had when it was stopped."""
        if self.gamma.service.running:
            self.gamma.deaf()
            self.successResultOf(self.gamma.service.stopService())
        self.gamma = self.node("GAMMA", GAMMA, store=self.gamma.store, is_hardened=is_hardened)
        self.gamma.start()
        return self.gamma.service

    def states(self) -> list[str]:
        return [queue.state for queue in self.gamma.service.inspection.outgoing()]

    def test_nothing_is_sent(self) -> None:
        """An outgoing queue is made LOCKED, stays so over a restart, and is sent from without hardening.

        MQDMPR-3.1.7.1.5-22, MQDMPR-3.1.3-22, MQDMPR-3.1.3-23, MQDMPR-3.1.1.3-05, MQDMPR-3.1.1.1-31.
        """
        self.restart(is_hardened=True)
        self.send(self.gamma, TO_BETA, b"1", delivery=Delivery.RECOVERABLE)
        self.assertEqual(self.states(), ["LOCKED"])
        self.clock.advance(600)
        self.restart(is_hardened=True)
        self.clock.advance(600)
        self.assertEqual(self.states(), ["LOCKED"])
        self.assertEqual(self.network.links, [])
        self.restart(is_hardened=False)
        self.assertEqual(self.states(), ["WAITING"])
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])

    def test_harden_later(self) -> None:
        """Messages that were pending in an outgoing queue stay there."""
        self.restart(is_hardened=False)
        self.beta.deaf()
        self.send(self.gamma, TO_BETA, b"1", delivery=Delivery.RECOVERABLE)
        self.beta.listen()
        self.restart(is_hardened=True)
        self.clock.advance(600)
        self.assertEqual(self.states(), ["LOCKED"])
        self.assertEqual(self.gamma.service.inspection.outgoing()[0].messages, 1)

    def test_resume_keeps_the_lock(self) -> None:
        """A queue that is paused and resumed is locked again (reading 53); bringing online frees nothing."""
        service = self.restart(is_hardened=True)
        self.send(self.gamma, TO_BETA, b"1")
        self.assertEqual(self.successResultOf(service.pause_outgoing(TO_BETA)).state, "ONHOLD")
        self.assertEqual(self.successResultOf(service.resume_outgoing(TO_BETA)).state, "LOCKED")
        service.bring_online()
        self.clock.advance(600)
        self.assertEqual(self.states(), ["LOCKED"])
        self.assertEqual(self.network.links, [])

    def test_nothing_comes_in(self) -> None:
        """MQDMPR-3.1.1.1-31: a peer that connects is disconnected before a handshake."""
        service = self.restart(is_hardened=True)
        self.queue(self.gamma)
        protocol = Dismissed()
        endpoint = self.network.host("127.0.0.9").client_endpoint(self.gamma.address, 1801)
        endpoint.connect(Factory.forProtocol(lambda: protocol))
        self.clock.advance(5)
        self.assertTrue(protocol.is_over)
        self.assertFalse(service.connection_active)

    def test_http_is_not_locked(self) -> None:
        """Outgoing queues of HTTP names are not: HTTP is what hardening leaves.

        MQDMPR-3.1.3-23.
        """
        self.restart(is_hardened=True)
        now = self.clock.now()
        states = [
            self.gamma.model.outgoing(parse_format_name(name), now).state.value
            for name in ("DIRECT=HTTP://beta/msmq/orders", "DIRECT=HTTPS://beta/msmq/orders", NOWHERE)
        ]
        self.assertEqual(states, ["INACTIVE", "INACTIVE", "LOCKED"])


class PauseTests(NodesTestCase):
    """[MS-MQDMPR] 3.1.4.14 and 3.1.4.15: an administrator pauses an outgoing queue, and resumes it."""

    def test_pause(self) -> None:
        """No message is sent from it, while others of the same next hop are; after the resume it is emptied.

        MQDMPR-3.1.4.14-01, MQDMPR-3.1.4.15-01, MQDMPR-3.1.7.2.3-01, MQDMPR-3.1.7.2.4-01, MQQB-3.1.7.13-04.
        """
        other = TO_BETA.replace("orders", "others")
        paths = self.queue(self.beta), self.queue(self.beta, "others")
        service = self.alpha.service
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(service.pause_outgoing(TO_BETA)).state, "ONHOLD")
        self.send(self.alpha, TO_BETA, b"2")
        self.send(self.alpha, other, b"3")
        self.clock.advance(600)
        self.assertEqual(service.inspection.outgoing_queue(TO_BETA).state, "ONHOLD")
        self.assertEqual([self.bodies(self.beta, path) for path in paths], [[b"1"], [b"3"]])
        service.resume_outgoing(TO_BETA)
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, paths[0]), [b"2"])

    def test_an_empty_queue(self) -> None:
        """Resumed, it is connected if its session is open (reading 26), and idle otherwise."""
        service = self.alpha.service
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        service.pause_outgoing(TO_BETA)
        self.assertEqual(self.successResultOf(service.resume_outgoing(TO_BETA)).state, "CONNECTED")
        self.clock.advance(3600)
        self.assertEqual(service.inspection.sessions(), [])
        service.pause_outgoing(TO_BETA)
        self.assertEqual(self.successResultOf(service.resume_outgoing(TO_BETA)).state, "INACTIVE")

    def test_a_queue_that_is_not_paused(self) -> None:
        """Resuming it changes nothing."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(self.alpha.service.resume_outgoing(TO_BETA)).state, "CONNECTED")

    def test_a_queue_of_its_own(self) -> None:
        """Only outgoing queues are paused."""
        path = self.queue(self.alpha)
        for change in (self.alpha.service.pause_outgoing, self.alpha.service.resume_outgoing):
            error = self.failureResultOf(change(path), MQError).value
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_OPERATION)


class CoordinatorTests(NodesTestCase):
    """Transactions with an external coordinator."""

    def test_they_are_refused(self) -> None:
        """There is no coordinator, and the refusal names what is supported; no trace is left."""
        error = self.assertRaises(MQError, self.alpha.service.enlist, BETA)
        self.assertEqual(error.status, Status.MQ_ERROR_DTC_CONNECT)
        self.assertIn("coordinator", str(error))
        self.assertEqual(self.alpha.service.inspection.transactions(), [])
