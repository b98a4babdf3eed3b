"""Outgoing queues with direct names that an operator sends to another address than the one in the name."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.persistence.changes import Change, PutMessage, PutMessages
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.queues.redirects import MOST_REDIRECTS, REDIRECT, Redirects, redirect_address
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status
from msmq.transfer.decisions.next_hop_decision import REPORTED_AFTER
from msmq.wire.guid import braced
from tests.builders import ALPHA, BETA, GAMMA
from tests.manager.support import BROKEN, FaultyStore
from tests.nodes.scripted import JOURNAL
from tests.nodes.support import ADDRESSES, Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NEW = "127.0.0.4"
ORDERS = ".\\private$\\orders"


class MovingTestCase(NodesTestCase):
    """Queue managers whose stores survive a restart."""

    def setUp(self) -> None:
        super().setUp()
        self.stores = {name: MemoryMessageStore(durable=True) for name in ("ALPHA", "BETA", "GAMMA")}
        for node in (self.alpha, self.beta):
            self.stop(node)
        self.alpha = self.begin("ALPHA", ALPHA)
        self.beta = self.begin("BETA", BETA)
        self.queue(self.beta, transactional=True)

    def begin(self, name: str, identifier: UUID, *, store: str = "") -> Node:
        node = self.node(name, identifier, store=self.stores[store or name])
        node.start()
        self.addCleanup(node.service.stopService)
        self.clock.advance(1)
        return node

    def stop(self, node: Node) -> None:
        node.deaf()
        self.successResultOf(node.service.stopService())
        self.clock.advance(1)

    def restart_alpha(self) -> None:
        self.stop(self.alpha)
        self.alpha = self.begin("ALPHA", ALPHA)

    def move_beta(self) -> None:
        """BETA is at GAMMA's address from now on."""
        self.stop(self.beta)
        self.beta = self.begin("GAMMA", BETA, store="BETA")

    def pay(self, *bodies: bytes) -> None:
        self.send(self.alpha, TO_BETA, *bodies, transactional=True, journal=True)
        self.clock.advance(60)

    def redirect(self, name: str = TO_BETA, to: str | None = NEW) -> Any:
        shown = self.successResultOf(self.alpha.service.redirect_outgoing(name, to))
        self.clock.advance(60)
        return shown

    def arrived(self) -> list[bytes]:
        found = self.bodies(self.beta, ORDERS)
        self.clock.advance(60)
        return found


