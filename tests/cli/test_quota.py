"""C{msmq quota}: the quotas of all queues together, changed while the server runs."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.defer import Deferred

from msmq.persistence.definition import UNLIMITED
from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import MachineQuotas, QuotaKind
from msmq.structures.status import MQError, Status
from tests.cli.served import ServedCommandTestCase
from tests.control.support import ORDERS
from tests.queues.builders import NOW, model


class QuotaTests(ServedCommandTestCase):
    """A server with the quota of its configuration, 1 GiB."""

    def quotas(self, *arguments: str) -> tuple[Any, ...]:
        ended = self.msmq("quota", *arguments, "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [found] = ended.objects
        return tuple(found[key] for key in ("quota", "quota_source", "journal_quota", "journal_quota_source"))

    def test_set(self) -> None:
        """A new quota takes effect at once: a message beyond it is refused, those that are there stay."""
        self.assertEqual(self.quotas("show"), (1 << 20, "configuration", None, "configuration"))
        self.put(bytes(2000))
        self.assertEqual(self.quotas("set", "--queues", "1"), (1, "operator", None, "configuration"))
        sending = Deferred.fromCoroutine(self.service.send(ORDERS, [Message(body=b"more")]))
        refused: Any = self.failureResultOf(sending, MQError).value
        self.assertEqual(refused.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertEqual(len(self.bodies()), 1)
        self.assertEqual(self.quotas("set", "--queues", "none", "--journals", "7")[::2], (None, 7))
        self.assertEqual(self.quotas("set", "--queues", "1.5 MiB", "--journals", "1GB")[::2], (1536, 976_563))
        self.assertEqual(self.quotas("set", "--queues", "none", "--journals", "7")[::2], (None, 7))
        self.put(b"more")
        status = self.call("GET", "/v1/status").json["quotas"]
        self.assertEqual((status["journal_quota_source"], status["used"]), ("operator", status["used"]))
        self.assertEqual(
            self.quotas("set", "--queues", "configuration", "--journals", "configuration"),
            (1 << 20, "configuration", None, "configuration"),
        )

    def test_wrong_values(self) -> None:
        """They are refused, and nothing changes."""
        for arguments in ((), ("--queues", "-1"), ("--queues", "much"), ("--journals", "4294967296")):
            self.assert_ended(["quota", "set", *arguments], 2, "msmq")
        for body in ({}, {"quota": "much"}, {"quotas": 1}, {"quota": -1}):
            answer = self.call("PATCH", "/v1/quotas", str(body).replace("'", '"').encode())
            self.assertEqual(answer.status, 400)
        self.assertEqual(self.quotas("show")[1], "configuration")


class StoredQuotaTests(ServedCommandTestCase):
    """What is stored wins over the configuration."""

    def test_restart_and_reload(self) -> None:
        """A restart and a reload keep what an operator has set; other values of the configuration apply."""
        self.msmq("quota", "set", "--queues", "5")
        again = model(quota=9)
        self.successResultOf(self.service.stopService())
        snapshot = self.successResultOf(self.disk.open())
        again.restore(attrs.evolve(snapshot, queues=(), messages={}), NOW)
        self.assertEqual((again.quotas.kilobytes(QuotaKind.QUEUES), again.storage.limit), (5, 5 * 1024))
        again.quotas.configure(10, 11)
        self.assertEqual((again.storage.limit, again.storage.journal_limit), (5 * 1024, 11 * 1024))
        again.quotas.set(QuotaKind.QUEUES, None)
        self.assertEqual(again.storage.limit, 10 * 1024)

    def test_damaged_value(self) -> None:
        """A value of the store that is not a number of kilobytes is left out."""
        quotas = MachineQuotas(model().storage, {QuotaKind.QUEUES: 3, QuotaKind.JOURNALS: UNLIMITED})
        quotas.load({"machine_quota/quota": b"", "machine_quota/journal_quota": b"12345"})
        self.assertEqual([quotas.kilobytes(kind) for kind in QuotaKind], [3, None])
