"""Decisions about dispatch: which queue is next, how many messages are sent, what they wait for. [MS-MQQB]
3.1.7.1 and 3.1.7.12, [MS-MQDMPR] 3.1.7.1.28, 3.1.7.1.29, 3.1.7.3.9.

The order of transactional messages, and the limit on those that are not acknowledged, are decided by
L{OutgoingStream.transmit<msmq.transfer.outgoing_stream.OutgoingStream.transmit>}; which next hop a queue has
and which session an acknowledgement takes, by L{msmq.transfer.decisions.next_hop_decision}.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from msmq.structures.management import OutgoingState
from msmq.transfer.decisions.outgoing_states import STILL

BATCH_BYTES: Final = 1 << 20
"""Approximate bytes that are written to a connection before its capacity is checked again."""

LOADED_AT_ONCE: Final = 64
"""Messages that are read from the store in one batch."""


class QueueReadiness(enum.Enum):
    """Whether an outgoing queue can send."""

    PAUSED = "an operator has paused it, or its next hop"
    WAITS = "nothing is to be sent from it now"
    SENDS = "its messages are sent on the sessions that lead to its next hop, or that is dialled"
    RESUMES = "it was paused with a next hop that is not its own any more"


def decide_readiness(
    state: OutgoingState, *, is_paused: bool, has_messages: bool, is_stopped: bool, is_offline: bool
) -> QueueReadiness:
    """Decide whether an outgoing queue sends. [MS-MQQB] 3.1.7.12 Message Position Available Event.

    @param is_paused: by its name, by its next hop, or with all queues.
    @param has_messages: there are pending messages that are not on a session.
    @param is_stopped: the queue manager ends its sessions.
    @param is_offline: the queue manager has no sessions: after Take Offline, or hardened.
    """
    if is_stopped:
        return QueueReadiness.WAITS
    if is_paused:
        return QueueReadiness.PAUSED
    if state is OutgoingState.ON_HOLD:
        return QueueReadiness.RESUMES
    if state in STILL or not has_messages or is_offline:
        return QueueReadiness.WAITS
    return QueueReadiness.SENDS


def dispatch_order(base_priority: int, oldest: int) -> int:
    """The sort key of a queue among those of a session: the lowest is served first.

    [MS-MQDMPR] 3.1.7.1.28: the highest sum of BasePriority and priority, then the oldest message; a
    LookupIdentifier begins with the priority (reading 52).

    @param oldest: LookupIdentifier of its first message.
    """
    return oldest - (base_priority << 56)


def dispatch_count(capacity: int, *, is_alone: bool, is_in_memory: bool) -> int:
    """The number of messages of the first queue that are sent before the order is evaluated again.

    @param capacity: of the session.
    @param is_alone: no other queue of the session has messages.
    @param is_in_memory: the first message need not be read from the store.
    """
    if not is_alone:
        return 1
    return capacity if is_in_memory else min(capacity, LOADED_AT_ONCE)


def portion_end(sizes: Sequence[int], start: int, room: int) -> int:
    """The end of the portion of messages that a session gets before its capacity is checked again.

    @param sizes: of all messages, in bytes.
    @param start: the first message of the portion; it is included regardless of its size.
    @param room: the number of messages that the session accepts.
    """
    end, size = start, 0
    last = min(len(sizes), start + room)
    while end < last and size < BATCH_BYTES:
        size += sizes[end]
        end += 1
    return end


@attrs.frozen(kw_only=True)
class SendFacts:
    """The facts about messages of one outgoing queue that a session is to send.

    @ivar is_transit: they are messages of other queue managers in transit.
    @ivar is_in_memory: the packets of all are in memory.
    @ivar asks_for_privacy: one of them is to be encrypted.
    @ivar lacks_keys: a key for that has to be looked up first.
    @ivar lacks_receiver: the peer has to be stored as the receiver before they are sent (reading 54).
    """

    is_transit: bool
    is_in_memory: bool
    asks_for_privacy: bool
    lacks_keys: bool
    lacks_receiver: bool


@attrs.frozen
class SendDecision:
    """How messages of one outgoing queue are sent.

    @ivar waits: nothing more is sent on the session until they are read, their keys are known and their
        receiver is recorded.
    @ivar is_encrypted: those that request it are encrypted.
    @ivar is_ordered: they are numbered, and sent in the order of their numbers.
    """

    waits: bool
    is_encrypted: bool
    is_ordered: bool


def decide_sending(facts: SendFacts) -> SendDecision:
    """Decide how messages are sent. [MS-MQQB] 3.1.7.1.

    Forwarded messages are sent unchanged: encrypted by their sender, with the sequence numbers of their
    sender.
    """
    is_encrypted = facts.asks_for_privacy and not facts.is_transit
    return SendDecision(
        not facts.is_in_memory or facts.lacks_receiver or (is_encrypted and facts.lacks_keys),
        is_encrypted,
        not facts.is_transit,
    )
