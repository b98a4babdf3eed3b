"""A recording proxy as a Twisted service: it captures and reports what two queue managers exchange."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults, maybeDeferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.interfaces import IListeningPort, IReactorTime, IStreamServerEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.net.clock import SystemClock
from msmq.net.reactors import running_reactor
from msmq.observed_events import ObservedEvents
from msmq.proxy.capture_file import LARGEST_CAPTURE, CaptureFile
from msmq.proxy.ping_relay import PingRelay
from msmq.proxy.relay import RelayFactory
from msmq.proxy.relayed_packet import RelayedPacket
from msmq.quoting import kind_of, quoted
from msmq.service.process.shared_run import SharedRun

MOST_PACKETS: Final = 10_000
"""Limit on the packets that a proxy keeps; the oldest are removed."""
MOST_TEXT: Final = 1 << 26
"""Limit on the characters of the texts in these packets, bodies for example."""
SESSION_PORT: Final = 1801
PING_PORT: Final = 3527


class _ProxyRun:
    """What one start has made: its stop ends that alone, whatever another start makes meanwhile."""

    log: ClassVar[Logger] = Logger()

    def __init__(self) -> None:
        self.ports: list[IListeningPort] = []
        self.capture: CaptureFile | None = None
        self._factory: RelayFactory | None = None
        self._stopping = SharedRun(self._stop, self._not_stopped)

    def hold(self, factory: RelayFactory) -> None:
        """Close the sessions of a factory at the stop."""
        self._factory = factory

    def stop(self) -> Deferred[None]:
        """Close ports, sessions and capture; as of L{RecordingProxy.stopService}."""
        return self._stopping.join()

    async def _stop(self) -> None:
        ports, self.ports = self.ports, []
        try:
            await gatherResults([maybeDeferred(port.stopListening) for port in ports], consumeErrors=True)
        finally:
            if self._factory is not None:
                self._factory.close()
            if self.capture is not None:
                self.capture.close()

    def _not_stopped(self, failure: Failure) -> None:
        self.log.failure("a recording proxy could not stop", failure)


class RecordingProxy(Service):
    """Stands between queue managers: relays sessions and pings unchanged, records them, reports packets.

    The queue manager that sends is redirected to it: with a C{[hosts]} table, or by a name or address of the
    receiver that leads to C{address}.  The receiver sees sessions from the host of the proxy.
    What an encrypted message says stays encrypted; its headers are read.

    It is a Twisted service: C{startService}, then C{await proxy.started}.  A subclass may override
    L{packet_relayed}.

    @param target: host name or IP address of the queue manager to which sessions are relayed, at port 1801.
    @param capture: a file for the bytes, in the format pcap, which C{msmq decode} and Wireshark read; an
        existing one is replaced. By default nothing is recorded.
    @param capture_limit: the largest size of that file, in bytes; the capture then ends, and no session.
    @param address: the IP address at which it listens, at the ports 1801 and 3527; by default 127.0.0.1.
    @param reactor: by default the global one.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    @ivar packets: what was relayed, the latest L{MOST_PACKETS}, with at most L{MOST_TEXT} characters.
    @ivar started: fires when it listens, or with the reason why it cannot start; each start makes a new one.
    """

    def __init__(
        self,
        target: str,
        *,
        capture: str | os.PathLike[str] | None = None,
        capture_limit: int = LARGEST_CAPTURE,
        address: str = "127.0.0.1",
        reactor: IReactorTime | None = None,
    ) -> None:
        given: object = target
        if not isinstance(given, str) or not given:
            raise LocalProtocolError(
                f"RecordingProxy: target is {quoted(given) if given == '' else kind_of(given)}; it has to be"
                " a host name or an IP address as text"
            )
        self._target = target
        self._address = _checked_address(address)
        self._capture_path = _checked_path(capture)
        size: object = capture_limit
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise LocalProtocolError(
                f"RecordingProxy: capture_limit is {quoted(size)}; it has to be a number of bytes, at least 1"
            )
        self._capture_limit = capture_limit
        self._reactor = reactor
        self._run: _ProxyRun | None = None
        self._observed = ObservedEvents[RelayedPacket](MOST_PACKETS, MOST_TEXT, lambda packet: packet.fields)
        self.started: Deferred[None] = Deferred()

    @property
    def packets(self) -> deque[RelayedPacket]:
        """What was relayed, the latest L{MOST_PACKETS}."""
        return self._observed.latest

    @property
    def omitted(self) -> int:
        """Bytes that the capture leaves out, because it has reached its limit."""
        capture = None if self._run is None else self._run.capture
        return 0 if capture is None else capture.omitted

    def when(self, condition: Callable[[RelayedPacket], object]) -> Deferred[RelayedPacket]:
        """Fires with the first packet, of the past or the future, for which C{condition} is true."""
        return self._observed.when(condition)

    def packet_relayed(self, packet: RelayedPacket) -> None:
        """Hook: a packet was relayed, or a session changed; what it raises is logged."""

    # Called by Twisted

    def startService(self) -> None:
        """Start; C{started} fires with the result."""
        Service.startService(self)
        run = self._run = _ProxyRun()
        self.started = ensureDeferred(self._start(run))

    def stopService(self) -> Deferred[None]:
        """Stop: sessions are closed; packets are kept.

        Each caller gets a separate Deferred, and cancelling it ends the wait alone, not the stop.

        @return: fires when it has stopped: its ports and the capture are closed.
        """
        Service.stopService(self)
        self.started.addErrback(lambda _: None)
        self.started.cancel()
        return succeed(None) if self._run is None else self._run.stop()

    async def _start(self, run: _ProxyRun) -> None:
        reactor = running_reactor() if self._reactor is None else self._reactor
        try:
            if self._capture_path is not None:
                run.capture = CaptureFile(self._capture_path, self._capture_limit)
            factory = RelayFactory(
                HostnameEndpoint(reactor, self._target, SESSION_PORT),
                clock=SystemClock(),
                listener=self._relayed,
                capture=run.capture,
            )
            run.hold(factory)
            target = await _resolved(reactor, self._target)
            made = TCP4ServerEndpoint if ip_address(self._address).version == 4 else TCP6ServerEndpoint
            endpoint: IStreamServerEndpoint = made(reactor, SESSION_PORT, interface=self._address)
            run.ports.append(await endpoint.listen(factory))
            run.ports.append(
                reactor.listenUDP(PING_PORT, PingRelay((target, PING_PORT)), interface=self._address)  # type: ignore[attr-defined]
            )
        except BaseException:
            await run.stop()
            raise

    def _relayed(self, packet: RelayedPacket) -> None:
        try:
            self.packet_relayed(packet)
        finally:
            self._observed.add(packet)


async def _resolved(reactor: IReactorTime, host: str) -> str:
    """The address of a host; C{reactor.resolve} knows only names, and addresses of IPv4."""
    try:
        return str(ip_address(host))
    except ValueError:
        found: str = await reactor.resolve(host)  # type: ignore[attr-defined]
        return found


def _checked_address(address: object) -> str:
    try:
        return str(ip_address(address if isinstance(address, str) else ""))
    except ValueError as error:
        raise LocalProtocolError(
            f"RecordingProxy: address is {quoted(address)}; it has to be an IP address as text, such as"
            " 127.0.0.9"
        ) from error


def _checked_path(path: object) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise LocalProtocolError(
            f"RecordingProxy: capture is {kind_of(path)}; it has to be the path of a file"
        )
    return Path(path)
