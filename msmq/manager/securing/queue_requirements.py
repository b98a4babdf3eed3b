"""Authentication and PrivacyLevel: requirements of a queue for arriving messages. [MS-MQDMPR] 3.1.1.2."""

from __future__ import annotations

from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted, Outcome, Refused
from msmq.persistence.definition import QueuePrivacy
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.security.message_requirements import requirement_fault


class QueueRequirements:
    """Refuses messages without a required signature, or with a body of the wrong privacy (reading 70).

    Other steps verify the signature and decrypt the body.
    """

    name = "the check of what the queue requires"
    message_class = MessageClass.NACK_BAD_SIGNATURE

    def guards(self, session: ISession, queue: Queue) -> bool:
        """See L{SecurityStep.guards<msmq.manager.securing.inspection.SecurityStep.guards>}."""
        definition = queue.definition
        return definition.authenticate or definition.privacy is QueuePrivacy.BODY

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Outcome:
        """See L{SecurityStep.check<msmq.manager.securing.inspection.SecurityStep.check>}."""
        definition = queue.definition
        fault = requirement_fault(
            definition.path,
            authenticate=definition.authenticate,
            privacy=definition.privacy,
            is_signed=message.is_signed,
            is_encrypted=message.security is not None and message.security.is_body_encrypted,
        )
        return message if fault is None else Refused(fault.message_class, fault.reason)
