"""Services in tests: the fixtures for pytest, and those for trial."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from msmq import LocalProtocolError
from msmq.testing import ReactorThread, RecordingProxy, start_service
from tests.project.example_files import EXAMPLES
from tests.servers.own_address import own_address

DOUBLE, PROXY = 112, 113

BLOCKING = """
import threading
import msmq.testing
from twisted.internet.defer import Deferred

thread = msmq.testing.ReactorThread()
cancelled = threading.Event()
never = Deferred(lambda _: cancelled.set())

async def asynchronous():
    return threading.current_thread().name

async def failing():
    raise ValueError("of the coroutine")

print(thread.call(asynchronous), thread.call(lambda: 5))
for function in failing, lambda: never:
    try:
        thread.call(function, timeout=0.01 if function is not failing else 60)
    except (ValueError, TimeoutError) as error:
        print(type(error).__name__, error)
print(cancelled.wait(60))
inner = lambda: thread.call(asynchronous)
for call in (lambda: thread.call(inner)), thread.stop, inner, msmq.testing.ReactorThread:
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
print(threading.active_count())
"""


def run(*arguments: str, directory: Path | None = None) -> str:
    """What a Python process prints."""
    environment = {
        **os.environ,
        "SHOP_DOUBLE": own_address(DOUBLE),
        "SHOP_PROXY": own_address(PROXY),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return found.stdout


class PytestTests(TestCase):
    """C{msmq.testing.pytest_fixtures}."""

    async def test_an_application(self) -> None:
        """The tests of the example pass, in a run of pytest."""
        output = await deferToThread(
            run, "-m", "pytest", "-q", "-p", "no:cacheprovider", directory=EXAMPLES / "tested_shop"
        )
        self.assertIn("3 passed", output)
        self.assertNotIn("warning", output)


class ReactorThreadTests(TestCase):
    """A reactor in a thread."""

    async def test_results_and_errors(self) -> None:
        """What a function returns, raises or awaits is the result of the call; a late one is cancelled."""
        output = await deferToThread(run, "-c", BLOCKING)
        self.assertEqual(
            output.splitlines(),
            [
                "reactor 5",
                "ValueError of the coroutine",
                "TimeoutError it did not end within 0.01 s",
                "True",
                "LocalProtocolError ReactorThread: call: this is the thread of the reactor, which cannot wait"
                " for itself; await the result",
                "LocalProtocolError ReactorThread: call: the reactor has stopped",
                "LocalProtocolError ReactorThread: the reactor cannot run: it has run in this process before;"
                " one ReactorThread serves all its tests",
                "1",
            ],
        )

    async def test_a_reactor_that_runs(self) -> None:
        """It is refused where the reactor runs already, as it does in a test of trial that waits."""
        await deferLater(IReactorTime(installed_reactor), 0)
        error = self.assertRaises(LocalProtocolError, ReactorThread)
        self.assertIn("the reactor runs already", str(error))


class StartServiceTests(TestCase):
    """C{start_service}."""

    async def test_starts_and_stops(self) -> None:
        """The service runs until the cleanups of the test."""
        proxy = RecordingProxy("127.0.0.1", address=own_address(PROXY))
        # Cleanups run in reverse: this one, when the service has stopped.
        self.addCleanup(lambda: self.assertFalse(proxy.running))
        self.assertIs(await start_service(self, proxy), proxy)
        self.assertTrue(proxy.running)

    async def test_a_service_that_cannot_start(self) -> None:
        """The test fails with the reason."""
        await start_service(self, RecordingProxy("127.0.0.1", address=own_address(PROXY)))
        second = start_service(self, RecordingProxy("127.0.0.1", address=own_address(PROXY)))
        await self.assertFailure(Deferred.fromCoroutine(second), CannotListenError)
