"""Why a message became a dead letter, in words, and the setting that decides about the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.structures.packet.message_class import MessageClass


@attrs.frozen
class DeadLetterReason:
    """A class of dead letters in words.

    @ivar text: what happened.
    @ivar remedy: the setting, or the action, with which such a message is accepted.
    """

    text: str
    remedy: str


_UNKNOWN: Final = DeadLetterReason(
    "The message was removed without being received.", "Explain shows what is recorded about the message."
)

_SIGNATURE: Final = DeadLetterReason(
    "The signature of the message does not verify, or the queue requires one.",
    "Register the sender's certificate, or create the queue without the authentication requirement.",
)

_REASONS: Final[Mapping[int, DeadLetterReason]] = {
    MessageClass.NACK_BAD_DST_Q: DeadLetterReason(
        "The destination queue does not exist.",
        "Create the queue on the receiving queue manager, or correct the destination in the sender.",
    ),
    MessageClass.NACK_DELETED: DeadLetterReason(
        "An administrator deleted the message before it arrived.", "Requeue it if that was a mistake."
    ),
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: DeadLetterReason(
        "The message did not reach its queue within TimeToReachQueue or TimeToBeReceived.",
        "Restore the connection, or set a longer time to reach the queue in the sender.",
    ),
    MessageClass.NACK_Q_EXCEED_QUOTA: DeadLetterReason(
        "The destination queue was full.",
        "Raise the queue's quota (msmq queue set PATH --quota SIZE), or receive messages from it.",
    ),
    MessageClass.NACK_ACCESS_DENIED: DeadLetterReason(
        "The sender has no permission to send to the queue.",
        "Grant it (msmq acl allow PATH PRINCIPAL send); the page of the queue explains each decision.",
    ),
    MessageClass.NACK_HOP_COUNT_EXCEEDED: DeadLetterReason(
        "The message passed too many routing servers.", "Look for a loop in the routing (msmq route)."
    ),
    MessageClass.NACK_BAD_SIGNATURE: _SIGNATURE,
    MessageClass.NACK_BAD_ENCRYPTION: DeadLetterReason(
        "The body could not be decrypted, or the queue requires encryption.",
        "Publish the current keys of the receiving queue manager, or change the queue's privacy level.",
    ),
    MessageClass.NACK_COULD_NOT_ENCRYPT: DeadLetterReason(
        "The body could not be encrypted, so the message was not sent.",
        "Publish the public key of the receiving queue manager.",
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: DeadLetterReason(
        "The message is transactional and the queue is not.",
        "Create the queue as transactional, or send without a transaction.",
    ),
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: DeadLetterReason(
        "The queue is transactional and the message is not.",
        "Send in a transaction, or create the queue as non-transactional.",
    ),
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: DeadLetterReason(
        "The message was signed or encrypted with an unsupported provider.",
        "Choose a supported provider in the sender.",
    ),
    MessageClass.NACK_Q_DELETED: DeadLetterReason(
        "The queue was deleted before the message was received.",
        "Create the queue again and requeue the message.",
    ),
    MessageClass.NACK_Q_PURGED: DeadLetterReason(
        "The queue was purged before the message was received.", "Requeue it if that was a mistake."
    ),
    MessageClass.NACK_RECEIVE_TIMEOUT: DeadLetterReason(
        "TimeToBeReceived expired while the message waited in its queue.",
        "Receive sooner, or set a longer time to be received in the sender.",
    ),
    MessageClass.NACK_RECEIVE_REJECTED: DeadLetterReason(
        "The receiving application rejected the message.",
        "Correct the application or the message, then requeue it.",
    ),
}


def dead_letter_reason(message_class: int) -> DeadLetterReason:
    """The reason that a class of a dead letter stands for."""
    return _REASONS.get(message_class, _UNKNOWN)
