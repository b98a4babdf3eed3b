"""Fixtures for pytest; C{pytest_plugins = ["msmq.testing.pytest_fixtures"]} in a C{conftest.py} adds them.

They are no plugin that pytest finds by itself: that would be imported by every run of pytest in an
environment that has msmq, tests that do not use it included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from msmq.double.double import FaultInjectingDouble
from msmq.double.script import DoubleScript
from msmq.proxy.capture_file import LARGEST_CAPTURE
from msmq.proxy.recording_proxy import RecordingProxy
from msmq.testing.memory_estate import MemoryEstate
from msmq.testing.reactor_thread import ReactorThread
from msmq.testing.services import BlockingDouble, BlockingProxy, StartedService


class StartDouble(Protocol):
    """Starts a double; the arguments are those of L{FaultInjectingDouble}."""

    def __call__(
        self,
        script: DoubleScript | str | None = None,
        *,
        address: str = "127.0.0.1",
        name: str = "DOUBLE",
    ) -> BlockingDouble: ...


class StartProxy(Protocol):
    """Starts a proxy; the arguments are those of L{RecordingProxy}."""

    def __call__(
        self,
        target: str,
        *,
        capture: str | os.PathLike[str] | None = None,
        capture_limit: int = LARGEST_CAPTURE,
        address: str = "127.0.0.1",
    ) -> BlockingProxy: ...


@pytest.fixture
def msmq_estate() -> Iterator[MemoryEstate]:
    """An estate in memory, without queue managers at first."""
    estate = MemoryEstate()
    yield estate
    estate.close()


@pytest.fixture(scope="session")
def msmq_reactor() -> Iterator[ReactorThread]:
    """Twisted's reactor in a thread, until the end of the run."""
    thread = ReactorThread()
    yield thread
    thread.stop()


@pytest.fixture
def msmq_double(msmq_reactor: ReactorThread) -> Iterator[StartDouble]:
    """Starts doubles, which stop when the test ends."""
    with ExitStack() as stack:

        def start(
            script: DoubleScript | str | None = None,
            *,
            address: str = "127.0.0.1",
            name: str = "DOUBLE",
        ) -> BlockingDouble:
            double = FaultInjectingDouble(script, address=address, name=name)
            _start(double, msmq_reactor, stack)
            return BlockingDouble(double, msmq_reactor)

        yield start


@pytest.fixture
def msmq_proxy(msmq_reactor: ReactorThread) -> Iterator[StartProxy]:
    """Starts proxies, which stop when the test ends."""
    with ExitStack() as stack:

        def start(
            target: str,
            *,
            capture: str | os.PathLike[str] | None = None,
            capture_limit: int = LARGEST_CAPTURE,
            address: str = "127.0.0.1",
        ) -> BlockingProxy:
            proxy = RecordingProxy(target, capture=capture, capture_limit=capture_limit, address=address)
            _start(proxy, msmq_reactor, stack)
            return BlockingProxy(proxy, msmq_reactor)

        yield start


def _start(service: StartedService, reactor: ReactorThread, stack: ExitStack) -> None:
    async def start() -> None:
        service.startService()
        await service.started

    stop: Callable[[], object] = lambda: reactor.call(service.stopService)  # noqa: E731
    stack.callback(stop)
    reactor.call(start)
