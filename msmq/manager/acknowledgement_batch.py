"""Administration acknowledgements, stored with what they report. [MS-MQQB] 3.1.5.8.10 and 3.1.7.2.1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.manager.performer import Performer
from msmq.persistence.changes import Change
from msmq.queues.arriving.admission import Admission
from msmq.queues.holdings import forget_queues
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.decisions.final_ack_decision import may_be_answered

Answer = tuple[Queue, UserMessageView]
"""A packet of this queue manager, and its destination queue."""

LaterAnswer = Callable[[], object]
"""Begins to send an answer that has to wait for something; called once what it reports is stored."""

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

    def __init__(self, performer: Performer, make: AcknowledgementBuilder) -> None:
        self._performer = performer
        self._make = make
        self._arrivals: list[Answer] = []
        self._about: list[tuple[UserMessageView, MessageClass]] = []
        # Which of them are about messages that leave or arrive, not refused ones, and the bytes of these.
        self._bound: list[bool] = []
        self._bound_bytes = 0
        self._later: list[LaterAnswer] = []
        self._admission: Admission | None = None

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
                    if not isinstance(answer, tuple):
                        self._later.append(answer)
                        continue
                    self._arrivals.append(answer)
                    self._about.append((view, message_class))
                    self._bound.append(not is_refusal)
                    if not is_refusal:
                        self._bound_bytes += answer[1].size
            except MQError as error:
                self._drop(view, message_class, error)

    def prepare(self) -> Sequence[Change]:
        """Enqueue the acknowledgements, still invisible; returns the changes to store."""
        if not self._arrivals:
            return ()
        performer = self._performer
        storage = performer.model.storage
        # Those about messages that leave a queue replace them, as copies in a journal do, and those about
        # messages that arrive are as few as these: at a full queue manager they would be dropped, and the
        # sender would never learn the result. Refused messages need no space, so their number has no bound.
        size = sum(view.size for _, view in self._arrivals)
        spare = storage.spare_for(self._bound_bytes, size - self._bound_bytes)
        if size > storage.free_with(spare):
            # The others must not use the bytes of these, so they come last.
            order = sorted(range(len(self._arrivals)), key=lambda index: not self._bound[index])
            self._arrivals = [self._arrivals[index] for index in order]
            self._about = [self._about[index] for index in order]
        self._admission = admission = performer.model.admit(
            self._arrivals, performer.clock.now(), spare=spare
        )
        for refusal in admission.refusals:
            self._drop(*self._about[refusal.index], refusal.status.name)
        return admission.changes

    @property
    def queues(self) -> Collection[Queue]:
        """The queues of the acknowledgements, after L{prepare}."""
        return () if self._admission is None else self._admission.groups

    def show(self) -> None:
        """The changes are stored: make the acknowledgements available for sending."""
        self._begin_later()
        admission = self._admission
        if admission is not None:
            performer = self._performer
            performer.overflow(admission)
            performer.perform(performer.model.commit(admission, performer.clock.now()))

    def withdraw(self) -> None:
        """The changes were not stored: discard the acknowledgements."""
        self._later.clear()
        admission = self._admission
        if admission is not None:
            self._performer.model.withdraw(admission)
            forget_queues(admission.overflow, admission.groups)

    def send(self) -> None:
        """Store and show the acknowledgements in a commit of their own: their messages have left already."""
        self._begin_later()
        changes = self.prepare()
        if changes:
            Deferred.fromCoroutine(self._store(changes))
        else:
            self.show()

    def _begin_later(self) -> None:
        later, self._later = self._later, []
        for begin in later:
            begin()

    async def _store(self, changes: Sequence[Change]) -> None:
        try:
            await self._performer.commit(changes)
        except MQError as error:
            self.withdraw()
            for view, message_class in self._about:
                self._drop(view, message_class, error)
        else:
            self.show()

    def _drop(self, view: UserMessageView, message_class: MessageClass, why: object) -> None:
        if (others := self._performer.peer_line("acknowledgement")) is not None:
            self.log.warn(
                "acknowledgement {name} of message {message} not sent: {why}{others}",
                name=message_class.name,
                message=view.identifier,
                why=why,
                others=others,
            )
