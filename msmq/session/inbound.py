"""Receives user messages on a session. [MS-MQQB] 3.1.5.1, 3.1.5.8.2 and 3.1.5.8.4."""

from __future__ import annotations

from collections.abc import Sequence

from msmq.errors import RemoteProtocolError
from msmq.moment import Moment
from msmq.session.acknowledgements import (
    acknowledge_at_once_if_due,
    apply_session_header,
    is_in_step,
    owe_acknowledgement,
    until_acknowledgement,
)
from msmq.session.effects import CloseReason, Deliver
from msmq.session.state import SessionCore
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_message_view import UserMessageView, have_one_shape, views_of
from msmq.wire.framer import Frame


class Rejected(Exception):
    """Received data closes the session.

    @ivar reason: why.
    @ivar error: the violated rule of a packet, if any.
    """

    def __init__(self, reason: CloseReason, error: RemoteProtocolError | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


def portion_end(core: SessionCore, start: int) -> int:
    """The index after the last message that is delivered together with the one at C{start}.

    A sender with a full window continues while the next portion is processed, since the acknowledgement that
    is due at the end of each has been sent.
    """
    return start + until_acknowledgement(core)


def receive_portion(core: SessionCore, frames: Sequence[Frame], now: Moment) -> None:
    """Count, check and deliver these messages as one batch, up to L{portion_end} at most.

    Every message is counted, accepted or not (readings 31, 33, 34), and the one that carries
    a SessionHeader is counted before the header's own counts are compared ([MS-MQQB] 3.1.5.8.4).

    @raise Rejected: one of them closes the session; those before it have been delivered, and so has one whose
    SessionHeader does not match.
    """
    core.session_active = True
    first_recoverable = core.recoverable_message_received_count + 1
    messages: list[UserMessageView] = []
    failure: Rejected | None = None
    if not [header for _, header in frames if header is not None]:
        try:
            messages = views_of([packet for packet, _ in frames], core.received_shape)
        except RemoteProtocolError:
            # One by one, to deliver those before the malformed one.
            pass
        else:
            core.received_shape = messages[-1].shape
            if len(messages) == 1 or have_one_shape(messages):
                recoverable = len(messages) if core.received_shape.is_recoverable else 0
            else:
                recoverable = sum([message.is_recoverable for message in messages])
            core.recoverable_message_received_count += recoverable
            frames = ()
    for packet, session_header in frames:
        try:
            message = UserMessageView(packet)
        except RemoteProtocolError as error:
            failure = Rejected(CloseReason.MALFORMED_PACKET, error)
            break
        messages.append(message)
        if message.is_recoverable:
            core.recoverable_message_received_count += 1
        if session_header is not None:
            _count(core, messages, first_recoverable)
            header = SessionHeader.from_bytes(session_header)
            if not apply_session_header(core, header, now):
                failure = Rejected(CloseReason.BAD_ACKNOWLEDGEMENT)
            elif not is_in_step(core, header):
                failure = Rejected(CloseReason.COUNT_MISMATCH)
            _hand_on(core, messages, first_recoverable, now)
            messages = []
            first_recoverable = core.recoverable_message_received_count + 1
            if failure is not None:
                raise failure
    _count(core, messages, first_recoverable)
    _hand_on(core, messages, first_recoverable, now)
    if failure is not None:
        raise failure
    acknowledge_at_once_if_due(core, now)


def _count(core: SessionCore, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
    core.counts.recoverable_received += core.recoverable_message_received_count + 1 - first_recoverable
    core.message_received_count += len(messages)
    core.counts.received.user_message += len(messages)
    core.unacked_received_message_count += len(messages)


def _hand_on(
    core: SessionCore, messages: Sequence[UserMessageView], first_recoverable: int, now: Moment
) -> None:
    if messages:
        owe_acknowledgement(core, core.recoverable_message_received_count >= first_recoverable, now)
        core.effects.append(Deliver(messages, first_recoverable))
