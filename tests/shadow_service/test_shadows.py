"""A shadow copies what arrives in a queue, and leaves the queue as it is."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.storage import StorageFull
from msmq.persistence.changes import Change, PutState
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.queues.machine_quota import QuotaKind
from msmq.shadow_service import copied_file
from msmq.shadow_service.copied_file import CopiedFile
from msmq.shadow_service.service import ShadowService
from msmq.shadow_service.settings import ShadowSettings, ShadowTables
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.nodes.support import Node, NodesTestCase

ORDERS = ".\\private$\\orders"
TO = "DIRECT=OS:BETA\\private$\\orders"
ANSWERS = ".\\private$\\shadow-answers"
SETTINGS = ShadowSettings(queue=ORDERS, to=TO, original=".\\private$\\answers", shadow=ANSWERS)


class ShadowTests(NodesTestCase):
    """ALPHA copies to BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.mktemp())
        self.queue(self.alpha, log=True)
        self.queue(self.beta)
        self.shadows = self.begin()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """A queue manager on a disk."""
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def begin(
        self,
        settings: ShadowSettings = SETTINGS,
        in_thread: Callable[..., Deferred[Any]] = maybeDeferred,
    ) -> ShadowService:
        """Start a shadow."""
        shadows = ShadowService(
            [settings], self.alpha.service, "ALPHA", self.clock.reactor, in_thread, self.directory
        )
        shadows.start()
        self.clock.advance(1)
        self.addCleanup(lambda: self.run_to_end(shadows.stop()))
        return shadows

    def order(self, *bodies: bytes, **kwargs: Any) -> list[UserMessageView]:
        """Messages in the queue of ALPHA, and the copies that arrive at BETA."""
        self.send(self.alpha, ORDERS, *bodies, **{"delivery": Delivery.RECOVERABLE, **kwargs})
        self.clock.advance(5)
        return self.take(self.beta, ORDERS)

    def test_copies(self) -> None:
        """Each message is copied in order, also one that a consumer takes at once; the original stays."""
        reading = self.deferred(self.alpha.service.reserve(ORDERS))
        copies = self.order(b"1", b"2", b"3", label="a label", application_tag=7)
        self.assertEqual([bytes(view.body) for view in copies], [b"1", b"2", b"3"])
        self.assertEqual({(view.label, view.application_tag) for view in copies}, {("a label", 7)})
        self.run_to_end(self.successResultOf(reading).confirm())
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"2", b"3"])
        summary = self.shadows.summary(ORDERS)
        self.assertEqual((summary.condition, summary.copied, summary.skipped), ("running", 3, 0))
        self.assertEqual((summary.copied_since_start, summary.behind), (3, 0))

    def test_answers_go_nowhere_else(self) -> None:
        """A copy requests no acknowledgements, and its answers go to the queue of the comparison."""
        [copy] = self.order(
            b"1",
            response_queue="DIRECT=OS:GAMMA\\private$\\clients",
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue="DIRECT=OS:GAMMA\\private$\\acks",
            dead_letter=True,
            journal=True,
        )
        self.assertEqual(str(copy.response_format_name()), "DIRECT=OS:ALPHA\\private$\\shadow-answers")
        self.assertEqual((copy.acknowledge, copy.journal, copy.dead_letter), (0, False, False))

    def test_pairs(self) -> None:
        """The identifiers of messages and copies are known, in the order of arrival."""
        copies = self.order(b"1", b"2")
        originals = [
            message.view for message in self.run_to_end(self.alpha.service.inspection.logged(ORDERS))
        ]
        self.assertEqual(
            [(each.original, each.copy) for each in self.shadows.copies(ORDERS)],
            [(str(originals[index].identifier), str(copies[index].identifier)) for index in (0, 1)],
        )
        self.assertEqual(self.shadows.copies(ORDERS, 1, 5), self.shadows.copies(ORDERS)[1:])
        self.assertEqual(self.shadows.copies(ORDERS, 1 << 62), [])

    def test_restart(self) -> None:
        """A shadow begins at the end of the log; started again it continues where it was."""
        self.order(b"1")
        self.run_to_end(self.shadows.stop())
        self.assertEqual(self.order(b"2"), [])
        self.begin()
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"2"])

    def test_lost_position(self) -> None:
        """Where a kill or a power failure has taken the position back, on this server or for another one,
        messages have no second copy.
        """
        values = self.alpha.service.service_values
        stored = values.read("shadow/")
        self.order(b"1", b"2")
        before = self.shadows.copies(ORDERS)
        self.run_to_end(self.shadows.stop())
        [file] = self.directory.iterdir()
        os.truncate(file, file.stat().st_size - 50)
        for other in (self.directory, Path(self.mktemp())):
            self.directory = other
            self.run_to_end(values.store(list(stored.items())))
            again = self.begin()
            self.clock.advance(5)
            self.assertEqual(self.bodies(self.beta, ORDERS), [])
            self.assertEqual(again.copies(ORDERS), before)
            self.run_to_end(again.stop())

    def test_takeover(self) -> None:
        """A server with another data directory goes on where the one before has stopped, also if that has
        copied nothing, and so does that one when it is active again.
        """
        first, second = self.directory, Path(self.mktemp())
        self.run_to_end(self.shadows.stop())
        self.send(self.alpha, ORDERS, b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        copied = []
        for number, self.directory in enumerate((second, first, second, first), 2):
            shadows = self.begin()
            self.clock.advance(5)
            copied.append(self.bodies(self.beta, ORDERS))
            self.assertEqual(shadows.summary(ORDERS).sequence, number - 1)
            self.run_to_end(shadows.stop())
            self.send(self.alpha, ORDERS, b"%d" % number, delivery=Delivery.RECOVERABLE)
            self.clock.advance(5)
        self.assertEqual(copied, [[b"1"], [b"2"], [b"3"], [b"4"]])

    def test_position_that_cannot_be_stored(self) -> None:
        """The shadow waits and says why, and the store has the position when it works again."""
        values = self.alpha.service.service_values
        is_full = True
        commit = self.alpha.store.commit

        def fail_for_the_position(changes: Sequence[Change]) -> Deferred[None]:
            if is_full and any(isinstance(each, PutState) and "shadow/" in each.name for each in changes):
                return fail(StorageFull("there is no space"))
            return commit(changes)

        self.patch(self.alpha.store, "commit", fail_for_the_position)
        self.assertEqual([view.body for view in self.order(b"1", b"2")], [b"1", b"2"])
        self.assertIn("there is no space", self.shadows.summary(ORDERS).reason)
        is_full = False
        self.clock.advance(10)
        self.assertEqual(self.shadows.summary(ORDERS).reason, "")
        self.assertEqual(list(values.read("shadow/").values()), [b"2"])
        self.assertEqual(self.shadows.summary(ORDERS).copied, 2)

    def test_earlier_store(self) -> None:
        """When the store was replaced by an earlier one, new messages are copied, and a line says why."""
        self.order(b"1")
        self.run_to_end(self.shadows.stop())
        [path] = self.directory.iterdir()
        file = CopiedFile(path, 0)
        file.add([(1_000_000, bytes([1]) * 20, bytes([2]) * 20)])
        file.close()
        with capturedLogs() as logs:
            self.begin()
        self.assertIn("begins again after message", str(logs[0].get("log_format")))
        self.assertEqual(self.order(b"2")[0].body, b"2")

    def test_trimmed_messages(self) -> None:
        """Messages that were trimmed before they were copied are reported once, with their numbers, also if
        no message is left; trimmed messages that were copied are not.
        """
        self.order(b"1", b"2")
        self.run_to_end(self.alpha.service.set_queue(ORDERS, {"log_age": 300}))
        self.clock.advance(1000)
        self.assertEqual(self.shadows.summary(ORDERS).gaps_since_start, 0)
        self.run_to_end(self.shadows.stop())
        self.send(self.alpha, ORDERS, b"3", b"4", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1000)
        with capturedLogs() as logs:
            shadows = self.begin()
            self.assertEqual([bytes(view.body) for view in self.order(b"5")], [b"5"])
            self.clock.advance(10)
        summary = shadows.summary(ORDERS)
        self.assertEqual((summary.gaps_since_start, summary.gap_first, summary.gap_last), (1, 3, 4))
        [line] = [formatEvent(each) for each in logs if "has missed" in str(each.get("log_format"))]
        self.assertIn("from number 3 to 4 of the message log, at most 2, were trimmed", line)
        events = self.run_to_end(self.alpha.service.inspection.events())
        [found] = [each.event for each in events if each.event.event == "shadow_incomplete"]
        self.assertIn("from number 3 to 4", found.reason)
        self.assertEqual(found.queue, ORDERS)

    def test_messages_before_the_shadow(self) -> None:
        """What was trimmed before the shadow began is no gap."""
        self.run_to_end(self.shadows.stop())
        for path in self.directory.iterdir():
            path.unlink()
        values = self.alpha.service.service_values
        self.run_to_end(values.store([(name, None) for name in values.read("shadow/")]))
        self.send(self.alpha, ORDERS, b"1", delivery=Delivery.RECOVERABLE)
        self.run_to_end(self.alpha.service.set_queue(ORDERS, {"log_age": 300}))
        self.clock.advance(1000)
        shadows = self.begin()
        self.assertEqual([bytes(view.body) for view in self.order(b"2")], [b"2"])
        self.assertEqual(shadows.summary(ORDERS).gaps_since_start, 0)

    def test_the_reactor_does_not_wait_for_the_file(self) -> None:
        """A file of up to two million records is read, written again and synchronised in a thread."""
        self.run_to_end(self.shadows.stop())
        waiting: list[Callable[[], object]] = []

        def in_thread(work: Callable[..., object], *arguments: object) -> Deferred[object]:
            ended: Deferred[object] = Deferred()
            waiting.append(lambda: ended.callback(work(*arguments)))
            return ended

        self.patch(copied_file, "MOST_RECORDS", 2)
        shadows = self.begin(in_thread=in_thread)
        self.assertEqual(self.order(b"1", b"2"), [])
        waiting.pop(0)()
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2"])
        self.assertEqual(len(shadows.copies(ORDERS)), 2)
        while waiting:
            waiting.pop(0)()
        self.assertEqual(len(shadows.copies(ORDERS)), 1)
        stopped = shadows.stop()
        self.clock.advance(1)
        self.assertNoResult(self.deferred(stopped))
        [close] = waiting
        close()

    def test_unavailable(self) -> None:
        """Without the queue of the copies, or a message log, it waits and says why; then it goes on."""
        self.run_to_end(self.shadows.stop())
        shadows = self.begin(ShadowSettings(queue=ORDERS, to=".\\private$\\second"))
        self.order(b"1")
        self.assertIn("does not exist", shadows.summary(ORDERS).reason)
        self.queue(self.alpha, "second")
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.alpha, ".\\private$\\second"), [b"1"])
        self.assertEqual(shadows.summary(ORDERS).reason, "")
        self.run_to_end(self.alpha.service.set_queue(ORDERS, {"log": False}))
        self.clock.advance(10)
        self.assertIn("no message log", shadows.summary(ORDERS).reason)
        self.assertRaises(MQError, shadows.summary, ".\\private$\\second")

    def test_an_unexpected_error(self) -> None:
        """It is logged once with its traceback and is the reason why the shadow waits; then it goes on."""
        self.run_to_end(self.shadows.stop())
        failures = [RuntimeError("surprise"), RuntimeError("surprise")]

        def in_thread(call: Callable[..., Any], *arguments: object) -> Deferred[Any]:
            return fail(failures.pop()) if failures else maybeDeferred(call, *arguments)

        shadows = self.begin(in_thread=in_thread)
        summary = shadows.summary(ORDERS)
        self.assertEqual(
            (summary.condition, summary.reason), ("waiting", "unexpected RuntimeError: surprise")
        )
        self.clock.advance(10)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual([view.body for view in self.order(b"1")], [b"1"])
        self.assertEqual(shadows.summary(ORDERS).condition, "running")

    def test_a_message_that_cannot_be_copied(self) -> None:
        """It is skipped with an event, and the others are copied."""
        self.send(self.alpha, ORDERS, b"1")
        self.send(self.alpha, ORDERS, b"2", privacy_level=1)
        self.send(self.alpha, ORDERS, b"3")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"3"])
        summary = self.shadows.summary(ORDERS)
        self.assertEqual((summary.copied, summary.skipped), (2, 1))
        events = self.run_to_end(self.alpha.service.inspection.events())
        self.assertIn("shadow_skipped", [each.event.event for each in events])

    def test_quota(self) -> None:
        """A message that is larger than the quota is skipped, and those that exceed it only together are
        copied as there is space.
        """
        self.run_to_end(self.shadows.stop())
        self.send(self.alpha, ORDERS, b"0", bytes(8000), *(b"%1000d" % number for number in range(10)))
        self.run_to_end(self.alpha.service.purge_queue(ORDERS))
        self.run_to_end(self.alpha.service.set_quotas({QuotaKind.QUEUES: 4}))
        shadows = self.begin()
        self.clock.advance(100)
        copies = [body[-1:] for body in self.bodies(self.beta, ORDERS)]
        self.assertEqual(copies, [b"0", *(b"%d" % number for number in range(10))])
        summary = shadows.summary(ORDERS)
        self.assertEqual((summary.copied, summary.skipped, summary.behind), (11, 1, 0))
        events = self.run_to_end(self.alpha.service.inspection.events())
        [skipped] = [each.event for each in events if each.event.event == "shadow_skipped"]
        self.assertIn("is larger than all of it, 4096 bytes", skipped.reason)


