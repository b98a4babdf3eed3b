"""Exactly once towards a destination with transactions: what is committed is recognised after any kill."""

from __future__ import annotations

from random import Random
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.committed_messages import LARGEST, CommittedMessages
from msmq.structures.identifiers import MessageIdentifier

QUEUE_MANAGER = UUID("12345678-1234-5678-1234-567812345678")


def identifier(number: int) -> str:
    """An identifier of a message."""
    return str(MessageIdentifier(QUEUE_MANAGER, number))


@attrs.define
class Cluster:
    """A destination that commits records and the state of the route together, or neither."""

    records: list[str] = attrs.field(factory=list)
    state: bytes = b""

    def commit(self, records: list[str], state: bytes) -> None:
        self.records += records
        self.state = state


class _Killed(Exception):
    pass


class CommittedMessagesTests(SynchronousTestCase):
    """L{CommittedMessages}."""

    def test_record(self) -> None:
        """A record has what was committed before and what the transaction adds, in their order."""
        before = CommittedMessages({identifier(1): 7})
        record = before.record({identifier(2): 8})
        self.assertEqual(
            list(CommittedMessages.read(record).held.items()), [(identifier(1), 7), (identifier(2), 8)]
        )
        self.assertEqual(before.held, {identifier(1): 7})

    def test_malformed_records(self) -> None:
        """What is not a record of a bridge is refused, cut or with more than the limit."""
        record = CommittedMessages().record({identifier(1): 7})
        for data in (b"", b"{}", record[:-1], record + b"\0", record + record[14:] * LARGEST):
            with self.assertRaises(ValueError):
                CommittedMessages.read(data)

    def test_bound(self) -> None:
        """A state has at most so many messages, the latest."""
        state = CommittedMessages()
        state.committed({identifier(number): number for number in range(LARGEST)})
        state.committed({identifier(LARGEST): 1})
        self.assertEqual((len(state.held), identifier(0) in state.held), (LARGEST, False))
        self.assertEqual(
            len(CommittedMessages.read(state.record({identifier(LARGEST + 1): 1})).held), LARGEST
        )

    def test_every_message_is_published_once(self) -> None:
        """With a kill at any step of any transaction, each message is committed once, and then removed."""
        for seed in range(200):
            chance = Random(seed)
            queue = {identifier(number): number for number in range(1, 30)}
            wanted = list(queue)
            cluster = Cluster()
            kills = 0
            while queue:
                try:
                    self.run_bridge(queue, cluster, chance, may_be_killed=kills < 25)
                except _Killed:
                    kills += 1
            self.assertEqual(sorted(cluster.records), sorted(wanted), f"seed {seed}")

    def run_bridge(
        self, queue: dict[str, int], cluster: Cluster, chance: Random, may_be_killed: bool
    ) -> None:
        """A bridge from its start until the queue is empty, or it is killed."""

        def step() -> None:
            if may_be_killed and chance.random() < 0.15:
                raise _Killed

        state = CommittedMessages.read(cluster.state) if cluster.state else CommittedMessages()
        state.keep({found for found, lookup in state.held.items() if queue.get(found) == lookup})
        # Messages of a higher priority may stand before those that were in flight at the kill.
        order = sorted(queue, key=lambda _: chance.random())
        while order:
            batch, order = order[:4], order[4:]
            fresh = {found: queue[found] for found in batch if found not in state.held}
            step()
            if fresh:
                cluster.commit(list(fresh), state.record(fresh))
                step()
                state.committed(fresh)
            for found in batch:
                step()
                del queue[found]
                if chance.random() < 0.8:
                    state.removed([found])
