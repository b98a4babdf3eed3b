"""An estate of six queue managers in three sites, and what its applications and operators do with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.support import ADDRESSES, Node

DEAD_LETTERS = ".\\system$;deadletter"
TRANSACTIONAL_DEAD_LETTERS = ".\\system$;deadxact"
MACHINE_JOURNAL = ".\\system$;journal"


class EstateTestCase(EnterpriseTestCase):
    """Berlin: ALPHA and the gate BETA; Paris: GAMMA and the gate DELTA; Rome: ZETA and the gate EPSILON."""

    def options_of(self, name: str) -> dict[str, Any]:
        """Additional options of one queue manager."""
        return {}

    def member(self, name: str) -> Node:
        return Node(
            self.network,
            self.clock_of(name),
            name,
            IDENTIFIERS[name],
            self.settings,
            self.disks.setdefault(name, MemoryMessageStore(durable=True)),
            directory=self.directory,
            options={**self.options, **self.options_of(name)},
        )

    def clock_of(self, name: str) -> Any:
        """The clock of one queue manager."""
        return self.clock

    def wait(self, seconds: int) -> None:
        """Let this much time pass, a second at a time."""
        self.clock.advance(0)
        for _ in range(seconds):
            self.clock.advance(1)

    def format_name(self, node: Node, path: str) -> FormatName:
        """The name of a queue by which it is reached from anywhere in the estate."""
        return parse_format_name(self.private_name(node, path))

    def direct_name(self, node: Node, path: str) -> str:
        """The direct name of a private queue, by the address of its queue manager."""
        return f"DIRECT=TCP:{node.address}\\{path.removeprefix('.').lstrip(chr(92))}"

    def commit(self, node: Node, destination: str, *bodies: bytes, **properties: Any) -> None:
        """Send messages in one internal transaction, as an application does."""

        async def work() -> None:
            async with node.service.begin() as transaction:
                for body in bodies:
                    message = Message(body=body, transactional=True, **properties)
                    await node.service.send(destination, [message], transaction=transaction)

        self.run_to_end(work())

    def take_in_transaction(self, node: Node, path: str) -> list[bytes]:
        """Receive all that is there, each message in a transaction of its own that commits."""
        found: list[bytes] = []

        async def work() -> None:
            async with node.service.begin() as transaction:
                view = await node.service.receive(path, timeout=0, transaction=transaction)
                found.append(bytes(view.body))

        while node.service.inspection.queue(path).messages:
            self.run_to_end(work())
        return found

    def recoverable(self, node: Node, destination: str, *bodies: bytes, **properties: Any) -> None:
        """Send recoverable messages outside of a transaction."""
        self.send(node, destination, *bodies, delivery=Delivery.RECOVERABLE, **properties)

    def all_bodies(self, node: Node, path: str) -> list[bytes]:
        """The bodies of all that a queue holds, received."""
        return [bytes(view.body) for view in self.take(node, path, count=1_000_000)]

    def waiting(self, node: Node) -> int:
        """How many messages the outgoing queues of a queue manager hold."""
        return sum(queue.messages for queue in node.service.inspection.outgoing())

    def system(self, node: Node, path: str) -> list[UserMessageView]:
        """The messages of a system queue, received."""
        reading = self.deferred(node.service.reserve(path, count=1000, timeout=0))
        self.clock.advance(0)
        results: list[Any] = []
        reading.addCallbacks(results.append, lambda _: None)
        if not results:
            return []
        self.run_to_end(results[0].confirm())
        return [message.view for message in results[0].messages]

    def system_bodies(self, node: Node, path: str) -> list[bytes]:
        """The bodies of what a queue of the system holds, received."""
        return [bytes(view.body) for view in self.system(node, path)]

    def isolate(self, name: str, others: Sequence[str] = tuple(ADDRESSES)) -> None:
        """No packets pass between a member and these others; sessions that are open break."""
        for other in others:
            if other != name:
                self.network.partition(ADDRESSES[name], ADDRESSES[other])
                self.network.cut(ADDRESSES[name], ADDRESSES[other])

    def rejoin(self, name: str, others: Sequence[str] = tuple(ADDRESSES)) -> None:
        """The member reaches these others again."""
        for other in others:
            if other != name:
                self.network.heal(ADDRESSES[name], ADDRESSES[other])

    def crash(self, name: str) -> None:
        """A queue manager ends without a word; its disk has what it has acknowledged."""
        node = self.nodes[name]
        self.network.crash(node.address)
        self.successResultOf(node.service.stopService())

    def restart(self, name: str) -> Node:
        """It starts again on the same disk."""
        self.revive(name)
        node = self.nodes[name]
        for role in ("alpha", "beta", "zeta"):
            if name == role.upper():
                setattr(self, role, node)
        return node
