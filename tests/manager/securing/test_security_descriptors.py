"""Descriptors of queues as they are kept in memory."""

from __future__ import annotations

import tracemalloc

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.securing.security_descriptors import read_descriptor
from msmq.windows.security_descriptor import SecurityDescriptor, allow
from msmq.windows.security_descriptor_aces import Acl
from msmq.wire.sid import parse_sid


class MemoryTests(SynchronousTestCase):
    """Descriptors of many queues."""

    def test_long_descriptors_are_not_all_kept(self) -> None:
        """Of the long descriptors that were read a few are kept, whose entries take ten times their size."""
        entries = [allow(parse_sid(f"S-1-5-7-{number}"), 4) for number in range(800)]
        stored = [
            SecurityDescriptor(parse_sid(f"S-1-5-21-{number}"), dacl=Acl(tuple(entries))).to_bytes()
            for number in range(32)
        ]
        tracemalloc.start()
        for security in stored:
            self.assertEqual(len((read_descriptor(security).dacl or Acl()).aces), 800)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(held, 3_000_000)
