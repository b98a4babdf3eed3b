"""The timers of one session, as deadlines on the monotonic clock. [MS-MQQB] 3.1.2."""

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
    @cvar ACK_LOOK: ours, from the start of ACK_WAIT to the look at how much of the messages the system of the
    peer has received; see L{TransportWriter<msmq.net.transports.TransportWriter>}.
    @cvar ACK_SEND: [MS-MQQB] 3.1.2.5, from the first message to its acknowledgement.
    @cvar PROCESSING: ours, between acknowledgements while delivered messages are processed, so that the timer
    ACK_WAIT of the peer does not expire.
    @cvar ACK_IDLE: ours, from the commit of the last recoverable message to its acknowledgement (reading 42).
    @cvar WINDOW_RECOVERY: [MS-MQMQ] note 15, from the reduction of the peer's window, or its last doubling,
    to the next doubling.
    @cvar WINDOW_GROWTH: the same for the window of this side.
    @cvar LINGER: specific to this implementation, from the decision to close to the abort, so that the peer
    can read what was sent.
    """

    INITIALIZATION = "Session Initialization Timer"
    CLEANUP = "Session Cleanup Timer"
    RETRY_CONNECT = "Session Retry Connect Timer"
    ACK_WAIT = "Session Ack Wait Timer"
    ACK_LOOK = "Transfer Look Timer"
    ACK_SEND = "Session Ack Send Timer"
    PROCESSING = "Processing Timer"
    ACK_IDLE = "Idle Acknowledgement Timer"
    WINDOW_RECOVERY = "Window Recovery Timer"
    WINDOW_GROWTH = "Window Growth Timer"
    LINGER = "Linger Timer"

    # Each is used by nearly every packet.
    __hash__ = object.__hash__


@attrs.frozen
class Running:
    """A running timer: start and duration.

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
        """Start or restart a timer."""
        deadline = now.monotonic + duration
        before, earliest = self._running.get(timer), self.deadline
        self._running[timer] = Running(now.monotonic, duration, deadline)
        if earliest is None or deadline <= earliest:
            self.deadline = deadline
        elif before is not None and before.deadline == earliest:
            self._refresh()

    def start_if_stopped(self, timer: Timer, duration: float, now: Moment) -> None:
        """Start a timer unless it runs."""
        if timer not in self._running:
            self.start(timer, duration, now)

    def shorten(self, timer: Timer, duration: float, now: Moment) -> None:
        """Restart a timer with this duration, unless that would expire later."""
        running = self._running.get(timer)
        if running is None or now.monotonic + duration < running.deadline:
            self.start(timer, duration, now)

    def stop(self, timer: Timer) -> None:
        """Stop, if it runs."""
        if self._running.pop(timer, None) is not None:
            self._refresh()

    def stop_all(self) -> None:
        """Closing stops every timer of the session. [MS-MQQB] 3.1.5.9."""
        self._running.clear()
        self.deadline = None

    def running(self, timer: Timer) -> Running | None:
        """The timer, if it runs."""
        return self._running.get(timer)

    def take_expired(self, now: Moment) -> list[tuple[Timer, Running]]:
        """Stop and return the expired timers, the earliest first."""
        if self.deadline is None or self.deadline > now.monotonic:
            return []
        due = [entry for entry in self._running.items() if entry[1].deadline <= now.monotonic]
        due.sort(key=lambda entry: entry[1].deadline)
        for timer, _ in due:
            del self._running[timer]
        self._refresh()
        return due

    def _refresh(self) -> None:
        # A loop, since a timer that is restarted for every message is often the earliest.
        earliest: float | None = None
        for running in self._running.values():
            if earliest is None or running.deadline < earliest:
                earliest = running.deadline
        self.deadline = earliest