class RedirectTests(MovingTestCase):
    """ALPHA sends to BETA, which moves from 127.0.0.3 to 127.0.0.4 with its store."""

    def test_messages_follow(self) -> None:
        """Pending and later messages arrive at the new address, once and in order, and are confirmed."""
        self.pay(b"1")
        self.move_beta()
        self.pay(b"2", b"3")
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 2)
        self.assertEqual(self.redirect().redirected_to, NEW)
        self.pay(b"4")
        shown = self.alpha.service.inspection.outgoing_queue(TO_BETA)
        self.assertEqual((shown.messages, shown.state, shown.next_hops), (0, "CONNECTED", [NEW]))
        self.assertEqual(self.arrived(), [b"1", b"2", b"3", b"4"])
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 4)
        self.assertEqual(self.alpha.service.inspection.status().refused, {})

    def test_nothing_pending(self) -> None:
        """What had arrived before is confirmed from the new address, though nothing is sent there first."""
        self.pay(b"1", b"2")
        self.restart_alpha()
        self.redirect()
        self.move_beta()
        self.assertEqual(self.arrived(), [b"1", b"2"])
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 2)
        self.assertEqual(self.alpha.service.inspection.status().refused, {})

    def test_over_a_restart(self) -> None:
        """It is kept, listed before anything is sent, and counted; a name may be redirected in advance."""
        self.move_beta()
        self.redirect()
        for _ in range(2):
            self.restart_alpha()
            [shown] = self.alpha.service.inspection.outgoing()
            self.assertEqual((shown.format_name, shown.redirected_to), (TO_BETA, NEW))
            self.assertEqual(self.alpha.service.inspection.status().redirected_names, 1)
        self.pay(b"1")
        self.assertEqual(self.arrived(), [b"1"])

    def test_undone(self) -> None:
        """The address in the name is dialled again, and nothing else; undoing nothing changes nothing."""
        self.redirect()
        self.pay(b"1")
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 1)
        self.assertEqual(self.redirect(TO_BETA.replace("orders", "ORDERS"), None).redirected_to, None)
        self.assertEqual(self.arrived(), [b"1"])
        self.assertEqual(self.redirect(to=None).redirected_to, None)
        self.restart_alpha()
        self.pay(b"2")
        self.assertEqual(self.arrived(), [b"2"])
        self.assertEqual(self.alpha.service.inspection.status().redirected_names, 0)

    def test_while_connected(self) -> None:
        """Messages in transit on an open session are not sent twice; later ones go to the new address."""
        self.pay(b"1")
        self.send(self.alpha, TO_BETA, b"2", transactional=True)
        gamma = self.begin("GAMMA", GAMMA)
        self.queue(gamma, transactional=True)
        self.redirect()
        self.pay(b"3")
        self.assertEqual(self.arrived() + self.bodies(gamma, ORDERS), [b"1", b"2", b"3"])

    def test_away_from_a_paused_next_hop(self) -> None:
        """A queue that is paused with its next hop sends to another one, and to a paused one not."""
        self.pay(b"1")
        self.successResultOf(self.alpha.service.pause_next_hop("127.0.0.3"))
        self.pay(b"2")
        self.move_beta()
        shown = self.redirect()
        self.assertEqual((shown.state, shown.paused_by), ("WAITING", []))
        self.pay(b"3")
        self.assertEqual(self.arrived(), [b"1", b"2", b"3"])
        shown = self.redirect(to=None)
        self.assertEqual((shown.state, shown.paused_by), ("ONHOLD", ["next_hop"]))

    def test_away_while_paused_by_name(self) -> None:
        """A queue that is paused by its name stays paused."""
        self.pay(b"1")
        self.successResultOf(self.alpha.service.pause_outgoing(TO_BETA))
        self.redirect()
        self.pay(b"2")
        shown = self.alpha.service.inspection.outgoing_queue(TO_BETA)
        self.assertEqual((shown.state, shown.paused_by, shown.messages), ("ONHOLD", ["name"], 1))

    def test_state_without_a_session(self) -> None:
        """A queue that has been connected is not at an address without an answer, also if it is empty."""
        self.pay(b"1")
        shown = self.successResultOf(self.alpha.service.redirect_outgoing(TO_BETA, NEW))
        self.assertEqual((shown.state, shown.next_hops), ("DISCONNECTED", []))
        self.send(self.alpha, TO_BETA, b"2", transactional=True)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).state, "WAITING")
        self.move_beta()
        self.clock.advance(60)
        shown = self.alpha.service.inspection.outgoing_queue(TO_BETA)
        self.assertEqual((shown.state, shown.next_hops), ("CONNECTED", [NEW]))

    def test_nothing_is_left_of_a_former_address(self) -> None:
        """No table has the next hop that was dialled before a redirect."""
        hops = self.alpha.service._work.transfer.messages.hops
        self.pay(b"1")
        [former] = hops
        gamma = self.begin("GAMMA", GAMMA)
        self.queue(gamma, transactional=True)
        self.redirect()
        self.pay(b"2")
        [present] = hops
        self.assertIsNot(present, former)
        tables = [each for each in gc.get_referrers(former) if type(each) is dict and former in each]
        self.assertEqual(tables, [])

    def test_another_queue_manager(self) -> None:
        """Transactional messages reach another queue manager too, which has not seen those before."""
        self.pay(b"1", b"2")
        self.stop(self.beta)
        self.pay(b"3", b"4")
        gamma = self.begin("GAMMA", GAMMA)
        self.queue(gamma, transactional=True)
        self.redirect()
        self.pay(b"5")
        self.clock.advance(4000)
        self.assertEqual(self.bodies(gamma, ORDERS), [b"3", b"4", b"5"])

    def test_by_name(self) -> None:
        """The new address may be the name of a computer, and two names that lead there share its session."""
        gamma = self.begin("GAMMA", GAMMA)
        self.queue(gamma)
        self.redirect("DIRECT=OS:DELTA\\private$\\orders", "gamma.")
        for name in ("DIRECT=OS:DELTA\\private$\\orders", "DIRECT=OS:GAMMA\\private$\\orders"):
            self.send(self.alpha, name, name.encode(), delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(len(self.bodies(gamma, ORDERS)), 2)
        self.assertEqual(len(self.alpha.service.inspection.sessions()), 1)

    def test_refusals(self) -> None:
        """Names without an address, own queues and addresses, and what is not an address."""
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        for name, to, status, reason in (
            (f"PRIVATE={BETA}\\0000000A", NEW, unsupported, "looked up in the directory"),
            (f"PUBLIC={BETA}", NEW, unsupported, "looked up in the directory"),
            ("DIRECT=HTTP://beta/msmq/private$/q", NEW, unsupported, "cannot be redirected"),
            ("BETA\\private$\\orders", NEW, unsupported, "is not the name of an outgoing queue"),
            ("DIRECT=OS:ALPHA\\private$\\q", NEW, Status.MQ_ERROR_ILLEGAL_OPERATION, "of this queue manager"),
            (TO_BETA, "127.0.0.2", Status.MQ_ERROR_ILLEGAL_OPERATION, "an address of this queue manager"),
            (TO_BETA, "alpha", Status.MQ_ERROR_ILLEGAL_OPERATION, "an address of this queue manager"),
            (TO_BETA, "127.0.0.3", Status.MQ_ERROR_INVALID_PARAMETER, "the address in the name already"),
            *(
                (TO_BETA, to, Status.MQ_ERROR_INVALID_PARAMETER, "is not an address")
                for to in ("", "a b", "127.0.0.4:1801", "a\nb", "x/y", "[::1]:1801", "a" * 300, "\0")
            ),
        ):
            error = self.failureResultOf(self.alpha.service.redirect_outgoing(name, to), MQError).value
            self.assertEqual(error.status, status, (name, to))
            self.assertIn(reason, str(error))
            self.assertNotIn("\n", str(error))
        self.assertEqual(self.alpha.service.inspection.outgoing(), [])


class MovedReceiverTests(MovingTestCase):
    """ALPHA sends one transactional message at a time, and its receiver moves between two of them."""

    settings = SessionSettings(unacknowledged_messages=1)

    def send_two(self, name: str) -> None:
        """BETA has the first of two messages of a sequence, and its disk fails for the second; it stops."""
        self.stop(self.beta)
        disk = self.stores["BETA"] = FaultyStore()
        self.beta = self.begin("BETA", BETA)
        self.queue(self.beta, transactional=True)
        stored = 0

        def is_hit(changes: Sequence[Change]) -> bool:
            nonlocal stored
            stored += any(isinstance(each, PutMessage | PutMessages) for each in changes)
            return stored > 1

        disk.error, disk.is_hit = BROKEN, is_hit
        self.send(self.alpha, name, b"1", b"2", transactional=True, journal=True)
        self.clock.advance(60)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(name).messages, 1)
        disk.recover()
        self.stop(self.beta)

    def test_another_address(self) -> None:
        """FinalAcks come from its new address, and are accepted also after a restart."""
        ADDRESSES["MOVING"] = ADDRESSES["BETA"]
        self.addCleanup(ADDRESSES.pop, "MOVING")
        name = "DIRECT=OS:MOVING\\private$\\orders"
        self.send_two(name)
        ADDRESSES["MOVING"] = ADDRESSES["GAMMA"]
        self.beta = self.begin("GAMMA", BETA, store="BETA")
        self.clock.advance(700)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(name).messages, 0)
        self.restart_alpha()
        self.assertEqual(self.arrived(), [b"1", b"2"])
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 2)
        self.assertEqual(self.alpha.service.inspection.status().refused, {})

    def test_another_queue_manager(self) -> None:
        """The second message arrives at the queue manager to which the queue is redirected, at its first
        attempt.
        """
        self.send_two(TO_BETA)
        gamma = self.begin("GAMMA", GAMMA)
        self.queue(gamma, transactional=True)
        self.redirect()
        self.send(self.alpha, TO_BETA, b"3", transactional=True, journal=True)
        self.clock.advance(10)
        self.assertEqual(self.bodies(gamma, ORDERS), [b"2", b"3"])
        self.clock.advance(60)
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 2)


