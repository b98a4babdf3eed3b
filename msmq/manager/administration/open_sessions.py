"""Sessions with other queue managers by their identifiers."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.session import ISession
from msmq.interfaces.sessions import ISessions
from msmq.session.state import SessionState
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid

_ENDED = (SessionState.CLOSED, SessionState.WAITING_RECONNECT)


def open_session(sessions: ISessions, identifier: UUID) -> ISession:
    """The session with this identifier.

    @raise MQError: MQ_ERROR_INVALID_HANDLE it has ended, or there was none.
    """
    for session in sessions.connections:
        if session.session_identifier == identifier and session.state not in _ENDED:
            return session
    raise MQError(
        Status.MQ_ERROR_INVALID_HANDLE,
        f"there is no session {format_guid(identifier)}; it has ended, or there was none",
    )
