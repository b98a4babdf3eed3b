"""Session acknowledgements, in both directions. [MS-MQQB] 3.1.1.6, 3.1.1.7.2, 3.1.5.5, 3.1.6.3, 3.1.6.4.

Each side counts the user messages that it sent and received on the session.
A SessionHeader states all four counts of its sender, either in a SessionAck packet or at the end of a user
message.
Its AckSequenceNumber says how many messages were received: express messages up to that number are received.
Recoverable messages are also numbered separately, and are acknowledged individually when they are on disk:
bit k of RecoverableMsgAckFlags stands for number RecoverableMsgAckSeqNumber + k.

The counts are 16 bits wide and wrap, so numbers are compared only within half of the range (reading 36); the
window is capped at 32767 for that reason.

We acknowledge recoverable messages strictly in order, because a peer may follow the text literally and
delete everything up to the base (reading 37), and never past what the store has committed,
because with group commit the received count runs ahead of the disk.

An acknowledgement is owed from the first message on and is paid by whichever comes first: half the
window has arrived, the timer expires, a message of ours leaves when three quarters of the timer have run
and carries it, or everything is stored and no other recoverable message has been for L{IDLE} (reading 42).
"""

from __future__ import annotations

from typing import Final

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.session.effects import Acknowledged, Effect, Transmit, WindowOpened
from msmq.session.state import SessionCore
from msmq.session.timers import Timer
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.session_header import SessionHeader

CARRY_AFTER = 0.75
"""The part of the Session Ack Send Timer after which a message carries the acknowledgement (3.1.7.11)."""

MOST_RECOVERABLE = 32
"""The number of messages that RecoverableMsgAckFlags can name at once (3.1.5.8.7)."""

IDLE: Final = 0.01
"""Seconds without another commit after which stored recoverable messages are acknowledged.

An acknowledgement for each commit would cost a steady sender a packet and a removal for a few messages.
"""


def owe_acknowledgement(core: SessionCore, has_recoverable: bool, now: Moment) -> None:
    """Messages arrived; ensure that the timer runs. [MS-MQQB] 3.1.5.8.2 and 3.1.5.8.7.

    The first recoverable message shortens the timer and never lengthens it (reading 43).
    """
    core.timers.start_if_stopped(Timer.ACK_SEND, core.ack_wait_timeout / 2, now)
    if has_recoverable:
        core.timers.shorten(Timer.ACK_SEND, core.recoverable_ack_send_timeout, now)


def acknowledge_at_once_if_due(core: SessionCore, now: Moment) -> None:
    """Acknowledge now if half the smaller window has arrived (reading 42). [MS-MQQB] 3.1.1.6.1.

    A peer with a full window waits for this.
    """
    is_due = core.unacked_received_message_count >= _acknowledged_together(core)
    if is_due or _nameable(core) >= MOST_RECOVERABLE:
        send_session_ack(core, now)


def until_acknowledgement(core: SessionCore) -> int:
    """The number of messages until the next acknowledgement is due, at least 1."""
    return max(1, _acknowledged_together(core) - core.unacked_received_message_count)


