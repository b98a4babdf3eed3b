"""Thresholds of C{msmq check}."""

from __future__ import annotations

import http.client
import io
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred

from msmq.cli.options import Settings
from msmq.control.authentication.token_file import TokenExpiry
from msmq.control.client import locations
from msmq.control.client.client import ControlClient
from msmq.control.server.factory import make_site
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.interfaces.standby import StandbyState
from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from msmq.service.standby_site import operator_site
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from tests.builders import BETA
from tests.cli.served import MemoryLocation, ServedCommandTestCase
from tests.cli.support import CommandTestCase
from tests.control.support import ORDERS
from tests.control.test_alarms import Certified
from tests.control.test_bridges import ROUTE, OneRoute
from tests.nodes.support import Node


class PerformanceDataTests(ServedCommandTestCase):
    """The figures, as programs read them that know the guidelines for plugins."""

    def test_large_figures(self) -> None:
        """A figure has all its digits, and no exponent."""
        self.put(bytes(1_234_567))
        ended = self.msmq("check", "--queue", ORDERS, "--messages", "1,2500000", "--json")
        [found] = ended.objects
        held = self.call("GET", "/v1/status").json["bytes"]
        self.assertGreater(held, 1_234_567)
        self.assertIn(f"'bytes'={held}B;;;0", found["perfdata"])
        self.assertIn(f"'messages {ORDERS}'=1;1;2500000;0", found["perfdata"])

    def test_labels(self) -> None:
        """Quotes in the name of a queue are doubled, and no character of it ends the label."""
        path = self.make_queue("it's=a|b")
        [found] = self.msmq("check", "--queue", path, "--json").objects
        self.assertIn("'messages .\\private$\\it''s-a/b'=0;;;0", found["perfdata"])


class RefusalTests(ServedCommandTestCase):
    """Messages of peers that are refused."""

    def test_thresholds(self) -> None:
        """One in the last 15 minutes is a warning unless another threshold is chosen."""
        sender = Node(self.network, self.clock, "BETA", BETA, SessionSettings(), MemoryMessageStore())
        sender.start()
        self.addCleanup(sender.service.stopService)
        self.run_to_end(sender.service.send("DIRECT=OS:ALPHA\\private$\\nowhere", [Message(b"1")]))
        self.clock.advance(5)
        text = "1 message(s) of peers refused in 15 minutes: NACK_BAD_DST_Q"
        for arguments, status, words in (
            ((), 1, text),
            (("--refused", "2"), 0, "'refused'=1;2;;0"),
            (("--refused", "1,1"), 2, text),
        ):
            with self.subTest(arguments=arguments):
                ended = self.msmq("check", *arguments)
                self.assertEqual(ended.status, status, ended.output)
                self.assertIn(words, ended.output)
        self.clock.advance(900)
        self.assertEqual(self.msmq("check").status, 0)


