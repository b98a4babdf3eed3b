"""Copies of messages: journals of received messages, dead letters of undelivered ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from msmq.persistence.changes import AppendEvent, AppendLog, Change, RemoveUnread
from msmq.queues.arriving.acknowledgement import is_quiet
from msmq.queues.holdings import Holdings, room_in
from msmq.queues.leaving.application_dead_letters import refusal_reason
from msmq.queues.leaving.departure_kinds import Departure, DepartureCommit, Removal, by_queue, removals
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder
from msmq.queues.queue import MessagePosition, Queue
from msmq.quoting import shown
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.packet.kept_packet import is_kept_until_arrival, is_marked_for_dead_letters, packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_rewrites import patch_dead_letter, patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

EVENTS = {
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "expired",
    MessageClass.NACK_DELETED: "purged",
    MessageClass.NACK_Q_PURGED: "purged",
    MessageClass.NACK_Q_DELETED: "deleted",
    MessageClass.NACK_COULD_NOT_ENCRYPT: "unencrypted",
}
"""The kinds of events in the event log for the removal of a message; every other is C{rejected}."""

KEPT = "kept as a dead letter"
"""What the event of a lost message says behind its reason, if there is a dead letter of it."""

_JP = UserHeader.JP
_JOURNALED = UserHeader.JP | UserHeader.TH
_BY_HAND = (MessageClass.NACK_Q_PURGED, MessageClass.NACK_Q_DELETED)


@attrs.define(eq=False)
class MessageCopies:
    """Source journaling, positive and negative. [MS-MQDMPR] 3.1.1.12 and [MS-MQQB] 1.3.4.1 and 1.3.4.2.

    See readings 45 and 46.

    @ivar source: the GUID of this queue manager, as in packets.
    @ivar deadletter: SystemDeadletterQueue.
    @ivar deadxact: SystemTransactionalDeadletterQueue.
    @ivar find: returns the local queue with a path.
    @ivar machine_journal: the journal of messages that this queue manager sent and that arrived.
    @ivar dropped: copies that were not made because their queue was full. They count when the removal,
        arrival or refusal of their messages is stored.
    """

    holdings: Holdings
    source: bytes
    deadletter: Queue
    deadxact: Queue
    machine_journal: Queue
    find: Callable[[PathName], Queue | None]
    dropped: int = 0

    def receive(self, positions: list[MessagePosition], departures: Sequence[Departure] = ()) -> Removal:
        """Remove received messages. [MS-MQDMPR] 3.1.7.2.1.

        Where the queue keeps a journal, and there is room in it, the store moves the message there.
        """
        changes: list[Change] = []
        copies: list[MessagePosition] = []
        before = self.dropped
        plain = positions
        if _any_copied(positions):
            plain = []
            for position in positions:
                copy = self._journal(position, changes)
                if copy is None:
                    plain.append(position)
                else:
                    copies.append(copy)
                    if position.kept is PacketHolder.MEMORY:
                        plain.append(position)
                if _is_journaled_here(position):
                    copy = self._keep_sent(position, changes)
                    if copy is not None:
                        copies.append(copy)
            self.holdings.reserve(changes)
        changes += removals(plain)
        return Removal(positions, changes, departures, copies, dropped=self.uncounted(before))

    def settle(self, departure: Departure, now: float, *, in_bulk: bool) -> DepartureCommit:
        """The changes that remove messages unread: their removal, dead letters, events.

        @param departure: the packets of its messages are in memory, as far as they could be read; those of
            L{removed_in_bulk} need not be, if C{in_bulk}.
        @param now: seconds since 1970-01-01 UTC.
        @param in_bulk: the store takes L{RemoveUnread}.
        """
        before = self.dropped
        changes, copies = self._leave(departure, now, in_bulk)
        return DepartureCommit(departure, changes, copies, self.uncounted(before))

    def delete(self, positions: Sequence[MessagePosition], now: float, *, in_bulk: bool) -> Removal:
        """The same for messages of a deleted queue."""
        if not positions:
            return Removal((), [])
        departure = Departure(positions[0].queue, positions, MessageClass.NACK_Q_DELETED)
        before = self.dropped
        changes, copies = self._leave(departure, now, in_bulk)
        return Removal(positions, changes, copies=copies, dropped=self.uncounted(before))

    def uncounted(self, before: int) -> int:
        """Take back what was added to L{dropped} since it had this value; returns the number of copies.

        It is added again once the changes that were made meanwhile are stored: an attempt that the store
        fails is made again.
        """
        count, self.dropped = self.dropped - before, before
        return count

    def _leave(
        self, departure: Departure, now: float, in_bulk: bool
    ) -> tuple[list[Change], list[MessagePosition]]:
        changes: list[Change] = []
        copies: list[MessagePosition] = []
        others = departure.positions
        if not departure.is_reported:
            if in_bulk:
                others = not_removed_in_bulk(departure.positions)
                bulk: Sequence[MessagePosition] = departure.positions
                if others:
                    apart = set(map(id, others))
                    bulk = [each for each in bulk if id(each) not in apart]
                changes += _removed_unread(bulk, departure, now)
            copies = self.lose(others, departure.message_class, changes, now, departure.reason)
        if copies:
            self.holdings.reserve(changes)
        changes += removals(others)
        return changes, copies

    def lose(
        self,
        positions: Iterable[MessagePosition],
        message_class: MessageClass,
        changes: list[Change],
        now: float,
        why: str = "",
    ) -> list[MessagePosition]:
        """The dead letters and events of lost messages, for one batch of the store.

        @param why: the reason, where the class is not sufficient.
        """
        copies: list[MessagePosition] = []
        for position in positions:
            dropped = self.dropped
            copy = self.dead_letter_failed(position, message_class, changes)
            reason = ""
            if copy is not None:
                copies.append(copy)
                reason = "; ".join(filter(None, (self.dead_letter_note(copy), KEPT)))
            elif self.dropped != dropped:
                reason = "the dead-letter queue is full"
            explanation = "; ".join(filter(None, (why, reason)))
            changes.append(departure_event(position, message_class, now, explanation))
        return copies

    def dead_letter_failed(
        self, position: MessagePosition, message_class: MessageClass, changes: list[Change]
    ) -> MessagePosition | None:
        """Create a dead letter of a failed message, if its sender requested one and there is room.

        Those of transactional messages are kept only at their source (reading 68); any other is
        kept where it fails, in transit if L{msmq.structures.packet.kept_packet} marks it (reading 64). A
        transactional message has failed unless it was received; any other was delivered when an
        administrator removes it from the queue that it was for (reading 46).
        """
        view = position.view
        if view is None or not view.flags & UserHeader.JN or position.queue.is_system or is_quiet(view):
            return None
        if view.is_transactional or isinstance(position.queue, OutgoingQueue):
            if not self._was_sent_here(position, view):
                return self._dead_letter_in_transit(position, view, message_class, changes)
        elif message_class in _BY_HAND:
            return None
        return self.dead_letter(view, message_class, position, changes)

    def dead_letter_awaited(
        self, position: MessagePosition, message_class: int, changes: list[Change], spare: int
    ) -> MessagePosition | None:
        """Create a dead letter of a message that was handed over and has not arrived, if there is room.

        @param spare: as for L{copy}.
        """
        view = position.view
        if view is None:
            return None
        if not self._was_sent_here(position, view):
            return self._dead_letter_in_transit(position, view, message_class, changes, spare)
        if is_kept_until_arrival(view.packet):
            view = UserMessageView(packet_of(view.packet))
        return self.dead_letter(view, message_class, position, changes, spare)

    def _was_sent_here(self, position: MessagePosition, view: UserMessageView) -> bool:
        """Whether a message is one of this queue manager, as its packet says.

        One that a peer sent in our name, to be forwarded, is not: all that is forwarded has queues of its
        own.
        """
        queue = position.queue
        is_transit = isinstance(queue, OutgoingQueue) and queue.is_transit
        return view.source_queue_manager == self.source and not is_transit

    def _dead_letter_in_transit(
        self,
        position: MessagePosition,
        view: UserMessageView,
        message_class: int,
        changes: list[Change],
        spare: int = 0,
    ) -> MessagePosition | None:
        if view.is_transactional or not is_marked_for_dead_letters(view.packet):
            return None
        return self._copy_of_peer(view, message_class, position, changes, spare)

    def _copy_of_peer(
        self,
        view: UserMessageView,
        message_class: int,
        source: MessagePosition,
        changes: list[Change],
        spare: int = 0,
    ) -> MessagePosition | None:
        """A dead letter of another queue manager's message; C{None} beyond the limit for these."""
        dead = UserMessageView(packet_of(patch_message_class(view, message_class)))
        limit = self.holdings.storage.peer_dead_letters
        if limit is not None and self.deadletter.total_bytes + dead.size > limit:
            self.dropped += 1
            return None
        return self.copy(self.deadletter, dead, source, changes, spare)

    def dead_letter(
        self,
        view: UserMessageView,
        message_class: int,
        source: MessagePosition,
        changes: list[Change],
        spare: int = 0,
    ) -> MessagePosition | None:
        """A dead letter in its queue, still invisible; C{None} if the quota is exceeded.

        The queue is ApplicationDeadletterQueue if its sender, on this queue manager, set a suitable one.

        @param spare: as for L{copy}.
        """
        own = self._application_queue(view)
        if isinstance(own, Queue):
            dead = UserMessageView(patch_dead_letter(view, message_class))
            if dead.size <= min(room_in(own), self.holdings.storage.free):
                copy = self._put(own, dead, source, changes)
                if own.definition.log:
                    identifier = own.definition.identifier
                    changes.append(AppendLog(identifier, copy.lookup_id, dead.packet, copy.arrived))
                return copy
        queue = self.deadxact if view.is_transactional else self.deadletter
        dead = UserMessageView(patch_message_class(view, message_class))
        return self.copy(queue, dead, source, changes, spare)

    def dead_letter_note(self, copy: MessagePosition | None) -> str:
        """Why a new dead letter is not in the queue that its sender chose, for its event; else empty."""
        if copy is None or copy.view is None or copy.queue not in (self.deadletter, self.deadxact):
            return ""
        own = self._application_queue(copy.view)
        if isinstance(own, Queue):
            return (
                f"{shown(copy.view.dead_letter_queue)}, the dead-letter queue that its sender chose, is full"
            )
        return own

    def _application_queue(self, view: UserMessageView) -> Queue | str:
        """ApplicationDeadletterQueue, or why there is none for the message: empty if its sender set none."""
        name = view.dead_letter_queue
        if not name or view.source_queue_manager != self.source:
            return ""
        try:
            path = parse_path_name(name)
            queue = self.find(path)
        except MQError:
            return ""
        reason = refusal_reason(path, queue, view)
        return reason if queue is None or reason else queue

    def copy(
        self,
        queue: Queue,
        view: UserMessageView,
        source: MessagePosition,
        changes: list[Change],
        spare: int = 0,
    ) -> MessagePosition | None:
        """A copy in a system queue, still invisible; C{None} if the queue is full.

        @param spare: bytes of the messages that the same commit removes from system queues, where they count
            against the same limit while they are pending; see L{journaled_bytes}.
        """
        if view.size > min(room_in(queue), self.holdings.storage.dead_letter_room + spare):
            self.dropped += 1
            return None
        return self._put(queue, view, source, changes)

    def _put(
        self, queue: Queue, view: UserMessageView, source: MessagePosition, changes: list[Change]
    ) -> MessagePosition:
        keep = PacketHolder.STORE if view.is_recoverable else PacketHolder.MEMORY
        copy = self.holdings.insert(queue, view, source, keep=keep)
        self.holdings.put(copy, changes)
        return copy

    def _journal(self, position: MessagePosition, changes: list[Change]) -> MessagePosition | None:
        if not _is_copied(position):
            return None
        if isinstance(position.queue, OutgoingQueue):
            # Routing servers keep no copies of forwarded messages (reading 68).
            if position.view is None or not self._was_sent_here(position, position.view):
                return None
            journal = self.machine_journal
        else:
            journal = position.queue.main.journal or self.machine_journal
        return self._turn_into(journal, position, self.holdings.storage.journal_room, changes)

    def keep_proven(
        self, position: MessagePosition, changes: list[Change], spare: int
    ) -> MessagePosition | None:
        """Move a message to the machine journal after the acknowledgement that proves its delivery.

        The message is removed from its queue.

        @param spare: as for L{copy}.
        @return: C{None} if the journal is full, so that the message is removed without a copy.
        """
        room = self.holdings.storage.dead_letter_room + spare
        copy = self._turn_into(self.machine_journal, position, room, changes)
        if copy is None:
            changes += removals((position,))
        return copy

    def _turn_into(
        self, journal: Queue, position: MessagePosition, room: int, changes: list[Change]
    ) -> MessagePosition | None:
        """Turn a message into its copy in a journal, within the store if possible."""
        if position.size > min(room_in(journal), room):
            self.dropped += 1
            return None
        view = position.view if position.kept is not PacketHolder.STORE else None
        copy = self.holdings.insert(journal, view, position, keep=position.kept)
        self.holdings.move(position, copy, changes)
        return copy

    def arrive(self, position: MessagePosition, changes: list[Change]) -> MessagePosition | None:
        """PositiveJournalingRequested of a message that has arrived in its local queue. [MS-MQDMPR] 3.1.1.12.

        It is journaled only if it was sent here; a transactional one when it is received (reading 68).
        """
        view = position.view
        if position.queue.is_system or view is None or is_quiet(view):
            return None
        return self._keep_sent(position, changes)

    def _keep_sent(self, position: MessagePosition, changes: list[Change]) -> MessagePosition | None:
        view = position.view
        if view is None or view.source_queue_manager != self.source:
            return None
        if self.holdings.storage.throttled:
            self.dropped += 1
            return None
        return self.copy(self.machine_journal, view, position, changes)

    def keep_refused(
        self, view: UserMessageView, message_class: int, now: float, changes: list[Change]
    ) -> MessagePosition | None:
        """A dead letter of a peer's message that was refused on arrival. [MS-MQQB] 3.1.5.8.8.

        Other dead letters replace a stored message. This one is additional, so every limit applies to it;
        C{None} if one is reached, which the caller counts once the refusal is stored.

        @param message_class: the reason of the refusal.
        @param now: when it arrived, in seconds since 1970-01-01 UTC.
        """
        storage = self.holdings.storage
        if view.size > (storage.free if view.is_recoverable else min(storage.free, storage.express_room)):
            return None
        came = MessagePosition(self.deadletter, (7 - view.priority) << 56, view, view.size, now)
        before = self.dropped
        copy = self._copy_of_peer(view, message_class, came, changes)
        self.uncounted(before)
        self.holdings.reserve(changes)
        return copy

    def withdraw(self, copies: Iterable[MessagePosition]) -> None:
        """The changes were not stored: the copies are discarded."""
        for copy in copies:
            self.holdings.unlink(copy)


