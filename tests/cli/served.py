"""The command with a queue manager in the same process, over connections in memory."""

from __future__ import annotations

import http.client
import io
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
from twisted.web.server import Site

from msmq.cli.options import Settings
from msmq.control.client.client import ControlClient
from msmq.testing.clock import ManualClock
from tests.cli.support import CommandRunner
from tests.control.support import Caller, ControlTestCase


class MemoryConnection(http.client.HTTPConnection):
    """A connection to a control site, whose answers come at once."""

    def __init__(self, caller: Caller) -> None:
        super().__init__("localhost")
        self._caller = caller

    def connect(self) -> None:
        self.sock = cast(Any, self)

    def settimeout(self, seconds: float | None) -> None:
        """Its answers come at once."""

    def sendall(self, data: bytes) -> None:
        self._caller.feed(bytes(data))

    def makefile(self, mode: str) -> io.BufferedReader:
        # Its user peeks, for an answer in chunks.
        return io.BufferedReader(io.BytesIO(self._caller.transport.value()))

    def close(self) -> None:
        self.sock = cast(Any, None)


@attrs.frozen
class MemoryLocation:
    """Where the control API of a site is."""

    site: Site
    clock: ManualClock

    def __str__(self) -> str:
        return "memory"

    def connection(self) -> http.client.HTTPConnection:
        return MemoryConnection(Caller(self.site, self.clock))

    def headers(self) -> Mapping[str, str]:
        return {}


class ServedCommandTestCase(ControlTestCase, CommandRunner):
    """The command and the queue manager that it finds."""

    def setUp(self) -> None:
        super().setUp()
        client = ControlClient(MemoryLocation(self.site, self.clock))
        self.patch(Settings, "_client_at", lambda settings, place, option: client)

    def assert_ended(self, arguments: Sequence[str], status: int, *words: str) -> None:
        """It ends with this status, one line that names these things, and nothing on standard output."""
        ended = self.msmq(*arguments)
        self.assertEqual((ended.status, ended.output), (status, ""), ended.errors)
        self.assertEqual(ended.errors.count("\n"), 1, ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)
