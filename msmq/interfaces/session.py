"""ISession and IConnector: one session, and the connector that dials it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs
from zope.interface import Attribute, Interface

from msmq.session.effects import CloseReason
from msmq.session.state import SessionState
from msmq.session.statistics import SessionStatistics
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView


class ISession(Interface):
    """One session of [MS-MQQB] over one connection, on either side.

    Every event of the session has the same object, so it can be a key.
    """

    session_identifier: UUID = Attribute("Distinguishes it from every other session, for operators.")

    is_initiator: bool = Attribute("Whether this side opened the connection.")

    is_open: bool = Attribute("Whether the handshake is complete and the session has not ended.")

    state: SessionState = Attribute("[MS-MQQB] 3.1.1.3.1 SessionState.")

    statistics: SessionStatistics = Attribute("The packets sent and received so far.")

    remote_identifier: UUID | None = Attribute("The peer's queue manager identifier, once it has stated it.")

    remote_address: str = Attribute("The textual address of the peer, empty before there is a connection.")

    opened: float | None = Attribute("When it opened, seconds since 1970-01-01 UTC; C{None} before that.")

    last_heard: float | None = Attribute("When the last packet came from the peer; C{None} before that.")

    is_encrypted: bool = Attribute("Whether the connection uses TLS.")

    last_sent: float | None = Attribute("When the last packet was sent to the peer; C{None} before that.")

    dialled_for: object = Attribute("The key of its connector; C{None} for an accepted session.")

    capacity: int = Attribute(
        "The number of messages that L{send} accepts now; 0 while the peer reads slowly."
    )

    def send(messages: Sequence[OutgoingMessage]) -> None:
        """Send these messages, in this order.

        @raise msmq.errors.LocalProtocolError: they are more than C{capacity}.
        """

    def pause() -> None:
        """An outgoing queue that it serves is paused ([MS-MQQB] 3.1.7.13): reduce the peer's window."""

    def resume() -> None:
        """An outgoing queue that it serves is resumed ([MS-MQQB] 3.1.7.14)."""

    def persisted(through: int) -> None:
        """Recoverable messages that arrived on this session are stored, up to this number."""

    def report_rejection(message: UserMessageView, reason: str) -> None:
        """The broker refuses a message that arrived on this session; this calls its hook."""

    def close(reason: CloseReason = CloseReason.STOPPED) -> None:
        """End the session; one that has ended stops waiting to dial again, if the reason is C{STOPPED}."""


class IConnector(Interface):
    """Keeps at most one dialled session to a next hop, and dials again while messages wait for it."""

    session: ISession | None = Attribute("The session of the latest attempt, open or not.")

    addresses: Sequence[str] = Attribute("The addresses that the latest attempt found.")

    def connect(*, is_retry: bool = False) -> None:
        """Ensure that a session is open, is being opened, or will be tried again.

        @param is_retry: called by the retry timer ([MS-MQQB] 3.1.6.1).
        """

    next_attempt: float | None = Attribute(
        "The monotonic second of the next attempt; C{None} unless a retry is pending."
    )

    def retry_now() -> None:
        """Dial a pending retry at once; no effect otherwise."""

    def peer_is_there() -> None:
        """The peer has just sent something: dial a pending retry at once."""

    def stop() -> None:
        """Stop dialling, and close the session if there is one."""


@attrs.frozen
class RoutedHop:
    """NextHop: a queue manager that routing returned. [MS-MQQB] 3.1.1.3.1.3.

    @ivar host: its QualifiedComputerName.
    """

    identifier: UUID
    host: str
