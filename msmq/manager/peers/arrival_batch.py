"""Messages that arrived together on one session, while they are decided and stored."""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.session import ISession
from msmq.manager.answers import AcknowledgementBatch
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
    @ivar last_recoverable: the number of the last one that may be acknowledged once all is stored.
    @ivar answers: the acknowledgements for their senders.
    @ivar peer: the bytes of the GUID of the peer; C{None} if messages of others are accepted from it
        by direct names as well.
    @ivar dead_letters: dead letters of refused messages; they are stored and shown with the others.
    @ivar changes: what has to be stored for those, with the events of the stored ones.
    @ivar express: messages of which the express ones are known as duplicates from now on.
    @ivar is_judged: they have to be stored with what judged them.
    @ivar acknowledgements: what follows from OrderAcks and FinalAcks among them.
    @ivar proofs: administration acknowledgements among them that journal copies wait for.
    @ivar refused: which of them their security forbids to take.
    @ivar unverified: recoverable ones whose sender nothing verifies, from an address that is not trusted.
    @ivar is_cut: an acknowledgement among them is not looked at, and nothing from it on may be acknowledged.
    @ivar is_short_of_streams: one of them needs a stream beyond the limit of its host.
    @ivar close: why the session closes, if it does.
    """

    session: ISession
    first_recoverable: int
    answers: AcknowledgementBatch
    peer: bytes | None
    last_recoverable: int = attrs.field(init=False)
    refused: Mapping[UserMessageView, Refused] = attrs.field(factory=dict)
    unverified: Container[UserMessageView] = ()
    dead_letters: list[MessagePosition] = attrs.field(factory=list)
    changes: list[Change] = attrs.field(factory=list)
    express: list[UserMessageView] = attrs.field(factory=list)
    is_judged: bool = False
    is_cut: bool = False
    is_short_of_streams: bool = False
    acknowledgements: list[Deferred[bool]] = attrs.field(factory=list)
    proofs: AwaitingValue | None = None
    close: CloseReason | None = None

    def __attrs_post_init__(self) -> None:
        self.last_recoverable = self.first_recoverable - 1
