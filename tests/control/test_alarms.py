"""The alarms of a server in the control API, and those of all kinds as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from msmq.alarm_limits import EXPIRES_SOON, FAILURE_COUNTS, OLD, TOKEN_EXPIRES_SOON
from msmq.control.authentication.token_file import TokenExpiry
from msmq.control.server.alarms.alarm_resources import MOST_ALARMS
from msmq.control.server.alarms.manager_alarms import AlarmSeverity, QueueAlarms, server_alarms
from msmq.control.server.factory import make_site
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.interfaces.manager.summaries import DirectoryStatus
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.interfaces.storage import CommitTimes
from tests.control.support import ORDERS, ControlTestCase
from tests.control.test_archive import SUMMARY
from tests.control.test_bridges import ROUTE, OneRoute

ELSEWHERE = "DIRECT=TCP:127.0.0.9\\private$\\elsewhere"


class AlarmResourceTests(ControlTestCase):
    """C{/v1/alarms}."""

    def test_calm(self) -> None:
        """Without anything to do the list is empty, also with messages that were just sent."""
        self.put(b"1")
        self.assertEqual(self.call("GET", "/v1/alarms").json, {"alarms": [], "further": 0})

    def test_queues(self) -> None:
        """A full queue comes first, then a queue that is not read and a paused one, each with what to do."""
        full = self.make_queue("full", quota=2)
        self.put(bytes(1000), queue=full)
        self.run_to_end(self.service.set_queue(full, {"quota": 1}))
        self.put(b"1")
        paused = self.make_queue("paused")
        self.run_to_end(self.service.pause_queue(paused))
        self.clock.advance(OLD - 1)
        self.assertEqual(self.kinds(), [(2, "quota", "full"), (1, "paused", "paused")])
        self.run_to_end(self.service.purge_queue(full))
        self.clock.advance(1)
        self.assertEqual(self.kinds(), [(1, "unread", "orders"), (1, "paused", "paused")])
        (unread, _) = self.call("GET", "/v1/alarms").json["alarms"]
        self.assertEqual(unread["text"], f"{unread['subject']} is not read: its oldest message is 1 h old")
        self.assertEqual(unread["action"], "Look at the application that reads it.")

    def kinds(self) -> list[tuple[int, str, str]]:
        """Severity and kind of each alarm, and the name of its queue."""
        return [
            (alarm["severity"], alarm["kind"], alarm["subject"].rpartition("\\")[2])
            for alarm in self.call("GET", "/v1/alarms").json["alarms"]
        ]

    def test_destinations(self) -> None:
        """The destination with the most messages waiting comes first, and dead letters before both."""
        self.put(b"1", queue=ELSEWHERE)
        more = ELSEWHERE + "2"
        self.put(b"1", b"2", queue=more)
        self.put(b"3", queue="DIRECT=TCP:127.0.0.8\\private$\\q", dead_letter=True)
        self.run_to_end(self.service.purge_outgoing("DIRECT=TCP:127.0.0.8\\private$\\q"))
        self.clock.advance(5)
        first, second, third = self.call("GET", "/v1/alarms").json["alarms"]
        self.assertEqual((first["kind"], first["text"]), ("dead_letters", "1 dead letter"))
        self.assertEqual((second["subject"], third["subject"]), (more, ELSEWHERE))
        self.assertIn("2 messages wait", second["text"])

    def test_limit(self) -> None:
        """Of many alarms the worst are listed and the rest is counted; one that is too large is refused."""
        for number in range(5):
            self.run_to_end(self.service.pause_queue(self.make_queue(f"paused{number}")))
        answer = self.call("GET", "/v1/alarms", limit=2).json
        self.assertEqual((len(answer["alarms"]), answer["further"]), (2, 3))
        answer = self.call("GET", "/v1/alarms", limit=0).json
        self.assertEqual((answer["alarms"], answer["further"]), ([], 5))
        refused = self.call("GET", "/v1/alarms", limit=MOST_ALARMS + 1)
        self.assert_refused(refused, 400, "MQ_ERROR_INVALID_PARAMETER", f"limit: {MOST_ALARMS + 1}")

    def test_a_route(self) -> None:
        """A route of the bridge that cannot reach its broker is an alarm with the reason."""
        bridge = OneRoute()
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=self.members(),
            clock=self.clock.reactor,
            bridges=bridge,
        )
        self.assertEqual(self.kinds(), [])
        bridge.route = attrs.evolve(ROUTE, condition="waiting", reason="127.0.0.1:5672 refused the login")
        (alarm,) = self.call("GET", "/v1/alarms").json["alarms"]
        self.assertEqual((alarm["kind"], alarm["subject"]), ("bridge", "out"))
        self.assertEqual(alarm["text"], "route out is waiting: 127.0.0.1:5672 refused the login")


class CertificateAlarmTests(ControlTestCase):
    """TLS certificates that expire."""

    remaining = EXPIRES_SOON

    tokens: Sequence[TokenExpiry] = ()

    def setUp(self) -> None:
        super().setUp()
        self.site = make_site(
            self.service,
            configuration=Certified(lambda: self.remaining, lambda: self.tokens),
            members=self.members(),
            clock=self.clock.reactor,
        )

    def alarm(self) -> tuple[int, str, str, str]:
        """Severity, kind, subject and text of the only alarm."""
        (alarm,) = self.call("GET", "/v1/alarms").json["alarms"]
        return alarm["severity"], alarm["kind"], alarm["subject"], alarm["text"]

    def test_soon_and_after(self) -> None:
        """From 30 days before its expiry a certificate is a warning, after it critical."""
        self.assertEqual(self.call("GET", "/v1/alarms").json["alarms"], [])
        self.remaining = EXPIRES_SOON - 1
        text = "the TLS certificate of listen.web expires in 29 d 23 h"
        self.assertEqual(self.alarm(), (1, "certificate", "listen.web", text))
        self.remaining = -1.0
        text = "the TLS certificate of listen.web has expired"
        self.assertEqual(self.alarm(), (2, "certificate", "listen.web", text))

    def test_tokens(self) -> None:
        """A token is a warning from 14 days before its expiry on, and the status has those that expire."""
        for left, words in ((TOKEN_EXPIRES_SOON - 1, "expires in 13 d 23 h"), (0.0, "has expired")):
            self.tokens = [TokenExpiry(token="token desk", not_after=1_800_000_000.0, remaining=left)]
            self.assertEqual(self.alarm(), (1, "token", "token desk", f"token desk {words}"))
        self.assertEqual(
            self.call("GET", "/v1/status").json["tokens"],
            [{"token": "token desk", "not_after": "2027-01-15T08:00:00+00:00", "remaining": 0.0}],
        )

    def test_status(self) -> None:
        """The status has when it expires, and the seconds until then."""
        self.assertEqual(
            self.call("GET", "/v1/status").json["certificates"],
            [{"endpoint": "listen.web", "not_after": "2027-01-15T08:00:00+00:00", "remaining": EXPIRES_SOON}],
        )


class Certified(NoServerConfiguration):
    """A server with a certificate.

    @param remaining: returns the seconds until it expires.
    @param tokens: returns the tokens of its callers that expire.
    """

    def __init__(self, remaining: Callable[[], float], tokens: Callable[[], Sequence[TokenExpiry]]) -> None:
        self._remaining = remaining
        self._tokens = tokens

    def tokens(self) -> Sequence[TokenExpiry]:
        return self._tokens()

    def certificates(self) -> Sequence[EndpointCertificate]:
        return [
            EndpointCertificate(endpoint="listen.web", not_after=1_800_000_000.0, remaining=self._remaining())
        ]


class ServerAlarmTests(ControlTestCase):
    """The alarms about the server as a whole."""

    def setUp(self) -> None:
        super().setUp()
        self.calm = self.service.inspection.status()

    def only(self, **changes: Any) -> tuple[AlarmSeverity, str, str]:
        """Severity, kind and text of the only alarm of a server that differs from a calm one so."""
        (alarm,) = server_alarms(attrs.evolve(self.calm, **changes), (), None, ())
        return alarm.severity, alarm.kind, alarm.text

    def test_calm(self) -> None:
        """A server that works has none."""
        self.assertEqual(server_alarms(self.calm, (), None, ()), [])

    def test_states(self) -> None:
        """A server that does not run, is offline, full, or may be a clone says so."""
        warning, critical = AlarmSeverity.WARNING, AlarmSeverity.CRITICAL
        self.assertEqual(self.only(state="stopping"), (critical, "state", "the queue manager is stopping"))
        self.assertEqual(self.only(connection_active=False)[:2], (warning, "offline"))
        self.assertEqual(self.only(throttled=True)[:2], (critical, "store_full"))
        severity, kind, text = self.only(clone_suspicion="127.0.0.3 has its identifier")
        self.assertEqual((severity, kind), (warning, "clone"))
        self.assertIn("127.0.0.3 has its identifier", text)

    def test_directory(self) -> None:
        """A directory that does not answer has its problem, and changes that are not applied a number."""
        away = DirectoryStatus(
            kind="ldap",
            source="ldap://dc1",
            reached=False,
            since=None,
            read=None,
            age=None,
            problem="connection refused",
        )
        self.assertEqual(
            self.only(directory=away),
            (AlarmSeverity.WARNING, "directory", "the directory is not reached: connection refused"),
        )
        self.assertEqual(self.only(directory=attrs.evolve(away, problem=""))[2][-13:], "no answer yet")
        reached = attrs.evolve(self.calm, directory=attrs.evolve(away, reached=True))
        self.assertEqual(server_alarms(reached, (), None, ()), [])
        self.assertIn("2 changes in", self.only(directory_differences=["a", "b"])[2])

    def test_store(self) -> None:
        """Little space, slow commits, and a failed commit that was not followed by one that succeeded."""
        store = self.calm.store
        little = attrs.evolve(store, free_bytes=99, capacity_bytes=1000)
        self.assertEqual(
            self.only(store=little)[1:], ("disk_space", "the file system of the store has 99 B left, 10%")
        )
        enough = attrs.evolve(little, free_bytes=100)
        self.assertEqual(server_alarms(attrs.evolve(self.calm, store=enough), (), None, ()), [])
        times = CommitTimes(
            commits=900,
            failures=0,
            measured=100,
            median=0.1,
            p99=0.6,
            longest=0.6,
            since_failure=None,
            pending=None,
        )
        self.assertEqual(
            self.only(store=attrs.evolve(store, commit_times=times))[1:],
            ("slow_commits", "1 % of the latest 100 commits took more than 0.6 s"),
        )
        failed = attrs.evolve(times, p99=0.1, since_failure=FAILURE_COUNTS - 1)
        self.assertEqual(self.only(store=attrs.evolve(store, commit_times=failed))[1], "store_failed")
        long_ago = attrs.evolve(failed, since_failure=FAILURE_COUNTS)
        calm = attrs.evolve(self.calm, store=attrs.evolve(store, commit_times=long_ago))
        self.assertEqual(server_alarms(calm, (), None, ()), [])

    def test_few_commits(self) -> None:
        """One slow commit of a few, as that of a start, is no alarm; half of them are."""
        few = CommitTimes(
            commits=99,
            failures=0,
            measured=99,
            median=0.5,
            p99=9.0,
            longest=9.0,
            since_failure=None,
            pending=9.0,
        )
        slow = attrs.evolve(few, measured=10, median=0.6)
        start = attrs.evolve(slow, measured=9)
        for times in (few, start):
            calm = attrs.evolve(self.calm, store=attrs.evolve(self.calm.store, commit_times=times))
            self.assertEqual(server_alarms(calm, (), None, ()), [])
        self.assertEqual(
            self.only(store=attrs.evolve(self.calm.store, commit_times=slow))[1:],
            ("slow_commits", "half of the latest 10 commits took more than 0.6 s"),
        )

    def test_stalled_commits(self) -> None:
        """A commit of more than ten seconds is an alarm, of a server with few, and while it has not ended."""
        stalled = CommitTimes(
            commits=1,
            failures=0,
            measured=1,
            median=30.0,
            p99=30.0,
            longest=30.0,
            since_failure=None,
            pending=None,
        )
        hung = attrs.evolve(stalled, commits=0, measured=0, median=None, p99=None, longest=None, pending=45.0)
        for times, words in (
            (stalled, "a commit of the last ten minutes took 30.0 s"),
            (hung, "a commit has not ended after 45.0 s"),
        ):
            alarm = self.only(store=attrs.evolve(self.calm.store, commit_times=times))
            self.assertEqual(alarm[1:], ("slow_commits", words))

    def test_archive(self) -> None:
        """An archive that is not written says why, and one that is late how late."""
        for changes, words in (
            ({"condition": "failed", "reason": "it belongs to another server"}, "another server"),
            ({"is_late": True, "lag": 125.0}, "what arrived 2 min 5 s ago"),
        ):
            [alarm] = server_alarms(self.calm, (), attrs.evolve(SUMMARY, **changes), ())
            self.assertEqual((alarm.kind, alarm.subject), ("archive", SUMMARY.directory))
            self.assertIn(words, alarm.text)
        self.assertEqual(server_alarms(self.calm, (), SUMMARY, ()), [])

    def test_quotas(self) -> None:
        """The quota of all messages is a warning from nine tenths on, and critical when it is used up."""
        quotas = attrs.evolve(self.calm.quotas, quota=10, used=9 * 1024)
        self.assertEqual(
            self.only(quotas=quotas)[1:], ("machine_quota", "90% of the quota of all messages is used")
        )
        full = attrs.evolve(quotas, used=10 * 1024)
        self.assertEqual(self.only(quotas=full)[0], AlarmSeverity.CRITICAL)
        journals = attrs.evolve(self.calm.quotas, journal_quota=1, journal_used=1024)
        self.assertIn("journals", self.only(quotas=journals)[2])
        # Nothing is accepted, and no copies are kept, as the operator has chosen.
        none = attrs.evolve(self.calm.quotas, quota=0, journal_quota=0)
        self.assertEqual(
            self.only(quotas=none),
            (AlarmSeverity.CRITICAL, "machine_quota", "100% of the quota of all messages is used"),
        )

    def test_the_worst_first(self) -> None:
        """What is critical comes before warnings, whatever it is about."""
        status = attrs.evolve(self.calm, throttled=True, connection_active=False, dead_letters=2)
        routes = [attrs.evolve(ROUTE, condition=each) for each in ("running", "paused", "stopped")]
        found = server_alarms(status, routes, None, ())
        self.assertEqual([alarm.kind for alarm in found], ["store_full", "offline", "bridge", "dead_letters"])
        self.assertIn("msmq bridge resume out", found[2].action)

    def test_a_queue_without_quota_left(self) -> None:
        """A quota of 0 is used up, and a queue without one never is."""
        queue = self.service.inspection.queue(ORDERS)
        alarms = QueueAlarms(0.0, 10)
        alarms.add_queue(attrs.evolve(queue, quota=None, bytes=1 << 40))
        self.assertEqual(alarms.total, 0)
        alarms.add_queue(attrs.evolve(queue, quota=0))
        self.assertEqual(alarms.report(()).alarms[0].severity, AlarmSeverity.CRITICAL)

    def test_a_quota_used_by_a_transaction(self) -> None:
        """What open transactions have sent uses the quota too."""
        queue = self.service.inspection.queue(ORDERS)
        alarms = QueueAlarms(0.0, 10)
        alarms.add_queue(attrs.evolve(queue, quota=1, uncommitted_bytes=1024))
        self.assertEqual(alarms.report(()).alarms[0].severity, AlarmSeverity.CRITICAL)