def _acknowledged_together(core: SessionCore) -> int:
    # A window that has grown since is not known to the peer, which waits for the acknowledgement of less.
    return max(1, min(core.effective_window, core.stated_window_size) // 2)


def ack_send_expired(core: SessionCore, now: Moment) -> None:
    """Session Ack Send Timer Event. [MS-MQQB] 3.1.6.4."""
    if core.unacked_received_message_count or _nameable(core):
        send_session_ack(core, now)


def begin_processing(core: SessionCore, now: Moment) -> None:
    """Delivered messages take time: acknowledge at intervals until L{end_processing}.

    The peer closes a session without acknowledgements for AckWaitTimeout ([MS-MQQB] 3.1.6.3), and would send
    the messages again, which then take as long again.
    """
    core.is_processing = True
    core.timers.start_if_stopped(Timer.PROCESSING, core.ack_wait_timeout / 2, now)


def end_processing(core: SessionCore) -> None:
    """The messages that were delivered have been processed, and packets are read again.

    The Session Ack Wait Timer begins anew, since those that came meanwhile are read only now.
    The interval of acknowledgements continues: many short pauses delay the peer as much as a long one.
    """
    core.is_processing = False
    core.received_ack = True


def processing_expired(core: SessionCore, now: Moment) -> None:
    """Acknowledge again, whether or not there is more to acknowledge, since messages are being processed."""
    if not core.is_processing:
        return
    core.session_active = True
    send_session_ack(core, now)


def send_session_ack(core: SessionCore, now: Moment) -> None:
    """Acknowledge in a separate packet. [MS-MQQB] 3.1.6.4.

    A peer that writes and does not read gets one acknowledgement when it reads again, so that none accumulate
    here.
    """
    if core.is_congested:
        core.acknowledges_later = True
        return
    core.effects.append(Transmit((SessionAck(_take_acknowledgement(core, now)).to_bytes(),), is_awaited=True))
    core.counts.sent.session_ack += 1


def congestion_ended(core: SessionCore, now: Moment) -> None:
    """The peer reads again: send the acknowledgement that became due meanwhile."""
    if core.acknowledges_later:
        core.acknowledges_later = False
        send_session_ack(core, now)
        _name_many(core, now)


def is_worth_carrying(core: SessionCore, now: Moment) -> bool:
    """Whether a message that is sent now carries the acknowledgement. [MS-MQQB] 3.1.7.11."""
    running = core.timers.running(Timer.ACK_SEND)
    if running is None or core.unacked_received_message_count == 0:
        return False
    return running.elapsed_part(now) > CARRY_AFTER


def acknowledgement_for_carrier(core: SessionCore, now: Moment) -> SessionHeader:
    """The SessionHeader of a message that has already been counted as sent. [MS-MQQB] 3.1.7.1.3."""
    return _take_acknowledgement(core, now)


def persisted(core: SessionCore, through: int, now: Moment) -> None:
    """Recoverable messages up to number C{through} are stored, or permanently refused.

    @raise LocalProtocolError: fewer have arrived.
    """
    if through > core.recoverable_message_received_count:
        raise LocalProtocolError(
            f"persisted(through={through}): the last recoverable message that arrived on this session has"
            f" the number {core.recoverable_message_received_count}"
        )
    core.persisted_count = max(core.persisted_count, through)
    nameable = _nameable(core)
    if nameable:
        core.timers.start_if_stopped(Timer.ACK_SEND, core.recoverable_ack_send_timeout, now)
    if nameable >= MOST_RECOVERABLE:
        _name_many(core, now)
        nameable = _nameable(core)
    if nameable and _is_all_stored(core):
        core.timers.start(Timer.ACK_IDLE, IDLE, now)


def ack_idle_expired(core: SessionCore, now: Moment) -> None:
    """Nothing has been stored for a while: name what is stored, unless other messages are on their way there.

    The timer of 3.1.2.5 is for messages whose acknowledgement may wait (3.1.1.6.1: acknowledgements are sent
    by a timer, or based on the count of messages); the sender keeps these on its disk until then.
    """
    if _nameable(core) and _is_all_stored(core):
        send_session_ack(core, now)


def _is_all_stored(core: SessionCore) -> bool:
    return core.persisted_count == core.recoverable_message_received_count


def _name_many(core: SessionCore, now: Moment) -> None:
    """Acknowledge many stored messages at once, since the peer waits for the last of them."""
    for _ in range(_nameable(core) // MOST_RECOVERABLE):
        send_session_ack(core, now)


def _nameable(core: SessionCore) -> int:
    """Recoverable messages that are stored and not yet acknowledged."""
    return core.persisted_count - core.last_acked_recoverable_count


def _take_acknowledgement(core: SessionCore, now: Moment) -> SessionHeader:
    """Build the current header, and count it as sent."""
    named = min(_nameable(core), MOST_RECOVERABLE)
    core.stated_window_size = 1 if core.is_paused else core.window_size
    header = SessionHeader(
        ack_sequence_number=core.message_received_count & 0xFFFF,
        recoverable_msg_ack_seq_number=(core.last_acked_recoverable_count + 1) & 0xFFFF if named else 0,
        recoverable_msg_ack_flags=(1 << named) - 1,
        user_msg_sequence_number=core.message_sent_count & 0xFFFF,
        recoverable_msg_seq_number=core.recoverable_message_sent_count & 0xFFFF,
        window_size=core.stated_window_size,
    )
    core.last_acked_recoverable_count += named
    core.unacked_received_message_count = 0
    core.timers.stop(Timer.ACK_SEND)
    if core.recoverable_message_received_count > core.last_acked_recoverable_count:
        core.timers.start(Timer.ACK_SEND, core.recoverable_ack_send_timeout, now)
    if core.is_processing:
        core.timers.start(Timer.PROCESSING, core.ack_wait_timeout / 2, now)
    else:
        core.timers.stop(Timer.PROCESSING)
    return header


def apply_session_header(core: SessionCore, header: SessionHeader, now: Moment) -> bool:
    """[MS-MQQB] 3.1.5.5.1 to 3.1.5.5.3: remove acknowledged messages; false if the peer acknowledges too
    many.

    An acknowledgement older than the last one has no effect.
    """
    newly = (header.ack_sequence_number - core.acknowledged_count) & 0xFFFF
    if newly >= 0x8000:
        newly = 0
    if newly > len(core.in_flight):
        return False
    had_room = core.room > 0
    acknowledged: list[OutgoingMessage] = []
    core.acknowledged_count += newly
    counted = [core.in_flight.popleft() for _ in range(newly)]
    acknowledged += [message for message in counted if not message.is_recoverable]
    acknowledged.extend(_named(core, header))
    if acknowledged:
        _acknowledge(core, acknowledged)
    take_window(core, header.window_size or 1, now)
    running = core.timers.running(Timer.ACK_WAIT)
    if core.in_flight and running is not None:
        core.timers.start(Timer.ACK_WAIT, running.duration, now)
    if (newly or (not had_room and core.room)) and not isinstance(_last(core, 1), WindowOpened):
        core.effects.append(WindowOpened())
    return True


def _acknowledge(core: SessionCore, messages: list[OutgoingMessage]) -> None:
    """Have these messages leave, together with those of a SessionAck that arrived just before."""
    core.was_acknowledged = True
    last = _last(core, 1)
    joined = _last(core, 2) if isinstance(last, WindowOpened) else last
    if isinstance(joined, Acknowledged) and isinstance(joined.messages, list):
        joined.messages.extend(messages)
    else:
        core.effects.append(Acknowledged(messages))


def _last(core: SessionCore, number: int) -> Effect | None:
    return core.effects[-number] if len(core.effects) >= number else None


def _named(core: SessionCore, header: SessionHeader) -> list[OutgoingMessage]:
    """Remove the recoverable messages that the flags acknowledge as stored (reading 37)."""
    flags = header.recoverable_msg_ack_flags
    named = []
    number = header.recoverable_msg_ack_seq_number
    while flags:
        if flags & 1:
            found = core.recoverable_in_flight.pop(number, None)
            if found is not None:
                message, size = found
                core.unnamed_bytes -= size
                named.append(message)
        flags >>= 1
        number = (number + 1) & 0xFFFF
    return named


def is_in_step(core: SessionCore, header: SessionHeader) -> bool:
    """Whether the peer's sent count equals the received count, modulo 65536. [MS-MQQB] 3.1.5.5.5."""
    return (
        header.user_msg_sequence_number == core.message_received_count & 0xFFFF
        and header.recoverable_msg_seq_number == core.recoverable_message_received_count & 0xFFFF
    )


def take_window(core: SessionCore, window_size: int, now: Moment) -> None:
    """The peer's latest window replaces the one before ([MS-MQMQ] 2.2.20.4).

    A window of 1 means that the peer is short of resources; it is doubled again (note 15).
    """
    core.received_window_size = window_size
    if window_size == 1:
        core.timers.start(Timer.WINDOW_RECOVERY, core.settings.window_recovery, now)
    else:
        core.timers.stop(Timer.WINDOW_RECOVERY)


def window_recovery_expired(core: SessionCore, now: Moment) -> None:
    """Double the window that the peer had reduced to 1, up to the default ([MS-MQMQ] note 15)."""
    core.received_window_size = min(core.received_window_size * 2, core.settings.window_size)
    if core.received_window_size < core.settings.window_size:
        core.timers.start(Timer.WINDOW_RECOVERY, core.settings.window_recovery, now)
    core.effects.append(WindowOpened())


def ack_wait_expired(core: SessionCore, duration: float, now: Moment) -> bool:
    """[MS-MQQB] 3.1.6.3 Session Ack Wait Timer Event; false if the peer is silent, so that the session has to
    close.

    Only messages that the peer has not counted are awaited (reading 39), and none while the owner processes
    messages: acknowledgements of the peer are not read then.
    """
    if core.in_flight and not core.received_ack and not core.is_processing:
        return False
    if core.in_flight:
        core.timers.start(Timer.ACK_WAIT, duration, now)
    core.received_ack = False
    return True
