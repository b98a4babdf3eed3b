"""A sender that has moved to another address with its identifier, and the FinalAcks that it waits for."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from twisted.logger import capturedLogs, formatEvent

from msmq.directory.memory import MemoryDirectory
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.membership.objects import EnterpriseObject, QueueManagerObject, SiteObject
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock
from msmq.transfer.decisions.next_hop_decision import REPORTED_AFTER
from msmq.wire.addresses import AddressSet
from msmq.wire.guid import braced
from tests.builders import ALPHA, BETA
from tests.nodes import support
from tests.nodes.scripted import JOURNAL
from tests.nodes.support import ADDRESSES, Node, NodesTestCase

OLD, NEW = "192.0.2.2", "192.0.2.99"
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\payments"
TO_OLD = f"DIRECT=TCP:{OLD}\\PRIVATE$\\order_queue$"


class MovedSenderTestCase(NodesTestCase):
    """ALPHA sends to BETA from OLD, is stopped before they are received, and started at NEW.

    @cvar peers: the addresses that BETA trusts.
    """

    peers: ClassVar[tuple[str, ...]] = (OLD, NEW)

    def setUp(self) -> None:
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": OLD})
        self.stores: dict[str, MemoryMessageStore] = {}
        self.directory = self.estate()
        super().setUp()
        self.payments = self.queue(self.beta, "payments", transactional=True)

    def estate(self) -> MemoryDirectory | None:
        """The directory of both, if they have one."""
        return None

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        store = kwargs.pop("store", None) or self.stores.setdefault(name, MemoryMessageStore(durable=True))
        gate = TrustedPeers(peers=AddressSet.of([*self.peers, "127.0.0.3"]))
        options = {"trusted_peers": gate}
        return super().node(
            name, identifier, store=store, options=options, directory=self.directory, **kwargs
        )

    def stop(self, node: Node) -> None:
        node.deaf()
        self.successResultOf(node.service.stopService())
        self.clock.advance(1)

    def pay(self, *bodies: bytes) -> None:
        self.send(self.alpha, TO_BETA, *bodies, transactional=True, journal=True)
        self.clock.advance(30)

    def move(self) -> None:
        """Stop ALPHA, and start it at NEW on its store."""
        self.stop(self.alpha)
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.clock.advance(1)

    def restart_beta(self) -> None:
        self.stop(self.beta)
        self.beta = self.node("BETA", BETA)
        self.beta.start()
        self.clock.advance(1)

    def journal(self, node: Node | None = None) -> int:
        messages: int = (node or self.alpha).service.inspection.queue(JOURNAL).messages
        return messages

    def waiting(self) -> int:
        """The FinalAcks that wait for OLD."""
        queues = self.beta.service.inspection.outgoing()
        return sum(each.messages for each in queues if OLD in each.format_name)

    def receive(self, *bodies: bytes) -> None:
        self.assertEqual(self.bodies(self.beta, self.payments), list(bodies))

    def events(self) -> list[str]:
        """The reasons of these events, each of which names its queue."""
        stored = self.successResultOf(self.beta.store.read_events(0, 1000))
        found = [each.event for each in stored if each.event.event == "acknowledgements_wait"]
        for event in found:
            self.assertIn("order_queue$", event.queue)
        return [event.reason for event in found]


class ByTrustedSessionTests(MovedSenderTestCase):
    """Without a directory; BETA trusts both addresses."""

    def test_before_and_after(self) -> None:
        """Messages that were received before the move and after it: each FinalAck reaches the sender."""
        self.pay(b"1", b"2")
        self.move()
        self.pay(b"3")
        self.receive(b"1", b"2", b"3")
        self.clock.advance(120)
        self.assertEqual((self.journal(), self.waiting(), self.events()), (3, 0, []))

    def test_received_while_it_was_away(self) -> None:
        """FinalAcks that wait already leave once the sender opens a session."""
        self.pay(b"1", b"2")
        self.stop(self.alpha)
        self.receive(b"1", b"2")
        self.clock.advance(60)
        self.assertEqual(self.waiting(), 2)
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.pay(b"3")
        self.clock.advance(120)
        self.assertEqual((self.journal(), self.waiting()), (2, 0))
        self.receive(b"3")
        self.clock.advance(120)
        self.assertEqual(self.journal(), 3)

    def test_after_a_restart_of_the_receiver(self) -> None:
        """Acknowledgements that only the store holds are sent too."""
        count = 100
        self.pay(*[b"x"] * count)
        self.stop(self.alpha)
        self.receive(*[b"x"] * count)
        self.clock.advance(60)
        self.restart_beta()
        self.assertEqual(self.waiting(), count)
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.pay(b"3")
        self.receive(b"3")
        self.clock.advance(600)
        self.assertEqual((self.journal(), self.waiting()), (count + 1, 0))

    def test_address_that_answers(self) -> None:
        """While the sender answers at its address, a copy of it at another trusted one gets nothing."""
        self.pay(b"1", b"2")
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        copy = self.node("ALPHA", ALPHA, store=MemoryMessageStore(durable=True))
        copy.start()
        self.send(copy, TO_BETA, b"x")
        self.clock.advance(5)
        self.receive(b"1", b"2")
        self.clock.advance(60)
        self.assertEqual((self.journal(), self.journal(copy), self.waiting()), (2, 0, 0))
        self.assertEqual(copy.service.inspection.status().packets.received.user_message, 0)

    def test_address_that_was_not_dialled_yet(self) -> None:
        """A session that has ended since it was idle is opened again; a copy with a session gets nothing."""
        self.pay(b"1", b"2")
        self.clock.advance(900)
        self.assertEqual(self.beta.service.inspection.sessions(), [])
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        copy = self.node("ALPHA", ALPHA, store=MemoryMessageStore(durable=True))
        copy.start()
        self.send(copy, TO_BETA.replace("payments", "other"), b"x")
        self.clock.advance(5)
        self.assertEqual([each.remote_address for each in self.beta.service.inspection.sessions()], [NEW])
        self.receive(b"1", b"2")
        self.clock.advance(60)
        self.assertEqual((self.journal(), self.waiting()), (2, 0))
        self.assertEqual(copy.service.inspection.status().packets.received.user_message, 0)


class UntrustedSessionTests(MovedSenderTestCase):
    """Without a directory; BETA does not trust NEW."""

    peers = (OLD,)

    def test_untrusted(self) -> None:
        """A peer that states the identifier at NEW gets nothing; one event and one line say what waits."""
        self.pay(b"1", b"2")
        self.move()
        self.receive(b"1", b"2")
        with capturedLogs() as logs:
            for _ in range(5):
                self.pay(b"3")
                self.clock.advance(REPORTED_AFTER)
        self.assertEqual((self.journal(), self.waiting()), (0, 2))
        [reason] = self.events()
        self.assertIn(f"acknowledgements for queue manager {braced(ALPHA)} wait for {OLD}, ", reason)
        self.assertIn("which has not answered since ", reason)
        lines = [line for event in logs if "acknowledgements for" in (line := formatEvent(event) or "")]
        self.assertEqual(lines, [reason])

    def test_reported_again(self) -> None:
        """After the address has answered, the next time that it does not is reported too."""
        self.pay(b"1")
        self.stop(self.alpha)
        self.receive(b"1")
        self.clock.advance(3 * REPORTED_AFTER)
        self.assertEqual(len(self.events()), 1)
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.pay(b"2")
        self.clock.advance(60)
        self.assertEqual((self.journal(), self.waiting()), (1, 0))
        self.stop(self.alpha)
        self.receive(b"2")
        self.clock.advance(3 * REPORTED_AFTER)
        self.assertEqual(len(self.events()), 2)


class ByDirectoryTests(MovedSenderTestCase):
    """BETA does not trust NEW, and the directory has the name of ALPHA, which leads there."""

    peers = (OLD,)

    def estate(self) -> MemoryDirectory:
        directory = MemoryDirectory(ManualClock())
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        site = UUID(int=0xB0)
        directory.add(SiteObject(identifier=site, name="site"))
        for name, identifier in (("ALPHA", ALPHA), ("BETA", BETA)):
            directory.add(
                QueueManagerObject(
                    identifier=identifier,
                    computer_name=name,
                    qualified_computer_name=f"{name.lower()}.example.com",
                    site_identifier_list=(site,),
                )
            )
        return directory

    def test_dialled(self) -> None:
        """The computer of that name is dialled, and gets the FinalAcks as soon as OLD has not answered."""
        self.pay(b"1", b"2")
        self.move()
        self.receive(b"1", b"2")
        self.clock.advance(120)
        self.assertEqual((self.journal(), self.waiting(), self.events()), (2, 0, []))

    def test_after_a_restart_of_the_receiver(self) -> None:
        """Acknowledgements that only the store holds are sent too."""
        self.pay(b"1", b"2")
        self.stop(self.alpha)
        self.receive(b"1", b"2")
        self.clock.advance(60)
        self.restart_beta()
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": NEW, "BEFORE": OLD})
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.clock.advance(600)
        self.assertEqual((self.journal(), self.waiting()), (2, 0))

    def test_another_than_the_directory_names(self) -> None:
        """A peer that states the identifier at another address than the directory names gets nothing."""
        self.pay(b"1", b"2")
        self.stop(self.alpha)
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": OLD, "GAMMA": NEW})
        other = self.node("GAMMA", ALPHA)
        other.start()
        self.receive(b"1", b"2")
        for _ in range(3):
            self.send(other, TO_BETA.replace("payments", "other"), b"x")
            self.clock.advance(60)
        self.assertEqual(self.waiting(), 2)
        self.assertEqual(other.service.inspection.status().packets.received.user_message, 0)
        self.stop(other)
        self.patch(support, "ADDRESSES", {**ADDRESSES, "ALPHA": OLD})
        self.alpha = self.node("ALPHA", ALPHA)
        self.alpha.start()
        self.clock.advance(600)
        self.assertEqual((self.journal(), self.waiting()), (2, 0))
