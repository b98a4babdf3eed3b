"""The description of the API, and a live server that is checked against it."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import schemathesis
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from msmq.control.authentication import guess_limit
from msmq.control.authentication.roles import ROUTE_ROLES
from msmq.control.server.description.operations import OPERATIONS
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from tests.control.callers.test_roles import routes
from tests.control.support import ORDERS, ControlTestCase
from tests.patience import DEADLINE

TOKEN = "0123456789abcdef0123456789abcdef"
BRIEF: Final = 2
EXAMPLES: Final = int(os.environ.get("MSMQ_API_EXAMPLES", BRIEF))
"""Requests for each operation and kind of data; with more the boundaries of each value are tried too."""

ENDLESS: Final = ("/v1/stream", "/v1/send", "/v1/receive")
"""Streams and upgraded connections, which a generator of single requests cannot use."""

AMBIGUOUS: Final = r"^(/v1/(queues|messages|deadletters)/\{\w+\}/|/v1/outgoing/).+"
"""Paths that are also the name of an object of a shorter path, as C{/v1/outgoing/pause} is, so that a method
that is unknown here may be known there.
"""


class DescriptionTests(ControlTestCase):
    """C{GET /v1/openapi.json}."""

    def setUp(self) -> None:
        super().setUp()
        self.described: dict[str, Any] = self.call("GET", "/v1/openapi.json").json

    def test_every_route(self) -> None:
        """Each route has a description with its role, its path parameters and a summary; no other has one."""
        self.assertEqual(set(routes(self.site)) ^ set(OPERATIONS), set())
        operations = [
            (method.upper(), operation)
            for path in self.described["paths"].values()
            for method, operation in path.items()
        ]
        self.assertEqual(len(operations), len(ROUTE_ROLES))
        self.assertEqual(len({operation["operationId"] for _, operation in operations}), len(operations))
        for _, operation in operations:
            self.assertTrue(operation["summary"].endswith((".", "!")), operation)
            self.assertIn(operation["x-msmq-role"], ("monitor", "reader", "operator", "admin"))
        purge = self.described["paths"]["/v1/queues/{path}/purge"]["post"]
        self.assertEqual(purge["x-msmq-role"], "operator")
        self.assertEqual([one["name"] for one in purge["parameters"]], ["path", "progress"])
        self.assertIn("Remove all messages in one queue", purge["summary"])

    def test_every_family_is_in_the_guide(self) -> None:
        """The page about the API has each family of resources."""
        page = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")
        families = {"/".join(route.split("/")[:3]) for _, route in OPERATIONS}
        self.assertEqual({each for each in families if each not in page}, set())

    def test_types(self) -> None:
        """The keys of a response are those of the code's types."""
        status = self.described["paths"]["/v1/status"]["get"]["responses"]["200"]
        schema = status["content"]["application/json"]["schema"]
        left_out = set(schema["properties"]) ^ set(self.call("GET", "/v1/status").json)
        self.assertEqual(left_out, {"directory_differences"}, "only with a directory")
        self.assertEqual(schema["properties"]["messages"], {"type": "integer"})

    def test_long_request_line(self) -> None:
        """A request line over the limit of HTTP is refused with the limit, and not only dropped."""
        caller = self.caller()
        caller.feed(b"GET /v1/queues?label=" + b"x" * 20000 + b" HTTP/1.1\r\n\r\n")
        self.assert_refused(caller.answer, 431, "MQ_ERROR_INVALID_PARAMETER", "16384 bytes")
        self.assertTrue(caller.transport.disconnecting)


class LiveServerTests(TestCase):
    """A server on loopback, asked by schemathesis with an admin's token."""

    timeout = DEADLINE

    async def start(self) -> Server:
        """A running server with tokens and a web endpoint."""
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, directory)
        tokens = directory / "tokens"
        tokens.write_text(f"root admin {TOKEN}\n")
        tokens.chmod(0o600)
        file = directory / "msmq.toml"
        file.write_text(
            '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'
            'web = "tcp:0:interface=127.0.0.1"\n[storage]\nbackend = "memory"\n'
            f'[security]\ncontrol_token_file = "{tokens}"\n'
        )
        data = str(directory / "data")
        server = Server(load(file, Overrides(name="ALPHA", data=data)), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    async def test_conformance(self) -> None:
        """No request, valid or not, is answered with anything that the description does not have."""
        # Its checks of authentication send many wrong tokens.
        self.patch(guess_limit, "FREE", 1_000_000)
        server = await self.start()
        assert server.web is not None
        await server.manager.create_queue(ORDERS)
        host, port = server.web
        # Hooks are of the process.
        self.addCleanup(schemathesis.hooks.unregister_all)
        findings, requests = await deferToThread(_findings, f"http://{host}:{port}")
        self.assertEqual(findings, [])
        self.assertGreater(requests, len(OPERATIONS))


def _findings(url: str) -> tuple[list[str], int]:
    """What schemathesis finds, and the number of its requests."""
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import events, from_schema

    # A refusal that no directory, or no such feature, is there: not a failure of the server.
    refusals = [501, 503]
    config = SchemathesisConfig.from_dict(
        {
            "headers": {"Authorization": f"Bearer {TOKEN}"},
            "seed": 1,
            "request-timeout": DEADLINE,
            "generation": {"max-examples": EXAMPLES, "database": "none"},
            "phases": {
                "examples": {"enabled": False},
                "coverage": {"enabled": EXAMPLES > BRIEF},
                "stateful": {"enabled": False},
            },
            "checks": {
                "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", *refusals]},
                # A long request line is refused with 431.
                "negative_data_rejection": {"expected-statuses": ["4xx", *refusals]},
                # The API knows more of paths, names and rights than a schema.
                "positive_data_acceptance": {"expected-statuses": ["2xx", "4xx", *refusals]},
            },
            "operations": [
                {
                    "include-path-regex": AMBIGUOUS,
                    "checks": {
                        "unsupported_method": {"enabled": False},
                        "allow_header_conformance": {"enabled": False},
                    },
                }
            ],
        }
    )
    described: Any = schemathesis.openapi.from_url(
        f"{url}/v1/openapi.json", config=config, headers={"Authorization": f"Bearer {TOKEN}"}
    )
    described = described.exclude(path=list(ENDLESS))

    turns = cycle((True, False))

    @schemathesis.hook
    def before_call(context: object, case: Any, kwargs: object) -> None:
        """Use a queue that exists every other time, and ask for nothing that waits for events or messages."""
        if (
            case.path_parameters
            and "path" in case.path_parameters
            and case.method != "DELETE"
            and next(turns)
        ):
            case.path_parameters["path"] = ORDERS
        if case.query and "follow" in case.query:
            case.query["follow"] = "false"
        if (case.method, case.path) in (("GET", "/v1/messages"), ("POST", "/v1/messages/receive")):
            case.query = {**(case.query or {}), "timeout": "0"}

    findings: list[str] = []
    requests = 0
    for event in from_schema(described).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            findings.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            continue
        recorder = event.recorder
        requests += len(recorder.interactions)
        for case, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    sent = recorder.interactions[case].request
                    reason = check.failure_info.failure.message
                    findings.append(f"{recorder.label}: {check.name}: {reason}: {sent.uri} {sent.body!r}")
    return findings, requests
