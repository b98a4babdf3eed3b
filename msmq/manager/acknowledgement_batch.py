"""Administration acknowledgements, stored with what they report. [MS-MQQB] 3.1.5.8.10 and 3.1.7.2.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar

import attrs
from twisted.logger import Logger

from msmq.background import run_in_background
from msmq.manager.performer import Performer
from msmq.manager.result_records import MessageResult, removal_of
from msmq.manager.waiting_results import WaitingResults
from msmq.persistence.changes import Change
from msmq.queues.arriving.admission import Admission, EnqueueStatus
from msmq.queues.holdings import forget_queues
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.acknowledgements import is_order_queue
from msmq.transfer.decisions.final_ack_decision import may_be_answered
from msmq.wire.reader import Reader

Answer = tuple[Queue, UserMessageView]
"""A packet of this queue manager, and its destination queue."""


@attrs.frozen
class LaterAnswer:
    """An answer for a public queue that has to be looked up first.

    @ivar name: that queue.
    @ivar view: its packet without the owner of the queue; C{None} for an answer that a crash may lose.
    @ivar about: the 20 bytes of the message's identifier.
    @ivar begin: looks the queue up and sends the answer; called once what it reports is stored, with the
        number of the record of the answer, 0 if it has none.
    """

    name: FormatName
    view: UserMessageView | None
    about: bytes
    message_class: MessageClass
    begin: Callable[[int], object]


AcknowledgementBuilder = Callable[
    [UserMessageView, MessageClass, bool, "str | None"], Iterable[Answer | LaterAnswer]
]
"""Makes the answers to one message; may raise L{MQError}. The flag says that it was refused on arrival, the
text where alone its sender may be."""


class AcknowledgementBatch:
    """[MS-MQQB] 3.1.7.15 and 3.1.7.17: the acknowledgements of some messages, stored atomically with their
    cause.

    The change of the messages and their acknowledgements are one batch of the store, so a crash neither loses
    nor repeats an acknowledgement.
    An acknowledgement that cannot be created is dropped; its message is not affected.

    After L{prepare} the changes are to be stored with those of the messages; then L{show} has to follow, or
    L{withdraw} if they were not stored.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        make: AcknowledgementBuilder,
        waiting: WaitingResults,
        counts: Counter[str],
        results: Sequence[MessageResult] = (),
    ) -> None:
        """Begin a batch.

        @param waiting: keeps results of messages that leave while the store is full.
        @param counts: counts those that are sent, as C{final} and C{administration}.
        @param results: its first acknowledgements, which were made before.
        """
        self._performer = performer
        self._make = make
        self._waiting = waiting
        self._counts = counts
        self._results = list(results)
        # With the numbers of their records.
        self._later: list[tuple[LaterAnswer, int]] = []
        self._reservations: Sequence[Change] = ()
        self._removed: list[MessageResult] = []
        self._admission: Admission | None = None
        self._has_no_space: list[MessageResult] = []

    def add(
        self,
        views: Iterable[UserMessageView],
        message_class: MessageClass,
        *,
        is_refusal: bool = False,
        only_at: str | None = None,
    ) -> None:
        """Add the acknowledgements of these messages.

        @param is_refusal: they were refused on arrival; the sender of a transactional one is notified of that
        in any case (reading 51).
        @param only_at: the address that they came from, if nothing else authenticates their sender: FinalAcks
        are sent only there.
        """
        for view in views:
            if not may_be_answered(view, message_class):
                continue
            try:
                for answer in self._make(view, message_class, is_refusal, only_at):
                    if isinstance(answer, tuple):
                        result = MessageResult(
                            *answer,
                            about=view.identity,
                            message_class=message_class,
                            is_bound=not is_refusal,
                            is_awaited=view.is_transactional,
                        )
                        self._results.append(result)
                    else:
                        self._later.append((answer, 0))
            except MQError as error:
                self._drop(view.identity, message_class, error)

    def prepare(self, *, is_with_messages: bool = True, ignores_throttle: bool = False) -> Sequence[Change]:
        """Enqueue the acknowledgements, still invisible; returns the changes to store.

        What has no space while the store is full waits for it; the changes record that, as far as its sender
        waits for it. They record recoverable ones for queues that have to be looked up, too.

        @param is_with_messages: they are stored with the changes of their messages, which have not left yet.
        @param ignores_throttle: store them although the store was full the last time.
        """
        looked_up = self._record_later() if self._later and is_with_messages else []
        results = self._results
        if not results:
            return looked_up
        performer = self._performer
        storage = performer.model.storage
        is_throttled = storage.throttled and not ignores_throttle
        # Those about messages that leave a queue replace them, as copies in a journal do, and those about
        # messages that arrive are as few as these: at a full queue manager they would be dropped, and the
        # sender would never learn the result. Refused messages need no space, so their number has no bound.
        bound = sum(result.view.size for result in results if result.is_bound)
        others = sum(result.view.size for result in results if not result.is_bound)
        spare = storage.spare_for(bound, others)
        if bound + others > storage.free_with(spare, ignores_throttle=ignores_throttle):
            # The others must not use the bytes of these, so they come last.
            results.sort(key=lambda result: not result.is_bound)
        self._admission = admission = performer.model.admit(
            [(result.queue, result.view) for result in results],
            performer.clock.now(),
            spare=spare,
            ignores_throttle=ignores_throttle,
        )
        refused = {refusal.index: refusal.status for refusal in admission.refusals}
        self._results = [result for index, result in enumerate(results) if index not in refused]
        self._removed = [result for result in self._results if result.record]
        records = [*looked_up, *map(removal_of, self._removed)]
        for index, status in refused.items():
            result = results[index]
            is_full = status is EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED and is_throttled
            if is_full and result.is_bound:
                self._has_no_space.append(result)
            else:
                if result.record:
                    self._removed.append(result)
                    records.append(removal_of(result))
                self._drop(result.about, result.message_class, status.name)
        if is_with_messages and self._has_no_space:
            self._has_no_space, recorded = self._waiting.recorded(self._has_no_space)
            records += recorded
        return [*admission.changes, *records] if records else admission.changes

    def _record_later(self) -> list[Change]:
        """Record the answers for queues that have to be looked up: a crash meanwhile would lose them."""
        changes: list[Change] = []
        later: list[tuple[LaterAnswer, int]] = []
        for answer, record in self._later:
            if answer.view is not None:
                record, recorded = self._waiting.recorded_name(
                    answer.name, answer.view, answer.about, answer.message_class
                )
                changes += recorded
            later.append((answer, record))
        self._later = later
        if changes:
            # Their MessageIDs are not used again.
            self._reservations = self._performer.model.reservations()
            changes += self._reservations
        return changes

    @property
    def queues(self) -> Collection[Queue]:
        """The queues of the acknowledgements, after L{prepare}."""
        return () if self._admission is None else self._admission.groups

    def show(self) -> None:
        """The changes are stored: make the acknowledgements available for sending."""
        if self._reservations:
            self._performer.model.stored(self._reservations)
        if self._removed:
            self._waiting.withdraw(self._removed)
        if self._later or self._has_no_space:
            self._begin_others()
        admission = self._admission
        if admission is not None:
            for queue, positions in admission.groups.items():
                is_final = isinstance(queue, OutgoingQueue) and is_order_queue(queue.destination)
                self._counts["final" if is_final else "administration"] += len(positions)
            performer = self._performer
            performer.overflow(admission)
            performer.perform(performer.model.commit(admission, performer.clock.now()))

    def withdraw(self) -> None:
        """The changes were not stored: discard the acknowledgements."""
        for _, record in self._later:
            self._waiting.withdraw_record(record)
        self._later.clear()
        self._waiting.withdraw(self._has_no_space)
        self._has_no_space.clear()
        admission = self._admission
        if admission is not None:
            self._performer.model.withdraw(admission)
            forget_queues(admission.overflow, admission.groups)

    def send(self) -> None:
        """Store and show the acknowledgements in a commit of their own: their messages have left already.

        If the store fails they wait until it works.
        """
        changes = self.prepare(is_with_messages=False)
        self._begin_others()
        if changes:
            run_in_background(self._send(changes), "sending acknowledgements")
        else:
            self.show()

    async def store(self, *, ignores_throttle: bool = False) -> None:
        """As L{send}, but the caller keeps them if the store fails.

        @param ignores_throttle: as for L{prepare}.
        @raise MQError: it failed; none of them was sent.
        """
        await self._store(self.prepare(is_with_messages=False, ignores_throttle=ignores_throttle))

    async def _send(self, changes: Sequence[Change]) -> None:
        try:
            await self._store(changes)
        except MQError as error:
            for result in self._results:
                if result.is_bound or result.record:
                    self._has_no_space.append(result)
                else:
                    self._drop(result.about, result.message_class, error)
            self._begin_others()

    async def _store(self, changes: Sequence[Change]) -> None:
        try:
            await self._performer.commit(changes)
        except MQError:
            self.withdraw()
            raise
        self.show()

    def _begin_others(self) -> None:
        """Begin what waits for something else than the changes: the directory, or space."""
        later, self._later = self._later, []
        for answer, record in later:
            answer.begin(self._waiting.stored_name(record))
        if self._has_no_space:
            excess, self._has_no_space = self._waiting.add(self._has_no_space), []
            for result in excess:
                self._drop(result.about, result.message_class, "too many wait for the store")

    def _drop(self, about: bytes, message_class: MessageClass, why: object) -> None:
        if (others := self._performer.peer_line("acknowledgement")) is not None:
            self.log.warn(
                "acknowledgement {name} of message {message} not sent: {why}{others}",
                name=message_class.name,
                message=MessageIdentifier.read(Reader(about)),
                why=why,
                others=others,
            )
