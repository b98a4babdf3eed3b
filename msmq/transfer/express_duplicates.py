"""Duplicate detection of express messages. [MS-MQQB] 3.1.5.8.1."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msmq.structures.internal.order_queue import is_for_order_queue
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import different_ones
from msmq.transfer.duplicates import MESSAGE_ID, duplicate_key
from msmq.wire.guid import NULL_GUID

if TYPE_CHECKING:
    from msmq.moment import Moment
    from msmq.settings import SessionSettings
    from msmq.structures.packet.user_message_view import UserMessageView

_NULL: Final = NULL_GUID.bytes_le
_MQ: Final = UserHeader.MQ


def is_recorded(message: UserMessageView, *, has_queue: bool, is_trusted: bool, is_refused: bool) -> bool:
    """Whether an express message may be known from now on, and so have another one dropped as a duplicate.

    What is not accepted from an untrusted address is not recorded, as for recoverable messages: a forged
    message must not have another one dropped.

    @param has_queue: it is for a queue of this queue manager.
    @param is_trusted: the configuration accepts messages from its address without verification.
    @param is_refused: security refuses it.
    """
    if has_queue:
        return is_trusted or not is_refused
    # An order queue is none of those that this queue manager delivers into.
    return is_trusted and not is_for_order_queue(message.packet)


class ExpressDuplicates:
    """MessageIDHistoryTable for express messages (reading 46). [MS-MQQB] 3.1.1.3.

    It is kept in memory, as the messages are, apart from the history of recoverable ones, which a flood of
    express messages must not displace.
    Two generations of identifiers replace a time for each: the older one is dropped when the
    younger one is full, or has lasted for the lifetime. So at least the latest C{duplicate_entries} are kept,
    at most twice as many, and each for its lifetime unless more came.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self.configure(settings)
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._began = 0.0

    def configure(self, settings: SessionSettings) -> None:
        """Apply another size and lifetime from the next message on."""
        self._limit = settings.duplicate_entries
        self._lifetime = settings.duplicate_lifetime

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def classify(
        self, views: Sequence[UserMessageView], own: Container[bytes], peer: bytes | None, now: Moment
    ) -> Container[UserMessageView]:
        """The duplicates among these messages; the others are recorded, unless taken back.

        @param views: in the order in which they came; all but express messages for this queue manager are
        ignored.
        @param own: the QueueManagerAddress of a message for this queue manager: one of these, 16 bytes each.
        @param peer: the GUID of the queue manager that brought them, 16 bytes. A message to a direct name
            that names another source is neither known from now on nor a duplicate, since nothing hands
            such messages on. C{None} if the peer may bring messages of any source.
        """
        if not self._limit:
            return ()
        if now.monotonic - self._began >= self._lifetime:
            self._begin(now)
        young, old = self._young, self._old
        fresh = self._fresh_run(views, own, peer)
        if fresh is not None:
            young |= fresh
            if len(young) >= self._limit:
                self._begin(now)
            return ()
        found: list[UserMessageView] | None = None
        for view in views:
            if view.is_recoverable:
                continue
            address = view.queue_manager_address
            if address not in own:
                continue
            source = view.source_queue_manager
            if peer is not None and source != peer and address == _NULL:
                continue
            # As duplicate_key has it; nearly every message is for one queue.
            identity = duplicate_key(view) if view.flags & _MQ else source + view.packet[MESSAGE_ID]
            if identity in young or identity in old:
                found = [] if found is None else found
                found.append(view)
                # Renew it: [MS-MQQB] 3.1.5.8.1 updates its TimeStamp.
            young.add(identity)
        if len(young) >= self._limit:
            self._begin(now)
        return () if found is None else frozenset(found)

    def _fresh_run(
        self, views: Sequence[UserMessageView], own: Container[bytes], peer: bytes | None
    ) -> set[bytes] | None:
        """The identities of express messages of one sender for this queue manager, if none is a duplicate.

        That is nearly everything that arrives; C{None} for all else, of which nothing has been judged then.
        """
        if not views:
            return None
        first = views[0]
        source, address = first.source_queue_manager, first.queue_manager_address
        if address not in own or (peer is not None and source != peer and address == _NULL):
            return None
        if [
            view
            for view in different_ones(views)
            if view.is_recoverable
            or view.flags & _MQ
            or view.source_queue_manager != source
            or view.queue_manager_address != address
        ]:
            return None
        identities = {source + view.packet[MESSAGE_ID] for view in views}
        if len(identities) < len(views) or not (
            identities.isdisjoint(self._young) and identities.isdisjoint(self._old)
        ):
            return None
        return identities

    def take_back(self, views: Iterable[UserMessageView]) -> None:
        """These messages were not accepted and not acknowledged: they are sent again."""
        for view in views:
            if not view.is_recoverable:
                identity = duplicate_key(view)
                self._young.discard(identity)
                self._old.discard(identity)

    def _begin(self, now: Moment) -> None:
        self._old, self._young = self._young, set()
        self._began = now.monotonic