class KeptRedirectTests(NodesTestCase):
    """Stored redirects, and their limit."""

    def test_limit(self) -> None:
        """There is a limit; a name that is redirected already may be redirected elsewhere."""
        redirects = Redirects()
        for number in range(MOST_REDIRECTS):
            redirects.set(parse_format_name(f"DIRECT=TCP:127.0.0.3\\private$\\q{number}"), NEW)
        redirects.change(parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\Q7"), "127.0.0.5")
        with self.assertRaisesRegex(MQError, "10000 names are redirected already"):
            redirects.change(parse_format_name(TO_BETA), NEW)

    def test_damaged_state(self) -> None:
        """Names and addresses in the store that cannot be read are left out."""
        redirects = Redirects()
        redirects.load(
            {f"{REDIRECT}nothing": b"x", f"{REDIRECT}{TO_BETA}": b"\xff", f"{REDIRECT}{TO_BETA}2": b"beta"}
        )
        self.assertEqual(list(map(str, redirects.names)), [f"{TO_BETA}2"])

    def test_addresses(self) -> None:
        """IPv4, IPv6 with or without brackets, and names with or without the final dot."""
        for text, host in (
            ("127.0.0.4", "127.0.0.4"),
            ("[::1]", "::1"),
            (" beta.example.com. ", "beta.example.com"),
        ):
            self.assertEqual(redirect_address(text).address, host)

    def test_store_fails(self) -> None:
        """A redirect that cannot be stored has no effect."""
        self.patch(self.alpha.store, "commit", lambda changes: Deferred.fromCoroutine(_fail()))
        self.failureResultOf(self.alpha.service.redirect_outgoing(TO_BETA, NEW), MQError)
        self.assertEqual(self.alpha.service.inspection.status().redirected_names, 0)


async def _fail() -> None:
    raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, "the disk is on fire")


