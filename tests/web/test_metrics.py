"""Metrics of /metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SkipTest, SynchronousTestCase
from zope.interface import implementer

from msmq.control.authentication.token_file import TokenExpiry
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.shadows import CopiedMessage, IShadows, ShadowSummary, no_shadow
from msmq.manager.administration import measurements
from msmq.membership.objects import EnterpriseObject
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.machine_quota import QuotaKind
from msmq.structures.names.format_name import parse_format_name
from msmq.web import exposition
from msmq.web.exposition import FRESH
from msmq.web.metrics import ALL_METRICS, WINDOWS_METRICS, MetricKind
from tests.control.test_alarms import Certified
from tests.control.test_archive import OneArchive
from tests.control.test_bridges import OneRoute
from tests.nodes.support import ADDRESSES
from tests.project.example_files import PROJECT
from tests.web.support import ORDERS, WebTestCase

BETA_ORDERS = f"DIRECT=TCP:{ADDRESSES['BETA']}\\private$\\orders"


class QueueMetricsTests(WebTestCase):
    """Local queues."""

    def test_an_empty_queue_is_zero(self) -> None:
        """A queue that nothing was ever sent to is exported with zeros, so that rates begin there."""
        self.make_queue()
        found = self.metrics()
        key = (("queue", ORDERS),)
        for name in (
            "msmq_queue_messages",
            "msmq_queue_bytes",
            "msmq_queue_oldest_message_age_seconds",
            "msmq_queue_journal_messages",
            "msmq_queue_messages_received_total",
            "msmq_queue_messages_sent_total",
            "msmq_queue_paused",
        ):
            self.assertEqual(found[name][key], 0.0, name)
        self.assertNotIn("msmq_quota_used_ratio", found)

    def test_many_queues_and_odd_names(self) -> None:
        """Each queue has one sample of each metric, with any characters in its name; a header
        appears once.
        """
        self.patch(exposition, "LINES", 2)
        names = ["a'b", "a\u20acb", "c", "d", "e"]
        paths = [self.make_queue(name, quota=100 if name == "e" else None) for name in names]
        found = self.metrics()
        for name in ("msmq_queue_messages", "msmq_queue_messages_sent_total"):
            queues = [dict(labels)["queue"] for labels in found[name]]
            self.assertEqual([path for path in paths if path in queues], paths)
        self.assertEqual(found["msmq_quota_used_ratio"], {(("queue", paths[-1]),): 0.0})
        text = self.get("/metrics").body.decode()
        self.assertEqual(text.count("# TYPE msmq_queue_messages gauge"), 1)
        self.assertEqual(text.count("# TYPE msmq_quota_used_ratio gauge"), 1)

    def test_messages_are_counted(self) -> None:
        """Three sent and one received: two are there, and both counters say how they came and went."""
        self.make_queue(journal=True, quota=1)
        self.put(ORDERS, b"1", b"2", b"3")
        self.clock.advance(30)
        self.run_now(self.alpha.service.receive(ORDERS, timeout=0))
        found = self.metrics()
        key = (("queue", ORDERS),)
        self.assertEqual(found["msmq_queue_messages"][key], 2)
        for name in ("enqueued", "sent"):
            self.assertEqual(found[f"msmq_queue_messages_{name}_total"][key], 3)
        for name in ("dequeued", "received"):
            self.assertEqual(found[f"msmq_queue_messages_{name}_total"][key], 1)
        self.assertEqual(found["msmq_queue_journal_messages"][key], 1)
        self.assertAlmostEqual(found["msmq_queue_oldest_message_age_seconds"][key], 30, places=3)
        self.assertAlmostEqual(
            found["msmq_quota_used_ratio"][key], found["msmq_queue_bytes"][key] / 1024, places=6
        )

    def test_a_quota_of_nothing(self) -> None:
        """A quota of 0 for all queues refuses every message, so it is used up."""
        self.run_now(self.alpha.service.set_quotas({QuotaKind.QUEUES: 0}))
        self.assertEqual(self.metrics()["msmq_quota_total_used_ratio"], {(("quota", "queues"),): 1.0})

    def test_a_message_that_comes_back_is_not_sent_again(self) -> None:
        """An aborted transaction returns its message; neither counter moves."""
        queue = self.make_queue("tx", transactional=True)
        self.put(queue, b"1", transactional=True)
        transaction = self.alpha.service.begin()
        self.run_now(self.alpha.service.receive(queue, timeout=0, transaction=transaction))
        self.run_now(transaction.abort())
        self.assertEqual(self.value("msmq_queue_messages_sent_total", queue=queue), 1)
        self.assertEqual(self.value("msmq_queue_messages_received_total", queue=queue), 0)
        transaction = self.alpha.service.begin()
        self.run_now(self.alpha.service.receive(queue, timeout=0, transaction=transaction))
        self.run_now(transaction.commit())
        self.clock.advance(FRESH)
        self.assertEqual(self.value("msmq_queue_messages_received_total", queue=queue), 1)

    def test_a_deleted_queue_is_absent(self) -> None:
        """No series outlives its queue."""
        self.make_queue()
        self.run_now(self.alpha.service.delete_queue(ORDERS))
        self.assertIsNone(self.value("msmq_queue_messages", queue=ORDERS))

    def test_dead_letters_by_class(self) -> None:
        """A message that expires with --dead-letter is one dead letter of its class; other classes are 0."""
        self.make_queue()
        self.put(ORDERS, b"late", time_to_be_received=5, dead_letter=True)
        self.clock.advance(10)
        found = self.metrics()
        dead_letters = found["msmq_dead_letters_total"]
        self.assertEqual(dead_letters[(("class", "NACK_RECEIVE_TIMEOUT"),)], 1)
        self.assertEqual(sum(dead_letters.values()), 1)
        self.assertGreater(len(dead_letters), 10)
        self.assertEqual(found["msmq_dead_letters"][(("queue", ".\\system$;deadletter"),)], 1)
        self.assertEqual(found["msmq_messages_expired_total"][(("class", "NACK_RECEIVE_TIMEOUT"),)], 1)


class PoisonTests(WebTestCase):
    """Messages that are moved aside."""

    def options(self) -> Mapping[str, Any]:
        """One abort is one too many."""
        return {"poison_after": 1}

    def test_poison_moves_are_counted(self) -> None:
        """A message that was moved to the subqueue poison is counted, and shown with the subqueues."""
        queue = self.make_queue("tx", transactional=True)
        self.put(queue, b"1", transactional=True)
        self.assertEqual(self.value("msmq_poison_messages_total", queue=queue), 0)
        transaction = self.alpha.service.begin()
        self.run_now(self.alpha.service.receive(queue, timeout=0, transaction=transaction))
        self.run_now(transaction.abort())
        self.clock.advance(FRESH)
        self.assertEqual(self.value("msmq_poison_messages_total", queue=queue), 1)
        self.assertEqual(self.value("msmq_queue_subqueue_messages", queue=queue), 1)


class SessionMetricsTests(WebTestCase):
    """Sessions and outgoing queues."""

    def test_counters_survive_sessions(self) -> None:
        """Counters include ended sessions."""
        self.make_queue(node=self.beta)
        self.put(BETA_ORDERS, b"1", b"2")
        self.put(BETA_ORDERS, b"3", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(self.value("msmq_sessions", direction="outgoing", state="OPEN"), 1)
        self.clock.advance(1000)
        found = self.metrics()
        self.assertEqual(found["msmq_sessions"][(("direction", "outgoing"), ("state", "OPEN"))], 0)
        sent = found["msmq_session_messages_total"]
        self.assertEqual(sent[(("direction", "sent"), ("kind", "express"))], 2)
        self.assertEqual(sent[(("direction", "sent"), ("kind", "recoverable"))], 1)
        self.assertGreater(found["msmq_session_bytes_total"][(("direction", "sent"),)], 1000)
        self.assertGreater(found["msmq_session_bytes_total"][(("direction", "received"),)], 500)

    def test_both_directions_are_counted(self) -> None:
        """Messages and acknowledgements of a peer are counted by kind."""
        self.make_queue()
        target = f"DIRECT=TCP:{ADDRESSES['ALPHA']}\\private$\\orders"
        self.put(target, b"1", b"2", node=self.beta, delivery=Delivery.RECOVERABLE)
        self.clock.advance(30)
        found = self.metrics()
        received = found["msmq_session_messages_total"]
        self.assertEqual(received[(("direction", "received"), ("kind", "recoverable"))], 2)
        self.assertEqual(received[(("direction", "received"), ("kind", "express"))], 0)
        self.assertGreaterEqual(found["msmq_acknowledgements_total"][(("kind", "session"),)], 1)

    def test_an_outgoing_queue_has_its_state(self) -> None:
        """Messages for a host that is away wait in a queue with its format name and state."""
        self.put("DIRECT=TCP:127.0.0.99\\private$\\q", b"1", b"2")
        found = self.metrics()["msmq_outgoing_queue_messages"]
        self.assertEqual(
            found, {(("queue", "DIRECT=TCP:127.0.0.99\\private$\\q"), ("state", "NEED VALIDATION")): 2.0}
        )

    def test_a_peer_creates_no_series(self) -> None:
        """Two hundred administration queues that a peer names are one series, not two hundred."""
        self.make_queue()
        target = f"DIRECT=TCP:{ADDRESSES['ALPHA']}\\private$\\orders"
        for number in range(200):
            self.put(
                target,
                b"",
                node=self.beta,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                admin_queue=parse_format_name(f"DIRECT=TCP:127.0.0.99\\private$\\a{number}"),
            )
        self.clock.advance(5)
        found = self.metrics()["msmq_outgoing_queue_messages"]
        self.assertEqual({dict(labels)["queue"] for labels in found}, {"answers"})
        self.assertEqual(sum(found.values()), 200)

    def test_series_of_outgoing_queues_are_bounded(self) -> None:
        """Beyond a limit the outgoing queues of applications share a series too."""
        self.patch(measurements, "NAMED_OUTGOING", 3)
        for number in range(5):
            self.put(f"DIRECT=TCP:127.0.0.99\\private$\\q{number}", b"")
        found = self.metrics()["msmq_outgoing_queue_messages"]
        others = [value for labels, value in found.items() if dict(labels)["queue"] == "others"]
        self.assertEqual((sum(others), len(found) - len(others)), (2, 3))


class StoreMetricsTests(WebTestCase):
    """The store and the reactor."""

    def test_commits_are_timed(self) -> None:
        """A commit that takes two seconds is in the histogram with two seconds."""
        self.make_queue()
        before = self.metrics()
        self.disk.is_slow = True
        sending = Deferred.fromCoroutine(
            self.alpha.service.send(ORDERS, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        )
        self.clock.advance(2)
        self.disk.is_slow = False
        self.disk.catch_up()
        self.clock.advance(FRESH)
        self.successResultOf(sending)
        found = self.metrics()
        self.assertGreater(found["msmq_store_commits_total"][()], before["msmq_store_commits_total"][()])
        took = found["msmq_store_commit_seconds_sum"][()] - before["msmq_store_commit_seconds_sum"][()]
        self.assertAlmostEqual(took, 2, places=3)
        self.assertEqual(found["msmq_store_failures_total"][()], 0)

    def test_events_are_counted(self) -> None:
        """An event is counted by its word whether or not it is stored yet."""
        self.alpha.service.note("administered", "text")
        self.assertEqual(self.value("msmq_events_total", event="administered"), 1)


@implementer(IShadows)
class OneShadow:
    """A shadow that waits."""

    def summaries(self) -> Sequence[ShadowSummary]:
        return [
            ShadowSummary(
                queue=ORDERS,
                destination="bridge:copies",
                original_answers="",
                shadow_answers="",
                paired_by="correlation",
                late=5.0,
                condition="waiting",
                reason="the quota is used up",
                copied=9,
                skipped=1,
                sequence=10,
                behind=2,
                copied_since_start=8,
                skipped_since_start=1,
            )
        ]

    def summary(self, queue: str) -> ShadowSummary:
        raise no_shadow(queue)

    def copies(self, queue: str, after: int = 0, count: int = 0) -> Sequence[CopiedMessage]:
        raise no_shadow(queue)


class CertificateMetricsTests(WebTestCase):
    """TLS certificates of the server."""

    remaining = 60.0
    token = TokenExpiry(token="token desk", not_after=1_800_000_000.0, remaining=7.0)

    def server_configuration(self) -> ServerConfiguration:
        """That of a server with a certificate."""
        return Certified(lambda: self.remaining, lambda: [self.token])

    def test_remaining(self) -> None:
        """The time until a certificate expires counts down, below 0 too, and the overview has an alarm."""
        self.assertEqual(self.value("msmq_certificate_remaining_seconds", endpoint="listen.web"), 60)
        self.assertIn("the tls certificate of listen.web expires in 1 min", self.overview())
        self.assertEqual(self.value("msmq_token_remaining_seconds", token="token desk"), 7)
        self.assertIn("token desk expires in 7 s", self.overview())
        self.remaining = -60.0
        self.clock.advance(FRESH)
        self.assertEqual(self.value("msmq_certificate_remaining_seconds", endpoint="listen.web"), -60)
        self.assertIn("the tls certificate of listen.web has expired", self.overview())

    def overview(self) -> str:
        """The first page of the console, in small letters."""
        return self.get("/").body.decode().lower()


class ExpositionTests(WebTestCase):
    """The text as a whole."""

    bridges = OneRoute()
    archive = OneArchive()
    shadows = OneShadow()

    windows_names = True

    def server_configuration(self) -> ServerConfiguration:
        """That of a server with a certificate."""
        return Certified(
            lambda: 60.0, lambda: [TokenExpiry(token="token desk", not_after=0.0, remaining=9.0)]
        )

    def test_the_table_is_what_is_exported(self) -> None:
        """Each name of the table is exported with its labels, and nothing else of msmq is."""
        self.make_queue(quota=10)
        self.put("DIRECT=TCP:127.0.0.99\\private$\\q", b"1")
        self.put(ORDERS, b"1")
        self.alpha.service.note("administered", "text")
        drain = self.alpha.service.drains.begin(ORDERS, "DIRECT=TCP:127.0.0.99\\private$\\q")
        self.run_to_end(drain)
        self.addCleanup(lambda: self.run_to_end(self.alpha.service.drains.end(ORDERS)))
        found = self.metrics()
        table = {metric.name: metric for metric in ALL_METRICS}
        suffixes = ("_bucket", "_sum", "_count")
        exported = {name for name in found if not name.startswith("process_") and not name.endswith(suffixes)}
        absent = {"msmq_store_bytes", "msmq_store_free_bytes", "msmq_store_capacity_bytes"}
        absent |= {"msmq_store_verified_bytes_total", "msmq_store_damaged_total"}
        absent |= {name for name in table if name.startswith("msmq_directory_")}
        histograms = {name for name, metric in table.items() if metric.kind is MetricKind.HISTOGRAM}
        self.assertEqual(exported, set(table) - absent - histograms)
        for name in histograms:
            self.assertIn(f"{name}_bucket", found)
        self.assertEqual(list(found["msmq_bridge_forwarded_total"].values()), [7])
        self.assertEqual(list(found["msmq_archive_lag_seconds"].values()), [2.5])
        self.assertEqual(found["msmq_shadow_copied_total"], {(("queue", ORDERS),): 8})
        self.assertEqual(found["msmq_shadow_behind"], {(("queue", ORDERS),): 2})
        self.assertEqual(found["msmq_shadow_running"], {(("queue", ORDERS),): 0})
        self.assertEqual(found["msmq_drain_moved_total"], {(("queue", ORDERS),): 1})
        for name in exported:
            for labels in found[name]:
                self.assertEqual({key for key, _ in labels}, set(table[name].labels), name)

    def test_windows_names(self) -> None:
        """The four names of windows_exporter are there if wanted, for queues as Windows names them."""
        self.make_queue()
        self.put(ORDERS, b"1")
        found = self.metrics()
        for metric in WINDOWS_METRICS:
            self.assertIn((("name", "alpha\\private$\\orders"),), found[metric.name])
        self.assertEqual(found["windows_msmq_messages_in_queue"][(("name", "alpha\\private$\\orders"),)], 1)

    def test_promtool_accepts_it(self) -> None:
        """The check of Prometheus itself has no complaint."""
        promtool = shutil.which("promtool")
        if promtool is None:
            raise SkipTest("promtool is not installed (Debian package prometheus)")
        self.make_queue(quota=10)
        self.put("DIRECT=TCP:127.0.0.99\\private$\\q", b"1")
        text = self.get("/metrics").body
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_missing_entries_of_an_archive_are_a_counter(self) -> None:
        """It is absent until the archive has been read, so that a restart is no increase."""
        starting = attrs.evolve(self.archive.state, condition="starting", missing=0)
        self.patch(self.archive, "state", starting)
        self.assertIsNone(self.value("msmq_archive_missing_total"))
        self.archive.state = attrs.evolve(starting, condition="running", missing=7)
        self.clock.advance(FRESH)
        self.assertEqual(self.value("msmq_archive_missing_total"), 7)
        self.assertEqual(self.value("msmq_archive_missing"), 7)

    def test_scraper_that_prefers_openmetrics(self) -> None:
        """It gets the format 0.0.4, in which a gauge may have the name of a counter without C{_total}."""
        answer = self.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        text = answer.body.decode()
        self.assertIn("# TYPE msmq_archive_rows gauge\n", text)
        self.assertIn("# TYPE msmq_archive_rows_total counter\n", text)

    def test_many_queues_in_slices(self) -> None:
        """A thousand queues are written in slices, each in an iteration of its own, and every one is
        there once.
        """
        for number in range(1200):
            self.make_queue(f"q{number}")
        found = self.metrics()["msmq_queue_messages"]
        self.assertEqual(len(found), 1200 + 3)
        text = self.get("/metrics").body.decode()
        self.assertEqual(text.count("# TYPE msmq_queue_messages gauge"), 1)

    def test_requests_within_a_second_share_a_text(self) -> None:
        """Many scrapes cost as much as one."""
        first = self.get("/metrics").body
        self.make_queue()
        self.assertEqual(self.get("/metrics").body, first)
        self.clock.advance(FRESH)
        self.assertNotEqual(self.get("/metrics").body, first)

    def test_a_client_that_leaves_is_no_error(self) -> None:
        """A connection that is lost while the text is written ends the request, and nothing is logged."""
        protocol, _ = self.connect()
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        protocol.connectionLost(Failure(ConnectionDone()))
        for _ in range(100):
            self.clock.advance(0)
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(self.get("/metrics").status, 200)


class DirectoryMetricsTests(WebTestCase):
    """A queue manager with a directory."""

    windows_names = False

    def options(self) -> Mapping[str, Any]:
        """A directory in memory."""
        self.directory = MemoryDirectory(self.clock)
        self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        return {"directory": self.directory}

    def test_the_directory_is_shown(self) -> None:
        """The metrics and readiness say which directory, whether it is reached, and since when."""
        self.clock.advance(50)
        found = self.metrics()
        key = (("kind", "memory"), ("source", "memory"))
        self.assertEqual(found["msmq_directory_reached"], {key: 1})
        self.assertGreaterEqual(found["msmq_directory_state_seconds"][()], 50)
        self.assertEqual(found["msmq_directory_differences"][()], 0)
        answer = self.get("/health/ready").json
        self.assertEqual((answer["status"], answer["directory"]["reached"]), ("ready", True))
        self.directory.is_connected = False
        self.clock.advance(7200)
        self.assertEqual(self.metrics()["msmq_directory_reached"], {key: 0})
        answer = self.get("/health/ready")
        self.assertEqual((answer.status, answer.json["status"]), (200, "degraded"))
        self.assertIn("the directory is not reached since", answer.json["reasons"][0])
        self.assertEqual(answer.json["directory"]["problem"], "the directory could not be reached")


class DocumentationTests(SynchronousTestCase):
    """docs/guide/watching.md."""

    def test_every_metric_is_explained(self) -> None:
        """The page has each name of the table with its labels, and no other name."""
        page = (PROJECT / "docs" / "guide" / "watching.md").read_text(encoding="utf-8")
        rows: dict[str, str] = {}
        for line in page.splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if cells and cells[0].startswith("`msmq_"):
                rows.update(dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1]))
                self.assertTrue(all(cells[2:]) and len(cells) == 4, f"what to do is missing: {line}")
        table = {metric.name: ", ".join(metric.labels) for metric in ALL_METRICS}
        windows = {metric.name for metric in WINDOWS_METRICS}
        self.assertEqual(rows, {name: labels for name, labels in table.items() if name not in windows})
        named = {name for name in re.findall(r"`((?:windows_)?msmq_[a-z_]+)`", page)}
        self.assertEqual(named, set(table))
