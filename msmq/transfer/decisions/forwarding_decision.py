"""Decisions about messages in transit: which are forwarded, how, and when a failed one becomes a dead letter.

[MS-MQQB] 3.1.5.8.2 and 3.1.5.8.5; reading 64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from msmq.structures.packet.kept_packet import marked_for_dead_letters
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT
from msmq.structures.packet.user_message_patches import patch_hop_count
from msmq.structures.packet.user_message_view import UserMessageView

NOT_FOR_US: Final = "NOT_FOR_US"
"""This queue manager is not a routing server."""

TOO_MANY_QUEUES: Final = "TOO_MANY_QUEUES"
"""The limit on outgoing queues created on behalf of peers is reached."""

ENTERPRISE_UNKNOWN: Final = "ENTERPRISE_UNKNOWN"
"""The directory was not read yet, so a message may be for a local connector queue of a foreign site."""

PASSING: Final = frozenset({TOO_MANY_QUEUES, ENTERPRISE_UNKNOWN})
"""Temporary reasons: a recoverable message is not acknowledged, so that its sender keeps it."""

_KEPT_CLASSES: Final = dict.fromkeys((NOT_FOR_US, *PASSING), MessageClass.NACK_BAD_DST_Q)
"""The classes of dead letters for reasons without a class on the wire."""

KEPT: Final = "; kept as a dead letter"
"""The addition to the event of a refusal for a message that is kept as a dead letter."""


def passing_refusal(
    message: UserMessageView, *, is_routing_server: bool, is_late: bool
) -> MessageClass | str | None:
    """Why a message for another queue manager is not forwarded. [MS-MQQB] 3.1.5.8.2, 3.1.5.8.5.

    @return: the class of the negative acknowledgement, or a name where the protocol has none; C{None} if it
        is forwarded.
    """
    if is_late:
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT
    if not is_routing_server:
        return NOT_FOR_US
    if message.hop_count >= MAXIMUM_HOP_COUNT:
        return MessageClass.NACK_HOP_COUNT_EXCEEDED
    return None


def route_obstacle(
    message: UserMessageView, *, is_enterprise_unknown: Callable[[], bool], has_room: Callable[[], bool]
) -> str | None:
    """Why a message that may be forwarded has no outgoing queue now; one of L{PASSING}, or C{None}.

    @param is_enterprise_unknown: there are connector queues, and the directory was not read yet, so that a
        message may be for one of them; an express one does not wait for that.
    @param has_room: whether one more outgoing queue may be created for the peer; evaluated last, since it
    drops idle ones.
    """
    if message.is_recoverable and is_enterprise_unknown():
        return ENTERPRISE_UNKNOWN
    return None if has_room() else TOO_MANY_QUEUES


def forwarded_packet(message: UserMessageView, *, keeps_dead_letter: bool) -> bytes:
    """The packet of a forwarded message, with its hop count increased by one.

    @param keeps_dead_letter: its sender requested a dead letter, and its address is trusted: if it fails
    here, it is kept here (reading 64).
    """
    packet = patch_hop_count(message.packet, message.hop_count + 1)
    return marked_for_dead_letters(packet) if keeps_dead_letter else packet


@attrs.frozen(kw_only=True)
class RefusedFacts:
    """The facts about a permanently refused message that may become a dead letter.

    @ivar asks_for_dead_letter: its sender requested one: negative source journaling of a message that is not
    transactional.
    @ivar is_admitted: it came from an address that the configuration trusts.
    @ivar is_authenticated: whether a signature authenticates its sender.
    @ivar keeps_over_quota: the configuration keeps messages that exceed the quota of their queue.
    """

    asks_for_dead_letter: bool
    is_admitted: bool
    is_authenticated: bool
    keeps_over_quota: bool


@attrs.frozen
class DeadLetterDecision:
    """Whether a refused message becomes a dead letter here.

    @ivar message_class: of the dead letter; C{None} if there is none.
    @ivar note: an addition to the event of the refusal.
    """

    message_class: MessageClass | None
    note: str = ""


_UNTRUSTED: Final = DeadLetterDecision(
    None, "; no dead letter, since [security] does not trust its address and no signature its sender"
)


def decide_dead_letter(why: MessageClass | str, facts: RefusedFacts) -> DeadLetterDecision:
    """Decide whether a message that is refused on arrival becomes a dead letter here (reading 64).

    @param why: the class of the negative acknowledgement, or a name where the protocol has none.
    """
    message_class = why if isinstance(why, MessageClass) else _KEPT_CLASSES.get(why)
    if message_class is None or not facts.asks_for_dead_letter:
        return DeadLetterDecision(None)
    if message_class is MessageClass.NACK_Q_EXCEED_QUOTA and not facts.keeps_over_quota:
        return DeadLetterDecision(None)
    if not facts.is_admitted and not facts.is_authenticated:
        return _UNTRUSTED
    return DeadLetterDecision(message_class, KEPT)
