"""The quotas of all queues together, as the configuration or an operator sets them."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutState, RemoveState
from msmq.persistence.definition import UNLIMITED
from msmq.queues.holdings import Storage
from msmq.queues.machine_quota import MachineQuotas, QuotaKind
from msmq.structures.status import MQError, Status

QUEUES, JOURNALS = QuotaKind.QUEUES, QuotaKind.JOURNALS


class MachineQuotaTests(SynchronousTestCase):
    """L{MachineQuotas}."""

    def setUp(self) -> None:
        self.storage = Storage(None)
        self.quotas = MachineQuotas(self.storage, {QUEUES: 10, JOURNALS: UNLIMITED})

    def check(self, queues: int | None, journals: int | None) -> None:
        """See that these limits are in use, in kilobytes; C{None} for none."""
        self.assertEqual((self.quotas.kilobytes(QUEUES), self.quotas.kilobytes(JOURNALS)), (queues, journals))
        limits = [None if limit is None else limit * 1024 for limit in (queues, journals)]
        self.assertEqual([self.storage.limit, self.storage.journal_limit], limits)

    def sources(self) -> tuple[str, str]:
        return self.quotas.source(QUEUES), self.quotas.source(JOURNALS)

    def test_configured(self) -> None:
        """The configuration limits what is stored, at once when it changes."""
        self.check(10, None)
        self.quotas.configure(UNLIMITED, 5)
        self.check(None, 5)

    def test_chosen(self) -> None:
        """What an operator sets wins over the configuration until the operator ends that; 0 is a limit."""
        self.assertEqual(self.quotas.source(QUEUES), "configuration")
        self.quotas.set(QUEUES, 0)
        self.check(0, None)
        self.assertEqual(self.sources(), ("operator", "configuration"))
        self.quotas.set(JOURNALS, 7)
        self.quotas.configure(20, 30)
        self.check(0, 7)
        self.quotas.set(QUEUES, UNLIMITED)
        self.check(None, 7)
        for _ in range(2):
            self.quotas.set(QUEUES, None)
            self.check(20, 7)
        self.assertEqual(self.quotas.source(QUEUES), "configuration")

    def test_directory(self) -> None:
        """What a directory has wins over the configuration, and what an operator sets over both."""
        self.quotas.follow(30, UNLIMITED)
        self.check(30, None)
        self.assertEqual(self.sources(), ("directory", "configuration"))
        # Also one that was the same before a reload.
        self.quotas.configure(20, 5)
        self.check(30, None)
        self.assertEqual(self.sources(), ("directory", "directory"))
        self.quotas.set(QUEUES, 7)
        self.quotas.follow(40, 5)
        self.check(7, 5)
        self.assertEqual(self.sources(), ("operator", "configuration"))
        self.quotas.set(QUEUES, None)
        self.check(40, 5)
        self.quotas.follow(None, 6)
        self.check(20, 6)
        self.assertEqual(self.sources(), ("configuration", "directory"))

    def test_over_a_restart(self) -> None:
        """The stored values are in use again; none and invalid ones leave the configuration in use."""
        change = self.quotas.change(JOURNALS, 7)
        assert isinstance(change, PutState)
        self.assertEqual(change.value, struct.pack("<L", 7))
        self.quotas.load({change.name: change.value})
        self.check(10, 7)
        change = self.quotas.change(QUEUES, 8)
        assert isinstance(change, PutState)
        self.quotas.load({change.name: b"\1"})
        self.check(10, 7)

    def test_changes(self) -> None:
        """A quota of 0 to 0xFFFFFFFF kilobytes is stored, nothing else; ending it removes the value."""
        removal = self.quotas.change(QUEUES, None)
        assert isinstance(removal, RemoveState)
        for kilobytes in (0, UNLIMITED):
            change = self.quotas.change(QUEUES, kilobytes)
            self.assertEqual(change, PutState(removal.name, struct.pack("<L", kilobytes)))
        for kilobytes in (-1, UNLIMITED + 1):
            error = self.assertRaises(MQError, self.quotas.change, QUEUES, kilobytes)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
        self.assertNotEqual(self.quotas.change(JOURNALS, None), removal)
