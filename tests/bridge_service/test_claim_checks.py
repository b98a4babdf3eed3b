"""Bodies that are too large for the broker: they stay in a file, and the message has the reference."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from msmq.bridge.claims import CLAIM, BodyClaim
from msmq.bridge_service.claim_files import SWEEP, ClaimFiles
from msmq.interfaces import MappingError
from tests.bridge_service.support import ORDERS, BridgeTestCase, bodies
from tests.servers.rabbitmq import LARGEST_MESSAGE

BACK = ".\\private$\\back"
LARGE = bytes(range(256)) * (LARGEST_MESSAGE // 200)


class ClaimCheckTests(BridgeTestCase):
    """From a queue over the broker to another queue, with one directory."""

    async def begin(self) -> None:
        """Have a directory and a second queue too."""
        await super().begin()
        self.claims = self.data / "claims"
        await self.manager.create_queue(BACK)

    async def test_body_crosses_the_broker_in_a_file(self) -> None:
        """A body over the limit arrives whole, in the order of its queue, and other bodies are not stored."""
        queue = await self.queue()
        await self.send(b"before", LARGE, b"after", LARGE, b"last")
        self.bridge(
            self.outward(rules={"routing_key": queue, "limit": 1000, "has_claims": True}, claims=self.claims)
        )
        await self.until(lambda: self.count() == 0)
        self.assertEqual(await self.depth(queue), 5)
        self.assertEqual([path.name for path in self.claims.iterdir()], [BodyClaim.of(LARGE).reference])
        self.bridge(self.inward(queue, queue=BACK, claims=self.claims))
        found = await self.receive(5, BACK)
        self.assertEqual([each.body for each in found], [b"before", LARGE, b"after", LARGE, b"last"])

    async def test_missing_body(self) -> None:
        """A message whose body is gone is a dead letter, and so is one for a route without a directory."""
        queue = await self.queue()
        headers = BodyClaim.of(LARGE).headers()
        for name, claims, reason in (
            ("without", None, "the message has only a reference, and the route no claim_check"),
            ("missing", self.claims, f"{self.claims} has no body {headers[CLAIM]} of"),
        ):
            await self.publish(queue, b"", b"whole", headers=headers)
            bridge = self.bridge(self.inward(queue, name, dead_letters=f"{queue}.{name}", claims=claims))
            await self.until_there(f"{queue}.{name}")
            ((properties, _), _) = await self.get(f"{queue}.{name}", 2)
            self.assertIn(reason, properties.headers["msmq-dead-letter-reason"])
            await bridge.stop()
        self.assertEqual(self.count(), 0)

    async def test_directory_cannot_be_written(self) -> None:
        """While the directory cannot be written the route waits, and nothing passes the large body."""
        queue = await self.queue()
        self.claims.write_text("a file")
        await self.send(LARGE, b"after")
        route = self.route(
            self.outward(rules={"routing_key": queue, "limit": 1000, "has_claims": True}, claims=self.claims)
        )
        await self.until(lambda: "claim check" in route.reason)
        self.assertEqual((await self.depth(queue), route.condition.value), (0, "waiting"))
        self.claims.unlink()
        self.assertEqual(bodies(await self.get(queue, 2)), [b"", b"after"])
        await self.until(lambda: self.count(ORDERS) == 0)
        self.assertEqual(route.condition.value, "running")

    async def test_dry_run(self) -> None:
        """A dry run shows the reference, and stores nothing."""
        queue = await self.queue()
        await self.send(LARGE)
        route = self.route(
            self.outward(rules={"routing_key": queue, "limit": 1000, "has_claims": True}, claims=self.claims)
        )
        route.pause()
        (tested,) = await route.test(1)
        self.assertEqual(tested["properties"]["headers"][CLAIM], BodyClaim.of(LARGE).reference)
        self.assertFalse(self.claims.exists())


class ClaimFilesTests(TestCase):
    """The directory."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1_000_000)
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.files = ClaimFiles(self.directory / "claims", 7200, self.clock.seconds)

    async def assert_refused(self, work: Callable[[], Awaitable[object]], reason: str) -> None:
        with self.assertRaisesRegex(MappingError, reason):
            await work()

    async def test_bodies_are_removed_when_their_time_is_over(self) -> None:
        """A body is kept for its time from its last publication, however old its file is."""
        claims = [BodyClaim.of(body) for body in (b"old", b"used", b"new")]
        other = self.directory / "claims" / "README"
        for claim, body in zip(claims[:2], (b"old", b"used"), strict=True):
            await self.files.store(claim, body)
            os.utime(self.directory / "claims" / claim.reference, (1_000_000, 1_000_000))
        other.write_text("of an operator")
        os.utime(other, (0, 0))
        self.clock.advance(SWEEP - 1)
        await self.files.store(claims[1], b"used")
        self.clock.advance(SWEEP + 2)
        await self.files.store(claims[2], b"new")
        await self.assert_refused(lambda: self.files.read(claims[0]), "has no body")
        self.assertEqual(await self.files.read(claims[1]), b"used")
        self.assertTrue(other.exists())

    async def test_a_damaged_body_is_written_again(self) -> None:
        """A message whose body is in the directory, but damaged, stores it anew."""
        claim = BodyClaim.of(b"secret")
        await self.files.store(claim, b"secret")
        (self.directory / "claims" / claim.reference).write_bytes(b"sacred")
        await self.files.store(claim, b"secret")
        self.assertEqual(await self.files.read(claim), b"secret")

    async def test_published_again_while_it_is_removed(self) -> None:
        """A body whose time was over, and that another bridge publishes again at the moment in which it would
        be removed, stays; one that another bridge removes first is no failure.
        """
        claim, gone = BodyClaim.of(b"again"), BodyClaim.of(b"gone")
        other = ClaimFiles(self.files.directory, 1e9, self.clock.seconds)
        await other.store(claim, b"again")
        await other.store(gone, b"gone")
        for each in (claim, gone):
            os.utime(self.files.directory / each.reference, (1_000_000, 1_000_000))
        self.clock.advance(7201)
        interrupted = {
            claim.reference: lambda: other._store(claim, b"again"),
            gone.reference: (self.files.directory / gone.reference).unlink,
        }
        scan = os.scandir

        class Entry:
            """An entry of the directory; something happens after a look at its time."""

            def __init__(self, entry: os.DirEntry[str]) -> None:
                self.name, self.path = entry.name, entry.path
                self._entry = entry

            def stat(self, *, follow_symlinks: bool) -> os.stat_result:
                found = self._entry.stat(follow_symlinks=follow_symlinks)
                interrupted.pop(self.name, lambda: None)()
                return found

        self.patch(os, "scandir", lambda path: [Entry(each) for each in scan(path)])
        new = BodyClaim.of(b"new")
        await self.files.store(new, b"new")
        self.assertEqual(interrupted, {})
        self.assertEqual(await self.files.read(claim), b"again")
        await self.assert_refused(lambda: self.files.read(gone), "has no body")
        self.assertEqual(
            {each.name for each in self.files.directory.iterdir()}, {claim.reference, new.reference}
        )

    async def test_other_files_are_no_bodies(self) -> None:
        """A symbolic link, or a file of another size, is not read."""
        claim = BodyClaim.of(b"secret")
        await self.files.store(claim, b"secret")
        path = self.directory / "claims" / claim.reference
        await self.assert_refused(lambda: self.files.read(BodyClaim(claim.reference, 5)), "of 5 bytes")
        path.rename(self.directory / "elsewhere")
        path.symlink_to(self.directory / "elsewhere")
        await self.assert_refused(lambda: self.files.read(claim), "has no body")