def journaled_bytes(positions: Iterable[MessagePosition]) -> int:
    """Bytes that these messages count against JournalQuota: those in system queues do."""
    return sum(position.size for position in positions if position.queue.is_system)


def _any_copied(positions: Iterable[MessagePosition]) -> bool:
    """Whether a copy is kept of any of these; called for every message that is removed."""
    plain: Queue | None = None
    outgoing: Queue | None = None
    for position in positions:
        if position.queue is outgoing:
            # As _is_copied has it, without a call for each message.
            view = position.view
            if view is not None and view.flags & _JP and _is_copied(position):
                return True
        elif position.queue is not plain:
            if _is_copied(position):
                return True
            if _is_journaled_here(position):
                return True
            if (
                not isinstance(position.queue, OutgoingQueue)
                and not position.queue.main.definition.transactional
            ):
                plain = position.queue
            if isinstance(position.queue, OutgoingQueue):
                outgoing = position.queue
    return False


def _is_journaled_here(position: MessagePosition) -> bool:
    """Whether a transactional message was in its destination queue, and is journaled at its source now."""
    queue, view = position.queue, position.view
    return (
        view is not None
        and view.flags & _JOURNALED == _JOURNALED
        and not queue.is_system
        and not isinstance(queue, OutgoingQueue)
        and not is_quiet(view)
    )


