"""Reports the state of the process to systemd, as sd_notify(3) and sd_watchdog_enabled(3) describe it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger


class ServiceManager:
    """The service manager that started the process; without one, nothing is sent.

    @param address: C{NOTIFY_SOCKET}: the path of a socket, or C{@} and an abstract name; empty for none.
    @param watchdog: seconds within which the service manager expects a notification; C{None} for no watchdog.
    The reactor sends one at half that interval, so that a blocked reactor is detected.
    @param monotonic: seconds of C{CLOCK_MONOTONIC}, which C{MONOTONIC_USEC} is in.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        address: str,
        watchdog: float | None,
        reactor: IReactorTime,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog
        self._reactor = reactor
        self._monotonic = monotonic
        self._call: IDelayedCall | None = None
        self._is_ready = False

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        reactor: IReactorTime,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> ServiceManager:
        """The service manager in the environment of this process."""
        microseconds = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        is_given = microseconds.isdecimal() and int(microseconds) > 0
        watchdog = int(microseconds) / 1e6 if is_ours and is_given else None
        return cls(environment.get("NOTIFY_SOCKET", ""), watchdog, reactor, monotonic)

    def ready(self, status: str) -> None:
        """The start is done.

        @param status: what C{systemctl status} shows.
        """
        self._is_ready = True
        self._send("READY=1", f"STATUS={status}")
        if self._call is None:
            self._feed()

    def reloading(self) -> None:
        """A reload begins; call L{reloaded} afterwards, also if it fails."""
        if self._is_ready:
            self._send("RELOADING=1", f"MONOTONIC_USEC={int(self._monotonic() * 1e6)}")

    def reloaded(self, status: str) -> None:
        """A reload is done, or was refused.

        Nothing is sent before the start is done, and while the process ends: it would be taken for ready.

        @param status: as of L{ready}.
        """
        if self._is_ready:
            self.ready(status)

    def stopping(self) -> None:
        """The process is about to end."""
        self._is_ready = False
        self._send("STOPPING=1")
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _feed(self) -> None:
        if self._watchdog is not None and self._address:
            self._send("WATCHDOG=1")
            self._call = self._reactor.callLater(self._watchdog / 2, self._feed)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.connect(self._address)
                sending.send("\n".join(lines).encode())
        except OSError as error:
            self.log.warn("the service manager is not notified: {error}", error=error.strerror)
