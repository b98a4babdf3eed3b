"""Who a signed message says has sent it, and the account that its sender is. [MS-MQQB] 3.1.5.8.3.

The SecurityHeader ([MS-MQMQ] 2.2.20.6) states an identifier and its type. A valid signature proves that the
owner of the certificate, or of the key, made it; the directory, or the machine's own certificates, have to
show that this owner is the one stated.
"""

from __future__ import annotations

from uuid import UUID

import attrs

from msmq.structures.packet.security_header import SenderIdType
from msmq.transfer.security.message_requirements import SecurityFault
from msmq.transfer.security.signature_rules import signature_fault
from msmq.windows.well_known_sids import EVERYONE
from msmq.wire.guid import guid_from_bytes
from msmq.wire.sid import format_sid


@attrs.frozen
class StatedUser:
    """A user; the certificate has to be one of this user.

    @ivar sid: the SID as text.
    """

    sid: str


@attrs.frozen
class StatedQueueManager:
    """The source queue manager itself; the key has to be one that it has published."""

    identifier: UUID


@attrs.frozen
class NoStatedSender:
    """No sender: the signature authenticates no sender."""

    reason: str = "it has no sender identifier"


StatedSender = StatedUser | StatedQueueManager | NoStatedSender


def stated_sender(
    sender_id_type: int, security_id: bytes, source_queue_manager: bytes
) -> StatedSender | SecurityFault:
    """The sender that a signed message states, or why the message is refused.

    @param sender_id_type: ST of the SecurityHeader.
    @param security_id: SecurityID, a SID or the 16 bytes of a GUID.
    @param source_queue_manager: SourceQueueManager of the UserHeader, 16 bytes.
    """
    match sender_id_type:
        case SenderIdType.NONE:
            return NoStatedSender()
        case SenderIdType.QUEUE_MANAGER:
            if len(security_id) != 16 or security_id != source_queue_manager:
                return signature_fault("it is signed by another queue manager than the one that sent it")
            return StatedQueueManager(guid_from_bytes(security_id))
    try:
        sid = format_sid(security_id)
    except ValueError:
        return signature_fault(f"its sender identifier of {len(security_id)} bytes is not a SID")
    if sender_id_type != SenderIdType.SID:
        return signature_fault(f"its sender identifier is of type {sender_id_type}, which is unknown")
    return StatedUser(sid)


def unproven_fault(path: str, reason: str, *, authenticate: bool) -> SecurityFault | None:
    """Why a message is refused whose valid signature authenticates no sender; C{None} if it is accepted.

    A queue that accepts only authenticated messages refuses it; elsewhere it counts as not authenticated.

    @param path: of the queue.
    @param reason: why the sender is not authenticated.
    @param authenticate: Authentication of the queue.
    """
    if not authenticate:
        return None
    return signature_fault(f"{path} accepts only authenticated messages: it is signed, but {reason}")


def account_of(sender: bytes | None, sender_id_type: int | None) -> bytes | None:
    """The SID whose rights an authenticated sender has; C{None} for an unauthenticated one.

    A queue manager has no account of its own here, so it has the rights of everyone.

    @param sender: the authenticated SID or GUID; C{None} without one.
    @param sender_id_type: ST of the SecurityHeader; C{None} without a header.
    """
    if sender is None:
        return None
    return EVERYONE if sender_id_type == SenderIdType.QUEUE_MANAGER else sender
