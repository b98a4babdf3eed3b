"""Two bare Twisted processes exchange the frames of a session: what the wire and Twisted alone allow.

One sends UserMessages of 1 KiB, each written by itself, and never more than a window ahead; the other
cuts the stream into packets, does nothing with them, and answers each 32nd with a SessionAck.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Any

from frames import SESSION_ACK_EVERY, WINDOW, session_ack, user_message
from measuring import Result
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

FRAMES = 320_000
BODY = 1024
ROUNDS = 5
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


class Receiver(_Framing):
    """Acknowledges each 32nd message, and leaves with the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.received = 0

    def packets_received(self, packets: list[bytes]) -> None:
        before = self.received
        self.received += len(packets)
        owed = self.received // SESSION_ACK_EVERY - before // SESSION_ACK_EVERY
        if owed:
            assert self.transport is not None
            self.transport.write(session_ack(self.received) * owed)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        _reactor().stop()


class Sender(_Framing):
    """Keeps a window of messages under way until all are acknowledged."""

    def __init__(self, frames: int, size: int) -> None:
        super().__init__()
        self.unsent = frames
        self.unacknowledged = frames
        self.message = user_message(size)
        self.started = self.ended = 0.0

    def connectionMade(self) -> None:
        self.started = time.perf_counter()
        for _ in range(WINDOW // SESSION_ACK_EVERY):
            self.send()

    def send(self) -> None:
        if self.unsent:
            self.unsent -= SESSION_ACK_EVERY
            assert self.transport is not None
            for _ in range(SESSION_ACK_EVERY):
                self.transport.write(self.message)

    def packets_received(self, packets: list[bytes]) -> None:
        self.unacknowledged -= len(packets) * SESSION_ACK_EVERY
        for _ in packets:
            self.send()
        if not self.unacknowledged:
            self.ended = time.perf_counter()
            assert self.transport is not None
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        _reactor().stop()


def _reactor() -> Any:
    from twisted.internet import reactor

    return reactor


def receive() -> None:
    """Run the receiving process: print the port, then serve one connection."""
    factory = Factory.forProtocol(Receiver)
    factory.noisy = False
    port = _reactor().listenTCP(0, factory, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    _reactor().run()


def send(port: int, frames: int, size: int) -> None:
    """Run the sending process: print how many messages were acknowledged in a second."""
    sender = Sender(frames, size)
    connectProtocol(TCP4ClientEndpoint(_reactor(), "127.0.0.1", port), sender)
    _reactor().run()
    sys.stdout.write(f"{frames / (sender.ended - sender.started)}\n")


def messages_per_second(frames: int = FRAMES, size: int = BODY) -> float:
    """One round with fresh processes.

    @param frames: how many, a multiple of 32.
    @param size: bytes of a body.
    """
    command = [sys.executable, str(Path(__file__).resolve())]
    with subprocess.Popen([*command, "receive"], stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        try:
            sender = subprocess.run(
                [*command, "send", port, str(frames), str(size)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=TIMEOUT,
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
        case ["receive"]:
            receive()
        case ["send", port, frames, size]:
            send(int(port), int(frames), int(size))
        case _:
            sys.stderr.write("usage: bare_frames.py receive | send PORT FRAMES SIZE\n")
            raise SystemExit(2)
