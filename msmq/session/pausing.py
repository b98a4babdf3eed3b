"""[MS-MQQB] 3.1.7.13 and 3.1.7.14: an outgoing queue of the session is paused, and resumed.

What is not sent on is not to pile up either, so the peer of a paused session is told to send one message at
a time (reading 26).
"""

from __future__ import annotations

from msmq.moment import Moment
from msmq.session.acknowledging import send_session_ack
from msmq.session.state import SessionCore
from msmq.session.timers import Timer


def pause(core: SessionCore, now: Moment) -> None:
    """[MS-MQQB] 3.1.7.13 Pause Queue Event: say what has arrived, with a window of 1."""
    core.is_paused = True
    send_session_ack(core, now)
    core.timers.stop(Timer.ACK_SEND)
    core.session_active = False


def resume(core: SessionCore) -> None:
    """[MS-MQQB] 3.1.7.14 Resume Queue Event: the next SessionHeader has the whole window again."""
    core.is_paused = False
    core.session_active = True
