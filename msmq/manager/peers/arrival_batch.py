"""Messages that arrived together on one session, with their decision, until they are stored."""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.session import ISession
from msmq.manager.acknowledgement_batch import AcknowledgementBatch
from msmq.manager.securing.inspection import Refused
from msmq.persistence.changes import Change
from msmq.queues.queue import MessagePosition
from msmq.session.effects import CloseReason
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.awaiting_acknowledgements import AwaitingValue


@attrs.define(eq=False)
class ArrivalBatch:
    """Messages that arrived together on one session.

    @ivar first_recoverable: the number of the first recoverable one.
    @ivar last_recoverable: the number of the last one that may be acknowledged after the commit.
    @ivar answers: the acknowledgements for their senders.
    @ivar peer: the bytes of the GUID of the peer; C{None} if it may also forward messages of others to direct
    names.
    @ivar dead_letters: dead letters of refused messages, stored and shown with the batch.
    @ivar dropped: the number of those that reached a limit.
    @ivar changes: the changes for those, and the events of stored messages.
    @ivar express: messages whose express ones are recorded for duplicate detection.
    @ivar is_classified: they have to be stored with the changed history.
    @ivar acknowledgements: the results of OrderAcks and FinalAcks among them.
    @ivar proofs: administration acknowledgements among them that journal copies wait for.
    @ivar refused: which of them the security checks refuse.
    @ivar unverified: recoverable ones from unauthenticated senders at untrusted addresses.
    @ivar is_cut: an acknowledgement among them was not processed; it and all later messages are not
    acknowledged.
    @ivar is_short_of_streams: one of them needs a stream over the limit of its host.
    @ivar growth: bytes by which the packets of forwarded messages are larger than those that arrived.
    @ivar close: the reason for closing the session, if any.
    """

    session: ISession
    first_recoverable: int
    answers: AcknowledgementBatch
    peer: bytes | None
    last_recoverable: int = attrs.field(init=False)
    refused: Mapping[UserMessageView, Refused] = attrs.field(factory=dict)
    unverified: Container[UserMessageView] = ()
    dead_letters: list[MessagePosition] = attrs.field(factory=list)
    dropped: int = 0
    changes: list[Change] = attrs.field(factory=list)
    express: list[UserMessageView] = attrs.field(factory=list)
    is_classified: bool = False
    is_cut: bool = False
    is_short_of_streams: bool = False
    growth: int = 0
    acknowledgements: list[Deferred[bool]] = attrs.field(factory=list)
    proofs: AwaitingValue | None = None
    close: CloseReason | None = None

    def __attrs_post_init__(self) -> None:
        self.last_recoverable = self.first_recoverable - 1
