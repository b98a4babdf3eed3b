"""Many peers in one process, each with a session that it opens and keeps, made of bytes."""

from __future__ import annotations

import socket
import sys
import time
import uuid

from rig.flights import say
from rig.frames import connection_parameters, establish_connection

PATIENCE = 30.0
"""Seconds that an answer may take."""


def _read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionError("the queue manager closed the connection")
        data += more
    return data


def open_session(host: str, port: int, server: bytes) -> socket.socket:
    """Connect and do the handshake ([MS-MQQB] 4.1)."""
    peer = socket.create_connection((host, port), PATIENCE)
    peer.sendall(establish_connection(uuid.uuid4().bytes_le, server))
    _read(peer, 572)
    peer.sendall(connection_parameters())
    _read(peer, 32)
    return peer


def main(arguments: list[str]) -> int:
    """Open a number of sessions, report it, and keep them until the process ends."""
    host, port, server, count = arguments
    peers = [open_session(host, int(port), uuid.UUID(server).bytes_le) for _ in range(int(count))]
    say(opened=len(peers))
    while True:
        time.sleep(1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
