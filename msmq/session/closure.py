"""Closing a Session: unacknowledged messages and timers. [MS-MQQB] 3.1.5.9."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.errors import RemoteProtocolError
from msmq.moment import Moment
from msmq.session.effects import Closed, CloseReason, Disconnect
from msmq.session.state import SessionCore
from msmq.session.timers import Timer
from msmq.structures.packet.outgoing_message import OutgoingMessage


def close(
    core: SessionCore,
    reason: CloseReason,
    now: Moment,
    *,
    error: RemoteProtocolError | None = None,
    is_connected: bool = True,
) -> None:
    """End the session without a packet; unacknowledged messages return to their queues. [MS-MQQB] 3.1.5.9.

    Only the session's own timers stop (reading 27).
    """
    core.timers.stop_all()
    returned = tuple(unacknowledged(core))
    core.left_messages = bool(returned)
    core.release_owner()
    core.in_flight.clear()
    core.recoverable_in_flight.clear()
    core.unnamed_bytes = 0
    core.effects.append(Closed(reason, returned, error))
    if is_connected:
        core.effects.append(Disconnect())
        core.timers.start(Timer.LINGER, core.settings.linger, now)


def unacknowledged(core: SessionCore) -> Iterable[OutgoingMessage]:
    """Sent messages that were not acknowledged, in the order of sending.

    A recoverable message that was counted but not named as stored is older than any that is still
    in flight, because counts are acknowledged in order; one that was named before it was counted has been
    removed already.
    """
    in_flight = {id(message) for message in core.in_flight}
    unnamed = {id(message) for message, _ in core.recoverable_in_flight.values()}
    yield from (message for message, _ in core.recoverable_in_flight.values() if id(message) not in in_flight)
    for message in core.in_flight:
        if not message.is_recoverable or id(message) in unnamed:
            yield message


def wait_for_reconnect(core: SessionCore, now: Moment) -> None:
    """[MS-MQQB] 3.1.5.9: messages are pending, so the Session Retry Connect Timer runs (3.1.2.3)."""
    core.timers.start(Timer.RETRY_CONNECT, core.reconnect_wait, now)


def is_idle(core: SessionCore, now: Moment) -> bool:
    """Session Cleanup Timer Event: whether no message passed since the last one. [MS-MQQB] 3.1.6.2.

    A message that was sent and not acknowledged, or received and not acknowledged, is on its way yet: the
    Session Ack Wait Timer and the Session Ack Send Timer decide about it. If they run longer than this timer,
    a session that closed would send the message again on the next one, without end. The same is true of
    messages that are being processed.
    """
    if not (
        core.session_active or core.in_flight or core.is_processing or core.timers.running(Timer.ACK_SEND)
    ):
        return True
    core.session_active = False
    core.timers.start(Timer.CLEANUP, core.settings.session_cleanup, now)
    return False


def stop_lingering(core: SessionCore) -> None:
    """The connection of a closed session has ended, so it need not be aborted."""
    core.timers.stop(Timer.LINGER)


def stop_waiting(core: SessionCore) -> None:
    """Do not dial the session again."""
    core.timers.stop(Timer.RETRY_CONNECT)
