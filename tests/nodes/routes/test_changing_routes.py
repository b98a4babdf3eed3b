"""Routes change while messages wait: servers come and go, and the directory is edited."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.routes.route_table import AVOIDED, RETRY
from msmq.membership.objects import (
    QueueManagerObject,
)
from msmq.queues.arriving.message import Delivery, Message
from tests.manager.directory_status import directory_status
from tests.nodes.routes.test_routing import BERLIN, IDENTIFIERS, ORDERS, EnterpriseTestCase


class ChangingTests(EnterpriseTestCase):
    """Routes that end, and new ones."""

    def test_cheaper_gate_is_gone(self) -> None:
        """Messages that cannot be routed through Paris go directly to Rome, and through Paris again when its
        gate is back.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        self.kill("DELTA")
        self.send(self.alpha, name, b"around")
        for _ in range(10):
            self.clock.advance(1)
        [view] = self.take(self.zeta, path)
        self.assertEqual((bytes(view.body), view.hop_count), (b"around", 2))
        self.revive("DELTA")
        self.clock.advance(AVOIDED)
        self.clock.advance(1)
        self.send(self.alpha, name, b"through")
        for _ in range(10):
            self.clock.advance(1)
        [view] = self.take(self.zeta, path)
        self.assertEqual((bytes(view.body), view.hop_count), (b"through", 3))

    def test_gate_dies_with_messages_in_it(self) -> None:
        """They are sent again by another route, and the copies that the gate still has change nothing
        later.
        """
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.kill("EPSILON")
        expected = [b"%d" % number for number in range(20)]
        for body in expected:
            self.run_to_end(self.alpha.service.send(name, [Message(body=body, transactional=True)]))
        for _ in range(10):
            self.clock.advance(1)
        delta = self.nodes["DELTA"]
        self.assertEqual(sum(queue.messages for queue in delta.service.inspection.outgoing()), 20)
        self.kill("DELTA")
        self.revive("EPSILON")
        for _ in range(400):
            self.clock.advance(1)
        self.revive("DELTA")
        for _ in range(400):
            self.clock.advance(1)
        self.assertEqual(self.bodies(self.zeta, path), expected)
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [0])
        # What the gate had is refused as what has come already.
        self.assertEqual(self.zeta.service.inspection.status().refused.get("DUPLICATE", 0) % 20, 0)
        self.assertEqual(
            sum(queue.messages for queue in self.nodes["DELTA"].service.inspection.outgoing()), 0
        )

    def test_the_only_gate_is_gone(self) -> None:
        """Messages wait for it, since there is no other route."""
        path = self.queue(self.zeta)
        self.kill("BETA")
        self.send(self.alpha, self.private_name(self.zeta, path), b"late", delivery=Delivery.RECOVERABLE)
        for _ in range(20):
            self.clock.advance(1)
        self.assertEqual(self.take(self.zeta, path), [])
        self.revive("BETA")
        for _ in range(90):
            self.clock.advance(1)
        self.assertEqual(self.bodies(self.zeta, path), [b"late"])

    def test_restart_while_the_directory_is_away(self) -> None:
        """[MS-MQOD] 2.7.4: gates and senders that are started anew route as before, and say how old that is.

        When the directory is back it is read, within the minute of the Directory Online Timer.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        assert self.directory is not None
        self.directory.is_connected = False
        self.clock.advance(100)
        self.alpha = self.restart("ALPHA")
        self.restart("DELTA")
        self.clock.advance(0)
        self.send(self.alpha, name, b"by what was known")
        self.clock.advance(10)
        [view] = self.take(self.zeta, path)
        self.assertEqual(bytes(view.body), b"by what was known")
        known = directory_status(self.alpha.service)
        self.assertEqual((known.reached, known.age), (False, 110))
        self.directory.is_connected = True
        self.clock.advance(61)
        known = directory_status(self.alpha.service)
        self.assertTrue(known.reached)
        self.assertIn(known.age, range(61))

    def test_enterprise_is_read_again(self) -> None:
        """A message without a route goes as soon as the router has read one, not when it is tried again."""
        assert self.directory is not None
        other = UUID(int=0xA0FF)
        self.send(self.alpha, f"PRIVATE={other}\\00000005", b"x")
        self.clock.advance(1)
        self.directory.add(
            QueueManagerObject(
                identifier=other,
                computer_name="ZETA2",
                qualified_computer_name="zeta.example.com",
                site_identifier_list=(BERLIN,),
            )
        )
        router: Any = self.alpha.service._work.directory.router
        router.refresh_later()
        self.clock.advance(1)
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertNotEqual(queue.state, "NEED VALIDATION")

    def test_unknown_queue_manager(self) -> None:
        """MQQB-3.1.7.5-03: without a route a message waits; when the directory has one, it leaves."""
        assert self.directory is not None
        other = UUID(int=0xA0FF)
        self.send(self.alpha, f"PRIVATE={other}\\00000005", b"x")
        self.clock.advance(1)
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual((queue.state, queue.messages), ("NEED VALIDATION", 1))
        self.directory.add(
            QueueManagerObject(
                identifier=other,
                computer_name="ZETA2",
                qualified_computer_name="zeta.example.com",
                site_identifier_list=(BERLIN,),
            )
        )
        self.clock.advance(RETRY)
        self.clock.advance(RETRY)
        self.clock.advance(1)
        [queue] = self.alpha.service.inspection.outgoing()
        # Another queue manager answers at that address, so the message stays; but there is a route.
        self.assertNotEqual(queue.state, "NEED VALIDATION")
        self.assertEqual(queue.messages, 1)

    def test_shared_session(self) -> None:
        """MQQB-3.1.5.2.1-01: all messages for one next hop share a session, for any destination."""
        names = []
        for node in ("ZETA", "GAMMA", "EPSILON"):
            path = self.queue(self.nodes[node])
            names.append(self.private_name(self.nodes[node], path))
        for name in names:
            self.send(self.alpha, name, b"x")
        self.clock.advance(5)
        self.assertEqual(len(self.alpha.service.inspection.sessions()), 1)
        [session] = self.alpha.service.inspection.sessions()
        self.assertEqual(session.remote_identifier, IDENTIFIERS["BETA"])
        for node in ("ZETA", "GAMMA", "EPSILON"):
            self.assertEqual(self.bodies(self.nodes[node], ORDERS), [b"x"])

    def test_a_paused_queue_takes_another_route(self) -> None:
        """The gate that it no longer uses may send as many messages at once as before the pause."""
        assert self.directory is not None
        nodes = [self.nodes[node] for node in ("ZETA", "GAMMA", "ALPHA")]
        to_zeta, to_gamma, to_alpha = (self.private_name(node, self.queue(node)) for node in nodes)
        for name in (to_zeta, to_gamma):
            self.send(self.alpha, name, b"x")
        self.clock.advance(5)
        self.successResultOf(self.alpha.service.pause_outgoing(to_zeta))
        self.clock.advance(1)
        moved = QueueManagerObject(identifier=IDENTIFIERS["ZETA"], site_identifier_list=(BERLIN,))
        self.successResultOf(self.directory.write(moved, ("site_identifier_list",)))
        router: Any = self.alpha.service._work.directory.router
        router.refresh_later()
        self.clock.advance(1)
        self.send(self.beta, to_alpha, b"x")
        self.clock.advance(10)
        sessions = self.beta.service.inspection.sessions()
        windows = {each.remote_identifier: each.statistics.window for each in sessions}
        self.assertEqual(windows[IDENTIFIERS["ALPHA"]], 64)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(to_zeta).state, "ONHOLD")
