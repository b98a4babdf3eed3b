"""The members whose control APIs a queue manager has endpoints of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.control.client.locations import LocationError, parse_location, with_absolute_files
from msmq.control.server.resources.estate_members import EstateMember, EstateMembers, check_endpoint
from msmq.interfaces.directory import IControlBook
from msmq.structures.status import MQError, Status
from tests.control.support import ControlTestCase, resource

PIN = "ab" * 32


@implementer(IControlBook)
class Book:
    """A directory with the control endpoints of two queue managers, one of them invalid."""

    endpoints: ClassVar[dict[str, str]] = {"GAMMA": "ssl:gamma:1843", "DELTA": "ssl:delta"}

    def control_of(self, computer_name: str) -> str | None:
        return self.endpoints.get(computer_name.upper().removesuffix(".EXAMPLE.COM"))

    def controlled(self) -> Sequence[str]:
        return list(self.endpoints)


class MembersTests(SynchronousTestCase):
    """How a member is found."""

    members = EstateMembers(
        ("ALPHA", "alpha.example.com"), {"Beta": "ssl:b:1", "gamma": "ssl:other:2"}, Book()
    )

    def test_found(self) -> None:
        """The configuration wins over the directory, names have no case, and the own names are known."""
        for name, expected in (
            ("BETA", EstateMember("Beta", "ssl:b:1", "[control_servers]")),
            ("GAMMA", EstateMember("gamma", "ssl:other:2", "[control_servers]")),
            ("gamma.example.com", EstateMember("gamma.example.com", "ssl:gamma:1843", "directory")),
            ("Alpha.example.com", EstateMember("Alpha.example.com", None, "this queue manager")),
        ):
            self.assertEqual(self.members.find(name), expected)
        self.assertEqual([member.name for member in self.members.all()], ["Beta", "gamma"])

    def test_not_found(self) -> None:
        """The known ones are listed, up to a limit, and faults of the directory are reported."""
        error = self.assertRaises(MQError, self.members.find, "OMEGA")
        self.assertEqual(error.status, Status.MQ_ERROR_MACHINE_NOT_FOUND)
        for words in ("OMEGA", "Beta, DELTA, gamma)", "[control_servers] of ALPHA", "[[queue_manager]]"):
            self.assertIn(words, str(error))
        error = self.assertRaises(MQError, self.members.find, "DELTA")
        self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
        self.assertIn("ssl:delta", str(error))
        many = EstateMembers(("ALPHA",), {f"M{number:03}": "ssl:m:1" for number in range(30)}, None)
        text = str(self.assertRaises(MQError, many.find, "OMEGA"))
        self.assertIn("M019 and 10 more", text)
        self.assertNotIn("M020", text)
        self.assertNotIn("[[queue_manager]]", text)
        self.assertIn(
            "known: none", str(self.assertRaises(MQError, EstateMembers(("A",), {}, None).find, "B"))
        )

    def test_endpoints(self) -> None:
        """Files have absolute paths, with any escapes, and the token file is not included."""
        here = os.getcwd()
        for text, expected in (
            ("ssl:h:1", "ssl:h:1"),
            (f"tls:h:1:pins={PIN}", f"tls:h:1:pins={PIN}"),
            ("ssl:\\:\\:1:1:caFile=a\\:b", f"ssl:\\:\\:1:1:caFile={here}/a\\:b"),
            ("ssl:h:1:caFile=/x\\\\y", "ssl:h:1:caFile=/x\\\\y"),
            ("tcp:localhost:1", "tcp:localhost:1"),
            ("unix:hq.sock", f"unix:{here}/hq.sock"),
            ("/run/hq.sock", "unix:/run/hq.sock"),
        ):
            self.assertEqual(check_endpoint(text), expected)
            parse_location(expected, token_file="t")
            self.assertEqual(with_absolute_files(expected), expected)
        for text, word in (
            ("ssl:h:1:tokenFile=t", "tokenFile"),
            ("tcp:h.example.com:1", "h.example.com"),
            ("ssl:h", "HOST:PORT"),
            ("", "control socket"),
        ):
            self.assertIn(word, str(self.assertRaises(LocationError, check_endpoint, text)))


class ResourceTests(ControlTestCase):
    """Answers of the control API about members."""

    def members(self) -> EstateMembers:
        return EstateMembers(("ALPHA",), {"BETA": "ssl:b:1"}, None)

    def test_list(self) -> None:
        """All of them, and one."""
        beta = {"name": "BETA", "endpoint": "ssl:b:1", "source": "[control_servers]"}
        self.assertEqual(self.call("GET", "/v1/control_servers").json, [beta])
        self.assertEqual(self.call("GET", resource("control_servers", "beta")).json, beta)
        own = self.call("GET", resource("control_servers", "alpha")).json
        self.assertEqual((own["endpoint"], own["source"]), (None, "this queue manager"))

    def test_unknown_member(self) -> None:
        """A refusal names it; parameters are refused."""
        answer = self.call("GET", resource("control_servers", "no/body"))
        self.assertEqual(answer.status, 404)
        answer = self.call("GET", resource("control_servers", "nobody"))
        self.assert_refused(answer, 404, "MQ_ERROR_MACHINE_NOT_FOUND", "nobody", "BETA")
        self.assertEqual(self.call("GET", "/v1/control_servers", deep="1").status, 400)
