"""Sends report messages about traced messages. [MS-MQQB] 3.1.5.8.9."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.background import run_in_background
from msmq.interfaces.session import ISession
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.manager.securing.inspection import Accepted, Answer, Refused
from msmq.queues.arriving.reports import TraceReport, report
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

_TRACED: Final = BaseHeader.TR >> 8
"""TR in the second byte of BaseHeader.Flags, at offset 3 of a packet."""


class WriteAccess(Protocol):
    """L{msmq.manager.securing.queue_access_check.QueueAccessCheck}."""

    def check_access(self, queue: Queue, message: Accepted) -> Answer:
        """Check whether the sender of a message may write to a queue."""


class Reports:
    """One report of each arrival, and of each sending. [MS-MQQB] 3.1.5.8.9 and 3.1.7.1.7.

    A message that is sent again is reported again. A report is sent like any express message; one
    whose queue cannot be opened is discarded, as is one for a local queue into which the sender of the traced
    message may not write: the sender names the queue, and a part of the report is text of its choice.
    For messages of local applications that is checked when they are sent.

    @param access: checks the sender of a message from another queue manager.
    @ivar sent: reports that were sent.
    @ivar discarded: reports whose queue could not be opened, was full, or is closed to the sender.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, outbox: Outbox, access: WriteAccess) -> None:
        self._performer = performer
        self._outbox = outbox
        self._access = access
        self.sent = 0
        self.discarded = 0

    def arrived(self, messages: Iterable[UserMessageView]) -> None:
        """These messages of other queue managers have arrived, and are stored if recoverable."""
        for view in messages:
            if view.base_flags & BaseHeader.TR:
                self._report(view, None, is_own=False)

    def departed(self, session: ISession, packets: Iterable[bytes], *, is_transit: bool) -> None:
        """These packets were sent over a session.

        @param is_transit: they are those of messages of other queue managers.
        """
        for packet in packets:
            if packet[3] & _TRACED:
                self._report(UserMessageView(packet), session.remote_address, is_own=not is_transit)

    def _report(self, view: UserMessageView, next_hop: str | None, *, is_own: bool) -> None:
        performer = self._performer
        identifier = performer.model.identifier
        made = report(view, performer.clock.now(), queue_manager=identifier, next_hop=next_hop)
        if made is not None:
            run_in_background(self._send(made, view, is_own=is_own), "sending a trace report")

    async def _send(self, made: TraceReport, view: UserMessageView, *, is_own: bool) -> None:
        try:
            if not is_own:
                await self._check_access(made, view)
            await self._outbox.send_own(made.destination, made.message, view.source_queue_manager)
        except MQError as error:
            self.discarded += 1
            if (others := self._performer.peer_line("report")) is not None:
                self.log.warn(
                    "report of message {message} to {queue} discarded: {error}{others}",
                    message=view.identifier,
                    queue=made.destination,
                    error=error,
                    others=others,
                )
        else:
            self.sent += 1

    async def _check_access(self, made: TraceReport, view: UserMessageView) -> None:
        """Check whether the sender of a traced message may write to its queue for reports, if that is local.

        @raise MQError: MQ_ERROR_ACCESS_DENIED, also for an unauthenticated sender if the queue accepts only
            authenticated messages.
        """
        queue = self._performer.model.find(made.destination)
        if queue is None:
            return
        # The inspection of the message has set the level, and NONE for one in transit.
        security = view.security
        is_authenticated = view.authentication_level is not AuthenticationLevel.NONE
        if queue.definition.authenticate and not is_authenticated:
            path = queue.definition.path
            raise MQError(
                Status.MQ_ERROR_ACCESS_DENIED,
                f"{path} accepts only authenticated messages, and the sender is not",
            )
        sender = security.security_id if security is not None and is_authenticated else None
        answer = self._access.check_access(queue, Accepted(view, security, sender=sender))
        outcome = await answer if isinstance(answer, Deferred) else answer
        if isinstance(outcome, Refused):
            raise MQError(Status.MQ_ERROR_ACCESS_DENIED, outcome.reason)
