"""L{DescriptorShares}: how the descriptors of a process are divided."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.descriptor_shares import DescriptorShares


class DescriptorSharesTests(SynchronousTestCase):
    def test_shares(self) -> None:
        """An eighth is reserved and an eighth is for control, each up to its most; a quarter is for dialling.

        Peers get the rest, with what rounding leaves.
        """
        for limit, reserved, control, outgoing, incoming in (
            (8, 1, 1, 2, 4),
            (15, 1, 1, 3, 10),
            (71, 8, 8, 17, 38),
            (1024, 128, 128, 256, 512),
            (16384, 2048, 2048, 4096, 8192),
            (16392, 2048, 2049, 4098, 8197),
            (32768, 2048, 4096, 8192, 18432),
            (32776, 2048, 4096, 8194, 18438),
            (1 << 20, 2048, 4096, 262144, 780288),
        ):
            expected = DescriptorShares(
                limit=limit, reserved=reserved, control=control, outgoing=outgoing, incoming=incoming
            )
            self.assertEqual(DescriptorShares.of(limit), expected)
