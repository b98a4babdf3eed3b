"""A queue manager in the process of a test, for the blocking client in a thread."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from msmq.client import Client
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore

T = TypeVar("T")

OFF = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'


class RunningServerCase(TestCase):
    """Starts a queue manager without a network, and a client of it."""

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.begin())

    async def begin(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        (self.data / "msmq.toml").write_text(OFF)
        self.store = MemoryMessageStore(durable=True)
        self.server = await self.start()
        self.client = Client(self.data)

    async def start(self) -> Server:
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data))
        server = Server(load(self.data / "msmq.toml", overrides, {}), IReactorTime(reactor), store=self.store)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    def blocking(self, call: Callable[[], T]) -> Deferred[T]:
        """Run a blocking program in a thread."""
        return deferToThread(call)
