"""Requirements of a queue for the signature and the privacy of messages. [MS-MQDMPR] 3.1.1.2."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.persistence.definition import QueuePrivacy
from msmq.structures.packet.message_class import MessageClass


@attrs.frozen
class SecurityFault:
    """Why a security check refuses a message.

    @ivar message_class: of the negative acknowledgement.
    @ivar reason: a sentence without its subject, the message.
    """

    message_class: MessageClass
    reason: str


_SIGNATURE: Final = MessageClass.NACK_BAD_SIGNATURE
_ENCRYPTION: Final = MessageClass.NACK_BAD_ENCRYPTION


def requirement_fault(
    path: str, *, authenticate: bool, privacy: QueuePrivacy, is_signed: bool, is_encrypted: bool
) -> SecurityFault | None:
    """Why a queue refuses a message before its signature is verified (reading 70).

    @param path: of the queue.
    @param authenticate: Authentication of the queue.
    @param privacy: PrivacyLevel of the queue.
    @param is_signed: the message has a signature, valid or not.
    @param is_encrypted: its body is encrypted.
    """
    if authenticate and not is_signed:
        return SecurityFault(_SIGNATURE, f"{path} accepts only authenticated messages, and it is not signed")
    if privacy is QueuePrivacy.BODY and not is_encrypted:
        return SecurityFault(
            _ENCRYPTION, f"{path} accepts only encrypted messages (privacy body), and its body is in clear"
        )
    if privacy is QueuePrivacy.NONE and is_encrypted:
        return SecurityFault(
            _ENCRYPTION, f"{path} accepts no encrypted messages (privacy none), and its body is encrypted"
        )
    return None
