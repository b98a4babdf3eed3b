"""Offsets that are committed: never that of a record that is not acknowledged."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.kafka.offsets import ConsumedOffsets

ONE, TWO = ("t", 1), ("t", 2)


class ConsumedOffsetsTests(SynchronousTestCase):
    """L{ConsumedOffsets}."""

    def setUp(self) -> None:
        self.offsets = ConsumedOffsets()

    def test_order_of_acknowledgements(self) -> None:
        """The offset moves to the first record that is not acknowledged; markers leave gaps."""
        tags = [self.offsets.deliver(ONE, offset, 1) for offset in (10, 11, 14)]
        self.assertEqual(self.offsets.acknowledge([tags[1]]), {})
        self.assertEqual(self.offsets.acknowledge([tags[0]]), {ONE: 12})
        self.assertEqual(self.offsets.outstanding, 1)
        self.assertEqual(self.offsets.acknowledge([tags[2], tags[2], 99]), {ONE: 15})
        self.assertEqual(self.offsets.outstanding, 0)

    def test_partitions_are_independent(self) -> None:
        """A record that is not acknowledged holds back its own partition alone."""
        self.offsets.deliver(ONE, 1, 1)
        tag = self.offsets.deliver(TWO, 1, 1)
        self.assertEqual(self.offsets.acknowledge([tag]), {TWO: 2})

    def test_bytes(self) -> None:
        """The bytes of records count until they are acknowledged, also if their partition is lost."""
        first = self.offsets.deliver(ONE, 1, 100)
        second = self.offsets.deliver(ONE, 2, 200)
        self.offsets.deliver(TWO, 1, 400)
        self.offsets.acknowledge([first, first])
        self.assertEqual(self.offsets.outstanding_bytes, 600)
        self.offsets.lose([ONE])
        self.assertEqual(self.offsets.outstanding_bytes, 600)
        self.offsets.acknowledge([second, second])
        self.assertEqual(self.offsets.outstanding_bytes, 400)

    def test_lost_partition(self) -> None:
        """Nothing is committed of a partition that was lost; its records count as long as the route has them,
        so that partitions that come and go while a queue is full fill no memory.
        """
        lost, kept = self.offsets.deliver(ONE, 1, 1), self.offsets.deliver(TWO, 1, 1)
        for _ in range(2):
            self.offsets.lose([ONE])
            self.assertEqual(self.offsets.outstanding, 2)
        self.assertEqual(self.offsets.acknowledge([lost, kept]), {TWO: 2})
        self.assertEqual(self.offsets.outstanding, 0)
        again = self.offsets.deliver(ONE, 1, 1)
        self.assertEqual(self.offsets.acknowledge([again]), {ONE: 2})
