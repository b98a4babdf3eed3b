"""A program inside a server: it is ready before the server listens, and ends before the store closes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq import LocalProtocolError, Overrides, Server, SessionProtocol, load
from msmq.interfaces import IServerProgram

CLOSED = '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\n'


@implementer(IServerProgram)
class Program:
    """Notes when it is called, and how far the server is then."""

    session_protocol = SessionProtocol

    def __init__(self, error: Exception | None = None) -> None:
        self.server: Any = None
        self.events: list[tuple[str, int]] = []
        self._error = error
        self._manager: Any = None

    def _note(self, event: str) -> None:
        self.events.append((event, len(self.server.addresses)))

    async def prepare(self, manager: Any) -> None:
        self._note("prepare")
        if self._error is not None:
            raise self._error
        self._manager = manager
        await manager.create_queue(".\\private$\\orders")

    def begin(self) -> None:
        self._note("begin")

    def end(self) -> Deferred[None]:
        if self._manager is not None:
            self._manager.inspection.queue(".\\private$\\orders")
        self._note("end")
        return succeed(None)


class ProgramTests(TestCase):
    """C{Server(program=...)}."""

    def server(self, program: Program) -> Server:
        home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, home)
        file = home / "msmq.toml"
        file.write_text(CLOSED)
        configuration = load(file, Overrides(name="ALPHA", data=str(home / "data"), storage="memory"))
        program.server = Server(configuration, program=program)
        server: Server = program.server
        return server

    async def test_order(self) -> None:
        """It is prepared with an open queue manager, begins when the server listens, and ends first."""
        program = Program()
        server = self.server(program)
        server.startService()
        await server.started
        self.assertEqual(program.events, [("prepare", 0), ("begin", 1)])
        await server.stopService()
        self.assertEqual(program.events[2:], [("end", 0)])

    async def test_it_cannot_work(self) -> None:
        """Its error is that of the start, and it is ended."""
        program = Program(LocalProtocolError("no warehouse"))
        server = self.server(program)
        server.startService()
        with self.assertRaises(LocalProtocolError):
            await server.started
        self.assertEqual(program.events, [("prepare", 0), ("end", 0)])
        await server.stopService()
