"""Transport of a session: socket options and pausing."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IPushProducer

READ_SIZE: Final = 0x40000
"""Bytes of one read from a connection; the limit on receive memory may be exceeded by this amount."""


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
    no_delay = getattr(transport, "setTcpNoDelay", None)
    if no_delay is not None:
        # Acknowledgements are small, and peers wait for them.
        no_delay(True)


class ReadingPauses:
    """Pauses reading from a transport while there is any reason, and resumes it when the last reason has
    ended.
    """

    def __init__(self) -> None:
        self._reasons: set[str] = set()

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
