"""Reduction of the window to 1, and its recovery. [MS-MQQB] 3.1.7.13 and 3.1.7.14, [MS-MQMQ] note 15.

The window is 1 while an outgoing queue of the session is paused, so that messages do not accumulate (reading
26), and when the receive memory is exhausted.
"""

from __future__ import annotations

from msmq.moment import Moment
from msmq.session.acknowledgements import send_session_ack
from msmq.session.effects import WindowOpened
from msmq.session.state import SessionCore
from msmq.session.timers import Timer


def pause(core: SessionCore, now: Moment) -> None:
    """Pause Queue Event: acknowledge, with a window of 1. [MS-MQQB] 3.1.7.13."""
    core.is_paused = True
    send_session_ack(core, now)
    core.timers.stop(Timer.ACK_SEND)
    core.session_active = False


def resume(core: SessionCore) -> None:
    """Resume Queue Event: the next SessionHeader has the full window again. [MS-MQQB] 3.1.7.14."""
    core.is_paused = False
    core.session_active = True


def narrow(core: SessionCore, now: Moment) -> None:
    """[MS-MQMQ] note 15: the receive memory is exhausted; the window is 1, and grows again.

    The peer is notified at once.
    """
    if core.window_size > 1:
        core.window_size = 1
        send_session_ack(core, now)
    core.timers.start(Timer.WINDOW_GROWTH, core.settings.window_recovery, now)


def widen(core: SessionCore, now: Moment) -> None:
    """[MS-MQMQ] note 15: double the window; the next SessionHeader says so."""
    core.window_size = min(core.window_size * 2, core.settings.window_size)
    if core.window_size < core.settings.window_size:
        core.timers.start(Timer.WINDOW_GROWTH, core.settings.window_recovery, now)
    core.effects.append(WindowOpened())
