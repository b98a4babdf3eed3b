"""Transport of a session: socket options, sizes of reads, pausing and writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IPushProducer

from msmq.direct_write import LARGE_SEND, unsent_bytes, write_now
from msmq.quoting import shown
from msmq.wire.addresses import unmapped

READ_SIZE: Final = 0x40000
"""Bytes of one read from a connection on which much arrives."""

LARGE_READ: Final = 0x100000
"""Bytes of a large read: messages of 64 KiB that arrive together are one batch then, and each batch costs as
much as several messages."""

LARGE_PACKET: Final = 0x2000
"""Bytes of a packet, on average, from which on reads may be large."""

MOST_LARGE_READS: Final = 16
"""Connections that have large reads at the same time; they bound what is read beyond a limit on memory."""

BURST: Final = 0.0002
"""Seconds after a write during which messages are left to the reactor, which writes many together."""

DIRECT: Final = 0x10000
"""Bytes up to which messages are passed to the kernel at once."""


def address_text(address: IAddress) -> str:
    """The IP address of a peer, or the path of its socket; as Twisted writes it, if it has neither.

    A peer that came over IPv4 to a socket for both families has its IPv4 address: the acknowledgements of its
    messages name it, and other sessions with it show it.
    A local peer chooses the path of its socket, so a relative one never reads as an IP address, which could
    be that of a trusted peer, and none as a line of the log.
    """
    if host := getattr(address, "host", ""):
        return unmapped(str(host))
    path = os.fsdecode(getattr(address, "name", None) or b"")
    if not path:
        return str(address)
    return shown(path) if path.startswith("/") else f"unix:{shown(path)}"


def prepare_transport(transport: Any, producer: IPushProducer) -> None:
    """Set the socket options of a new transport, as far as it supports them.

    @param producer: is paused while the peer reads more slowly than is written.
    """
    register = getattr(transport, "registerProducer", None)
    if register is not None:
        register(producer, True)
    if hasattr(transport, "bufferSize"):
        # Twisted's default is 64 KiB, less than a packet with a body of that size.
        transport.bufferSize = READ_SIZE
        transport.SEND_LIMIT = LARGE_SEND
    no_delay = getattr(transport, "setTcpNoDelay", None)
    if no_delay is not None:
        # Acknowledgements are small, and peers wait for them.
        no_delay(True)


def close_transport(transport: Any) -> None:
    """Close a connection when all is written; C{None} for no connection."""
    if transport is None:
        return
    # A transport with a producer does not close before that has finished.
    unregister = getattr(transport, "unregisterProducer", None)
    if unregister is not None:
        unregister()
    transport.loseConnection()


def abort_transport(transport: Any) -> None:
    """Close a connection at once, if the transport can; C{None} for no connection."""
    abort = getattr(transport, "abortConnection", None)
    if abort is not None:
        abort()


class LargeReads:
    """Grants large reads to the connections that filled a read last.

    With TLS no read is as large as that, and nothing changes.
    """

    def __init__(self) -> None:
        # The one that filled a read last is the last.
        self._transports: dict[Any, None] = {}

    def filled(self, transport: Any, size: int, packets: int) -> None:
        """Read more from a connection from now on, if a read of L{READ_SIZE} bytes or more had large packets.

        Many small ones would be more work than an iteration of the reactor should have.
        With too many such connections, the one that has not filled a read for longest is read less again.

        @param size: the bytes that were read.
        @param packets: the packets that they complete.
        """
        if packets * LARGE_PACKET > size:
            self.end(transport)
            return
        if self._transports.pop(transport, self) is self:
            if not hasattr(transport, "bufferSize"):
                return
            transport.bufferSize = LARGE_READ
        self._transports[transport] = None
        if len(self._transports) > MOST_LARGE_READS:
            self.end(next(iter(self._transports)))

    def end(self, transport: Any) -> None:
        """Read less from a connection again: it was closed, has little memory, or its messages are small."""
        if self._transports.pop(transport, self) is None:
            transport.bufferSize = READ_SIZE


class ReadingPauses:
    """Pauses reading from a transport while there is any reason, and resumes it when the last reason has
    ended.
    """

    def __init__(self) -> None:
        self._reasons: set[str] = set()

    @property
    def is_paused(self) -> bool:
        """Whether there is a reason."""
        return bool(self._reasons)

    def add(self, reason: str, transport: Any) -> None:
        """Add a reason, and stop reading."""
        if not self._reasons:
            pause = getattr(transport, "pauseProducing", None)
            if pause is not None:
                pause()
        self._reasons.add(reason)

    def end(self, reason: str, transport: Any, *, is_over: bool) -> None:
        """End one reason.

        @param is_over: the session has ended, so that nothing more is read.
        """
        self._reasons.discard(reason)
        if not self._reasons and not is_over:
            resume = getattr(transport, "resumeProducing", None)
            if resume is not None:
                resume()


class TransportWriter:
    """Writes to the transport of a session, and observes whether its peer receives what was written."""

    def __init__(self) -> None:
        self._last = 0.0
        self._total = 0
        self._arrived = 0
        self._has_pending = False

    def observe(self) -> None:
        """Observe what is written from now on; all that was written before counts as received."""
        self._arrived = self._total
        self._has_pending = False

    def write(self, transport: Any, chunks: Sequence[bytes], now: float, *, is_awaited: bool) -> int:
        """Write, directly if the peer waits, or if nothing was written just before.

        @param now: monotonic seconds.
        @return: the number of bytes.
        """
        size = sum(map(len, chunks))
        if is_awaited or (size <= DIRECT and now - self._last >= BURST):
            write_now(transport, b"".join(chunks))
        else:
            transport.writeSequence(chunks)
        self._last = now
        self._total += size
        return size

    def has_progressed(self, transport: Any) -> bool:
        """Whether the system of the peer has received more since the last call, or L{observe}, of what it had
        not received completely by then, or has not by now.

        What the peer has received completely says nothing about whether it still works.
        """
        pending = unsent_bytes(transport)
        arrived, before = self._total - pending, self._arrived
        had_pending = self._has_pending
        self._arrived, self._has_pending = arrived, pending > 0
        return arrived > before and (had_pending or pending > 0)
