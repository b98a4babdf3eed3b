"""A server with C{[archive]}, and its process: on a real store, with real signals."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from msmq.interfaces.archive import ArchiveSummary
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import problems, rows
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from tests.patience import DEADLINE

ORDERS = ".\\private$\\orders"
CONFIGURATION = """
[listen]
session = "off"
ping = "off"
discovery = "off"
control = "off"
[archive]
directory = "{data}/archive"
interval = 0.1
"""


def is_archiving(process: psutil.Process) -> bool:
    """Whether a process archives; those of other tests may have ended, and wait to be reaped."""
    try:
        return "msmq.pipeline.archive.worker" in process.cmdline()
    except psutil.Error:
        return False


class ArchivingServerTests(TestCase):
    """One server, killed processes."""

    async def test_a_server_keeps_its_archive(self) -> None:
        """Each message of a log is archived once, though the process is killed; an erasure is an event."""
        data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, data)
        path = Path(self.mktemp())
        path.write_text(CONFIGURATION)
        clock = IReactorTime(reactor)
        server = Server(load(path, Overrides(name="ALPHA", data=os.fspath(data), storage="log")), clock)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        assert server._parts is not None and server._parts.archive is not None
        manager, service = server.manager, server._parts.archive

        async def until(condition: Callable[[ArchiveSummary], bool]) -> ArchiveSummary:
            for _ in range(DEADLINE * 20):
                if condition(service.summary()):
                    return service.summary()
                await deferLater(clock, 0.05)
            raise self.failureException(service.summary())

        async def send(count: int) -> None:
            await manager.send(ORDERS, [Message(body=b"%d" % number) for number in range(count)])

        await manager.create_queue(ORDERS, log=True)
        await send(10)
        await until(lambda found: found.rows == 10 and found.behind == 0)
        [process] = [each for each in psutil.Process().children() if is_archiving(each)]
        process.send_signal(signal.SIGKILL)
        await send(5)
        await until(lambda found: found.restarts == 1 and found.condition == "running" and found.rows == 15)
        [erased] = await service.erase("body = '3'")
        self.assertEqual((ORDERS, "log", 2), (erased.topic, erased.stream, erased.rows))
        self.assertEqual(2, (await service.compact()).erased)
        events = [each.event.event for each in await manager.inspection.events()]
        self.assertEqual(["archive_erased"], events)
        # The event is archived too.
        await until(lambda found: found.rows == 14)
        await server.stopService()
        self.assertEqual([], [each for each in psutil.Process().children() if is_archiving(each)])
        archive = Archive(data / "archive")
        self.assertEqual([], list(problems(archive)))
        self.assertEqual(13, sum(batch.num_rows for batch in rows(archive, "log")))
        # Twisted removes the ports of a server in the next iteration.
        ended: Deferred[None] = deferLater(clock, 0)
        await ended
