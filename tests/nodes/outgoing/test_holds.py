"""Outgoing queues that an operator has paused: by name, by next hop, or all of them, and over restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.manager.summaries import PausedOutgoing
from msmq.interfaces.storage import StorageError
from msmq.manager.manager_settings import ORIGINAL, CloneCheck
from msmq.persistence.changes import PutState
from msmq.queues.arriving.message import Delivery
from msmq.queues.holds import ALL, MOST_HOLDS, NAME, NEXT_HOP, Holds
from msmq.queues.redirects import REDIRECT
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
OTHER = "DIRECT=TCP:127.0.0.3\\private$\\other"
BY_NAME = "DIRECT=OS:BETA\\private$\\orders"
TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"


class HeldReads(MemoryMessageStore):
    """A store whose commits are quick, while its reads wait.

    @ivar held: those that wait; C{None} if none does.
    """

    held: list[tuple[Deferred[Sequence[bytes]], Deferred[Sequence[bytes]]]] | None = None

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{MemoryMessageStore.read}."""
        read = super().read(queue, lookup_ids)
        if self.held is None:
            return read
        done: Deferred[Sequence[bytes]] = Deferred()
        self.held.append((read, done))
        return done

    def release(self) -> None:
        """End those that wait; further ones do not."""
        held, self.held = self.held or [], None
        for read, done in held:
            read.chainDeferred(done)


