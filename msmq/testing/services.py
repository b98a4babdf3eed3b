"""Doubles and proxies in tests: started for a test case of trial, or in the thread of a reactor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from msmq.double.double import FaultInjectingDouble
from msmq.double.events import DoubleEvent
from msmq.proxy.recording_proxy import RecordingProxy
from msmq.proxy.relayed_packet import RelayedPacket
from msmq.testing.reactor_thread import PATIENCE, ReactorThread


class StartedService(Protocol):
    """What a double, a proxy, a L{Broker<msmq.Broker>} and a L{Server<msmq.Server>} are."""

    started: Deferred[None]

    def startService(self) -> None: ...

    def stopService(self) -> Any: ...


S = TypeVar("S", bound=StartedService)


async def start_service(case: TestCase, service: S) -> S:
    """Start a service in a test case of trial, and stop it when the test ends; returns it.

    @raise Exception: why it cannot start.
    """
    service.startService()
    case.addCleanup(service.stopService)
    await service.started
    return service


class BlockingDouble:
    """A L{FaultInjectingDouble} that runs in the thread of a reactor, for tests that block."""

    def __init__(self, double: FaultInjectingDouble, reactor: ReactorThread) -> None:
        self._double = double
        self._reactor = reactor

    @property
    def addresses(self) -> Sequence[str]:
        """See L{FaultInjectingDouble.addresses}."""
        return self._reactor.call(lambda: list(self._double.addresses))

    @property
    def events(self) -> Sequence[DoubleEvent]:
        """See L{FaultInjectingDouble.events}; a copy."""
        return self._reactor.call(lambda: list(self._double.events))

    @property
    def received(self) -> Sequence[DoubleEvent]:
        """See L{FaultInjectingDouble.received}; a copy."""
        return self._reactor.call(lambda: list(self._double.received))

    def wait_for(
        self, condition: Callable[[DoubleEvent], object], *, timeout: float = PATIENCE
    ) -> DoubleEvent:
        """The first event, of the past or the future, for which C{condition} is true.

        @raise TimeoutError: there was none within C{timeout} seconds.
        """
        return self._reactor.call(lambda: self._double.when(condition), timeout=timeout)

    def cut(self) -> int:
        """See L{FaultInjectingDouble.cut}."""
        return self._reactor.call(self._double.cut)


class BlockingProxy:
    """A L{RecordingProxy} that runs in the thread of a reactor, for tests that block."""

    def __init__(self, proxy: RecordingProxy, reactor: ReactorThread) -> None:
        self._proxy = proxy
        self._reactor = reactor

    @property
    def packets(self) -> Sequence[RelayedPacket]:
        """See L{RecordingProxy.packets}; a copy."""
        return self._reactor.call(lambda: list(self._proxy.packets))

    @property
    def omitted(self) -> int:
        """See L{RecordingProxy.omitted}."""
        return self._reactor.call(lambda: self._proxy.omitted)

    def wait_for(
        self, condition: Callable[[RelayedPacket], object], *, timeout: float = PATIENCE
    ) -> RelayedPacket:
        """The first packet, of the past or the future, for which C{condition} is true.

        @raise TimeoutError: there was none within C{timeout} seconds.
        """
        return self._reactor.call(lambda: self._proxy.when(condition), timeout=timeout)
