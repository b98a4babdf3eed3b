"""ApplicationDeadletterQueue: the queue that the sender of a message names for its dead letter.

[MS-MQDMPR] 3.1.1.12, and reading 46.
"""

from __future__ import annotations

from msmq.queues.queue import Queue
from msmq.quoting import shown
from msmq.structures.names.path_name import PathName
from msmq.structures.packet.user_message_view import UserMessageView


def refusal_reason(name: PathName, queue: Queue | None, view: UserMessageView) -> str:
    """Why a queue is not one for the dead letter of a message; empty if it is. Its quota is not looked at.

    @param queue: the local queue with this name, or C{None}.
    """
    if queue is None or queue.is_deleted:
        reason = "does not exist"
    elif queue.is_system or queue.parent is not None:
        reason = "is a system queue, a journal or a subqueue"
    elif queue.definition.transactional != view.is_transactional:
        reason = "is not transactional" if view.is_transactional else "is transactional"
    else:
        return ""
    return f"{shown(str(name))}, the dead-letter queue that its sender chose, {reason}"
