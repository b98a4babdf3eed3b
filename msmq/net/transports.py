"""Transport of a session: socket options, pausing, flushing."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IPushProducer, IWriteDescriptor

READ_SIZE: Final = 0x40000
"""Bytes that are read from a connection at once; the limit on receive memory may be exceeded by as many."""


def prepare_transport(transport: Any, producer: IPushProducer) -> None:
    """Set on a new transport what sessions need of it, as far as it has that.

    @param producer: is paused while the peer reads more slowly than is written.
    """
    register = getattr(transport, "registerProducer", None)
    if register is not None:
        register(producer, True)
    if hasattr(transport, "bufferSize"):
        # Twisted reads 64 KiB at once otherwise, which a message of that size does not fit in.
        transport.bufferSize = READ_SIZE
    no_delay = getattr(transport, "setTcpNoDelay", None)
    if no_delay is not None:
        # Acknowledgements are small, and peers wait for them.
        no_delay(True)


def flush_written(transport: Any) -> None:
    """Have the kernel take what was written, now instead of in the next turn of the reactor.

    The reactor reads before it writes: without this a peer whose window is full would wait until everything
    that it has sent already is processed, and both sides would take turns instead of working at once.
    A transport that is not a descriptor of its own writes when it will; an error is the reactor's to find.
    """
    if IWriteDescriptor.providedBy(transport) and not getattr(transport, "disconnecting", False):
        transport.doWrite()


class ReadingPauses:
    """The reasons for which a transport is not read; it is read again when the last has ended."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()

    def add(self, reason: str, transport: Any) -> None:
        """Stop reading, for one reason more."""
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