class AdministrationAcknowledgementTests(MovingTestCase):
    """ALPHA requests acknowledgements to a direct name with its own address, and then moves."""

    def setUp(self) -> None:
        super().setUp()
        self.run_to_end(self.alpha.service.create_queue(".\\private$\\admin"))

    def request(self, count: int, delivery: Delivery) -> None:
        admin = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
        for _ in range(count):
            self.send(
                self.alpha,
                "DIRECT=TCP:127.0.0.3\\private$\\plain",
                b"x",
                delivery=delivery,
                acknowledge=Acknowledge.POSITIVE_RECEIVE,
                admin_queue=admin,
            )
        self.clock.advance(60)

    def move_alpha(self) -> None:
        self.stop(self.alpha)
        self.alpha = self.begin("DELTA", ALPHA, store="ALPHA")

    def events(self) -> list[str]:
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        return [each.event.reason for each in stored if each.event.event == "acknowledgements_wait"]

    def test_reported_and_redirected(self) -> None:
        """One event names what waits, also after a restart, and how to send it on; then it arrives."""
        self.queue(self.beta, "plain")
        for delivery in (Delivery.EXPRESS, Delivery.RECOVERABLE):
            self.request(2, delivery)
        self.move_alpha()
        self.assertEqual(len(self.bodies(self.beta, ".\\private$\\plain")), 4)
        self.clock.advance(3 * REPORTED_AFTER)
        name = "DIRECT=TCP:127.0.0.2\\private$\\admin"
        [reason] = self.events()
        self.assertIn(f"4 administration acknowledgements that queue manager {braced(ALPHA)} request", reason)
        self.assertTrue(reason.endswith(f"use msmq outgoing redirect '{name}' --to ADDRESS"), reason)
        self.stop(self.beta)
        self.beta = self.begin("BETA", BETA)
        self.clock.advance(3 * REPORTED_AFTER)
        [_, reason] = self.events()
        self.assertIn("2 administration acknowledgements", reason)
        self.successResultOf(self.beta.service.redirect_outgoing(name, "127.0.0.5"))
        self.clock.advance(60)
        self.assertEqual(len(self.take(self.alpha, ".\\private$\\admin")), 2)
        self.clock.advance(3 * REPORTED_AFTER)
        self.assertEqual(len(self.events()), 2)

    def test_other_messages(self) -> None:
        """Messages of applications for an address that does not answer are no such event."""
        self.stop(self.alpha)
        self.send(self.beta, "DIRECT=TCP:127.0.0.2\\private$\\plain", b"x", delivery=Delivery.RECOVERABLE)
        self.clock.advance(3 * REPORTED_AFTER)
        self.assertEqual(self.events(), [])