class CopiedFileTests(NodesTestCase):
    """The file of the copies."""

    def test_limit(self) -> None:
        """Beyond the limit the older half is removed; the position stays."""
        self.patch(copied_file, "MOST_RECORDS", 100)
        path = Path(self.mktemp()) / "x.copied"
        file = CopiedFile(path, 5)
        for number in range(6, 206):
            file.add([(number, bytes([1]) * 20, bytes([number]) * 20)])
            if file.is_full:
                halved = file.halved()
                self.assertEqual(halved.part(0, 20), file.part(len(file.part(0, 200)) - 50, 20))
                file.close()
                file = halved
        self.assertEqual(file.sequence, 205)
        kept = file.part(0, 1000)
        self.assertEqual([number for number, _, _ in kept], list(range(206 - len(kept), 206)))
        self.assertLess(len(kept), 101)
        file.close()
        self.assertEqual(CopiedFile(path, 0).part(0, 1000), kept)

    def test_failed_write(self) -> None:
        """What a full disk has left of a write is overwritten, so later records are where they belong."""
        path = Path(self.mktemp()) / "x.copied"
        file = CopiedFile(path, 5)
        first, second = [[(number, bytes([number]) * 20, bytes([1]) * 20)] for number in (6, 7)]
        file.add(first)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Python ignores the signal that the system sends for a file that is too large.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
        try:
            self.assertRaises(OSError, file.add, second)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual(file.part(0, 10), first)
        third = [(8, bytes([8]) * 20, bytes([1]) * 20)]
        file.add(second)
        file.add(third)
        self.assertEqual(file.part(0, 10), [*first, *second, *third])
        file.close()
        self.assertEqual(CopiedFile(path, 0).part(0, 10), [*first, *second, *third])


