"""[MS-MQQB] 3.1.5.8.3 whether a message may come into its queue, once it is known who sent it."""

from __future__ import annotations

from msmq.interfaces.session import ISession
from msmq.manager.securing.arrival import Accepted, Answer, Refused
from msmq.manager.securing.gate import Gate
from msmq.queues.queue import Queue
from msmq.structures.message_class import MessageClass


class Admission:
    """The last thing that a message meets before its queue."""

    message_class = MessageClass.NACK_ACCESS_DENIED

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether a message of nobody knows whom may be refused."""
        return self._gate.guards(session, queue)

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """Refuse what proves nothing by its signature, if it comes from an address that is not trusted."""
        if message.sender is None and not self._gate.admits(session.remote_address):
            return Refused(self.message_class, self._gate.refusal(session.remote_address))
        return message
