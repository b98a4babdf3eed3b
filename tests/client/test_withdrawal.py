"""Requests that their callers cancel: those that wait are not made, others are not repeated."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.client import AsyncioClient, DeferredClient
from msmq.client.reconnection import Reconnection
from msmq.client.threads import WORKERS, CallThreads, SubmittedCall
from msmq.client.withdrawal import Withdrawal, pause
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError, Status

ORDERS = r".\private$\orders"
OFF = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
LONG = 60.0

PEEKING = """
import sys
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react
from msmq.client import DeferredClient

async def main(reactor):
    client = DeferredClient(sys.argv[1])
    for _ in range(2):
        client.peek(sys.argv[2], timeout=None).addErrback(lambda failure: None)
    await DeferredClient(sys.argv[1]).status()
    raise SystemExit(3)

react(lambda reactor: ensureDeferred(main(reactor)))
"""

PROGRAM = """
import sys
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react
from msmq.client import DeferredClient

async def main(reactor):
    client = DeferredClient(sys.argv[1])
    waiting = client.consume(sys.argv[2]).next_batch()
    waiting.addErrback(lambda failure: None)
    await client.status()
    raise SystemExit(3)

react(lambda reactor: ensureDeferred(main(reactor)))
"""


def unreachable() -> None:
    """A request to a queue manager that is away."""
    raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "away")


class RepetitionTests(SynchronousTestCase):
    def test_withdrawn_during_the_request(self) -> None:
        """A request that fails is not repeated, and nothing is waited for."""
        withdrawal = Withdrawal()
        made: list[int] = []

        def request() -> None:
            made.append(1)
            withdrawal.withdraw()
            unreachable()

        def refuse(seconds: float) -> None:
            raise AssertionError("it waits")

        with withdrawal.applied():
            self.assertRaises(MQError, Reconnection(LONG, sleep=refuse).run, request)
        self.assertEqual(made, [1])

    def test_withdrawn_during_the_pause(self) -> None:
        """A request that waits for its repetition is not made again."""
        withdrawal = Withdrawal()
        made: list[int] = []

        def request() -> None:
            made.append(1)
            unreachable()

        def sleep(seconds: float) -> None:
            withdrawal.withdraw()

        with withdrawal.applied():
            self.assertRaises(MQError, Reconnection(LONG, sleep=sleep).run, request)
        self.assertEqual(made, [1])


class ThreadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = CallThreads(1)
        self.addCleanup(self.threads.close)

    def paused(self) -> SubmittedCall[None]:
        """A call that pauses in its thread."""
        begun = threading.Event()

        def call() -> None:
            begun.set()
            pause(LONG)

        submitted = self.threads.submit(call)
        self.assertTrue(begun.wait(LONG))
        return submitted

    def test_a_pause_ends(self) -> None:
        """What is withdrawn ends at once; the next call begins, and one that waits for it is never made."""
        made: list[str] = []
        first = self.paused()
        second = self.threads.submit(lambda: made.append("second"))
        third = self.threads.submit(lambda: made.append("third"))
        second.withdraw()
        first.withdraw()
        first.future.result(LONG / 2)
        third.future.result(LONG / 2)
        self.assertEqual((made, second.future.cancelled()), (["third"], True))

    def test_all_are_withdrawn(self) -> None:
        """Every call that is made ends."""
        first = self.paused()
        self.threads.withdraw()
        first.future.result(LONG / 2)


class ClientTests(TestCase):
    """Both asynchronous faces, with a queue manager in the same process."""

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.begin())

    async def begin(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        path = self.data / "msmq.toml"
        path.write_text(OFF)
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), storage="memory")
        server = Server(load(path, overrides, {}), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        self.manager = server.manager
        await self.manager.create_queue(ORDERS)

    async def check_ended(self, began: set[threading.Thread]) -> None:
        """Fail unless the threads of clients that have started since end."""
        for thread in set(threading.enumerate()) - began:
            if thread.name.startswith("msmq-client"):
                await deferToThread(thread.join, LONG / 2)
                self.assertFalse(thread.is_alive())

    async def test_a_deferred_that_is_cancelled(self) -> None:
        """A request without an end, which the queue manager has begun, ends."""
        began = set(threading.enumerate())
        client = DeferredClient(self.data)
        waiting = client.peek(ORDERS, timeout=None)
        await client.status()
        waiting.cancel()
        with self.assertRaises(CancelledError):
            await waiting
        client.close()
        await self.check_ended(began)

    async def test_a_task_that_is_cancelled(self) -> None:
        """The same under asyncio, and for a queue manager that is away."""
        began = set(threading.enumerate())

        async def cancelled(client: AsyncioClient, request: Callable[[], Any]) -> None:
            task = asyncio.ensure_future(request())
            # It is in a thread then.
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        async def program() -> None:
            async with AsyncioClient(self.data) as client:
                await cancelled(client, lambda: client.peek(ORDERS, timeout=None))
            async with AsyncioClient(self.data / "nowhere", reconnect=LONG) as client:
                await cancelled(client, lambda: client.send(ORDERS, "cancelled"))

        await deferToThread(lambda: asyncio.run(program()))
        await self.check_ended(began)

    async def test_peeks_that_wait(self) -> None:
        """More of them than there are threads for requests hold up no send, whose message they return."""
        client = DeferredClient(self.data)
        self.addCleanup(client.close)
        waiting = [client.peek(ORDERS, timeout=None) for _ in range(WORKERS + 1)]
        sent = client.send(ORDERS, "two boxes", delivery="express")
        await sent.addTimeout(LONG, IReactorTime(reactor))
        for found in waiting:
            self.assertEqual([message.text for message in await found], ["two boxes"])

    async def test_peeks_that_wait_in_asyncio(self) -> None:
        """The same under asyncio."""

        async def program() -> list[str]:
            async with AsyncioClient(self.data) as client:
                waiting = [
                    asyncio.ensure_future(client.peek(ORDERS, timeout=None)) for _ in range(WORKERS + 1)
                ]
                # Each is in a thread then, or waits for one.
                await asyncio.sleep(0)
                await asyncio.wait_for(client.send(ORDERS, "two boxes", delivery="express"), LONG)
                return [message.text for found in waiting for message in await found]

        texts = await deferToThread(lambda: asyncio.run(program()))
        self.assertEqual(texts, ["two boxes"] * (WORKERS + 1))

    async def test_a_reactor_that_ends(self) -> None:
        """A consumer, or a peek, that waits does not keep a program of Twisted from ending."""
        for text in (PROGRAM, PEEKING):
            program = self.data / "program.py"
            program.write_text(text)
            ended = await deferToThread(self.run_program, program)
            self.assertEqual(ended.returncode, 3, ended.stderr)

    def run_program(self, program: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, program, self.data, ORDERS],
            timeout=LONG / 3,
            capture_output=True,
            text=True,
            check=False,
        )
