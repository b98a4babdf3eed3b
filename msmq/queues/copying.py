"""Copies that are kept of messages: journals of what was received, dead letters of what was not."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.queues.acknowledgement import is_quiet
from msmq.queues.changes import AppendEvent, Change
from msmq.queues.holdings import Holdings, room_in
from msmq.queues.leaving import Departure, Removal, Settlement, removals
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import Kept, MessagePosition
from msmq.queues.queue import Queue
from msmq.structures.message_class import MessageClass
from msmq.structures.user_header import UserHeader
from msmq.structures.user_message_patches import patch_message_class
from msmq.structures.user_message_view import UserMessageView

EVENTS = {
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "expired",
    MessageClass.NACK_Q_PURGED: "purged",
    MessageClass.NACK_Q_DELETED: "deleted",
}
"""What the event log calls the ways in which a message leaves its queue; every other is C{rejected}."""

_JOURNALED = UserHeader.JP | UserHeader.TH
_BY_HAND = (MessageClass.NACK_Q_PURGED, MessageClass.NACK_Q_DELETED)


@attrs.define(eq=False)
class Copying:
    """[MS-MQDMPR] 3.1.1.12, and readings 45 and 46.

    @ivar source: the GUID of this queue manager, as it stands in packets.
    @ivar deadletter: SystemDeadletterQueue.
    @ivar deadxact: SystemTransactionalDeadletterQueue.
    @ivar machine_journal: the journal of what this queue manager sent, and what arrived.
    @ivar dropped: copies that were not made because their queue was full.
    """

    holdings: Holdings
    source: bytes
    deadletter: Queue
    deadxact: Queue
    machine_journal: Queue
    dropped: int = 0

    def receive(self, positions: list[MessagePosition], departures: list[Departure]) -> Removal:
        """[MS-MQDMPR] 3.1.7.2.1 messages leave because they were received.

        Where the queue keeps a journal, and there is room in it, the store turns the message into its copy.
        """
        changes: list[Change] = []
        copies: list[MessagePosition] = []
        plain = positions
        if _any_copied(positions):
            plain = []
            for position in positions:
                copy = self._journal(position, changes)
                if copy is None:
                    plain.append(position)
                else:
                    copies.append(copy)
                    if position.kept is Kept.MEMORY:
                        plain.append(position)
            self.holdings.reserve(changes)
        changes += removals(plain)
        return Removal(positions, changes, departures, copies)

    def settle(self, departure: Departure, now: float) -> Settlement:
        """What has to be stored for messages to leave unread: their removal, dead letters, events.

        @param departure: the packets of its messages are in memory, as far as they could be read.
        @param now: seconds since 1970-01-01 UTC.
        """
        changes: list[Change] = []
        copies: list[MessagePosition] = []
        for position in departure.positions:
            dropped = self.dropped
            copy = self.bury(position, departure.message_class, changes)
            reason = ""
            if copy is not None:
                copies.append(copy)
                reason = "kept as a dead letter"
            elif self.dropped != dropped:
                reason = "there was no room for a dead letter"
            if not departure.is_told:
                changes.append(departure_event(position, departure.message_class, now, reason))
        if copies:
            self.holdings.reserve(changes)
        changes += removals(departure.positions)
        return Settlement(departure, changes, copies)

    def bury(
        self, position: MessagePosition, message_class: MessageClass, changes: list[Change]
    ) -> MessagePosition | None:
        """A dead letter of a message that has failed here, if its sender asked for one and there is room.

        Those of transactional messages are kept where they were sent from alone, as are those of messages
        that failed on their way; nobody mourns what an administrator removed (readings 46 and 68).
        """
        view = position.view
        if (
            view is None
            or not view.flags & UserHeader.JN
            or message_class in _BY_HAND
            or position.queue.is_system
            or is_quiet(view)
        ):
            return None
        is_kept_at_source = view.is_transactional or isinstance(position.queue, OutgoingQueue)
        if is_kept_at_source and view.source_queue_manager != self.source:
            return None
        queue = self.deadxact if view.is_transactional else self.deadletter
        letter = UserMessageView(patch_message_class(view, message_class))
        return self.copy(queue, letter, position, changes)

    def copy(
        self, queue: Queue, view: UserMessageView, source: MessagePosition, changes: list[Change]
    ) -> MessagePosition | None:
        """A copy in a system queue, where nobody sees it yet; C{None} if the queue is full."""
        if view.size > min(room_in(queue), self.holdings.storage.letter_room):
            self.dropped += 1
            return None
        keep = Kept.STORE if view.is_recoverable else Kept.MEMORY
        copy = self.holdings.insert(queue, view, source, keep=keep)
        self.holdings.put(copy, changes)
        return copy

    def _journal(self, position: MessagePosition, changes: list[Change]) -> MessagePosition | None:
        if not _is_copied(position):
            return None
        if isinstance(position.queue, OutgoingQueue):
            # Routers keep nothing of what passes through them (reading 68).
            if position.view is None or position.view.source_queue_manager != self.source:
                return None
            journal = self.machine_journal
        else:
            journal = position.queue.main.journal or self.machine_journal
        if position.size > min(room_in(journal), self.holdings.storage.journal_room):
            self.dropped += 1
            return None
        view = position.view if position.kept is not Kept.STORE else None
        copy = self.holdings.insert(journal, view, position, keep=position.kept)
        self.holdings.move(position, copy, changes)
        return copy

    def keep_refused(
        self, queue: Queue, view: UserMessageView, now: float, changes: list[Change]
    ) -> MessagePosition | None:
        """[MS-MQQB] 3.1.5.8.8 a dead letter of a message from elsewhere that its queue has no room for.

        Other dead letters come in place of a message that was here. This one is more, so every limit holds
        for it; C{None} if there is no room.

        @param now: when it came, in seconds since 1970-01-01 UTC.
        """
        storage = self.holdings.storage
        if view.size > (storage.free if view.is_recoverable else min(storage.free, storage.express_room)):
            self.dropped += 1
            return None
        letter = UserMessageView(patch_message_class(view, MessageClass.NACK_Q_EXCEED_QUOTA))
        came = MessagePosition(queue, (7 - view.priority) << 56, view, view.size, now)
        copy = self.copy(self.deadletter, letter, came, changes)
        self.holdings.reserve(changes)
        return copy

    def withdraw(self, copies: Iterable[MessagePosition]) -> None:
        """The changes were not stored: there never were these copies."""
        for copy in copies:
            self.holdings.unlink(copy)


def _any_copied(positions: Iterable[MessagePosition]) -> bool:
    """Whether a copy is kept of any of these; every message that leaves is asked for."""
    plain: Queue | None = None
    for position in positions:
        if position.queue is not plain:
            if _is_copied(position):
                return True
            if not isinstance(position.queue, OutgoingQueue):
                plain = position.queue
    return False


def _is_copied(position: MessagePosition) -> bool:
    """Whether a copy is kept of a message when it has been received, or has been delivered."""
    queue = position.queue
    if isinstance(queue, OutgoingQueue):
        # A copy of a transactional message waits for what becomes of it (reading 68).
        view = position.view
        return view is not None and view.flags & _JOURNALED == UserHeader.JP and not is_quiet(view)
    return queue.main.definition.journal


def departure_event(
    position: MessagePosition, message_class: MessageClass, now: float, reason: str = ""
) -> AppendEvent:
    """The line of the event log that tells of a message which left its queue unread."""
    view = position.view
    return AppendEvent(
        now,
        b"" if view is None else view.identity,
        EVENTS.get(message_class, "rejected"),
        reason,
        int(message_class),
        position.queue.definition.path,
    )
