"""Answers of /health and of the endpoint itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from zope.interface import alsoProvides

from msmq.alarm_limits import FAILURE_COUNTS, STALLED_COMMIT
from msmq.interfaces.storage import IStoreFiles
from msmq.manager.manager_settings import CloneCheck
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError
from msmq.web import site
from msmq.web.exposition import FRESH
from msmq.web.readiness import SHARED_FOR
from tests.control.test_archive import SUMMARY, OneArchive
from tests.web.support import ORDERS, TOKEN, WebTestCase


class HealthTests(WebTestCase):
    """Liveness and readiness."""

    def ready(self) -> tuple[int, dict[str, Any]]:
        """Status and object of /health/ready."""
        answer = self.get("/health/ready")
        return answer.status, answer.json

    def test_a_running_server_is_ready(self) -> None:
        """It is live and ready, and has no reasons."""
        self.assertEqual(self.ready(), (200, {"status": "ready", "reasons": [], "directory": None}))
        answer = self.get("/health/live")
        self.assertEqual((answer.status, answer.json), (200, {"status": "live", "reasons": []}))

    def test_a_stopped_server_is_not_ready(self) -> None:
        """After it has stopped it is live, but not ready, and its metrics are few."""
        self.alpha.service.stopService()
        self.clock.advance(1)
        status, answer = self.ready()
        self.assertEqual((status, answer["status"]), (503, "unready"))
        self.assertIn("stopped", answer["reasons"][0])
        self.assertEqual(self.get("/health/live").status, 200)
        found = self.metrics()
        self.assertIn("msmq_info", found)
        self.assertNotIn("msmq_queue_messages", found)

    def test_a_failing_store_is_not_ready(self) -> None:
        """A commit that failed makes it unready, until one succeeds, or the failure is long ago."""
        self.make_queue()
        self.disk.is_broken = True
        sending = Deferred.fromCoroutine(
            self.alpha.service.send(ORDERS, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        )
        self.failureResultOf(sending, MQError)
        status, answer = self.ready()
        self.assertEqual((status, answer["status"]), (503, "unready"))
        self.assertIn("the store failed", answer["reasons"][0])
        self.disk.is_broken = False
        self.clock.advance(FAILURE_COUNTS)
        self.assertEqual(self.ready()[0], 200)
        self.put(ORDERS, b"1", delivery=Delivery.RECOVERABLE)
        self.assertEqual(self.ready()[0], 200)

    def test_a_full_store_is_not_ready(self) -> None:
        """While no message is accepted for lack of space, the reason says so."""
        self.alpha.model.storage.throttled = True
        status, answer = self.ready()
        self.assertEqual(status, 503)
        self.assertIn("the store is full", answer["reasons"][0])

    def test_probes_share_an_answer(self) -> None:
        """The files of the store are looked at once a second however many probes there are; a stop is shown
        at once.
        """
        looks: list[None] = []
        alsoProvides(self.alpha.store, IStoreFiles)
        alsoProvides(self.disk, IStoreFiles)

        def files() -> tuple[Path, ...]:
            looks.append(None)
            return ()

        vars(self.disk)["files"] = files
        for _ in range(5):
            self.assertEqual(self.ready()[0], 200)
        self.assertEqual(len(looks), 1)
        self.clock.advance(SHARED_FOR)
        self.assertEqual(self.ready()[0], 200)
        self.assertEqual(len(looks), 2)
        self.alpha.service.stopService()
        self.assertEqual(self.ready()[0], 503)

    def test_a_hung_store_is_an_alarm(self) -> None:
        """A commit that does not end is an alarm after ten seconds, and none once it has ended."""
        self.make_queue()
        self.disk.is_slow = True
        sending = Deferred.fromCoroutine(
            self.alpha.service.send(ORDERS, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        )
        self.clock.advance(STALLED_COMMIT + 1)
        [alarm] = self.get("/v1/alarms").json["alarms"]
        self.assertEqual(
            (alarm["kind"], alarm["text"]), ("slow_commits", "a commit has not ended after 11.0 s")
        )
        times = self.get("/v1/status").json["store"]["commit_times"]
        self.assertEqual(times["pending"], STALLED_COMMIT + 1)
        self.disk.catch_up()
        self.successResultOf(sending)
        self.assertIsNone(self.get("/v1/status").json["store"]["commit_times"]["pending"])
        [alarm] = self.get("/v1/alarms").json["alarms"]
        self.assertEqual(alarm["text"], "a commit of the last ten minutes took 11.0 s")

    def test_an_offline_server_is_degraded(self) -> None:
        """A server that an operator has taken offline serves its applications, so it is ready with
        a reason.
        """
        self.alpha.service.take_offline()
        status, answer = self.ready()
        self.assertEqual((status, answer["status"]), (200, "degraded"))
        self.assertIn("offline", answer["reasons"][0])


class CloneTests(WebTestCase):
    """A server that may be a clone."""

    def options(self) -> Mapping[str, Any]:
        return {"options": {"clone": CloneCheck("the data directory was copied", lambda: None)}}

    def test_a_suspected_clone_is_degraded(self) -> None:
        """It works, but sends nothing; the reason says what an operator has to decide."""
        [reason] = self.get("/health/ready").json["reasons"]
        self.assertIn("the data directory was copied; msmq identity keep", reason)
        self.assertEqual(self.value("msmq_clone_suspected"), 1)
        self.alpha.service.keep_identity()
        self.clock.advance(FRESH)
        self.assertEqual(self.get("/health/ready").json["reasons"], [])
        self.assertEqual(self.value("msmq_clone_suspected"), 0)


class AccessTests(WebTestCase):
    """Access to metrics and health on loopback."""

    def test_other_paths(self) -> None:
        """An unknown path is answered with 404."""
        for path in ("/health", "/health/live/x"):
            answer = self.get(path)
            self.assertEqual(answer.status, 404, path)
            self.assertIn("/health/ready", answer.json["detail"])
        for path in ("/nothing", "/metricsx", "/queues/x"):
            answer = self.get(path)
            self.assertEqual(answer.status, 404, path)
            self.assertIn(f"there is no resource {path}".encode(), answer.body)

    def test_other_methods(self) -> None:
        """Methods other than GET and HEAD are refused."""
        for path in ("/metrics", "/health/live", "/health/ready"):
            answer = self.get(path, "POST")
            self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"))

    def test_other_hosts(self) -> None:
        """A page of a browser, whose requests name another host, reads nothing; loopback names do."""
        for host in ("evil.example", "127.0.0.1.evil.example:80", "", "192.0.2.1"):
            self.assertEqual(self.get("/metrics", headers={"Host": host}).status, 403, host)
        for host in ("localhost", "LOCALHOST:15801", "127.0.0.1", "[::1]:15801", "localhost.:1"):
            self.assertEqual(self.get("/metrics", headers={"Host": host}).status, 200, host)

    def test_a_body_is_dropped(self) -> None:
        """A request with a body of a megabyte is answered without keeping it."""
        protocol, transport = self.connect()
        protocol.dataReceived(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        protocol.dataReceived(bytes(1000000))
        self.assertIn(b" 405 ", transport.value())

    def test_connections_are_bounded(self) -> None:
        """One connection too many closes the oldest, so that silent clients do not lock out others."""
        self.patch(site, "CONNECTIONS", 2)
        first, second, third = (self.connect() for _ in range(3))
        self.assertTrue(first[1].disconnected)
        self.assertFalse(second[1].disconnected or third[1].disconnected)
        self.assertEqual(self.get("/health/live").status, 200)

    def test_silent_connections_end(self) -> None:
        """A connection without a request is closed in time."""
        _, transport = self.connect()
        self.clock.advance(site.IDLE + 1)
        self.assertTrue(transport.disconnecting)


class RemoteArchiveHealthTests(WebTestCase):
    """The same, for callers on other computers, who need no token for the health."""

    is_loopback = False
    archive = OneArchive()
    tokens = (f"desk reader {TOKEN.decode().removeprefix('Bearer ')}",)

    def test_no_files_are_named(self) -> None:
        """The reason of a failed archive names files of the server, and is not shown without a token."""
        reason = "/srv/archive/messages/orders.parquet: Permission denied"
        self.archive.state = attrs.evolve(SUMMARY, condition="failed", reason=reason)
        answer = self.get("/health/ready").json
        self.assertEqual(answer["status"], "degraded")
        self.assertEqual(answer["reasons"], ["the archive is not written: the log has the reason"])
        page = self.get("/", headers={"Authorization": TOKEN.decode(), "Accept": "text/html"})
        self.assertIn(b"orders.parquet: Permission denied", page.body)


class ArchiveHealthTests(WebTestCase):
    """A server that keeps an archive."""

    archive = OneArchive()

    def test_an_archive_that_is_not_written_degrades(self) -> None:
        """And so does one that is late; messages are accepted all the same."""
        self.assertEqual("ready", self.get("/health/ready").json["status"])
        for change, reason in (
            (
                {"condition": "waiting", "reason": "no space left"},
                "the archive is not written: no space left",
            ),
            (
                {"is_late": True, "lag": 400.0},
                "the archive is late: what arrived 6 min 40 s ago is not in it",
            ),
        ):
            self.archive.state = attrs.evolve(SUMMARY, **change)
            self.clock.advance(SHARED_FOR)
            answer = self.get("/health/ready")
            self.assertEqual((200, "degraded"), (answer.status, answer.json["status"]))
            self.assertIn(reason, answer.json["reasons"])


class TokenTests(WebTestCase):
    """Access to metrics and health from elsewhere."""

    is_loopback = False
    tokens = (f"prometheus monitor {TOKEN.decode()[7:]}",)

    def test_metrics_need_a_token(self) -> None:
        """Without the token, or with another one, /metrics is 401; a log line counts such requests."""
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = self.get("/metrics", headers=headers)
            self.assertEqual((answer.status, answer.json["error"]), (401, "MQ_ERROR_ACCESS_DENIED"))
            self.assertIn("Bearer", answer.headers["WWW-Authenticate"])
        answer = self.get("/metrics", headers={"Authorization": TOKEN.decode(), "Host": "alpha.example.com"})
        self.assertEqual(answer.status, 200)

    def test_health_needs_none(self) -> None:
        """Probes have no token; what they read does not name the directory server."""
        answer = self.get("/health/ready", headers={"Host": "alpha.example.com"})
        self.assertEqual((answer.status, answer.json), (200, {"status": "ready", "reasons": []}))
