"""Authentication and PrivacyLevel: requirements of a queue for arriving messages. [MS-MQDMPR] 3.1.1.2."""

from __future__ import annotations

from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted, Outcome, Refused
from msmq.persistence.definition import QueuePrivacy
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass


class QueueRequirements:
    """Refuses messages without a required signature, or with a body of the wrong privacy (reading 70).

    Other steps verify the signature and decrypt the body.
    """

    message_class = MessageClass.NACK_BAD_SIGNATURE

    def guards(self, session: ISession, queue: Queue) -> bool:
        """See L{SecurityStep.guards<msmq.manager.securing.inspection.SecurityStep.guards>}."""
        definition = queue.definition
        return definition.authenticate or definition.privacy is QueuePrivacy.BODY

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Outcome:
        """See L{SecurityStep.check<msmq.manager.securing.inspection.SecurityStep.check>}."""
        definition = queue.definition
        if definition.authenticate and not message.is_signed:
            return Refused(
                MessageClass.NACK_BAD_SIGNATURE,
                f"{definition.path} accepts only authenticated messages, and it is not signed",
            )
        is_encrypted = message.security is not None and message.security.is_body_encrypted
        if definition.privacy is QueuePrivacy.BODY and not is_encrypted:
            return Refused(
                MessageClass.NACK_BAD_ENCRYPTION,
                f"{definition.path} accepts only encrypted messages (privacy body), and its body is in clear",
            )
        if definition.privacy is QueuePrivacy.NONE and is_encrypted:
            return Refused(
                MessageClass.NACK_BAD_ENCRYPTION,
                f"{definition.path} accepts no encrypted messages (privacy none), and its body is encrypted",
            )
        return message
