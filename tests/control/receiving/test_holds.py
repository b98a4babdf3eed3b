"""Outgoing queues are paused and resumed over the control API, one by one and together."""

from __future__ import annotations

from tests.control.support import ControlTestCase, resource

ELSEWHERE = "DIRECT=TCP:127.0.0.9\\private$\\orders"
OTHER = "DIRECT=OS:GAMMA\\private$\\orders"


class HoldTests(ControlTestCase):
    """Nothing has been sent anywhere yet."""

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
