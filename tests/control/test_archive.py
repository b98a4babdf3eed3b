"""The archive of a server in the control API."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from zope.interface import implementer

from msmq.control.server.factory import make_site
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.interfaces.archive import ArchiveSummary, ErasedRows, IArchive
from msmq.structures.status import MQError, Status
from tests.control.support import ControlTestCase

SUMMARY = ArchiveSummary(
    directory="/srv/archive",
    condition="running",
    reason="",
    rows=7,
    files=2,
    bytes=1000,
    archived=5,
    behind=0,
    complete=1_700_000_000.0,
    lag=2.5,
    is_late=False,
    missing=1,
    erased=0,
    expired=0,
    free_bytes=5_000_000,
    restarts=0,
)


@implementer(IArchive)
class OneArchive:
    """An archive with two rows of Jane Doe."""

    def __init__(self) -> None:
        self.state = SUMMARY

    def summary(self) -> ArchiveSummary | None:
        return self.state

    async def erase(self, condition: str, *, dry_run: bool = False) -> Sequence[ErasedRows]:
        if condition != "label = 'Jane Doe'":
            raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"not a condition: {condition}")
        if not dry_run:
            self.state = attrs.evolve(self.state, rows=self.state.rows - 2, erased=2)
        return [ErasedRows("orders", "log", 2)]

    async def compact(self) -> ArchiveSummary:
        self.state = attrs.evolve(self.state, files=1)
        return self.state


class ArchiveResourceTests(ControlTestCase):
    """C{/v1/archive}."""

    def archive(self) -> None:
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=self.members(),
            clock=self.clock.reactor,
            archive=OneArchive(),
        )

    def test_without_an_archive(self) -> None:
        """The refusal names the setting, and the status has no such key."""
        for method, path in (("GET", "/v1/archive"), ("POST", "/v1/archive/compact")):
            answer = self.call(method, path)
            self.assertEqual("MQ_ERROR_UNSUPPORTED_OPERATION", answer.json["error"])
            self.assertIn("[archive] directory", answer.json["detail"])
        self.assertNotIn("archive", self.call("GET", "/v1/status").json)

    def test_the_state(self) -> None:
        """By itself and in the status; its time is text as everywhere."""
        self.archive()
        found = self.call("GET", "/v1/archive").json
        self.assertEqual("2023-11-14T22:13:20+00:00", found["complete"])
        self.assertEqual({**attrs.asdict(SUMMARY), "complete": found["complete"]}, found)
        self.assertEqual(found, self.call("GET", "/v1/status").json["archive"])

    def test_an_erasure(self) -> None:
        """A rehearsal counts; the audit log does not repeat the values of the condition."""
        self.archive()
        expected = {"rows": [{"topic": "orders", "stream": "log", "rows": 2}]}
        where = "label = 'Jane Doe'"
        self.assertEqual(expected, self.post("/v1/archive/erase", {"where": where, "dry_run": True}).json)
        self.assertEqual(7, self.call("GET", "/v1/archive").json["rows"])
        self.assertEqual(expected, self.post("/v1/archive/erase", {"where": where}).json)
        self.assertEqual(5, self.call("GET", "/v1/archive").json["rows"])
        texts = [each.event.reason for each in self.run_to_end(self.service.inspection.events())]
        self.assertTrue(any("archive erase" in text for text in texts), texts)
        self.assertFalse(any("Jane" in text for text in texts), texts)
        self.assertEqual(400, self.post("/v1/archive/erase", {"where": "label"}).status)
        self.assertEqual(400, self.post("/v1/archive/erase", {}).status)

    def test_a_compaction(self) -> None:
        """It answers with the state after it."""
        self.archive()
        self.assertEqual(1, self.call("POST", "/v1/archive/compact").json["files"])
