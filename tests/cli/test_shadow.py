"""C{msmq shadow report}: every difference between two consumers is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.messages.shadow_comparison import Comparison, ConsumerAnswer, compare_answers
from msmq.cli.options import Settings
from msmq.control.client.client import ControlClient
from msmq.control.server.factory import make_site
from msmq.queues.arriving.message import Message
from msmq.settings import SessionSettings
from msmq.shadow_service.service import ShadowService
from msmq.shadow_service.settings import ShadowSettings
from tests.builders import BETA
from tests.cli.served import MemoryLocation, ServedCommandTestCase
from tests.control.support import ORDERS
from tests.nodes.support import Node

COPIES = ".\\private$\\copies"
ANSWERS = ".\\private$\\answers"
SHADOW_ANSWERS = ".\\private$\\shadow-answers"
COUNT = 20_000


class PlantedTests(SynchronousTestCase):
    """Twenty thousand answers."""

    def compared(self, change: dict[int, ConsumerAnswer | None], moved: int | None = None) -> Comparison:
        """Compare with answers of which some are replaced, left out, or moved to the end."""
        first = [ConsumerAnswer(f"{number}", "same", number / 100) for number in range(COUNT)]
        second: list[ConsumerAnswer] = []
        for number, answer in enumerate(first):
            other = change.get(number, ConsumerAnswer(answer.pairing, answer.digest, answer.arrived + 0.1))
            if other is not None and number != moved:
                second.append(other)
        if moved is not None:
            second.append(ConsumerAnswer(f"{moved}", "same", first[-1].arrived))
        return compare_answers(first, second, 3600)

    def found(self, comparison: Comparison) -> dict[str, list[str]]:
        kinds = ("missing", "extra", "reordered", "altered", "late")
        return {kind: list(keys) for kind in kinds if (keys := getattr(comparison, kind))}

    def test_equal(self) -> None:
        """Equal answers have no difference, and the delay is that of the second consumer."""
        comparison = self.compared({})
        self.assertTrue(comparison.is_equal)
        self.assertEqual((comparison.matched, comparison.record()["delay_median"]), (COUNT, 0.1))

    def test_each_kind(self) -> None:
        """One planted difference among twenty thousand is found, and it alone."""
        planted: list[tuple[str, dict[int, ConsumerAnswer | None], int | None, list[str]]] = [
            ("missing", {17_777: None}, None, ["17777"]),
            ("altered", {5: ConsumerAnswer("5", "other", 0.15)}, None, ["5"]),
            ("late", {9: ConsumerAnswer("9", "same", 4000.0)}, None, ["9"]),
            ("reordered", {}, 10_000, ["10000"]),
        ]
        for kind, change, moved, keys in planted:
            with self.subTest(kind=kind):
                self.assertEqual(self.found(self.compared(change, moved)), {kind: keys})
        unknown = self.compared({3: ConsumerAnswer("unknown", "same", 0.0)})
        self.assertEqual(self.found(unknown), {"missing": ["3"], "extra": ["unknown"]})

    def test_all_together(self) -> None:
        """All kinds at once are distinguished."""
        change: dict[int, ConsumerAnswer | None] = {
            1: None,
            2: ConsumerAnswer("2", "other", 0.0),
            3: ConsumerAnswer("3", "same", 9e9),
        }
        found = self.found(self.compared(change, 4))
        self.assertEqual(found, {"missing": ["1"], "altered": ["2"], "late": ["3"], "reordered": ["4"]})

    def test_repeated_keys(self) -> None:
        """Two answers to one message are two: the second one of one consumer alone is extra."""
        one = [ConsumerAnswer("a", "same", 0.0), ConsumerAnswer("a", "same", 1.0)]
        self.assertTrue(compare_answers(one, one, 5).is_equal)
        self.assertEqual(self.found(compare_answers(one[:1], one, 5)), {"extra": ["a"]})


class ReportTests(ServedCommandTestCase):
    """A server with a shadow, and two consumers that answer."""

    def setUp(self) -> None:
        super().setUp()
        self.run_to_end(self.service.set_queue(ORDERS, {"log": True}))
        for name in ("copies", "answers", "shadow-answers"):
            self.make_queue(name, log="answers" in name)

    def serve(self, **compare: Any) -> None:
        """Start the shadow, and a site that knows it."""
        settings = ShadowSettings(queue=ORDERS, to=COPIES, **compare)
        shadows = ShadowService(
            [settings], self.service, "ALPHA", self.clock.reactor, maybeDeferred, Path(self.mktemp())
        )
        shadows.start()
        self.shadows = shadows
        self.addCleanup(lambda: self.run_to_end(shadows.stop()))
        self.clock.advance(1)
        site = make_site(
            self.service,
            configuration=self.server_configuration(),
            members=self.members(),
            limits=self.limits,
            clock=self.clock.reactor,
            shadows=shadows,
        )
        client = ControlClient(MemoryLocation(site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)

    def answer(self, queue: str, into: str, *, wrong: bytes = b"") -> None:
        """A consumer that answers every message with its body, and one of them wrong."""
        for message in self.seen(queue):
            body = bytes(message.view.body)
            answer = Message(body=b"wrong" if body == wrong else body, correlation_id=message.view.identity)
            self.run_to_end(self.service.send(into, [answer]))
        self.take(queue)

    def report(self, status: int) -> dict[str, Any]:
        """What the command prints."""
        ended = self.msmq("shadow", "report", ORDERS, "--json")
        self.assertEqual((ended.status, ended.errors), (status, ""))
        [found] = ended.objects
        assert isinstance(found, dict)
        return found

    def test_consumers(self) -> None:
        """Answers are paired by the message and its copy; a wrong one is found by the identifier of the
        message.
        """
        self.put(b"before")
        self.answer(ORDERS, ANSWERS)
        self.serve(original=ANSWERS, shadow=SHADOW_ANSWERS)
        self.put(b"1", b"2", b"3")
        self.clock.advance(1)
        self.answer(ORDERS, ANSWERS)
        self.answer(COPIES, SHADOW_ANSWERS)
        found = self.report(0)
        self.assertEqual([found[key] for key in ("original", "shadow", "matched", "copied")], [3, 3, 3, 3])
        self.put(b"4")
        self.clock.advance(1)
        self.answer(ORDERS, ANSWERS)
        self.assertEqual((self.report(1)["missing"], self.report(1)["altered"]), (1, 0))
        self.answer(COPIES, SHADOW_ANSWERS, wrong=b"4")
        self.assertEqual(self.report(1)["altered"], 1)

    def test_takeover(self) -> None:
        """Answers to copies of the server that was active before are not compared: only that one knows which
        messages they are of.
        """
        for number in range(2):
            self.serve(original=ANSWERS, shadow=SHADOW_ANSWERS)
            self.assertEqual(self.report(0)["shadow"], 0)
            self.put(b"%d" % number, b"of the same server")
            self.clock.advance(1)
            self.answer(ORDERS, ANSWERS)
            self.answer(COPIES, SHADOW_ANSWERS)
            found = self.report(0)
            self.assertEqual([found[key] for key in ("original", "shadow", "matched")], [2, 2, 2])
            self.run_to_end(self.shadows.stop())
        self.put(b"unknown", queue=SHADOW_ANSWERS)
        self.serve(original=ANSWERS, shadow=SHADOW_ANSWERS)
        self.assertEqual(self.report(0)["shadow"], 0)
        self.put(b"2")
        self.clock.advance(1)
        self.put(b"unknown", queue=SHADOW_ANSWERS)
        self.assertEqual(self.report(1)["extra"], 1)
        self.run_to_end(self.service.set_queue(ORDERS, {"log": False}))
        self.assertEqual(self.report(1)["shadow"], 6)

    def test_labels(self) -> None:
        """With C{paired_by = "label"} answers need no correlation."""
        self.serve(original=ANSWERS, shadow=SHADOW_ANSWERS, paired_by="label")
        self.put(b"1")
        self.clock.advance(1)
        for queue in (ANSWERS, SHADOW_ANSWERS):
            self.put(b"done", queue=queue, label="order 1")
        self.assertEqual(self.report(0)["matched"], 1)
        self.put(b"done", queue=SHADOW_ANSWERS, label="order 2")
        self.assertEqual(self.report(1)["examples"], {"extra": ["order 2"]})

    def test_answers_elsewhere(self) -> None:
        """The original answers may be at another server, which is named."""
        self.serve(original=".\\private$\\elsewhere", shadow=SHADOW_ANSWERS)
        here = Settings._client_at(Settings(), "", "")
        other = Node(self.network, self.clock, "BETA", BETA, SessionSettings())
        other.start()
        self.addCleanup(other.service.stopService)
        self.run_to_end(other.service.create_queue(".\\private$\\elsewhere", log=True))
        site = make_site(
            other.service,
            configuration=self.server_configuration(),
            members=self.members(),
            limits=self.limits,
            clock=self.clock.reactor,
        )
        there = ControlClient(MemoryLocation(site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: there if "beta" in place else here)
        self.put(b"1")
        [order] = self.seen()
        self.clock.advance(1)
        answer = Message(body=b"1", correlation_id=order.view.identity)
        self.run_to_end(other.service.send(".\\private$\\elsewhere", [answer]))
        self.answer(COPIES, SHADOW_ANSWERS)
        ended = self.msmq("shadow", "report", ORDERS, "--original-at", "unix:beta", "--json")
        self.assertEqual((ended.status, ended.objects[0]["matched"]), (0, 1), ended.errors)

    def test_list(self) -> None:
        """The shadows, and one of them; without a shadow or queues to compare there is no report."""
        self.serve()
        [found] = self.msmq("shadow", "list", "--json").objects
        self.assertEqual((found["queue"], found["destination"]), (ORDERS, COPIES))
        self.assertEqual(self.msmq("shadow", "show", ORDERS, "--json").objects, [found])
        self.assert_ended(["shadow", "show", COPIES], 1, "has no shadow")
        self.assert_ended(["shadow", "report", ORDERS], 1, "no queues to compare")
