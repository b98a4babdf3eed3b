"""Arrival history: streams of transactional messages and duplicates of recoverable ones, stored as one.

[MS-MQQB] 3.1.1.3.2: both survive a failure as one, and an arriving message is judged by both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import attrs

from msmq.moment import Moment
from msmq.persistence.state_records import StateChange
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView, different_ones
from msmq.transfer.duplicates import DuplicateHistory
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.incoming_streams import IncomingStreams


@attrs.frozen
class IncomingHistory:
    """The state by which arriving messages are judged.

    Judging advances it; L{take_changes} begins a commit of the changes, which ends with L{stored} or
    L{failed}.

    @ivar streams: the incoming sequences.
    @ivar duplicates: the recent recoverable messages.
    """

    streams: IncomingStreams
    duplicates: DuplicateHistory

    def configure(self, settings: SessionSettings) -> None:
        """Apply other limits and times from the next message on."""
        self.streams.configure(settings)
        self.duplicates.configure(settings)

    def load(self, state: Mapping[str, bytes], now: Moment) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        self.streams.load(state)
        self.duplicates.load(state, now)

    def has_passed(self, message: UserMessageView) -> bool:
        """Whether a message would be a duplicate now."""
        if message.is_transactional:
            return self.streams.has_passed(message)
        return message.is_recoverable and self.duplicates.knows(message)

    def classify(
        self, messages: Sequence[UserMessageView], address: str, now: Moment
    ) -> dict[UserMessageView, Verdict]:
        """The verdicts about messages that are not simply accepted, and about transactional ones.

        @param messages: for this queue manager, in the order in which they came over one connection.
        @param address: the textual address of the peer.
        """
        verdicts: dict[UserMessageView, Verdict] = {}
        transactional: Sequence[UserMessageView] = ()
        if [message for message in different_ones(messages) if message.is_transactional]:
            transactional = [message for message in messages if message.is_transactional]
        if transactional:
            judged = self.streams.classify(transactional, f"TCP:{address}", now)
            verdicts = dict(zip(transactional, judged, strict=True))
        if len(transactional) < len(messages):
            duplicates = self.duplicates.classify(messages, now)
            for message in compress(messages, duplicates) if True in duplicates else ():
                verdicts[message] = Verdict.DUPLICATE
        return verdicts

    def take_changes(self, now: Moment) -> list[StateChange]:
        """Begin a commit: the changes to store with all messages that were judged so far."""
        return self.streams.take_changes() + self.duplicates.take_changes(now)

    def stored(self, now: Moment) -> tuple[float | None, float | None]:
        """End a commit: its messages are stored.

        @return: the monotonic seconds at which an OrderAck is owed, and a duplicate is forgotten, next;
            C{None} for never.
        """
        self.streams.stored(now)
        self.duplicates.stored(now)
        return self.deadlines()

    def failed(self) -> tuple[float | None, float | None]:
        """End a failed commit: its messages may be sent again; returns as L{stored}."""
        self.streams.failed()
        self.duplicates.failed()
        return self.deadlines()

    def deadlines(self) -> tuple[float | None, float | None]:
        """See L{stored}."""
        return self.streams.deadline, self.duplicates.deadline
