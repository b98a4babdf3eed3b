"""Decision about outgoing queues that are created on behalf of peers: the limits, and which idle ones go.

Such queues have names that a peer chose: of administration and report queues, of the sender of a
transactional message, of the next receiver of a forwarded message. Each causes connections or look-ups, so
one host cannot use all of them: its queues with pending messages never exceed the number left for others, and
those with direct names, which may be any address, are limited further.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName

MOST_OUTGOING_QUEUES = 10_000
"""Outgoing queues beyond which none is created for a name that a peer chose, until an idle one is dropped."""

MOST_DIALLED_FOR_A_HOST = 1000
"""Direct names among them whose queues have messages because of one host."""

MARGIN: Final = 100
"""When idle queues have to be dropped, this part of the limit is dropped together."""

PAUSE: Final = 0.1
"""Seconds after a refusal in which the queues of the same host are not counted again."""


class PeerQueueCheck(enum.Enum):
    """The first answer, which costs nothing however many queues there are."""

    CREATED = "the limits are far"
    COUNTED = "a limit may be reached: the queues with messages decide, by L{decide_room}"
    REFUSED = "a limit was reached for this host just now"


@attrs.frozen(kw_only=True)
class PeerQueueFacts:
    """What is known without looking at each queue.

    @ivar queues: outgoing queues.
    @ivar of_host: names that were chosen by messages from the same host.
    @ivar is_dialled: see L{is_dialled_name}.
    @ivar refused_for: seconds since the host was refused last; C{None} if it was not.
    """

    queues: int
    of_host: int
    is_dialled: bool
    refused_for: float | None


def is_dialled_name(name: FormatName, host: str) -> bool:
    """Whether a name contains the address to connect to, and the host that chose it is known."""
    return bool(host) and isinstance(name, DirectFormatName)


def check_room(facts: PeerQueueFacts) -> PeerQueueCheck:
    """Decide whether one more outgoing queue may be created for a peer, or what has to be counted first."""
    is_scarce = facts.queues + facts.of_host >= MOST_OUTGOING_QUEUES
    is_dialled_much = facts.is_dialled and facts.of_host >= MOST_DIALLED_FOR_A_HOST
    if not is_scarce and not is_dialled_much:
        return PeerQueueCheck.CREATED
    if facts.refused_for is not None and facts.refused_for < PAUSE:
        return PeerQueueCheck.REFUSED
    return PeerQueueCheck.COUNTED


@attrs.frozen(kw_only=True)
class PeerQueueCounts:
    """The outgoing queues, counted.

    @ivar queues: all of them.
    @ivar idle: those without messages that no handle has open.
    @ivar busy_of_host: those with messages whose names were chosen by the same host.
    @ivar dialled_of_host: those of them with direct names.
    @ivar is_dialled: as of L{PeerQueueFacts}.
    """

    queues: int
    idle: int
    busy_of_host: int
    dialled_of_host: int
    is_dialled: bool


def decide_room(counts: PeerQueueCounts) -> int | None:
    """Decide whether one more outgoing queue is created for a peer, by the queues that have messages.

    @return: the number of idle queues to drop first; C{None} if the queue is not created.
    """
    free = MOST_OUTGOING_QUEUES - (counts.queues - counts.idle)
    is_dialled_much = counts.is_dialled and counts.dialled_of_host >= MOST_DIALLED_FOR_A_HOST
    if free <= 0 or counts.busy_of_host > free or is_dialled_much:
        return None
    # More than are needed, so that the next ones need no count.
    return max(counts.queues + 1 - MOST_OUTGOING_QUEUES, MOST_OUTGOING_QUEUES // MARGIN)


def has_too_many_names(known: int) -> bool:
    """Whether names that a peer chose, and for which no queue was created in the end, are to be forgotten.

    @param known: the names that are recorded with the hosts that chose them.
    """
    return known > 2 * MOST_OUTGOING_QUEUES