class CertificateTests(ServedCommandTestCase):
    """TLS certificates of the server that expire."""

    remaining = 30 * 86400.0 - 1
    tokens: Sequence[TokenExpiry] = ()

    def setUp(self) -> None:
        super().setUp()
        site = make_site(
            self.service,
            configuration=Certified(lambda: self.remaining, lambda: self.tokens),
            members=self.members(),
            clock=self.clock.reactor,
        )
        client = ControlClient(MemoryLocation(site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)

    def test_thresholds(self) -> None:
        """It is a warning from the chosen number of days on, and critical after the expiry."""
        what = "the TLS certificate of listen.web expire"
        at = "at 2027-01-15T08:00:00+00:00"
        for remaining, arguments, status, text in (
            (30 * 86400.0, (), 0, "MSMQ OK"),
            (30 * 86400.0 - 1, (), 1, f"{what}s in 30 day(s), {at}"),
            (30 * 86400.0 - 1, ("--certificate-days", "7"), 0, "MSMQ OK"),
            (-1.0, ("--certificate-days", "0"), 2, f"{what}d {at}"),
        ):
            self.remaining = remaining
            ended = self.msmq("check", *arguments)
            self.assertEqual(ended.status, status, ended.output)
            self.assertIn(text, ended.output)

    def test_tokens(self) -> None:
        """A token of a caller is a warning from 14 days before its expiry on."""
        self.remaining = 30 * 86400.0
        at = "at 2027-01-15T08:00:00+00:00"
        for left, status, text in (
            (14 * 86400.0, 0, "MSMQ OK"),
            (14 * 86400.0 - 1, 1, f"token desk expires in 14 day(s), {at}"),
            (0.0, 1, f"token desk expired {at}"),
        ):
            self.tokens = [TokenExpiry(token="token desk", not_after=1_800_000_000.0, remaining=left)]
            ended = self.msmq("check")
            self.assertEqual(ended.status, status, ended.output)
            self.assertIn(text, ended.output)


class RouteTests(ServedCommandTestCase):
    """A route to another broker."""

    def test_conditions(self) -> None:
        """One that forwards nothing is a warning with its reason, unless an operator has paused it."""
        bridge = OneRoute()
        site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=self.members(),
            clock=self.clock.reactor,
            bridges=bridge,
        )
        client = ControlClient(MemoryLocation(site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)
        for condition, reason, status, text in (
            ("running", "", 0, "MSMQ OK - ALPHA"),
            ("starting", "", 0, "MSMQ OK - ALPHA"),
            ("paused", "", 0, "MSMQ OK - ALPHA"),
            ("blocked", "", 1, "MSMQ WARNING - route out is blocked |"),
            ("waiting", "refused:\n no login", 1, "MSMQ WARNING - route out is waiting: refused: no login |"),
            ("stopped", "limit", 1, "MSMQ WARNING - route out is stopped: limit |"),
        ):
            bridge.route = attrs.evolve(ROUTE, condition=condition, reason=reason)
            ended = self.msmq("check")
            self.assertEqual(ended.status, status, ended.output)
            self.assertIn(text, ended.output)


class AbsentServerTests(CommandTestCase):
    """A server that accepts a connection and never answers."""

    def setUp(self) -> None:
        super().setUp()
        self.path = f"{tempfile.mkdtemp(prefix='msmq-test-')}/control.sock"
        self.addCleanup(shutil.rmtree, os.path.dirname(self.path))

    def test_no_answer(self) -> None:
        """It is critical after the time-out, and the check ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
            hung.bind(self.path)
            hung.listen()
            ended = self.msmq("--control", self.path, "check", "--timeout", "0.01")
        self.assertEqual(ended.status, 2)
        self.assertIn("MSMQ CRITICAL - MQ_ERROR_SERVICE_NOT_AVAILABLE: ", ended.output)
        self.assertIn("timed out", ended.output)

    def test_no_answer_about_a_member(self) -> None:
        """A server that does not know the endpoint of a member either is critical too."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hung:
            hung.bind(self.path)
            hung.listen()
            ended = self.msmq("--control", self.path, "--on", "HQ", "check", "--timeout", "0.01")
        self.assertEqual(ended.status, 2)
        self.assertIn("timed out", ended.output)


class WrongUsageTests(CommandTestCase):
    """Arguments that cannot be used, and servers that cannot be named."""

    def assert_unknown(self, arguments: Sequence[str], *words: str) -> None:
        """It is UNKNOWN, in the line that a monitoring system shows."""
        ended = self.msmq(*arguments)
        self.assertEqual((ended.status, ended.errors), (3, ""), ended.output)
        self.assertTrue(ended.output.startswith("MSMQ UNKNOWN - "), ended.output)
        self.assertEqual(ended.output.count("\n"), 1, ended.output)
        for word in words:
            self.assertIn(word, ended.output)

    def test_wrong_usage(self) -> None:
        """It is not CRITICAL, which the status of wrong usage of other commands would be."""
        for arguments, *words in (
            (["--messages", "many"], "--messages", "many"),
            (["--messages", ","], "--messages", "WARNING,CRITICAL"),
            (["--messages", "90,80"], "--messages", "90,80", "above CRITICAL 80"),
            (["--age", "2,1"], "--age", "2,1"),
            (["--quota", "90,80"], "--quota", "90,80"),
            (["--outgoing", "1,0"], "--outgoing", "1,0"),
            (["--dead-letters", "1e3,999"], "--dead-letters", "1e3,999"),
            (["--message", "1"], "did you mean --messages?"),
            (["orders"], "orders"),
            (["--control", "ssl:HQ"], "ssl:HQ"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_unknown(["check", *arguments], *words)
        for arguments in (
            ["--json", "check", "--messages", "many"],
            ["check", "--messages", "many", "--json"],
            ["check", "--massages", "1", "--json"],
        ):
            with self.subTest(arguments=arguments):
                [found] = self.msmq(*arguments).objects
                self.assertEqual((found["status"], found["perfdata"]), ("UNKNOWN", []))

    def test_help(self) -> None:
        """The help is no failure."""
        self.assertEqual(self.msmq("check", "--help").status, 0)

    def test_error_of_the_command(self) -> None:
        """A server of another kind, whose answers are not understood, is UNKNOWN too."""
        self.patch(locations, "parse_location", lambda text, token_file: OtherLocation())
        self.assert_unknown(["check"], "internal error in this command: KeyError: ")

    def test_traceback_of_an_error(self) -> None:
        """An internal error of any command names the variable with which it prints its traceback."""

        def status(_: ControlClient) -> None:
            raise KeyError("a mistake in a command")

        self.patch(ControlClient, "status", status)
        ended = self.msmq("status")
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("; MSMQ_TRACEBACK=1 prints where, for a report of this error", ended.errors)
        self.patch(os, "environ", {**os.environ, "MSMQ_TRACEBACK": "1"})
        shown = self.msmq("status").errors
        self.assertIn("Traceback (most recent call last):", shown)
        self.assertNotIn("prints where", shown)


class QuotaThresholdTests(ServedCommandTestCase):
    """The quota of a queue, in percent."""

    def test_warning_alone(self) -> None:
        """With a warning alone, a full quota stays critical; another critical threshold is chosen."""
        self.put(bytes(700))
        for quota, chosen, status in (
            (1, "50", 1),
            (1, "99.5", 0),
            (0, "50", 2),
            (0, "150", 0),
            (0, "50,1000", 1),
            (0, ",1000", 0),
            (1, "50,60", 2),
        ):
            with self.subTest(quota=quota, chosen=chosen):
                self.run_to_end(self.service.set_queue(ORDERS, {"quota": quota}))
                ended = self.msmq("check", "--queue", ORDERS, "--quota", chosen)
                self.assertEqual(ended.status, status, ended.output)

    def test_quotas_of_all_queues(self) -> None:
        """A quota of 0 for all messages refuses each; one for journals keeps no copies, as was chosen."""
        self.run_to_end(self.service.set_quotas({QuotaKind.JOURNALS: 0}))
        self.assertEqual(self.msmq("check").status, 0)
        self.run_to_end(self.service.set_quotas({QuotaKind.QUEUES: 0}))
        ended = self.msmq("check")
        self.assertEqual(ended.status, 2)
        self.assertIn("100 % of the quota of all messages used", ended.output)

    def test_messages_set_aside(self) -> None:
        """Messages in subqueues use the quota too: when they fill it, every message is refused."""
        self.put(bytes(1000))
        [identifier] = self.identifiers()
        self.run_to_end(self.service.move(MessageIdentifier.parse(identifier), f"{ORDERS};poison"))
        self.run_to_end(self.service.set_queue(ORDERS, {"quota": 1}))
        sending = Deferred.fromCoroutine(self.service.send(ORDERS, [Message(body=b"1")]))
        refused = self.failureResultOf(sending, MQError)
        self.assertEqual(refused.value.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        ended = self.msmq("check", "--queue", ORDERS)
        self.assertEqual(ended.status, 2, ended.output)
        self.assertIn(f"of the quota of {ORDERS} used", ended.output)

    def test_messages_of_open_transactions(self) -> None:
        """So do those of a transaction that is not committed."""
        ledger = self.make_queue("ledger", transactional=True, quota=1)
        transaction = self.service.begin()
        self.run_to_end(
            self.service.send(ledger, [Message(body=bytes(850), transactional=True)], transaction=transaction)
        )
        ended = self.msmq("check", "--queue", ledger, "--quota", "90")
        self.assertEqual(ended.status, 1, ended.output)
        self.run_to_end(transaction.abort())
        self.assertEqual(self.msmq("check", "--queue", ledger, "--quota", "90").status, 0)


class StandbyTests(CommandTestCase):
    """A standby of ALPHA, which answers nothing but its status."""

    def setUp(self) -> None:
        super().setUp()
        clock = ManualClock()
        self.status: dict[str, Any] = {
            "name": "ALPHA",
            "state": "standby",
            "waits": StandbyState.ACTIVE_ELSEWHERE.value,
            "holder": "PostgreSQL process 7 of 192.0.2.7",
            "holder_silent_seconds": 0.4,
            "problem": "",
        }
        site = operator_site(lambda: self.status, clock.reactor)
        client = ControlClient(MemoryLocation(site, clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)

    def test_check(self) -> None:
        """One that waits is OK, also with queues to look at; without its database it is a warning."""
        ended = self.msmq("check", "--queue", ".\\private$\\orders", "--outgoing", "1")
        self.assertEqual(ended.status, 0, ended.output)
        self.assertEqual(
            ended.output,
            "MSMQ OK - ALPHA: standby, active elsewhere, at PostgreSQL process 7 of 192.0.2.7"
            " | 'holder_silent'=0.4s;;;0\n",
        )
        self.status |= {"waits": StandbyState.BEHIND_STANDBY.value, "holder": ""}
        self.assertIn("OK - ALPHA: standby, behind another standby |", self.msmq("check").output)
        self.status |= {"waits": StandbyState.UNREACHABLE.value, "problem": "connection refused"}
        ended = self.msmq("check", "--json")
        self.assertEqual(ended.status, 1)
        [found] = ended.objects
        self.assertEqual(found["problems"], ["standby: the database is unreachable: connection refused"])

    def test_identity(self) -> None:
        """It has none of its own before it takes over, and says so."""
        self.assert_refused(
            ["identity", "show"], 1, "MQ_ERROR_SERVICE_NOT_AVAILABLE", "this server is a standby"
        )


class LateConnection(http.client.HTTPConnection):
    """A connection to a computer that drops all packets."""

    def connect(self) -> None:
        """Wait in vain."""
        raise TimeoutError(f"no answer within {self.timeout:g} s")


@attrs.frozen
class LateLocation:
    """Where no computer answers."""

    def __str__(self) -> str:
        return "far"

    def connection(self) -> http.client.HTTPConnection:
        return LateConnection("far", timeout=15)

    def headers(self) -> Mapping[str, str]:
        return {}


class OtherConnection(http.client.HTTPConnection):
    """A connection to a server that answers every request with an empty object."""

    def connect(self) -> None:
        self.sock = cast(Any, self)

    def settimeout(self, seconds: float | None) -> None:
        """Its answers come at once."""

    def sendall(self, data: bytes) -> None:
        """Take a request."""

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))

    def close(self) -> None:
        self.sock = cast(Any, None)


@attrs.frozen
class OtherLocation(LateLocation):
    """Where a server of another kind is."""

    def connection(self) -> http.client.HTTPConnection:
        return OtherConnection("other", timeout=15)


class AbsentComputerTests(CommandTestCase):
    """A computer that does not answer."""

    def test_no_connection(self) -> None:
        """The time-out holds for the connection too, and never makes that wait longer."""
        self.patch(locations, "parse_location", lambda text, token_file: LateLocation())
        for chosen, seconds in ((2, 2), (60, 15)):
            ended = self.msmq("check", "--timeout", str(chosen))
            self.assertEqual(ended.status, 2)
            self.assertIn(f"no answer within {seconds} s", ended.output)