class TableTests(NodesTestCase):
    """[[shadow]] in a configuration."""

    def read(self, *entries: object) -> tuple[tuple[ShadowSettings, ...], list[tuple[object, str]]]:
        problems: list[tuple[object, str]] = []
        found = ShadowTables(lambda key, problem: problems.append((key, problem))).read(list(entries))
        return found, problems

    def test_values(self) -> None:
        """A whole table."""
        found, problems = self.read(
            {
                "queue": ORDERS,
                "to": TO,
                "compare": {
                    "original": ".\\private$\\a",
                    "shadow": ".\\private$\\b",
                    "paired_by": "label",
                    "late": 2,
                },
            }
        )
        self.assertEqual(problems, [])
        self.assertEqual(
            found,
            (
                ShadowSettings(
                    queue=ORDERS,
                    to=TO,
                    original=".\\private$\\a",
                    shadow=".\\private$\\b",
                    paired_by="label",
                    late=2.0,
                ),
            ),
        )

    def test_route_of_the_bridge(self) -> None:
        """The destination may be a route to a broker: the queue that it forwards."""
        problems: list[object] = []
        tables = ShadowTables(lambda *problem: problems.append(problem), {"copies": ".\\private$\\copies"})
        (found,) = tables.read([{"queue": ORDERS, "to": "bridge:copies"}])
        self.assertEqual((found.to, found.destination), (".\\private$\\copies", "bridge:copies"))
        self.assertEqual(tables.read([{"queue": ORDERS, "to": "bridge:other"}]), ())
        self.assertEqual(
            problems,
            [(("shadow", 0, "to"), "names the route 'other'; the routes to a broker are: copies")],
        )

    def test_mistakes(self) -> None:
        """Each is reported with its key."""
        for entry, key, words in (
            ({"queue": ORDERS}, ("shadow", 0), "has no to"),
            ({"queue": "a\\b\\c\\d", "to": TO}, ("shadow", 0, "queue"), "path"),
            ({"queue": ORDERS, "to": "DIRECT=X"}, ("shadow", 0, "to"), "format name"),
            ({"queue": ORDERS, "to": TO, "too": 1}, ("shadow", 0, "too"), "not a key"),
            ({"queue": ORDERS, "to": TO, "compare": 1}, ("shadow", 0, "compare"), "table"),
            ({"queue": ORDERS, "to": TO, "compare": {}}, ("shadow", 0, "compare"), "has no original"),
            (
                {"queue": ORDERS, "to": TO, "compare": {"paired_by": "x"}},
                ("shadow", 0, "compare", "paired_by"),
                "correlation",
            ),
        ):
            with self.subTest(entry=entry):
                found, problems = self.read(entry)
                self.assertEqual(found, ())
                self.assertEqual(problems[0][0], key)
                self.assertIn(words, problems[0][1])
        self.assertIn("another table", self.read(*[{"queue": ORDERS, "to": TO}] * 2)[1][0][1])
        self.assertIn("limit", self.read(*[{}] * 65)[1][0][1])
