"""Messages that arrived together on one session, while it is decided what becomes of them."""

from __future__ import annotations

from collections.abc import Container, Mapping

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.session import ISession
from msmq.manager.answers import Answers
from msmq.manager.securing.arrival import Refused
from msmq.queues.changes import Change
from msmq.queues.position import MessagePosition
from msmq.session.effects import CloseReason
from msmq.session.ordering.incoming_stream import Verdict
from msmq.structures.user_message_view import UserMessageView


@attrs.define(eq=False)
class Batch:
    """Messages that arrived together on one session.

    @ivar first_recoverable: the number of the first recoverable one.
    @ivar last_recoverable: the number of the last one that may be acknowledged once all is stored.
    @ivar verdicts: what was found of those that were judged.
    @ivar answers: what their senders are told.
    @ivar letters: dead letters of refused messages; they are stored and shown with the others.
    @ivar changes: what has to be stored for those, with the events of the stored ones.
    @ivar express: messages of which the express ones are known as duplicates from now on.
    @ivar is_judged: they have to be stored with what judged them.
    @ivar acknowledgements: what follows from OrderAcks and FinalAcks among them.
    @ivar refused: which of them their security forbids to take.
    @ivar strange: recoverable ones of which nothing tells who sent them, from where nobody is taken at his
        word.
    @ivar is_cut: nothing that follows may be acknowledged.
    @ivar close: why the session closes, if it does.
    """

    session: ISession
    first_recoverable: int
    answers: Answers
    last_recoverable: int = attrs.field(init=False)
    verdicts: dict[UserMessageView, Verdict] = attrs.field(factory=dict)
    refused: Mapping[UserMessageView, Refused] = attrs.field(factory=dict)
    strange: Container[UserMessageView] = ()
    letters: list[MessagePosition] = attrs.field(factory=list)
    changes: list[Change] = attrs.field(factory=list)
    express: list[UserMessageView] = attrs.field(factory=list)
    is_judged: bool = False
    is_cut: bool = False
    acknowledgements: list[Deferred[bool]] = attrs.field(factory=list)
    close: CloseReason | None = None

    def __attrs_post_init__(self) -> None:
        self.last_recoverable = self.first_recoverable - 1
