"""Access check for acknowledgements into a local queue that a remote message requests.

A message names its administration queue itself, and a negative acknowledgement contains its body ([MS-MQQB]
3.1.7.15). So a sender with access to one queue could have any contents written to another queue, to which it
has no access, since messages of the queue manager itself are not checked.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.line_limit import LineLimit
from msmq.manager.securing.inspection import Accepted, Answer, Outcome, Refused
from msmq.manager.securing.queue_access_check import QueueAccessCheck
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import PrivateFormatName, PublicFormatName
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_rewrites import with_admin_queue, without_acknowledgements
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.guid import NULL_GUID

LINES: Final = 2
"""Lines of the log in a minute about acknowledgements that are not put into a queue."""

_NULL: Final = NULL_GUID.bytes_le


class ReplyAccessCheck:
    """Suppresses acknowledgements into a local queue into which the sender may not write.

    The message itself is accepted; a remote administration queue is protected by its own queue manager.
    A queue that accepts only authenticated messages gets no acknowledgement of one whose sender is not
    authenticated.
    With access control, a local queue that does not exist counts as closed, since a queue of that name may be
    created, for other senders, while the message waits to be received. For the same reason a direct name in
    the message is replaced by the queue's format name, which is never used for another queue.
    """

    log: ClassVar[Logger] = Logger()
    name = "the access check of the administration queue"
    message_class = MessageClass.NACK_ACCESS_DENIED

    def __init__(self, model: QueueManagerModel, admission: QueueAccessCheck, clock: IClock) -> None:
        self._model = model
        self._own = model.identifier.bytes_le
        self._admission = admission
        self._clock = clock
        self._lines = LineLimit.a_minute(LINES)

    def concern(self, message: UserMessageView) -> bool:
        """Whether acknowledgements of it would go into a local queue with restricted write access, or into a
        local queue that does not exist; or into a local queue that has a direct name there.
        """
        is_local, queue = self._local(message)
        if not is_local:
            return False
        is_replaced = self._admission.has_descriptors and _admin_kind(message) is QueueNameKind.DIRECT
        return is_replaced or self._is_closed(queue)

    def guards(self, session: ISession, queue: Queue) -> bool:
        """False: this does not depend on the destination queue."""
        return False

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """See L{SecurityStep.check<msmq.manager.securing.inspection.SecurityStep.check>}."""
        is_local, asked = self._local(message.view)
        if not is_local:
            return message
        if asked is None:
            if not self._admission.has_descriptors:
                return message
            return self._suppressed(message, "there is no such queue")
        if message.sender is None and asked.definition.authenticate:
            reason = f"{asked.definition.path} accepts only authenticated messages, and its sender is not"
            return self._suppressed(message, reason)
        # A queue that is open to every account may still deny the one that is authenticated.
        if message.sender is None and self._admission.is_open(asked):
            return self._bound(message, asked)
        judged = self._admission.check_access(asked, message)
        if isinstance(judged, Deferred):
            later: Deferred[Outcome] = judged.addCallback(self._outcome, message, asked)
            return later
        return self._outcome(judged, message, asked)

    def silenced(self, message: UserMessageView) -> UserMessageView:
        """A message in transit, or a refused one: its sender was not authenticated."""
        is_local, queue = self._local(message)
        if is_local and self._is_closed(queue):
            self._log_suppression(message, "its sender is not authenticated")
            return without_acknowledgements(message)
        return message

    def _is_closed(self, queue: Queue | None) -> bool:
        """Whether an unauthenticated sender may not write to a local queue, or there is none."""
        if queue is None:
            return self._admission.has_descriptors
        return queue.definition.authenticate or not self._admission.is_open(queue)

    def _outcome(self, judged: Outcome, message: Accepted, asked: Queue) -> Outcome:
        if isinstance(judged, Refused):
            return self._suppressed(message, judged.reason)
        return self._bound(message, asked)

    def _suppressed(self, message: Accepted, reason: str) -> Accepted:
        self._log_suppression(message.view, reason)
        return attrs.evolve(message, view=without_acknowledgements(message.view))

    def _bound(self, message: Accepted, asked: Queue) -> Accepted:
        """The message with the format name of the queue that was checked, in place of a direct name."""
        if not self._admission.has_descriptors or _admin_kind(message.view) is not QueueNameKind.DIRECT:
            return message
        name = self._model.format_name(asked)
        if asked.parent is not None or not isinstance(name, PrivateFormatName | PublicFormatName):
            # Neither a subqueue nor a system queue can be sent to.
            return message
        try:
            view = with_admin_queue(message.view, name)
        except LocalProtocolError as error:
            return self._suppressed(message, f"its packet with {name} cannot be stored: {error}")
        return attrs.evolve(message, view=view)

    def _log_suppression(self, message: UserMessageView, reason: str) -> None:
        if (others := self._lines.take(self._clock.now())) is not None:
            self.log.warn(
                "no acknowledgement of message {message} is put into its administration queue here:"
                " {reason}{others}",
                message=message.identifier,
                reason=reason,
                others=others,
            )

    def _local(self, message: UserMessageView) -> tuple[bool, Queue | None]:
        """Whether acknowledgements of a message would go into a local queue, and that queue, if it exists."""
        if not message.acknowledge:
            return False, None
        kind = _admin_kind(message)
        if kind is QueueNameKind.PRIVATE_ON_SOURCE and message.source_queue_manager not in (self._own, _NULL):
            # Nearly all are at the sender; the header need not be read.
            return False, None
        try:
            name = message.admin_format_name()
        except MQError:
            return False, None
        if name is None:
            return False, None
        if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
            name = attrs.evolve(name, queue_manager=self._model.identifier)
        if not self._model.is_local(name):
            return False, None
        return True, self._model.find(name)


def _admin_kind(message: UserMessageView) -> QueueNameKind:
    return QueueNameKind((message.flags & UserHeader.AQ) >> UserHeader.AQ_SHIFT)
