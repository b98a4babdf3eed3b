"""Sends user messages on a session. [MS-MQQB] 3.1.7.1.3 and 3.1.7.1.6.

These are the sender of express messages (3.1.1.1.1.3) and of recoverable ones (3.1.1.1.1.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msmq.moment import Moment
from msmq.session.acknowledgements import acknowledgement_for_carrier, is_worth_carrying
from msmq.session.effects import Transmit
from msmq.session.state import SessionCore
from msmq.session.timers import Timer
from msmq.structures.internal.order_queue import is_for_order_queue
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import patch_session_header

LOOK_AFTER: Final = 0.25
"""The part of the Session Ack Wait Timer after which the owner looks whether the messages are still being
transferred.

A peer acknowledges within half of the timer (3.1.6.4), so it has enough time for messages that are complete
by then, on any connection.
"""


def send(core: SessionCore, messages: Sequence[OutgoingMessage], now: Moment) -> None:
    """Number these messages, and write them in this order. [MS-MQQB] 3.1.7.1.3.

    The first carries the acknowledgement that is owed, if its timer has run for three quarters
    (3.1.7.11); it is stamped here and nowhere else (reading 44).
    OrderAcks and FinalAcks carry none, since some peers know them by their empty flags (reading 4).
    """
    carrier = messages[0] if is_worth_carrying(core, now) else None
    if carrier is not None and is_for_order_queue(carrier.packet):
        carrier = None
    chunks = [message.packet for message in messages]
    if carrier is None:
        _number(core, messages, chunks)
    else:
        # Its header states the counts of its own time.
        _number(core, messages[:1], chunks[:1])
        carried = acknowledgement_for_carrier(core, now)
        _number(core, messages[1:], chunks[1:])
        chunks[0] = patch_session_header(chunks[0], carried)
    core.in_flight.extend(messages)
    core.counts.sent.user_message += len(messages)
    core.session_active = True
    if core.timers.running(Timer.ACK_WAIT) is None:
        factor = core.settings.direct_ack_wait_factor if core.is_direct else 1
        core.timers.start(Timer.ACK_WAIT, core.ack_wait_timeout * factor, now)
        core.timers.start(Timer.ACK_LOOK, core.ack_wait_timeout * factor * LOOK_AFTER, now)
        # What came before the timer ran says nothing about the peer during it.
        core.received_ack = False
    core.effects.append(Transmit(chunks))


def _number(core: SessionCore, messages: Sequence[OutgoingMessage], packets: Sequence[bytes]) -> None:
    """Count messages as sent, and number the recoverable ones. [MS-MQQB] 3.1.7.1.3."""
    core.message_sent_count += len(messages)
    number = core.recoverable_message_sent_count
    size = 0
    for message, packet in zip(messages, packets, strict=True):
        if message.is_recoverable:
            number += 1
            core.recoverable_in_flight[number & 0xFFFF] = message, len(packet)
            size += len(packet)
    core.counts.recoverable_sent += number - core.recoverable_message_sent_count
    core.recoverable_message_sent_count = number
    core.unnamed_bytes += size
