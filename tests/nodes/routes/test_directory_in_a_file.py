"""A queue manager whose directory is an enterprise file, which lacks quotas and properties of queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.defer import maybeDeferred

from msmq.directory.enterprise_copy import EnterpriseCopy
from msmq.directory.file import CHECK_INTERVAL, FileDirectory
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.manager.securing.public_descriptors import LIFETIME
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.model import ModelLimits
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.access_control import MemoryAccessControl
from msmq.wire.sid import parse_sid
from tests.builders import GAMMA
from tests.nodes.support import Node, NodesTestCase

ORDERS = ".\\orders"
OWNER = parse_sid("S-1-5-21-1-2-3-1001")
ESTATE = f"""
[enterprise]
id = "00000000-0000-0000-0000-0000000000ee"
[[site]]
name = "Berlin"
id = "00000000-0000-0000-0000-0000000000b1"
[[queue_manager]]
name = "GAMMA"
id = "{GAMMA}"
sites = ["Berlin"]
[[queue]]
path = 'GAMMA\\orders'
id = "00000000-0000-0000-0000-00000000000f"
"""


class FileEstateTests(NodesTestCase):
    """GAMMA, which is stopped and started again."""

    def setUp(self) -> None:
        super().setUp()
        self.home = Path(self.mktemp())
        self.home.mkdir()
        self.file = self.home / "estate.toml"
        self.file.write_text(ESTATE)
        self.store = MemoryMessageStore(durable=True)
        self.gamma = self.started()

    def started(self, **limits: Any) -> Node:
        directory = FileDirectory(
            self.file, self.clock, self.clock.reactor, EnterpriseCopy(self.home), in_thread=maybeDeferred
        )
        options = {"access": AccessPolicy(MemoryAccessControl(), OWNER)}
        gamma = self.node("GAMMA", GAMMA, store=self.store, directory=directory, options=options, **limits)
        gamma.start()
        return gamma

    def restart(self, **limits: Any) -> None:
        self.gamma.deaf()
        self.successResultOf(self.gamma.service.stopService())
        self.gamma = self.started(**limits)

    def queue_of_gamma(self) -> QueueSummary:
        # The object of a queue is read with its access list.
        self.run_to_end(self.gamma.service.access.acl(ORDERS))
        return self.gamma.service.inspection.queue(ORDERS)

    def test_properties_of_queues(self) -> None:
        """A public queue has the properties that it was given, also after a restart and an hour later."""
        given: dict[str, Any] = {"label": "orders", "quota": 77, "application_type": UUID(int=9)}
        self.run_to_end(
            self.gamma.service.create_queue(ORDERS, transactional=True, security="D:(A;;0x4;;;BU)", **given)
        )
        self.run_to_end(self.gamma.service.set_queue(ORDERS, {"label": "bills", "journal_quota": 5}))
        before = self.queue_of_gamma()
        self.assertEqual((before.label, before.quota, before.journal_quota), ("bills", 77, 5))
        self.restart()
        for seconds in (0, LIFETIME, 3600):
            self.clock.advance(seconds)
            self.assertEqual(self.queue_of_gamma(), before)
        self.assertEqual(self.gamma.service.inspection.status().directory_differences, [])

    def test_queue_after_an_outage(self) -> None:
        """So it has when the file could not be read at the start, and is there again."""
        self.run_to_end(self.gamma.service.create_queue(ORDERS, label="orders", quota=77))
        (self.home / "directory-copy.json").unlink()
        self.file.write_text("")
        self.restart()
        self.file.write_text(ESTATE)
        self.clock.advance(120)
        found = self.queue_of_gamma()
        self.assertEqual((found.label, found.quota), ("orders", 77))

    def test_quotas(self) -> None:
        """The quotas of the configuration limit all queues, those of the next start too, and an operator's
        quota wins over both.
        """
        for quota, journal_quota in ((0x00100000, 0xFFFFFFFF), (100, 50), (200, 60)):
            self.restart(quota=quota, journal_quota=journal_quota)
            self.assertEqual(self.gamma.model.storage.limit, quota * 1024)
            self.clock.advance(3600)
            self.assertEqual(self.gamma.model.storage.limit, quota * 1024)
        self.assertEqual(self.gamma.model.storage.journal_limit, 60 * 1024)
        self.run_to_end(self.gamma.service.set_quotas({QuotaKind.QUEUES: 7}))
        self.restart(quota=100)
        self.assertEqual(self.gamma.model.storage.limit, 7 * 1024)
        quotas = self.gamma.service.inspection.status().quotas
        self.assertEqual((quotas.quota, quotas.quota_source), (7, "operator"))

    def test_quotas_of_a_reload(self) -> None:
        """So they do when a reload has changed them, whatever else the file or the next start changes."""
        for quota in (100, 50):
            limits = ModelLimits(
                quota=quota,
                journal_quota=0xFFFFFFFF,
                peer_dead_letters=0,
                express_memory=None,
                packet_memory=None,
            )
            self.gamma.model.configure(limits)
            role = f"routing_server = {str(quota == 100).lower()}"
            self.file.write_text(ESTATE.replace("[[queue]]", f"{role}\n[[queue]]"))
            self.clock.advance(3600 + CHECK_INTERVAL)
            quotas = self.gamma.service.inspection.status().quotas
            self.assertEqual((quotas.quota, quotas.quota_source), (quota, "configuration"))
        (self.home / "directory-copy.json").unlink()
        self.file.write_text("")
        self.restart(quota=70)
        quotas = self.gamma.service.inspection.status().quotas
        self.assertEqual((quotas.quota, quotas.quota_source), (70, "configuration"))
