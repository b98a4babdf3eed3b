"""The limit on open files of the server's process."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.descriptors import descriptor_limit, raise_descriptor_limit
from msmq.session.descriptor_shares import DescriptorShares


class DescriptorLimitTests(SynchronousTestCase):
    """The limit of open files at the start of C{twistd msmq}."""

    def test_the_soft_limit_becomes_the_hard_one(self) -> None:
        """A process that was started with a small soft limit may open as many files as it is allowed to."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        before = descriptor_limit()
        raised = raise_descriptor_limit()
        self.assertEqual((before, raised), (min(soft, 512), min(hard, 1 << 20)))

    def test_shares_leave_a_reserve(self) -> None:
        """Peers never get what the store, the control socket and dialled sessions need."""
        for limit in (8, 1024, 20000, 1 << 20):
            shares = DescriptorShares.of(limit)
            uses = (shares.reserved, shares.control, shares.outgoing, shares.incoming)
            self.assertEqual(sum(uses), limit)
            self.assertTrue(all(uses))
