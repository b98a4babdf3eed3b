"""State of an outgoing queue after each event, as functions of the state before. [MS-MQDMPR] 3.1.1.3 State.

A queue that is paused or locked stays so regardless of its sessions; only an administrator changes that.
"""

from __future__ import annotations

from typing import Final

from msmq.structures.management import ConnectionStatus, OutgoingState

STILL: Final = (OutgoingState.ON_HOLD, OutgoingState.LOCKED)
"""The states in which a queue does not send."""

_MISSED: Final = (
    ConnectionStatus.DNS_FAILURE,
    ConnectionStatus.PING_FAILURE,
    ConnectionStatus.SOCKET_CONNECT_FAILURE,
    ConnectionStatus.UNKNOWN_FAILURE,
)

_UNCONNECTED: Final = (OutgoingState.INACTIVE, OutgoingState.DISCONNECTED)


def after_opening(state: OutgoingState) -> OutgoingState:
    """A session with its next hop is open. [MS-MQQB] 3.1.5.4.2."""
    return state if state in STILL else OutgoingState.CONNECTED


def after_attempt(state: OutgoingState, status: ConnectionStatus) -> OutgoingState:
    """An attempt to connect to its next hop has made progress. [MS-MQQB] 3.1.5.2."""
    if state in STILL or status is ConnectionStatus.ESTABLISHED:
        return state
    if status is ConnectionStatus.DNS_FAILURE:
        return OutgoingState.NEED_VALIDATION
    return OutgoingState.WAITING


def is_missed(status: ConnectionStatus) -> bool:
    """Whether an attempt missed the next hop, so that other routes are looked up. [MS-MQQB] 3.1.7.5."""
    return status in _MISSED


def while_waiting(state: OutgoingState, *, can_dial: bool) -> OutgoingState:
    """Messages wait for a session. [MS-MQQB] 3.1.7.12.

    @param can_dial: its next hop can be dialled; if not, only a session that the peer opens can be used.
    """
    if can_dial:
        return OutgoingState.WAITING if state in _UNCONNECTED else state
    return OutgoingState.NEED_VALIDATION if state is OutgoingState.INACTIVE else state


def after_session(state: OutgoingState, *, is_served: bool) -> OutgoingState:
    """A session with its next hop has ended. [MS-MQQB] 3.1.5.9.

    @param is_served: another session leads there.
    """
    if state is OutgoingState.CONNECTED and not is_served:
        return OutgoingState.DISCONNECTING
    return state


def after_connection(state: OutgoingState) -> OutgoingState:
    """The connection of the ended session is closed."""
    return OutgoingState.DISCONNECTED if state is OutgoingState.DISCONNECTING else state


def after_rerouting(state: OutgoingState, *, is_served: bool) -> OutgoingState:
    """It has another next hop, by a redirect, a route or the directory. [MS-MQQB] 3.1.7.5.

    @param is_served: a session leads there.
    """
    return OutgoingState.DISCONNECTED if state is OutgoingState.CONNECTED and not is_served else state


def after_pause(idle: OutgoingState, *, is_served: bool) -> OutgoingState:
    """Its pause has ended. [MS-MQDMPR] 3.1.7.2.4 Resume Queue, readings 26 and 53.

    @param idle: its state without a session: locked, if the queue manager is hardened.
    @param is_served: a session leads to its next hop.
    """
    return OutgoingState.CONNECTED if is_served and idle is OutgoingState.INACTIVE else idle
