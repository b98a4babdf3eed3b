"""State of an outgoing queue, as a table of events. [MS-MQDMPR] 3.1.1.3 State."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.management import ConnectionStatus, OutgoingState
from msmq.transfer.decisions.outgoing_states import (
    after_attempt,
    after_connection,
    after_opening,
    after_pause,
    after_rerouting,
    after_session,
    is_missed,
    while_waiting,
)

(
    INACTIVE,
    WAITING,
    CONNECTED,
    NEED_VALIDATION,
    ON_HOLD,
    LOCKED,
    DISCONNECTING,
    DISCONNECTED,
) = OutgoingState
STATUS = ConnectionStatus
Event: TypeAlias = Callable[[OutgoingState], OutgoingState]
dialling: Event = partial(while_waiting, can_dial=True)
not_dialling: Event = partial(while_waiting, can_dial=False)
ended: Event = partial(after_session, is_served=False)


def attempt(status: ConnectionStatus) -> Event:
    return partial(after_attempt, status=status)


class StateTests(SynchronousTestCase):
    """Each event, and the states that it changes."""

    def test_each_event(self) -> None:
        """A line for each event and state that it changes; every other state stays.

        MQQB-3.1.5.9-02: the end of a session disconnects a queue, unless it is on hold.
        """
        changed: dict[str, tuple[Event, dict[OutgoingState, OutgoingState]]]
        sending = (INACTIVE, WAITING, CONNECTED, NEED_VALIDATION, DISCONNECTING, DISCONNECTED)
        changed = {
            "a session opens": (after_opening, dict.fromkeys(sending, CONNECTED)),
            "the name is unknown": (attempt(STATUS.DNS_FAILURE), dict.fromkeys(sending, NEED_VALIDATION)),
            "no answer": (attempt(STATUS.SOCKET_CONNECT_FAILURE), dict.fromkeys(sending, WAITING)),
            "an attempt begins": (attempt(STATUS.IN_PROCESS), dict.fromkeys(sending, WAITING)),
            "an attempt succeeds": (attempt(STATUS.ESTABLISHED), {}),
            "messages wait": (dialling, {INACTIVE: WAITING, DISCONNECTED: WAITING}),
            "messages wait for a route": (not_dialling, {INACTIVE: NEED_VALIDATION}),
            "the session ends": (ended, {CONNECTED: DISCONNECTING}),
            "one of two sessions ends": (partial(after_session, is_served=True), {}),
            "the connection ends": (after_connection, {DISCONNECTING: DISCONNECTED}),
            "it has another next hop": (partial(after_rerouting, is_served=False), {CONNECTED: DISCONNECTED}),
            "a session leads there": (partial(after_rerouting, is_served=True), {}),
        }
        for event, (function, changes) in changed.items():
            with self.subTest(event=event):
                found = {state: function(state) for state in OutgoingState}
                self.assertEqual(found, {**{state: state for state in OutgoingState}, **changes})

    def test_missed(self) -> None:
        """Only these attempts have other routes looked up; a session that was refused is no missed hop."""
        missed = {
            STATUS.DNS_FAILURE,
            STATUS.PING_FAILURE,
            STATUS.SOCKET_CONNECT_FAILURE,
            STATUS.UNKNOWN_FAILURE,
        }
        self.assertEqual({status for status in STATUS if is_missed(status)}, missed)

    def test_end_of_a_pause(self) -> None:
        """With a session the queue is connected again; one of a hardened queue manager stays locked."""
        for idle, is_served, expected in (
            (INACTIVE, False, INACTIVE),
            (INACTIVE, True, CONNECTED),
            (LOCKED, False, LOCKED),
            (LOCKED, True, LOCKED),
        ):
            self.assertIs(after_pause(idle, is_served=is_served), expected)
