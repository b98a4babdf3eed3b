"""What a queue manager knows of itself, and what it keeps of it."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.membership.local import (
    ENTERPRISE,
    SETTINGS,
    KnownSite,
    LocalQueueManager,
)
from msmq.membership.objects import DEFAULT_TIME_TO_LIVE, EnterpriseObject, QueueObject, SiteObject
from msmq.membership.requests import Store
from msmq.membership.sites import directory_sites_update
from msmq.persistence.changes import PutState, RemoveState
from msmq.structures.names.path_name import parse_path_name
from tests.membership.directory_builders import ALPHA, NOT_FOUND, ORDERS, SITE, access, play, replies


class LocalTests(SynchronousTestCase):
    """A queue manager that has had no request yet."""

    def test_default_time_to_reach_queue(self) -> None:
        """It is that of the enterprise, if there is a directory and it was read; else four days."""
        for integrated, enterprise, expected in (
            (True, EnterpriseObject(default_time_to_live=5), 5),
            (True, None, DEFAULT_TIME_TO_LIVE),
            (False, EnterpriseObject(default_time_to_live=5), DEFAULT_TIME_TO_LIVE),
            (False, None, DEFAULT_TIME_TO_LIVE),
        ):
            local = LocalQueueManager(ALPHA, directory_integrated=integrated)
            local.enterprise_reference = enterprise
            self.assertEqual(local.default_time_to_reach_queue, expected)
        self.assertEqual(DEFAULT_TIME_TO_LIVE, 4 * 24 * 3600)

    def test_enterprise(self) -> None:
        """An enterprise that is not known is removed from the store; another is known after a start."""
        local = LocalQueueManager(ALPHA)
        self.assertEqual(local.enterprise_change(), RemoveState(ENTERPRISE))
        local.enterprise_reference = EnterpriseObject(name="ours", default_time_to_live=7)
        kept = local.enterprise_change()
        assert isinstance(kept, PutState)
        again = LocalQueueManager(ALPHA)
        again.restore({kept.name: kept.value})
        self.assertEqual(again.enterprise_reference, local.enterprise_reference)

    def test_hardened(self) -> None:
        """A change of HardenedSecurity is stored at once and in all that is stored later; what is restored
        after that counts instead.
        """
        local = LocalQueueManager(ALPHA)
        before = local.settings_change()
        hardened = local.harden(True)
        self.assertNotEqual(hardened, before)
        self.assertFalse(local.hardened_security)
        self.assertEqual(local.settings_change(), hardened)
        assert isinstance(before, PutState)
        local.restore({SETTINGS: before.value})
        self.assertEqual(local.settings_change(), before)
        self.assertEqual(local.harden(False), before)

    def test_own_names(self) -> None:
        """Its name, its qualified name and the full stop are its own, in any case; an empty text is not."""
        local = LocalQueueManager(ALPHA)
        for name, expected in (
            (".", True),
            ("alpha", True),
            ("ALPHA.EXAMPLE.COM", True),
            ("alpha.example", False),
            ("", False),
        ):
            self.assertIs(local.is_own_name(name), expected, name)

    def test_public_queue(self) -> None:
        """A public queue is found by the path behind the computer, in any case."""
        local = LocalQueueManager(ALPHA)
        other = QueueObject(identifier=UUID(int=0xB2), pathname="ALPHA\\bills")
        local.public_queues = {queue.identifier: queue for queue in (other, ORDERS)}
        self.assertIs(local.public_queue(parse_path_name("anywhere\\ORDERS")), ORDERS)
        self.assertIs(local.public_queue(parse_path_name(".\\bills")), other)
        self.assertIsNone(local.public_queue(parse_path_name("ALPHA\\order")))

    def test_site_that_cannot_be_read(self) -> None:
        """A site that cannot be read stays as it was, and nothing is written."""
        machine = access()
        known = KnownSite(SiteObject(identifier=SITE, name="london"))
        machine.local.sites[SITE] = known
        _, played = play(directory_sites_update(machine), replies(NOT_FOUND))
        self.assertEqual((machine.local.sites, played.of(Store)), ({SITE: known}, []))
