"""Rules of source journaling: when the sender's journal gets the copy of a message. [MS-MQQB] 1.3.4.1,
3.1.5.5.4.

The document copies a message when the next hop has acknowledged it on the session, which proves that it was
sent on and not that it arrived. With L{SourceJournaling.ACKNOWLEDGEMENT} the copy of a message that asked for
a positive acknowledgement waits for that acknowledgement.
A message that is kept until its arrival is acknowledged, as a drain sends it, waits likewise with either
policy, and is then removed without a copy.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName, PrivateFormatName
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.kept_packet import is_kept_until_arrival
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.stream_changes import Disposal
from msmq.wire.guid import NULL_GUID, guid_from_bytes


class SourceJournaling(enum.Enum):
    """C{[queues] journal_on}: when a sent message is copied to the journal."""

    HANDOVER = "handover"
    ACKNOWLEDGEMENT = "acknowledgement"


AWAITS_RECEIPT: Final = 1
"""The message waits for the acknowledgement of its receipt, not only of its arrival."""

KEEPS_DEAD_LETTER: Final = 2
"""The message requests a dead letter if it fails."""

KEEPS_NO_COPY: Final = 4
"""The message is not copied to the journal when it has arrived."""

ANSWER_CLASSES: Final = frozenset(MessageClass) - {
    MessageClass.NORMAL,
    MessageClass.REPORT,
    MessageClass.ORDER_ACK,
}
"""The classes of administration acknowledgements. [MS-MQQB] 3.1.7.15."""

_RECEIVE: Final = 0x4000
_JOURNALED: Final = UserHeader.JP | UserHeader.TH
_POSITIVE: Final = MessagePropertiesHeader.PA | MessagePropertiesHeader.PR


@attrs.frozen
class MessageAnswer:
    """An administration acknowledgement of a message that was sent here.

    @ivar message_id: MessageID of that message.
    @ivar destination: the format name of the queue that it was for.
    @ivar message_class: of the acknowledgement.
    @ivar source: the queue manager that the acknowledgement states as its own.
    @ivar admin_queue: Identifier of the queue into which the acknowledgement came.
    @ivar is_recoverable: whether it survives a restart, as it does if the message does.
    @ivar sender: the queue manager of the message's identifier; C{None} for this one.
    """

    message_id: int
    destination: str
    message_class: int
    source: UUID
    admin_queue: UUID
    is_recoverable: bool = True
    sender: UUID | None = None

    @property
    def number(self) -> int:
        """See L{awaited_number}."""
        return awaited_number(self.sender, self.message_id)


@attrs.frozen
class AwaitedMessage:
    """A message that was handed over, and whose journal copy waits for an acknowledgement.

    @ivar message_id: MessageID.
    @ivar destination: the format name of the queue that it is for.
    @ivar owner: the queue manager that its name or the directory says; C{None} for a direct name.
    @ivar admin_queue: Identifier of its administration queue, which is one of this queue manager.
    @ivar wanted: bits L{AWAITS_RECEIPT}, L{KEEPS_DEAD_LETTER} and L{KEEPS_NO_COPY}.
    @ivar due: the second in which the wait ends, since 1970-01-01 UTC.
    @ivar is_recoverable: whether it survives a restart.
    @ivar sender: the queue manager of its identifier, if that is kept in transit; C{None} for this one.
    """

    message_id: int
    destination: str
    owner: UUID | None
    admin_queue: UUID
    wanted: int
    due: int
    is_recoverable: bool = True
    sender: UUID | None = None

    @property
    def number(self) -> int:
        """See L{awaited_number}."""
        return awaited_number(self.sender, self.message_id)


def awaited_number(sender: UUID | None, message_id: int) -> int:
    """A number that tells a message from all others for its destination.

    @param sender: the queue manager of its identifier; C{None} for this one.
    """
    return message_id if sender is None else sender.int << 32 | message_id


def asks_for_proof(view: UserMessageView) -> bool:
    """Whether a non-transactional message requests a journal copy and a positive acknowledgement, or is
    kept until its arrival is acknowledged.

    A transactional one waits for its FinalAck in any case ([MS-MQQB] 3.1.5.7). A missing negative
    acknowledgement proves nothing, so a message that requests only these is copied at the hand-over.
    """
    if not view.acknowledge & _POSITIVE:
        return False
    return view.flags & _JOURNALED == UserHeader.JP or is_kept_until_arrival(view.packet)


def wanted_of_source(view: UserMessageView) -> int:
    """L{AwaitedMessage.wanted} of a message that L{asks_for_proof}."""
    wanted = AWAITS_RECEIPT if view.acknowledge & MessagePropertiesHeader.PR else 0
    if is_kept_until_arrival(view.packet):
        wanted |= KEEPS_NO_COPY
    return wanted | (KEEPS_DEAD_LETTER if view.flags & UserHeader.JN else 0)


def end_of_wait(view: UserMessageView, now: float, wait: float) -> int:
    """The second in which a message that is handed over now stops waiting for its acknowledgement.

    @param now: seconds since 1970-01-01 UTC.
    @param wait: seconds after the time limit of the message; after the handover if it has none.
    """
    limit = view.time_to_be_received
    if not view.acknowledge & MessagePropertiesHeader.PR:
        limit = min(limit, view.time_to_reach_queue)
    start = now if limit == INFINITE else max(now, view.sent_time + limit)
    return math.ceil(start + wait)


@attrs.frozen(kw_only=True)
class HandedOverFacts:
    """What is known of a message that the next hop has acknowledged.

    @ivar sender: the queue manager of its identifier; C{None} for this one.
    @ivar is_journaled: the policy keeps messages that request a journal copy; others are kept in any case.
    @ivar is_held: it is still in its outgoing queue, locked by the session; a message that was purged or has
        expired meanwhile leaves by itself.
    @ivar is_unacknowledged: its receiver acknowledges it to no application, whatever it requests, as one for
        an order queue.
    @ivar destination: of its outgoing queue; C{None} if it is in none.
    @ivar is_recoverable: whether it survives a restart.
    @ivar now: seconds since 1970-01-01 UTC.
    @ivar wait: as of L{end_of_wait}.
    """

    sender: UUID | None
    is_journaled: bool
    is_held: bool
    is_unacknowledged: Callable[[UserMessageView], bool]
    destination: FormatName | None
    is_recoverable: bool
    now: float
    wait: float


def awaited_message(
    view: UserMessageView,
    facts: HandedOverFacts,
    admin_queue: Callable[[FormatName], UUID | None],
) -> AwaitedMessage | None:
    """A message that was handed over, as one whose journal copy waits; C{None} if it does not wait.

    It waits only if its acknowledgements can come: its administration queue is one of this queue manager,
    and not transactional.

    @param admin_queue: the Identifier of the local queue of a format name, if it is not transactional.
    """
    if (
        facts.destination is None
        or not facts.is_held
        or not asks_for_proof(view)
        or not ((facts.is_journaled and facts.sender is None) or is_kept_until_arrival(view.packet))
        or facts.is_unacknowledged(view)
    ):
        return None
    try:
        name = view.admin_format_name()
    except MQError:
        return None
    identifier = None if name is None else admin_queue(name)
    if identifier is None:
        if not is_kept_until_arrival(view.packet):
            return None
        # Its administration queue was deleted meanwhile: it waits until the end, and is not lost.
        identifier = NULL_GUID
    return AwaitedMessage(
        view.message_id,
        str(facts.destination),
        destination_owner(facts.destination, view),
        identifier,
        wanted_of_source(view),
        end_of_wait(view, facts.now, facts.wait),
        facts.is_recoverable,
        facts.sender,
    )


def destination_owner(destination: FormatName, view: UserMessageView) -> UUID | None:
    """The queue manager that a message is for, as its name or the directory says; C{None} if neither does."""
    if isinstance(destination, DirectFormatName):
        return None
    if isinstance(destination, PrivateFormatName):
        return destination.queue_manager
    address = guid_from_bytes(view.queue_manager_address)
    return None if address == NULL_GUID else address


def answered_destination(
    view: UserMessageView, identifier: UUID, *, has_others: bool = False
) -> FormatName | None:
    """The queue of the message that an administration acknowledgement is about. [MS-MQQB] 3.1.7.15.

    @param view: of one of L{ANSWER_CLASSES}.
    @param identifier: of this queue manager.
    @param has_others: messages of other queue managers are sent here with their identifiers, and wait, too.
    @return: C{None} if it is not about a message that was sent here.
    """
    if not has_others and view.correlation_id[:16] != identifier.bytes_le:
        return None
    try:
        name = view.response_format_name()
    except MQError:
        return None
    if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
        return attrs.evolve(name, queue_manager=guid_from_bytes(view.source_queue_manager))
    return name


def is_of_destination(message_class: int) -> bool:
    """Whether only the receiver can report this class; a gate in between can also report that a message did
    not arrive.
    """
    return message_class == MessageClass.ACK_REACH_QUEUE or bool(message_class & _RECEIVE)


def source_disposal(message_class: int, wanted: int) -> Disposal | None:
    """The disposal of a waiting message by an acknowledgement; C{None} if it still waits.

    @param wanted: of the message.
    """
    proven = Disposal.FORGET if wanted & KEEPS_NO_COPY else Disposal.JOURNAL
    if message_class == MessageClass.ACK_RECEIVE:
        return proven
    if message_class == MessageClass.ACK_REACH_QUEUE:
        return None if wanted & AWAITS_RECEIPT else proven
    return failed_disposal(wanted)


def failed_disposal(wanted: int) -> Disposal:
    """The disposal of a message that was refused, or not acknowledged in time."""
    return Disposal.DEAD_LETTER if wanted & KEEPS_DEAD_LETTER else Disposal.FORGET
