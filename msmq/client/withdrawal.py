"""Withdrawal: a request in a worker thread, which its caller no longer waits for."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from msmq.control.client.client import ControlClient

# Each call has a separate context.
_CURRENT: ContextVar[Withdrawal | None] = ContextVar("msmq_client_withdrawal", default=None)


class Withdrawal:
    """Whether the caller of a request still waits for it; shared with the thread that makes the request."""

    def __init__(self) -> None:
        self._withdrawn = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    @property
    def is_withdrawn(self) -> bool:
        """Whether the request was withdrawn."""
        return self._withdrawn.is_set()

    def withdraw(self) -> None:
        """End the request: its pauses, and the connection on which it waits for a response."""
        self._withdrawn.set()
        connection = self._connection
        if connection is not None:
            shut_down(connection)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The requests of this thread are those of the caller, in a block."""
        former = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(former)

    def connected(self, connection: http.client.HTTPConnection) -> None:
        """The request is made on this connection.

        @raise OSError: it was withdrawn while it connected.
        """
        self._connection = connection
        # C{withdraw} sets this before it looks for a connection, so it misses none.
        if self.is_withdrawn:
            raise OSError("the caller has cancelled the request")

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the request is wanted."""
        self._withdrawn.wait(seconds)


class WithdrawableClient(ControlClient):
    """Client whose requests end when they are withdrawn."""

    def connect(self, connection: http.client.HTTPConnection) -> None:
        """See L{ControlRequests.connect}."""
        super().connect(connection)
        withdrawal = current_withdrawal()
        if withdrawal is not None:
            withdrawal.connected(connection)


def current_withdrawal() -> Withdrawal | None:
    """That of the request of this thread; C{None} if it cannot be withdrawn."""
    return _CURRENT.get()


def pause(seconds: float) -> None:
    """Wait in this thread, but not longer than its request is wanted."""
    withdrawal = current_withdrawal()
    if withdrawal is None:
        time.sleep(seconds)
    else:
        withdrawal.pause(seconds)


def shut_down(connection: http.client.HTTPConnection) -> None:
    """End a connection, on which another thread may wait."""
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