class HoldTests(NodesTestCase):
    """ALPHA sends to BETA; its store survives a restart."""

    clone = ORIGINAL

    def setUp(self) -> None:
        super().setUp()
        self.store = MemoryMessageStore(durable=True)
        self.restart()
        self.beta.deaf()
        self.successResultOf(self.beta.service.stopService())
        self.beta = self.receiver("BETA", BETA)
        for name in ("orders", "other"):
            self.run_to_end(self.beta.service.create_queue(f".\\private$\\{name}"))

    def receiver(self, name: str, identifier: UUID) -> Node:
        """A queue manager that takes what survives a restart."""
        node = self.node(name, identifier, store=MemoryMessageStore(durable=True))
        node.start()
        self.addCleanup(node.service.stopService)
        return node

    def restart(self) -> None:
        """Stop ALPHA, and start it on what its store has."""
        self.alpha.deaf()
        self.successResultOf(self.alpha.service.stopService())
        self.alpha = self.node("ALPHA", ALPHA, store=self.store, options={"clone": self.clone})
        self.alpha.start()
        self.addCleanup(self.alpha.service.stopService)
        self.clock.advance(1)

    def post(self, name: str, *bodies: bytes) -> None:
        """Send what survives a restart."""
        self.send(self.alpha, name, *bodies, delivery=Delivery.RECOVERABLE)

    def done(self, held: Deferred[Any]) -> Any:
        return self.successResultOf(held)

    def state(self, name: str) -> tuple[str, Sequence[str]]:
        shown = self.alpha.service.inspection.outgoing_queue(name)
        return shown.state, shown.paused_by

    def there(self, name: str = "orders") -> int:
        """How many messages have arrived."""
        messages: int = self.beta.service.inspection.queue(f".\\private$\\{name}").messages
        return messages

    def test_clone(self) -> None:
        """A clone sends nothing, also to names that are used later, until an operator decides that it may."""
        self.done(self.alpha.service.pause_outgoing(OTHER))
        self.post(TO_BETA, b"waiting")
        self.clock.advance(1)
        self.beta.service.take_offline()
        self.post(TO_BETA, b"2")
        self.beta.service.bring_online()
        kept: list[bool] = []
        self.clone = CloneCheck("the data directory was copied", lambda: kept.append(True))
        arrived = self.there()
        self.restart()
        self.flushLoggedErrors()
        self.post(BY_NAME, b"3")
        self.clock.advance(100)
        status = self.alpha.service.inspection.status()
        self.assertEqual(
            (status.identity, status.clone_suspicion), ("clone_suspected", "the data directory was copied")
        )
        self.assertEqual(self.state(TO_BETA), ("ONHOLD", ["clone"]))
        self.assertEqual(self.state(OTHER), ("ONHOLD", ["name", "clone"]))
        self.assertEqual(self.there(), arrived)
        [event] = [
            stored.event.reason
            for stored in self.run_to_end(self.alpha.service.inspection.events())
            if stored.event.event == "clone_suspected"
        ]
        self.assertIn("was copied", event)
        self.assertEqual(self.alpha.service.keep_identity().identity, "original")
        self.clock.advance(100)
        self.assertEqual((kept, self.there()), ([True], 3))
        self.assertEqual(self.state(OTHER)[1], ["name"])

    def test_over_a_restart(self) -> None:
        """A name is paused before anything was sent to it, and stays so; what is sent to others leaves."""
        shown = self.done(self.alpha.service.pause_outgoing(TO_BETA))
        self.assertEqual((shown.state, shown.paused_by, shown.messages), ("ONHOLD", ["name"], 0))
        self.post(TO_BETA, b"1", b"2")
        self.post(OTHER, b"3")
        self.clock.advance(100)
        self.assertEqual((self.there(), self.there("other")), (0, 1))
        for _ in range(2):
            self.restart()
            self.clock.advance(100)
            self.assertEqual(self.state(TO_BETA), ("ONHOLD", ["name"]))
            self.assertEqual(self.there(), 0)
        self.assertEqual(
            self.alpha.service.inspection.status().outgoing_paused,
            PausedOutgoing(all=False, names=1, next_hops=[]),
        )
        self.post(TO_BETA.replace("orders", "ORDERS"), b"3")
        resumed = self.done(self.alpha.service.resume_outgoing(TO_BETA))
        self.assertEqual(resumed.paused_by, [])
        self.clock.advance(1)
        self.assertEqual(self.there(), 3)
        self.restart()
        self.post(TO_BETA, b"4")
        self.clock.advance(1)
        self.assertEqual(self.there(), 4)

    def test_case_of_names(self) -> None:
        """A pause that is ended by a name in another case stays ended after a restart."""
        self.post(TO_BETA, b"1")
        self.done(self.alpha.service.pause_outgoing(TO_BETA.replace("orders", "ORDERS")))
        self.done(self.alpha.service.resume_outgoing(TO_BETA))
        self.restart()
        self.assertEqual(self.state(TO_BETA)[1], [])

    def test_pause_all(self) -> None:
        """Everything is paused, what is sent to later too; the end of that leaves single pauses."""
        self.done(self.alpha.service.pause_outgoing(OTHER))
        self.post(TO_BETA, b"1")
        self.clock.advance(1)
        shown = self.done(self.alpha.service.pause_all_outgoing())
        self.assertEqual({queue.state for queue in shown}, {"ONHOLD"})
        self.post(BY_NAME, b"2")
        self.restart()
        self.post(TO_BETA, b"3")
        self.clock.advance(100)
        self.assertEqual(self.there(), 1)
        self.assertEqual(self.state(OTHER), ("ONHOLD", ["name", "all"]))
        self.assertEqual(self.state(BY_NAME), ("ONHOLD", ["all"]))
        self.assertEqual(self.done(self.alpha.service.resume_outgoing(BY_NAME)).paused_by, ["all"])
        self.post(OTHER, b"4")
        self.done(self.alpha.service.resume_all_outgoing())
        self.clock.advance(1)
        self.assertEqual((self.there(), self.there("other")), (3, 0))
        self.assertEqual(self.state(OTHER), ("ONHOLD", ["name"]))

    def test_next_hop(self) -> None:
        """Messages to one host are paused, under any name, and messages to others are sent."""
        gamma = self.receiver("GAMMA", UUID(int=0xC))
        self.run_to_end(gamma.service.create_queue(".\\private$\\orders"))
        for name in (TO_BETA, BY_NAME):
            self.post(name, b"1")
        self.clock.advance(1)
        shown = self.done(self.alpha.service.pause_next_hop("127.0.0.3"))
        self.assertEqual([queue.format_name for queue in shown], [TO_BETA, BY_NAME])
        for _ in range(2):
            for name in (TO_BETA, BY_NAME, OTHER, TO_GAMMA):
                self.post(name, b"2")
            self.clock.advance(100)
            self.assertEqual((self.there(), self.there("other")), (2, 0))
            for name in (TO_BETA, BY_NAME, OTHER):
                self.assertEqual(self.state(name), ("ONHOLD", ["next_hop"]))
            self.restart()
        self.assertEqual(gamma.service.inspection.queue(".\\private$\\orders").messages, 2)
        self.assertEqual(
            self.alpha.service.inspection.status().outgoing_paused.next_hops, ["127.0.0.3", "beta"]
        )
        self.done(self.alpha.service.resume_next_hop("127.0.0.3"))
        self.done(self.alpha.service.resume_next_hop("Beta."))
        self.clock.advance(1)
        self.assertEqual((self.there(), self.there("other")), (6, 2))

    def test_name_that_leads_to_a_paused_next_hop(self) -> None:
        """A name that is used for the first time is paused when its session shows where it leads."""
        for host, name in (("127.0.0.3", BY_NAME), (str(BETA), TO_BETA)):
            self.restart()
            before = self.there()
            self.done(self.alpha.service.pause_next_hop(host))
            self.post(name, b"1", b"2")
            self.clock.advance(100)
            self.assertEqual((self.there(), self.state(name)), (before, ("ONHOLD", ["next_hop"])))
            self.done(self.alpha.service.resume_next_hop(host))
            self.clock.advance(1)
            self.assertEqual(self.there(), before + 2)

    def begin_to_read(self) -> Callable[[], None]:
        """Have the session with BETA read messages for both queues there, until the result is called."""
        store = self.store = HeldReads(durable=True)
        self.restart()
        self.beta.service.take_offline()
        for name in (TO_BETA, OTHER):
            self.post(name, b"1")
        self.restart()
        store.held = []
        self.beta.service.bring_online()
        self.clock.advance(100)
        self.assertEqual(len(store.held), 1)

        def go_on() -> None:
            store.release()
            self.clock.advance(100)

        return go_on

    def test_while_messages_are_read(self) -> None:
        """What was being read from the store when its queue was paused is not sent; other queues go on."""
        go_on = self.begin_to_read()
        self.done(self.alpha.service.pause_outgoing(TO_BETA))
        go_on()
        self.assertEqual((self.there(), self.there("other")), (0, 1))
        self.done(self.alpha.service.resume_outgoing(TO_BETA))
        self.clock.advance(1)
        self.assertEqual(self.there(), 1)

    def test_redirected_while_messages_are_read(self) -> None:
        """What was being read from the store when its queue was redirected goes to the new address."""
        gamma = self.receiver("GAMMA", UUID(int=0xC))
        self.run_to_end(gamma.service.create_queue(".\\private$\\orders"))
        go_on = self.begin_to_read()
        self.done(self.alpha.service.redirect_outgoing(TO_BETA, "127.0.0.4"))
        go_on()
        self.assertEqual((self.there(), self.there("other")), (0, 1))
        self.assertEqual(gamma.service.inspection.queue(".\\private$\\orders").messages, 1)

    def test_store_fails(self) -> None:
        """A pause that cannot be stored has no effect."""

        class Broken(MemoryMessageStore):
            trouble: Exception | None = None

            def commit(self, changes: Any) -> Deferred[None]:
                if self.trouble is not None and any(isinstance(each, PutState) for each in changes):
                    return Deferred.fromCoroutine(self.fail())
                return super().commit(changes)

            async def fail(self) -> None:
                assert self.trouble is not None
                raise self.trouble

        store = Broken(durable=True)
        self.store = store
        self.restart()
        store.trouble = StorageError("the disk is on fire")
        for held in (
            self.alpha.service.pause_outgoing(TO_BETA),
            self.alpha.service.pause_all_outgoing(),
            self.alpha.service.pause_next_hop("127.0.0.3"),
        ):
            error = self.failureResultOf(held, MQError).value
            self.assertEqual(error.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        store.trouble = None
        self.post(TO_BETA, b"1")
        self.clock.advance(1)
        self.assertEqual(self.there(), 1)


class GateTests(EnterpriseTestCase):
    """ALPHA's messages to ZETA pass a gate of another site."""

    def test_gate_is_taken_out(self) -> None:
        """No message is sent to a paused gate, by its name or its identifier; after the end of the pause all
        are.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        gate = str(IDENTIFIERS["BETA"])
        for host in ("beta", gate, f"{{{gate.upper()}}}"):
            self.successResultOf(self.alpha.service.pause_next_hop(host))
            self.send(self.alpha, name, b"held")
            self.clock.advance(30)
            self.assertEqual(self.alpha.service.inspection.outgoing_queue(name).paused_by, ["next_hop"])
            self.assertEqual(self.take(self.zeta, path), [])
            self.successResultOf(self.alpha.service.resume_next_hop(host))
            self.clock.advance(30)
            self.assertEqual(len(self.take(self.zeta, path)), 1)


class LimitTests(NodesTestCase):
    """Stored pauses, and their limit."""

    def test_paused_names_are_limited(self) -> None:
        """The number of paused names is limited; a name that is paused already may be paused again."""
        holds = Holds(is_clone=False)
        names = [parse_format_name(f"DIRECT=TCP:127.0.0.3\\private$\\q{number}") for number in range(3)]
        for number in range(MOST_HOLDS - 1):
            holds.set_host(str(number), True)
        holds.set_name(names[0], True)
        holds.change_name(names[0], True)
        holds.change_name(names[1], False)
        for change in (lambda: holds.change_name(names[1], True), lambda: holds.change_host("x", True)):
            error = self.assertRaises(MQError, change)
            self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def test_damaged(self) -> None:
        """A value of the store that is not a name is left out."""
        holds = Holds(is_clone=False)
        holds.load({f"{NAME}nonsense": b"1", f"{NAME}{TO_BETA}": b"1", f"{NEXT_HOP}beta": b"1", ALL: b"1"})
        self.assertEqual([str(name) for name in holds.names], [TO_BETA])
        self.assertEqual((holds.hosts, holds.is_all), (("beta",), True))

    def test_damaged_names_are_logged(self) -> None:
        """A start says which pauses and redirects it leaves out: their queues send, to the old address."""
        gamma = self.node("GAMMA", UUID(int=3), store=MemoryMessageStore(durable=True))
        gamma.start()
        invalid = {f"{NAME}nonsense": b"1", f"{REDIRECT}{TO_BETA}": b"gamma:1801"}
        changes = [PutState(name, value) for name, value in invalid.items()]
        self.successResultOf(maybeDeferred(gamma.store.commit, changes))
        gamma.deaf()
        self.successResultOf(gamma.service.stopService())
        with capturedLogs() as logs:
            self.node("GAMMA", UUID(int=3), store=gamma.store).start()
        lines = [formatEvent(event) for event in logs]
        self.assertIn(
            "1 stored pause(s) of outgoing queues are left out, since their names are invalid, so they send:"
            " 'nonsense'",
            lines,
        )
        self.assertIn(
            f"1 stored redirect(s) of outgoing queues are left out, since they are invalid: '{TO_BETA}'",
            lines,
        )
