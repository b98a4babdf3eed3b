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

from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.line_limit import LineLimit
from msmq.manager.securing.inspection import Accepted, Answer, Outcome, Refused
from msmq.manager.securing.queue_access_check import QueueAccessCheck
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import PrivateFormatName
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import without_acknowledgements
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.guid import NULL_GUID

LINES: Final = 2
"""Lines of the log in a minute about acknowledgements that are not put into a queue."""


class ReplyAccessCheck:
    """Suppresses acknowledgements into a local queue into which the sender may not write.

    The message itself is accepted; a remote administration queue is protected by its own queue manager.
    A local one that does not exist counts as closed: a queue of that name may be created, for other senders,
    while the message waits to be received.
    """

    log: ClassVar[Logger] = Logger()
    message_class = MessageClass.NACK_ACCESS_DENIED

    def __init__(self, model: QueueManagerModel, admission: QueueAccessCheck, clock: IClock) -> None:
        self._model = model
        self._admission = admission
        self._clock = clock
        self._lines = LineLimit.a_minute(LINES)

    def concern(self, message: UserMessageView) -> bool:
        """Whether acknowledgements of it would go into a local queue with restricted write access, or into a
        local queue that does not exist.
        """
        is_local, queue = self._local(message)
        return is_local and (queue is None or not self._admission.is_open(queue))

    def guards(self, session: ISession, queue: Queue) -> bool:
        """False: this does not depend on the destination queue."""
        return False

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """See L{SecurityStep.check<msmq.manager.securing.inspection.SecurityStep.check>}."""
        is_local, asked = self._local(message.view)
        if not is_local:
            return message
        if asked is None:
            return self._outcome(Refused(self.message_class, "there is no such queue"), message)
        # A queue that is open to every account may still deny the one that is authenticated.
        if message.sender is None and self._admission.is_open(asked):
            return message
        judged = self._admission.check_access(asked, message)
        if isinstance(judged, Deferred):
            later: Deferred[Outcome] = judged.addCallback(self._outcome, message)
            return later
        return self._outcome(judged, message)

    def silenced(self, message: UserMessageView) -> UserMessageView:
        """A message in transit, or a refused one: its sender was not authenticated."""
        if message.acknowledge and self.concern(message):
            self._log_suppression(message, "its sender is not authenticated")
            return without_acknowledgements(message)
        return message

    def _outcome(self, judged: Outcome, message: Accepted) -> Outcome:
        if not isinstance(judged, Refused):
            return message
        self._log_suppression(message.view, judged.reason)
        return attrs.evolve(message, view=without_acknowledgements(message.view))

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
        """Whether acknowledgements of a message would go into a local queue that may be protected, and that
        queue, if it exists.
        """
        if not message.acknowledge or not self._admission.has_descriptors:
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
