"""Sends report messages about traced messages. [MS-MQQB] 3.1.5.8.9."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.interfaces.session import ISession
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.queues.arriving.reports import TraceReport, report
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

_TRACED: Final = BaseHeader.TR >> 8
"""TR in the second byte of BaseHeader.Flags, at offset 3 of a packet."""


class Reports:
    """One report of each arrival, and of each sending. [MS-MQQB] 3.1.5.8.9 and 3.1.7.1.7.

    A message that is sent again is reported again. A report is sent like any express message; one
    whose queue cannot be opened is discarded.

    @ivar sent: reports that were sent.
    @ivar discarded: reports whose queue could not be opened, or was full.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, outbox: Outbox) -> None:
        self._performer = performer
        self._outbox = outbox
        self.sent = 0
        self.discarded = 0

    def arrived(self, messages: Iterable[UserMessageView]) -> None:
        """These messages of other queue managers have arrived, and are stored if recoverable."""
        for view in messages:
            if view.base_flags & BaseHeader.TR:
                self._report(view, None)

    def departed(self, session: ISession, packets: Iterable[bytes]) -> None:
        """These packets were sent over a session."""
        for packet in packets:
            if packet[3] & _TRACED:
                self._report(UserMessageView(packet), session.remote_address)

    def _report(self, view: UserMessageView, next_hop: str | None) -> None:
        performer = self._performer
        identifier = performer.model.identifier
        made = report(view, performer.clock.now(), queue_manager=identifier, next_hop=next_hop)
        if made is not None:
            Deferred.fromCoroutine(self._send(made, view))

    async def _send(self, made: TraceReport, view: UserMessageView) -> None:
        try:
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
