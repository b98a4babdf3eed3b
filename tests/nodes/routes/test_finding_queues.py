"""Public queues are found by what their directory knows of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import CancelledError

from msmq.directory import reads
from msmq.manager.public_search import AT_ONCE
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.structures.status import Status
from tests.builders import BETA
from tests.nodes.routes.test_public_queues import DirectoryTestCase

PRICES = UUID(int=0x9)


class FindingTests(DirectoryTestCase):
    """[MS-MQDMPR] 3.1.7.1.21 as an application looks for a service."""

    def found(self, **wanted: Any) -> list[str]:
        return [
            str(row.path).lower() for row in self.run_to_end(self.service.inspection.public_queues(**wanted))
        ]

    def test_find(self) -> None:
        """Queues of every member are found by label, type and path, as patterns without regard to case."""
        self.directory.add(QueueManagerObject(identifier=BETA, computer_name="BETA"))
        self.directory.add(QueueObject(pathname="BETA\\prices", label="Preise [alt]", type=PRICES))
        self.create("GAMMA\\prices", label="Preise", application_type=PRICES)
        self.create("GAMMA\\orders", label="Orders")
        both = ["beta\\prices", "gamma\\prices"]
        self.assertEqual(self.found(), ["beta\\prices", "gamma\\orders", "gamma\\prices"])
        self.assertEqual(self.found(application_type=PRICES), both)
        self.assertEqual(self.found(label="preise*"), both)
        self.assertEqual(self.found(label="PREISE"), ["gamma\\prices"])
        self.assertEqual(self.found(label="* [alt]"), ["beta\\prices"])
        self.assertEqual(self.found(path="gamma\\*"), ["gamma\\orders", "gamma\\prices"])
        self.assertEqual(self.found(path="GAMMA\\Prices", application_type=PRICES), ["gamma\\prices"])
        self.assertEqual(self.found(application_type=UUID(int=1)), [])
        [row] = self.run_to_end(self.service.inspection.public_queues(path="gamma\\prices"))
        described = self.service.inspection.queue("GAMMA\\prices")
        for key in ("format_name", "identifier", "label", "application_type"):
            self.assertEqual(getattr(row, key), getattr(described, key))

    def test_callers_that_leave(self) -> None:
        """A search whose caller cancels it keeps nothing from those that follow."""
        self.patch(reads, "MOST_READS", 2)
        self.directory.add(QueueManagerObject(identifier=BETA, computer_name="BETA"))
        for number in range(2 * AT_ONCE):
            self.directory.add(QueueObject(pathname=f"BETA\\q{number}"))
        for _ in range(3):
            searching = self.deferred(self.service.inspection.public_queues())
            self.assertNoResult(searching)
            searching.cancel()
            self.failureResultOf(searching, CancelledError)
        searching = self.deferred(self.service.inspection.public_queues())
        self.clock.advance(0)
        self.assertEqual(len(self.successResultOf(searching)), 2 * AT_ONCE)

    def test_directory_is_unavailable(self) -> None:
        """While the directory is away nothing is found, and that is an error."""
        self.directory.is_connected = False
        self.assertIs(self.refused(self.service.inspection.public_queues()), Status.MQ_ERROR_NO_DS)
