"""Effects of a session, performed in order after the call that returned them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError

if TYPE_CHECKING:
    from msmq.structures.packet.outgoing_message import OutgoingMessage
    from msmq.structures.packet.user_message_view import UserMessageView


class CloseReason(enum.Enum):
    """Why a session ended, for the event log, the hooks and the connection history."""

    MALFORMED_PACKET = "malformed packet"
    OUT_OF_TURN = "unexpected packet"
    REFUSED = "refused"
    REFUSED_BY_PEER = "refused by the peer"
    WRONG_PEER = "another queue manager answered"
    INITIALIZATION_TIMEOUT = "handshake not finished in time"
    CROWDED_OUT = "too many handshakes at once"
    IDLE = "idle"
    ACK_TIMEOUT = "no acknowledgement in time"
    BAD_ACKNOWLEDGEMENT = "acknowledgement of unsent messages"
    COUNT_MISMATCH = "message counts differ"
    CONNECT_FAILED = "connection failed"
    CONNECTION_LOST = "connection lost"
    STOPPED = "stopped"
    OPERATOR = "closed by an operator"
    UNSUPPORTED_MESSAGE = "message that cannot be stored"
    NOT_FROM_ITS_SENDER = "message of another queue manager"
    NO_RESOURCES = "no capacity for messages"
    GUESSING = "too many acknowledgements that match no message"
    STALLED = "incomplete packet while memory is short"
    INTERNAL_ERROR = "internal error"


class ConnectionProgress(enum.Enum):
    """The entries of an attempt in OutgoingQueue.ConnectionHistory. [MS-MQQB] 3.1.5.2 to 3.1.5.4."""

    IN_PROCESS = "InProcess"
    ESTABLISH_PACKET_RECEIVED = "EstablishPacketReceived"
    ESTABLISHED = "Established"
    PING_FAILURE = "PingFailure"
    SOCKET_CONNECT_FAILURE = "SocketConnectFailure"
    DNS_FAILURE = "DnsFailure"
    CONNECTION_REFUSED = "ConnectionRefused"
    UNKNOWN_FAILURE = "UnknownFailure"


@attrs.frozen
class Transmit:
    """Write these bytes to the connection.

    @ivar is_awaited: the peer may be waiting for them.
    """

    chunks: Sequence[bytes] = attrs.field(repr=False)
    is_awaited: bool = False


@attrs.frozen
class Deliver:
    """These messages arrived, in this order.

    Recoverable ones among them are numbered consecutively from C{first_recoverable}; when they are stored or
    permanently refused, L{msmq.session.session.Session.persisted} is called with the last number.
    """

    messages: Sequence[UserMessageView] = attrs.field(repr=False)
    first_recoverable: int


@attrs.frozen
class Acknowledged:
    """The peer has acknowledged these messages."""

    messages: Sequence[OutgoingMessage] = attrs.field(repr=False)


@attrs.frozen
class Progress:
    """An entry for the connection history of the queues that wait for this session."""

    status: ConnectionProgress


@attrs.frozen
class Opened:
    """The handshake is complete; messages may flow."""

    remote_identifier: UUID


@attrs.frozen
class WindowOpened:
    """More messages may be sent than before."""


@attrs.frozen
class Disconnect:
    """Close the connection after its buffer is written; there is no closing packet ([MS-MQQB] 3.1.5.9)."""


@attrs.frozen
class Abort:
    """Abort the connection now: its peer does not read the last bytes."""


@attrs.frozen
class Closed:
    """The session has ended; C{unacknowledged} return to their outgoing queues, in order."""

    reason: CloseReason
    unacknowledged: Sequence[OutgoingMessage] = attrs.field(repr=False)
    error: RemoteProtocolError | None = None


@attrs.frozen
class Reconnect:
    """The Session Retry Connect Timer expired: dial again, with a new session ([MS-MQQB] 3.1.6.1)."""


Effect: TypeAlias = (
    Transmit
    | Deliver
    | Acknowledged
    | Progress
    | Opened
    | WindowOpened
    | Disconnect
    | Abort
    | Closed
    | Reconnect
)
