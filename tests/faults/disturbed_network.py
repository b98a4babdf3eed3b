"""A TCP proxy between two queue managers that breaks their connections in every way a network can."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from enum import Enum
from random import Random

import attrs

SESSION_PORT = 1801
_READ = 0x4000
_ABORT = struct.pack("ii", 1, 0)


class Disturbance(Enum):
    """A fault of existing connections."""

    RESET = "reset"
    """Both ends learn at once that it is over; what was on its way is lost."""

    TORN = "torn"
    """It is over after some more bytes, which may be in the middle of a packet."""

    STALLED = "stalled"
    """For a while nothing passes in one direction, or in none."""

    HALF_CLOSED = "half-closed"
    """One direction is over, and the other one is not."""

    REFUSED = "refused"
    """It has ended, and for a while no connection is accepted."""


@attrs.define(eq=False)
class _Way:
    """One direction of a connection."""

    source: socket.socket
    target: socket.socket
    stalled_until: float = 0.0
    left: int | None = None
    is_muted: bool = False


class _Link:
    """One connection, which is two: from the dialling side, and onward."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._sockets = (near, far)
        self.ways = (_Way(near, far), _Way(far, near))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._pump, args=(way,), daemon=True) for way in self.ways]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        """Reset both connections."""
        self._over.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            # A thread that waits for bytes does not notice that its socket is closed, but this it does.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def half_close(self, way: _Way) -> None:
        way.is_muted = True
        with contextlib.suppress(OSError):
            way.target.shutdown(socket.SHUT_WR)

    def _pump(self, way: _Way) -> None:
        try:
            while data := way.source.recv(_READ):
                while (wait := way.stalled_until - time.monotonic()) > 0.0:
                    if self._over.wait(wait):
                        return
                if way.is_muted:
                    continue
                if way.left is not None:
                    data = data[: way.left]
                    way.left -= len(data)
                way.target.sendall(data)
                if way.left == 0:
                    self.end()
            if not way.is_muted:
                way.target.shutdown(socket.SHUT_WR)
        except OSError:
            self.end()


class DisturbedNetwork:
    """Proxies for every connection between some queue managers, each of which listens at port 1801 of its
    address.
    """

    def __init__(self) -> None:
        self._links: list[_Link] = []
        self._listening: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._refused_until = 0.0
        self._is_closed = False
        self.connections = 0

    def route(self, sender: str, receiver: str) -> str:
        """Stand between two addresses; gives the endpoint that C{sender} has to dial."""
        listening = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=self._accept, args=(listening, sender, receiver), daemon=True)
        self._listening.append(listening)
        self._threads.append(thread)
        thread.start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    def disturb(self, what: Disturbance, chance: Random) -> int:
        """Do something to every connection; gives how many there were."""
        with self._lock:
            links = [link for link in self._links if not link.is_over]
            if what is Disturbance.REFUSED:
                self._refused_until = time.monotonic() + chance.uniform(0.1, 1.0)
        for link in links:
            way = chance.choice(link.ways)
            match what:
                case Disturbance.RESET | Disturbance.REFUSED:
                    link.end()
                case Disturbance.TORN:
                    way.left = chance.randrange(1, 20000)
                case Disturbance.STALLED:
                    way.stalled_until = time.monotonic() + chance.uniform(0.05, 1.5)
                case Disturbance.HALF_CLOSED:
                    link.half_close(way)
        return len(links)

    def close(self) -> None:
        """End everything, and wait until it has ended."""
        with self._lock:
            self._is_closed = True
        for listening in self._listening:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for listening in self._listening:
            listening.close()
        for link in self._links:
            link.end()
            link.join()

    def _accept(self, listening: socket.socket, sender: str, receiver: str) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            with self._lock:
                is_refused = self._is_closed or time.monotonic() < self._refused_until
            far = None if is_refused else _dial(sender, receiver)
            if far is None:
                near.close()
                continue
            link = _Link(near, far)
            with self._lock:
                self.connections += 1
                for old in [old for old in self._links if old.is_over]:
                    self._links.remove(old)
                    old.join()
                self._links.append(link)
                link.start()


def _dial(sender: str, receiver: str) -> socket.socket | None:
    """A connection that seems to come from the sender."""
    try:
        far = socket.create_connection((receiver, SESSION_PORT), timeout=5.0, source_address=(sender, 0))
    except OSError:
        return None
    far.settimeout(None)
    return far
