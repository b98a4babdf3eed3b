"""Outgoing and local queues are paused and resumed over the control API."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from msmq.settings import SessionSettings
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.control.support import DEAD_LETTERS, ORDERS, ControlTestCase, resource
from tests.nodes.support import Node

ELSEWHERE = "DIRECT=TCP:127.0.0.9\\private$\\orders"
OTHER = "DIRECT=OS:GAMMA\\private$\\orders"


class HoldTests(ControlTestCase):
    """Pauses of outgoing queues before any message was sent."""

    def test_name(self) -> None:
        """A name is paused before anything was sent to it, and listed from then on."""
        paused = self.call("POST", resource("outgoing", ELSEWHERE, "pause")).json
        self.assertEqual((paused["state"], paused["paused_by"]), ("ONHOLD", ["name"]))
        self.assertEqual(self.call("GET", "/v1/outgoing").json, [paused])
        resumed = self.call("POST", resource("outgoing", ELSEWHERE, "resume")).json
        self.assertEqual((resumed["state"], resumed["paused_by"]), ("INACTIVE", []))

    def test_several(self) -> None:
        """All, or those of one next hop; the answer is the queues that this concerns."""
        for name in (ELSEWHERE, OTHER):
            self.put(b"1", queue=name)
        paused = self.post("/v1/outgoing/pause", {"next_hop": "127.0.0.9"}).json
        self.assertEqual([queue["format_name"] for queue in paused], [ELSEWHERE])
        self.assertEqual(self.call("GET", "/v1/status").json["outgoing_paused"]["next_hops"], ["127.0.0.9"])
        paused = self.post("/v1/outgoing/pause", {"all": True}).json
        self.assertEqual([queue["paused_by"] for queue in paused], [["next_hop", "all"], ["all"]])
        self.post("/v1/outgoing/resume", {"all": True})
        resumed = self.post("/v1/outgoing/resume", {"next_hop": "127.0.0.9"}).json
        self.assertEqual([queue["paused_by"] for queue in resumed], [[]])

    def test_redirect(self) -> None:
        """A name is sent to another address, shown with it, and sent to its own again."""
        shown = self.post(resource("outgoing", ELSEWHERE, "redirect"), {"to": "127.0.0.8"}).json
        self.assertEqual(shown["redirected_to"], "127.0.0.8")
        self.assertEqual(self.call("GET", "/v1/outgoing").json, [shown])
        undone = self.post(resource("outgoing", ELSEWHERE, "redirect"), {"to": None}).json
        self.assertIsNone(undone["redirected_to"])
        reasons = [event.event.reason for event in self.successResultOf(self.node.store.read_events(0, 100))]
        self.assertEqual(
            [reason.partition(": done: ")[2] for reason in reasons],
            [
                f"outgoing redirect {ELSEWHERE} to 127.0.0.8",
                f"outgoing redirect {ELSEWHERE} to the address in the name",
            ],
        )

    def test_refused_redirects(self) -> None:
        """No address, several keys, and names without an address."""
        for wanted in ({}, {"to": 7}, {"to": "b", "x": 1}, {"to": "a b"}, {"to": "127.0.0.9"}):
            answer = self.post(resource("outgoing", ELSEWHERE, "redirect"), wanted)
            self.assertEqual(
                (answer.status, answer.json["error"]), (400, "MQ_ERROR_INVALID_PARAMETER"), wanted
            )
        self.assertEqual(self.call("GET", "/v1/outgoing").json, [])

    def test_refusals(self) -> None:
        """Neither, both, what is not a host, and what is not a key."""
        for wanted in ({}, {"all": False}, {"all": True, "next_hop": "b"}, {"next_hop": "b", "x": 1}):
            answer = self.post("/v1/outgoing/pause", wanted)
            self.assertEqual(
                (answer.status, answer.json["error"]), (400, "MQ_ERROR_INVALID_PARAMETER"), wanted
            )
        answer = self.post("/v1/outgoing/resume", {"next_hop": "a b"})
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'a b' is not a next hop")


class QueuePauseTests(ControlTestCase):
    """C{POST /v1/queues/PATH/pause} and C{.../resume}."""

    def pause(self) -> None:
        self.assertTrue(self.post(resource("queues", ORDERS, "pause"), {}).json["paused"])

    def test_pause_and_resume(self) -> None:
        """A receive waits, browsing finds the messages, senders are accepted; it is shown and recorded."""
        self.put(b"1")
        self.pause()
        self.put(b"2")
        waiting = Deferred.fromCoroutine(self.service.receive(ORDERS))
        self.assertNoResult(waiting)
        page = self.call("GET", resource("queues", ORDERS, "messages"))
        self.assertEqual([line["body"] for line in page.lines if "body" in line], ["1", "2"])
        self.assertEqual([queue["paused"] for queue in self.call("GET", "/v1/queues").json], [True])
        self.assertEqual(self.call("GET", "/v1/status").json["queues_paused"], 1)
        self.assertFalse(self.post(resource("queues", ORDERS, "resume"), {}).json["paused"])
        self.assertEqual(bytes(self.successResultOf(waiting).body), b"1")
        self.assertEqual(self.bodies(), [b"2"])
        events = [stored.event for stored in self.run_to_end(self.service.inspection.events())]
        self.assertIn(f"queue pause {ORDERS}", " ".join(event.reason for event in events))

    def test_restart(self) -> None:
        """The pause persists, and the log names the queue at the start."""
        self.pause()
        self.successResultOf(self.service.stopService())
        network = Network(self.clock.reactor)
        node = Node(network, self.clock, "ALPHA", ALPHA, SessionSettings(), self.disk)
        with capturedLogs() as logged:
            node.start()
        self.addCleanup(node.service.stopService)
        self.assertTrue(node.service.inspection.queue(ORDERS).paused)
        lines = [formatEvent(event) for event in logged]
        self.assertIn(f"queues are paused for readers since before the start: {ORDERS}", lines)

    def test_refused(self) -> None:
        """A system queue is refused, and so is an unknown one."""
        answer = self.call("POST", resource("queues", DEAD_LETTERS, "pause"), b"")
        self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_OPERATION")
        answer = self.call("POST", resource("queues", ".\\private$\\nosuch", "resume"), b"")
        self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND")
