"""Server-sent events (WHATWG HTML, 9.2), of which only changed values are sent."""

from __future__ import annotations

from typing import Final

from msmq.control.server.http.responses import to_json

EVENT_STREAM: Final = "text/event-stream"

RETRY: Final = 3.0
"""Seconds after which a client reconnects whose stream has ended."""

HEARTBEAT: Final = 15.0
"""Seconds without an event after which a comment is sent, so that both sides notice a lost connection."""


class EventStreamEncoder:
    """Encodes the events of one stream.

    @param now: monotonic seconds, as of L{take}.
    """

    def __init__(self, now: float) -> None:
        self._sent: dict[tuple[str, str], bytes] = {}
        self._latest = now
        self._pending: list[bytes] = [b"retry: %d\n\n" % (RETRY * 1000)]

    def forget(self) -> None:
        """Send every value again, as to a new client; what is pending is dropped."""
        self._sent.clear()
        self._pending.clear()

    def set(self, topic: str, value: object, name: str = "") -> None:
        """Send a value if it differs from the one that was sent before.

        @param name: which of the objects of the topic has the value.
        """
        data = to_json(value)
        if self._sent.get((topic, name)) != data:
            self._sent[topic, name] = data
            self._pending.append(_event(topic, data))

    def add(self, topic: str, value: object, identifier: int | None = None) -> None:
        """Send a value that follows others.

        @param identifier: its number, which a client names that connects again.
        """
        head = b"" if identifier is None else b"id: %d\n" % identifier
        self._pending.append(head + _event(topic, to_json(value)))

    def take(self, now: float) -> bytes:
        """The bytes to send now, if any."""
        if not self._pending and now - self._latest >= HEARTBEAT:
            self._pending.append(b": heartbeat\n\n")
        if self._pending:
            self._latest = now
        data = b"".join(self._pending)
        self._pending.clear()
        return data


def _event(topic: str, data: bytes) -> bytes:
    # JSON of this server is ASCII without line breaks.
    return b"event: %s\ndata: %s\n\n" % (topic.encode("ascii"), data)