def _is_copied(position: MessagePosition) -> bool:
    """Whether a copy is kept of a message when it has been received, or has been delivered.

    [MS-MQQB] 3.1.5.5.4 Source Journaling: a delivered message is copied to the system journal of its source.
    """
    queue = position.queue
    if isinstance(queue, OutgoingQueue):
        # A transactional message is copied when its final result is known (reading 68).
        view = position.view
        return view is not None and view.flags & _JOURNALED == UserHeader.JP and not is_quiet(view)
    return queue.main.definition.journal


def not_removed_in_bulk(positions: Iterable[MessagePosition]) -> list[MessagePosition]:
    """Those whose packets even a store that takes L{RemoveUnread} needs to remove them unread."""
    stored = PacketHolder.STORE
    return [each for each in positions if not each.event_only or each.kept is not stored]


def _removed_unread(
    removed: Iterable[MessagePosition], departure: Departure, now: float
) -> list[RemoveUnread]:
    """The changes that remove messages with their events, a change for each queue."""
    return [
        RemoveUnread(
            queue.definition.identifier,
            tuple([position.lookup_id for position in positions]),
            departure_event(positions[0], departure.message_class, now, departure.reason),
        )
        for queue, positions in by_queue(removed).items()
    ]


def departure_event(
    position: MessagePosition, message_class: MessageClass, now: float, reason: str = ""
) -> AppendEvent:
    """The event of a message that was removed unread."""
    view = position.view
    return AppendEvent(
        now,
        b"" if view is None else view.identity,
        EVENTS.get(message_class, "rejected"),
        reason,
        int(message_class),
        position.queue.definition.path,
    )
