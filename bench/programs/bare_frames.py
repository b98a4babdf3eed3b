"""Two bare Twisted processes exchange the frames of a session: what the wire and Twisted alone allow.

One sends UserMessages of 1 KiB, each written by itself, and never more than a window ahead; the other
cuts the stream into packets, does nothing with them, and answers each 32nd with a SessionAck.

The durable variant is the prototype of a queue manager with a log: the sender forces what it is going to send
to disk first, the receiver what it has read before it answers, both into a file that was filled with zeros,
by one synchronous write for all that is there; the sender also writes which messages were answered.
There is no index, no object for a message, and nothing is checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from rig.flights import environment
from rig.frames import SESSION_ACK_EVERY, WINDOW, session_ack, user_message
from rig.measuring import Result

FRAMES = 320_000
BODY = 1024
ROUNDS = 5
FILE_BYTES = 1 << 24
TIMEOUT = 60.0
"""Seconds after which a round is given up."""

_PACKET_SIZE = Struct("<I").unpack_from


class _Framing(Protocol):
    """Cuts out whole packets; a subclass gets those of one chunk together."""

    def __init__(self) -> None:
        self.partial = b""

    def dataReceived(self, data: bytes) -> None:
        if self.partial:
            data = self.partial + data
        position, size = 0, len(data)
        packets: list[bytes] = []
        while size - position >= 16:
            (packet_size,) = _PACKET_SIZE(data, position + 8)
            if size - position < packet_size:
                break
            packets.append(data[position : position + packet_size])
            position += packet_size
        self.partial = data[position:]
        if packets:
            self.packets_received(packets)

    def packets_received(self, packets: list[bytes]) -> None:
        """These have come, in this order."""


class SyncedFile:
    """A file of zeros, to which is written over and over; each write is on disk when it returns."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix=".msmq-bench-", dir=".", buffering=0)
        for _ in range(FILE_BYTES >> 20):
            self._file.write(bytes(1 << 20))
        os.fsync(self._file.fileno())
        self._offset = 0

    def write(self, data: bytes) -> None:
        """Write behind what was written before, from a multiple of 512 on."""
        data += bytes(-len(data) % 512)
        if self._offset + len(data) > FILE_BYTES:
            self._offset = 0
        os.pwritev(self._file.fileno(), [data], self._offset, os.RWF_DSYNC)
        self._offset += len(data)


class Receiver(_Framing):
    """Acknowledges each 32nd message, and leaves with the connection."""

    def __init__(self, file: SyncedFile | None) -> None:
        super().__init__()
        self.received = 0
        self.file = file

    def packets_received(self, packets: list[bytes]) -> None:
        if self.file is not None:
            self.file.write(b"".join(packets))
        before = self.received
        self.received += len(packets)
        owed = self.received // SESSION_ACK_EVERY - before // SESSION_ACK_EVERY
        if owed:
            assert self.transport is not None
            self.transport.write(session_ack(self.received) * owed)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        _reactor().stop()


class Sender(_Framing):
    """Keeps a window of messages in flight until all are acknowledged."""

    def __init__(self, frames: int, size: int, window: int, file: SyncedFile | None) -> None:
        super().__init__()
        self.window = window
        self.file = file
        self.unsent = frames
        self.unacknowledged = frames
        self.message = user_message(size)
        self.started = self.ended = 0.0

    def connectionMade(self) -> None:
        self.started = time.perf_counter()
        assert self.transport is not None
        set_no_delay = getattr(self.transport, "setTcpNoDelay", None)
        if set_no_delay is not None:
            set_no_delay(True)
        self.send(self.window)

    def send(self, count: int) -> None:
        count = min(count, self.unsent)
        self.unsent -= count
        if count and self.file is not None:
            self.file.write(self.message * count)
        assert self.transport is not None
        for _ in range(count):
            self.transport.write(self.message)

    def packets_received(self, packets: list[bytes]) -> None:
        count = len(packets) * SESSION_ACK_EVERY
        self.unacknowledged -= count
        if self.file is not None:
            self.file.write(bytes(8 * count))
        self.send(count)
        if not self.unacknowledged:
            self.ended = time.perf_counter()
            assert self.transport is not None
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        _reactor().stop()


def _reactor() -> Any:
    from twisted.internet import reactor

    return reactor


def receive(is_durable: bool) -> None:
    """Run the receiving process: print the port, then serve one connection."""
    file = SyncedFile() if is_durable else None
    factory = Factory.forProtocol(lambda: Receiver(file))
    factory.noisy = False
    port = _reactor().listenTCP(0, factory, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    _reactor().run()


def send(port: int, frames: int, size: int, window: int, is_durable: bool) -> None:
    """Run the sending process: print how many messages were acknowledged in a second."""
    sender = Sender(frames, size, window, SyncedFile() if is_durable else None)
    connectProtocol(TCP4ClientEndpoint(_reactor(), "127.0.0.1", port), sender)
    _reactor().run()
    sys.stdout.write(f"{frames / (sender.ended - sender.started)}\n")


def messages_per_second(
    frames: int = FRAMES, size: int = BODY, window: int = WINDOW, *, is_durable: bool = False
) -> float:
    """One round with fresh processes.

    @param frames: how many, a multiple of 32.
    @param size: bytes of a body.
    @param is_durable: whether both write what passes through to disk.
    """
    command = [sys.executable, str(Path(__file__).resolve())]
    durable = str(int(is_durable))
    given = environment()
    with subprocess.Popen(
        [*command, "receive", durable], stdout=subprocess.PIPE, text=True, env=given
    ) as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        try:
            sender = subprocess.run(
                [*command, "send", port, str(frames), str(size), str(window), durable],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=TIMEOUT,
                env=given,
            )
        finally:
            receiver.terminate()
    return float(sender.stdout)


def measure(rounds: int = ROUNDS, frames: int = FRAMES) -> list[Result]:
    """The median of several rounds."""
    figures = sorted(messages_per_second(frames) for _ in range(rounds))
    return [
        Result(
            "bare Twisted, the frames of express messages of 1 KiB",
            figures[len(figures) // 2],
            "messages/s",
            spread=(figures[0], figures[-1]),
        )
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive", durable]:
            receive(durable == "1")
        case ["send", port, frames, size, window, durable]:
            send(int(port), int(frames), int(size), int(window), durable == "1")
        case _:
            sys.stderr.write("usage: bare_frames.py receive DURABLE | send PORT FRAMES SIZE WINDOW DURABLE\n")
            raise SystemExit(2)
