"""Messages through an enterprise in which gates are killed, cut off and started again, in any order.

C{MSMQ_SOAK} is the number of runs where it shall be another than usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.queues.arriving.message import Delivery, Message
from tests.nodes.routes.test_backups import BRANCH, HEAD, NORTH, SOUTH, BranchEnterprise
from tests.nodes.routes.test_routing import LINKS, EnterpriseTestCase
from tests.nodes.scripted import DEADLETTER
from tests.nodes.support import ADDRESSES
from tests.samples import examples

RUNS = examples(15)

Step: TypeAlias = tuple[str, str, int]

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("crash", "cut", "revive")),
            st.sampled_from(("BETA", "GAMMA", "DELTA", "EPSILON")),
            st.just(0),
        ),
        st.tuples(
            st.sampled_from(("transactional", "recoverable", "limited")), st.just(""), st.integers(1, 5)
        ),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from((0, 1, 7, 40, 70))),
    ),
    min_size=3,
    max_size=20,
)


class GatesTestCase(EnterpriseTestCase):
    """From ALPHA, which is behind the gate BETA, to ZETA, which is behind the gate EPSILON."""

    def fresh(self, links: Sequence[tuple[UUID, UUID, int]]) -> None:
        """The enterprise from its beginning, for one more history."""
        self.links = links
        self.setUp()
        self.sent: dict[bool, list[bytes]] = {False: [], True: []}
        self.limited: list[bytes] = []
        self.is_down: set[str] = set()
        plain = self.private_name(self.zeta, self.queue(self.zeta))
        ordered = self.private_name(self.zeta, self.queue(self.zeta, "ordered", transactional=True))
        self.names = {False: plain, True: ordered}

    def crash(self, name: str) -> None:
        """A gate ends without a word; its disk has what it has acknowledged."""
        if name in self.gates.values() and name not in self.is_down:
            self.is_down.add(name)
            node = self.nodes[name]
            self.network.crash(node.address)
            self.successResultOf(node.service.stopService())

    def start(self, name: str) -> None:
        if name in self.is_down:
            self.is_down.discard(name)
            self.revive(name)

    def cut(self, name: str) -> None:
        """The connections of a gate break."""
        for other, address in ADDRESSES.items():
            if other != name:
                self.network.cut(ADDRESSES[name], address)

    def send_some(self, count: int, *, transactional: bool) -> None:
        sent = self.sent[transactional]
        for _ in range(count):
            body = b"%d" % len(sent)
            sent.append(body)
            message = Message(body=body, transactional=transactional, delivery=Delivery.RECOVERABLE)
            self.run_to_end(self.alpha.service.send(self.names[transactional], [message]))

    def send_limited(self, count: int) -> None:
        """Messages with forty seconds to reach their queue, which ask for a dead letter."""
        for _ in range(count):
            body = b"limited %d" % len(self.limited)
            self.limited.append(body)
            message = Message(
                body=body, delivery=Delivery.RECOVERABLE, time_to_reach_queue=40, dead_letter=True
            )
            self.run_to_end(self.alpha.service.send(self.names[False], [message]))

    def dead_letters(self) -> set[bytes]:
        """The messages in the dead-letter queues of all queue managers."""
        return {body for node in self.nodes.values() for body in self.bodies(node, DEADLETTER)}

    def wait(self, seconds: int) -> None:
        self.clock.advance(0)
        for _ in range(seconds):
            self.clock.advance(1)

    def perform(self, step: Step) -> None:
        match step:
            case ("crash", name, _):
                self.crash(name)
            case ("cut", name, _):
                self.cut(name)
            case ("revive", name, _):
                self.start(name)
            case ("wait", _, seconds):
                self.wait(seconds)
            case ("limited", _, count):
                self.send_limited(count)
            case (kind, _, count):
                self.send_some(count, transactional=kind == "transactional")

    def check(self, steps: list[Step], links: Sequence[tuple[UUID, UUID, int]]) -> None:
        """Each message arrives once, having passed no gate twice, and nothing is left behind."""
        self.fresh(links)
        for step in steps:
            self.perform(step)
        for gate in self.gates.values():
            self.start(gate)
        self.wait(800)
        arrived = {
            is_ordered: self.take(self.zeta, f".\\private$\\{name}")
            for is_ordered, name in ((False, "orders"), (True, "ordered"))
        }
        self.assertEqual([bytes(view.body) for view in arrived[True]], self.sent[True])
        bodies = [bytes(view.body) for view in arrived[False]]
        limited = [body for body in bodies if body in self.limited]
        self.assertEqual(sorted(set(bodies) - set(limited)), sorted(self.sent[False]))
        self.assertEqual(len(set(bodies)), len(bodies))
        self.assertEqual(self.dead_letters() | set(limited), set(self.limited))
        for view in (*arrived[False], *arrived[True]):
            self.assertLessEqual(view.hop_count, len(self.gates))
        for name, node in self.nodes.items():
            self.assertEqual(sum(queue.messages for queue in node.service.inspection.outgoing()), 0, name)
            self.assertNotIn("HOP_COUNT_EXCEEDED", str(node.service.inspection.status().refused))
            self.successResultOf(node.service.stopService())


class AnyGatesTests(GatesTestCase):
    """From Berlin to Rome."""

    @settings(max_examples=RUNS)
    @given(STEPS)
    def test_all_arrive_once(self, steps: list[Step]) -> None:
        """With any failures in transit, each message arrives once, and transactional ones in order.

        One with a limit of time arrives as well, or has a dead letter where the limit was reached.
        """
        self.check(steps, LINKS)


class AnyBackupTests(GatesTestCase, BranchEnterprise):
    """From Head to Branch, by North or South, at any costs: the backup may be usable or not."""

    @settings(max_examples=RUNS)
    @given(STEPS, st.lists(st.sampled_from((1, 2, 3, 5)), min_size=4, max_size=4))
    def test_all_arrive_once(self, steps: list[Step], costs: list[int]) -> None:
        """No message is sent in a circle by gates that know different things; each arrives or waits."""
        ends = ((BRANCH, NORTH), (NORTH, HEAD), (BRANCH, SOUTH), (SOUTH, HEAD))
        self.check(steps, [(one, two, cost) for (one, two), cost in zip(ends, costs, strict=True)])
