"""Duplicate detection of recoverable messages. [MS-MQQB] 3.1.1.3, 3.1.5.8.1 and 3.1.6.7."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from struct import Struct
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.settings import SessionSettings
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView, have_one_shape

PREFIX: Final = "duplicates/"
"""Prefix of the names of stored values; a number follows."""

IDENTITY_SIZE: Final = 20

MESSAGE_ID: Final = slice(56, 60)
"""The offset of UserHeader.MessageID in a packet."""

_VERSION: Final = 1
_U32: Final = 0xFFFFFFFF
_HEAD: Final = Struct("<BII")


def duplicate_key(view: UserMessageView) -> bytes:
    """The 20 bytes that identify a message and its destination.

    They are its original sender and MessageID. The copies of a message to several queues share these, and two
    of
    them may be for queues of one queue manager, so there the name of the destination counts too.
    """
    identity = view.source_queue_manager + view.packet[MESSAGE_ID]
    if view.flags & UserHeader.MQ:
        return blake2b(identity + view.destination_key, digest_size=IDENTITY_SIZE).digest()
    return identity


@attrs.define(eq=False)
class _Page:
    """Entries that were stored in one commit.

    @ivar left: how many of them are still in the table.
    @ivar time: when they were.
    """

    name: str
    left: int = 0
    time: int = 0


@attrs.frozen
class _Entry:
    """MessageIDHistoryEntry, one for all messages of a page that came only once. [MS-MQQB] 3.1.1.3.

    @ivar time: TimeStamp, seconds since 1970-01-01 UTC.
    """

    time: int
    page: _Page


class DuplicateHistory:
    """MessageIDHistoryTable, by first sender and MessageID (reading 46). [MS-MQQB] 3.1.1.3.

    The copies of a message to several queues have an entry each (L{duplicate_key}).

    It covers recoverable messages that are not transactional: sequences detect duplicates of transactional
    ones, and L{ExpressDuplicates<msmq.transfer.express_duplicates.ExpressDuplicates>} those of express ones.
    An entry is stored in one commit with its message, as the state of the incoming streams is. Until its
    batch is stored another copy counts as a duplicate too, but may be acknowledged only then.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        # The oldest first; a duplicate renews its entry.
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._accepted: dict[bytes, None] = {}
        self._in_batch: dict[bytes, None] | None = None
        self._page: _Page | None = None
        self._closed: list[StateChange] = []
        self._closed_in_batch: list[StateChange] = []
        self._numbers = count(1)
        self._deadline: float | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def configure(self, settings: SessionSettings) -> None:
        """Apply another size and lifetime from the next message on."""
        self._settings = settings

    def load(self, state: Mapping[str, bytes], now: Moment) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        last = 0
        pages: list[_Page] = []
        for number, name, value in numbered(state, PREFIX):
            last = number
            with reading(name, value, _VERSION) as reader:
                page = _Page(name, time=reader.u32("TimeStamp"))
                found: dict[bytes, None] = {}
                for _ in range(reader.u32("Count")):
                    identity = reader.bytes(IDENTITY_SIZE, "MessageIdentifier")
                    if identity not in self._entries:
                        found[identity] = None
            self._put(found, page)
            pages.append(page)
        self._numbers = count(last + 1)
        self._closed = [(page.name, None) for page in pages if not page.left]
        self._evict()
        self._start_timer(now)

    # Arrival

    def classify(self, views: Sequence[UserMessageView], now: Moment) -> list[bool]:
        """Whether each message is a duplicate. [MS-MQQB] 3.1.5.8.1.

        Those that are not, and are recoverable and not transactional, count as accepted from now on, unless
        they are taken back.
        """
        entries, accepted = self._entries, self._accepted
        in_turn: Collection[bytes] = self._in_batch or ()
        fresh = self._fresh_run(views, in_turn)
        if fresh is not None:
            accepted.update(fresh)
            return [False] * len(views)
        verdicts: list[bool] = []
        for view in views:
            if not view.is_recoverable or view.is_transactional:
                verdicts.append(False)
                continue
            # As duplicate_key has it, without a call for each message.
            identity = (
                duplicate_key(view)
                if view.flags & UserHeader.MQ
                else view.source_queue_manager + view.packet[MESSAGE_ID]
            )
            entry = entries.get(identity)
            if entry is not None:
                # Others of its page have the entry too.
                entries[identity] = _Entry(now.unix_seconds, entry.page)
                entries.move_to_end(identity)
                verdicts.append(True)
            elif identity in accepted or identity in in_turn:
                verdicts.append(True)
            else:
                accepted[identity] = None
                verdicts.append(False)
        return verdicts

    def _fresh_run(
        self, views: Sequence[UserMessageView], in_turn: Collection[bytes]
    ) -> dict[bytes, None] | None:
        """The identities of recoverable messages of one sender, if none is a duplicate.

        That is nearly everything that arrives; C{None} for all else, of which nothing has been judged then.
        """
        if len(views) < 2 or not have_one_shape(views):
            return None
        first = views[0]
        if not first.is_recoverable or first.is_transactional or first.flags & UserHeader.MQ:
            return None
        source = first.source_queue_manager
        identities = dict.fromkeys([source + view.packet[MESSAGE_ID] for view in views])
        if len(identities) < len(views):
            return None
        # isdisjoint would iterate over all of a history that is no set.
        known = map(self._entries.__contains__, identities)
        pending = map(self._accepted.__contains__, identities)
        being_stored = map(in_turn.__contains__, identities)
        return None if any(known) or any(pending) or any(being_stored) else identities

    def knows(self, view: UserMessageView) -> bool:
        """Whether this recoverable message would be a duplicate now."""
        identity = duplicate_key(view)
        return identity in self._entries or identity in self._accepted or identity in (self._in_batch or ())

    def take_back(self, views: Iterable[UserMessageView]) -> None:
        """Remove messages that were refused for another reason; they may be sent again.

        It has to be called before the next batch begins.
        """
        for view in views:
            self._accepted.pop(duplicate_key(view), None)

    # Commits

    @property
    def must_store(self) -> bool:
        """Whether a message was accepted since the last batch began."""
        return bool(self._accepted)

    def take_changes(self, now: Moment) -> list[StateChange]:
        """Begin a batch: the changes to store in one commit with all messages accepted so far.

        It ends with L{stored} or L{failed}, also if there is nothing to store.

        @raise LocalProtocolError: the previous batch has not ended.
        """
        if self._in_batch is not None:
            raise LocalProtocolError("the history of duplicates is being stored already")
        self._in_batch, self._accepted = self._accepted, {}
        self._closed_in_batch, self._closed = self._closed, []
        changes = list(self._closed_in_batch)
        self._page = None
        if self._in_batch:
            self._page = _Page(f"{PREFIX}{next(self._numbers)}", time=int(now.wall) & _U32)
            head = _HEAD.pack(_VERSION, self._page.time, len(self._in_batch))
            changes.append((self._page.name, b"".join((head, *self._in_batch))))
        return changes

    def stored(self, now: Moment) -> None:
        """End a batch: its messages are stored, and in the history from now on."""
        page = self._page
        identities = self._end_batch()
        if page is not None:
            self._put(identities, page)
        self._evict()
        if self._deadline is None:
            self._start_timer(now)

    def failed(self) -> None:
        """End a batch that could not be stored: messages accepted since it began may be sent again."""
        self._closed = self._closed_in_batch + self._closed
        self._end_batch()
        self._accepted.clear()

    def _end_batch(self) -> dict[bytes, None]:
        if self._in_batch is None:
            raise LocalProtocolError("no history of duplicates is being stored")
        in_turn, self._in_batch = self._in_batch, None
        return in_turn

    # Expiry

    @property
    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} while there are no entries."""
        return self._deadline

    def expire(self, now: Moment) -> None:
        """MessageIDHistory Cleanup Timer Event: remove expired entries. [MS-MQQB] 3.1.6.7."""
        if self._deadline is None or self._deadline > now.monotonic:
            return
        oldest = now.unix_seconds - self._settings.duplicate_lifetime
        while self._entries and next(iter(self._entries.values())).time < oldest:
            self._forget_oldest()
        self._start_timer(now)

    @property
    def has_expired_rows(self) -> bool:
        """Whether the next batch removes rows from the store."""
        return bool(self._closed)

    def _start_timer(self, now: Moment) -> None:
        # [MS-MQQB] 3.1.2.8 MessageIDHistory Cleanup Timer.
        self._deadline = now.monotonic + self._settings.duplicate_lifetime if self._entries else None

    def _evict(self) -> None:
        while len(self._entries) > self._settings.duplicate_entries:
            self._forget_oldest()

    def _put(self, identities: Collection[bytes], page: _Page) -> None:
        self._entries.update(dict.fromkeys(identities, _Entry(page.time, page)))
        page.left += len(identities)

    def _forget_oldest(self) -> None:
        _, entry = self._entries.popitem(last=False)
        entry.page.left -= 1
        if not entry.page.left:
            self._closed.append((entry.page.name, None))
