"""Pending messages of a sender, by identifier, until they are delivered or can no longer be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final, TypeAlias

from twisted.internet.defer import Deferred

from msmq.errors import MsmqError
from msmq.structures.identifiers import MessageIdentifier

MOST_OUTSTANDING: Final = 100_000
"""Limit on the messages that a sender may be sending at the same time."""

_ORDINAL: Final = Struct("<I")


class NotDelivered(MsmqError):
    """A message will not be delivered.

    @ivar identifier: of the message.
    @ivar event: why, a word of the event log such as C{expired}.
    """

    def __init__(self, identifier: MessageIdentifier, event: str, reason: str = "") -> None:
        super().__init__(identifier, event, reason)
        self.identifier = identifier
        self.event = event
        self.reason = reason

    def __str__(self) -> str:
        return f"message {self.identifier} is not delivered: {self.event}" + (
            f" ({self.reason})" if self.reason else ""
        )


_Result: TypeAlias = tuple[str, str] | None
"""C{None} for a delivered message, otherwise event and reason."""

_CLOSED: Final = ("sender closed", "")


class Deliveries:
    """Fires a Deferred for each message of one run of a sender when its result is known.

    A result may come before the identifier is known to the caller that sends the message, so results are
    kept while a message is L{being sent<sending>}: as many as messages can be sent at the same time, since
    those of messages that nothing waits for come too.

    @ivar is_closed: whether the sender has stopped since; no message is sent then.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._pending: dict[bytes, tuple[MessageIdentifier, Deferred[None]]] = {}
        self._early: dict[bytes, _Result] = {}
        self._sending = 0

    def __len__(self) -> int:
        """The messages whose results are not known."""
        return len(self._pending)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While it lasts, results of messages that are not expected yet are kept."""
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
            if not self._sending:
                self._early.clear()

    def expect(self, identifier: MessageIdentifier) -> Deferred[None]:
        """The result of a message, within L{sending}.

        @return: fires when it is delivered, or with L{NotDelivered}. Cancelling it forgets the message.
            After L{close} it has failed: the message was being sent, and no result will come.
        """
        identity = identifier.queue_manager.bytes_le + _ORDINAL.pack(identifier.ordinal)
        done: Deferred[None] = Deferred(lambda _: self._forget(identity))
        self._pending[identity] = identifier, done
        if identity in self._early:
            self._settle(identity, self._early.pop(identity))
        elif self.is_closed:
            self._settle(identity, _CLOSED)
        return done

    def delivered(self, identity: bytes) -> None:
        """A message has been delivered; a message that is not expected is ignored.

        @param identity: SourceQueueManager and MessageID, 20 bytes.
        """
        self._settle(identity, None)

    def failed(self, identity: bytes, event: str, reason: str) -> None:
        """A message cannot be delivered any more.

        @param identity: SourceQueueManager and MessageID, 20 bytes.
        """
        self._settle(identity, (event, reason))

    def close(self) -> None:
        """The sender stops: what was not delivered is lost."""
        self.is_closed = True
        for identity in list(self._pending):
            self._settle(identity, _CLOSED)

    def _forget(self, identity: bytes) -> None:
        self._pending.pop(identity, None)

    def _settle(self, identity: bytes, result: _Result) -> None:
        found = self._pending.pop(identity, None)
        if found is None:
            if self._sending:
                self._early[identity] = result
                if len(self._early) > MOST_OUTSTANDING:
                    del self._early[next(iter(self._early))]
            return
        identifier, done = found
        if result is None:
            done.callback(None)
        else:
            done.errback(NotDelivered(identifier, *result))
