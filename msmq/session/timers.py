"""[MS-MQQB] 3.1.2: the timers of one session, as deadlines on the monotonic clock."""

from __future__ import annotations

import enum

import attrs

from msmq.moment import Moment


class Timer(enum.Enum):
    """The timers of a session; those of ping requests, streams and caches belong to these.

    @cvar INITIALIZATION: [MS-MQQB] 3.1.2.1, from EstablishConnection to the ConnectionParameters response.
    @cvar CLEANUP: [MS-MQQB] 3.1.2.2, after which a session closes that had no UserMessage.
    @cvar RETRY_CONNECT: [MS-MQQB] 3.1.2.3, from a failed connection to the next attempt.
    @cvar ACK_WAIT: [MS-MQQB] 3.1.2.4, in which the peer has to acknowledge or send something.
    @cvar ACK_SEND: [MS-MQQB] 3.1.2.5, from the first message to its acknowledgement.
    @cvar ACK_IDLE: ours, from the commit of the last recoverable message to its acknowledgement (reading 42).
    @cvar WINDOW_RECOVERY: [MS-MQMQ] note 15, from a window that the peer cut to the next doubling.
    @cvar WINDOW_GROWTH: the same for the window of this side.
    @cvar LINGER: ours, from the decision to close to the close, so that the peer reads what was sent.
    """

    INITIALIZATION = "Session Initialization Timer"
    CLEANUP = "Session Cleanup Timer"
    RETRY_CONNECT = "Session Retry Connect Timer"
    ACK_WAIT = "Session Ack Wait Timer"
    ACK_SEND = "Session Ack Send Timer"
    ACK_IDLE = "Idle Acknowledgement Timer"
    WINDOW_RECOVERY = "Window Recovery Timer"
    WINDOW_GROWTH = "Window Growth Timer"
    LINGER = "Linger Timer"

    # There is one of each, and every packet uses some of them.
    __hash__ = object.__hash__


@attrs.frozen
class Running:
    """A timer that runs: when it was started, for how many seconds.

    @ivar deadline: the monotonic second at which it expires.
    """

    started: float
    duration: float
    deadline: float

    def elapsed_part(self, now: Moment) -> float:
        """How much of the duration has passed, 0 to 1."""
        return (now.monotonic - self.started) / self.duration if self.duration > 0 else 1.0


class Timers:
    """The running timers of one session, and the earliest of their deadlines."""

    __slots__ = ("_running", "deadline")

    def __init__(self) -> None:
        self._running: dict[Timer, Running] = {}
        self.deadline: float | None = None

    def start(self, timer: Timer, duration: float, now: Moment) -> None:
        """Start, or start over."""
        deadline = now.monotonic + duration
        before, earliest = self._running.get(timer), self.deadline
        self._running[timer] = Running(now.monotonic, duration, deadline)
        if earliest is None or deadline <= earliest:
            self.deadline = deadline
        elif before is not None and before.deadline == earliest:
            self._refresh()

    def start_if_stopped(self, timer: Timer, duration: float, now: Moment) -> None:
        """Start what does not run; leave alone what does."""
        if timer not in self._running:
            self.start(timer, duration, now)

    def shorten(self, timer: Timer, duration: float, now: Moment) -> None:
        """Start over with this duration unless that would expire later than now planned."""
        running = self._running.get(timer)
        if running is None or now.monotonic + duration < running.deadline:
            self.start(timer, duration, now)

    def stop(self, timer: Timer) -> None:
        """Stop, if it runs."""
        if self._running.pop(timer, None) is not None:
            self._refresh()

    def stop_all(self) -> None:
        """[MS-MQQB] 3.1.5.9: closing stops every timer of the session."""
        self._running.clear()
        self.deadline = None

    def running(self, timer: Timer) -> Running | None:
        """The timer, if it runs."""
        return self._running.get(timer)

    def take_expired(self, now: Moment) -> list[tuple[Timer, Running]]:
        """Stop and give the timers that are due, the earliest first."""
        if self.deadline is None or self.deadline > now.monotonic:
            return []
        due = [entry for entry in self._running.items() if entry[1].deadline <= now.monotonic]
        due.sort(key=lambda entry: entry[1].deadline)
        for timer, _ in due:
            del self._running[timer]
        self._refresh()
        return due

    def _refresh(self) -> None:
        self.deadline = min((running.deadline for running in self._running.values()), default=None)
