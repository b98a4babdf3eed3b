"""Direct writes: data goes to the kernel in the iteration of the reactor in which it is known."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from typing import Any, Final

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IWriteDescriptor

LARGE_SEND: Final = 0x80000
"""Bytes that are passed to the kernel at once; Twisted's default of 128 KiB takes an iteration for each."""

_LAYERS: Final = 4
"""Limit on transports around one with a file descriptor, such as TLS."""

_SO_NWRITE: Final = 0x1024
"""The option of a socket of macOS with the bytes of its send queue, which the module socket does not have."""


def write_now(transport: Any, data: bytes) -> None:
    """Pass data to the kernel now; what it does not accept is buffered, and written by the reactor.

    The order is kept: while earlier data is buffered, later data is buffered behind it.

    The reactor reads before it writes, so a peer that waits would otherwise wait until everything that it
    has sent is processed. And a write through the reactor costs two changes of its poll set and one more
    poll, as much as all else that a small message needs.
    A transport without a file descriptor of its own, such as TLS, is written to as usual; errors are handled
    by the reactor.
    """
    if not isinstance(transport, FileDescriptor):
        transport.write(data)
        if IWriteDescriptor.providedBy(transport) and not getattr(transport, "disconnecting", False):
            transport.doWrite()
        return
    descriptor: Any = transport
    if _is_idle(descriptor):
        sent = descriptor.writeSomeData(data)
        if isinstance(sent, int) and sent > 0:
            if sent == len(data):
                return
            data = data[sent:]
        # After an error the reactor meets it again, and reports it.
        descriptor.write(data)
        return
    descriptor.write(data)
    if descriptor.connected and not descriptor.disconnecting and not descriptor._writeDisconnected:
        descriptor.doWrite()


def unsent_bytes(transport: Any) -> int:
    """Bytes that were written and have not arrived at the system of the peer: those that are buffered, in the
    process and in the kernel.

    Of TLS these are the encrypted ones.

    @return: 0 for a transport without a file descriptor.
    """
    for _ in range(_LAYERS):
        if isinstance(transport, FileDescriptor):
            break
        transport = getattr(transport, "transport", None)
    else:
        return 0
    descriptor: Any = transport
    buffered: int = len(descriptor.dataBuffer) - descriptor.offset + descriptor._tempDataLen
    try:
        return buffered + _unsent_of_system(descriptor)
    except (OSError, ValueError, AttributeError):
        # It has been closed, or is not a socket.
        return buffered


def _unsent_of_system(descriptor: Any) -> int:
    """Bytes in the send queue of a connection's socket, those on their way included.

    @return: 0 on a system that does not show it, where TIOCOUTQ is about terminals alone.
    """
    if sys.platform == "linux":
        # Of a socket this is SIOCOUTQ, which has the same number.
        queue = fcntl.ioctl(descriptor.fileno(), termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(queue, sys.byteorder)
    if sys.platform == "darwin":
        unsent: int = descriptor.socket.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
        return unsent
    return 0


def _is_idle(descriptor: Any) -> bool:
    """Whether a connection is open, not encrypted, and has nothing buffered."""
    return not (
        descriptor.dataBuffer
        or descriptor._tempDataBuffer
        or not descriptor.connected
        or descriptor.disconnecting
        or descriptor._writeDisconnected
        or getattr(descriptor, "TLS", False)
    )
