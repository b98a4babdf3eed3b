"""Thresholds of C{msmq check}."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping

import attrs

from msmq.control.client import locations
from tests.cli.served import ServedCommandTestCase
from tests.cli.support import CommandTestCase
from tests.control.support import ORDERS


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


class AbsentComputerTests(CommandTestCase):
    """A computer that does not answer."""

    def test_no_connection(self) -> None:
        """The time-out holds for the connection too, and never makes that wait longer."""
        self.patch(locations, "parse_location", lambda text, token_file: LateLocation())
        for chosen, seconds in ((2, 2), (60, 15)):
            ended = self.msmq("check", "--timeout", str(chosen))
            self.assertEqual(ended.status, 2)
            self.assertIn(f"no answer within {seconds} s", ended.output)
