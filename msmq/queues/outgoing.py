"""[MS-MQDMPR] 3.1.1.3 OutgoingQueue: messages that wait for their way to another queue manager."""

from __future__ import annotations

import enum
from collections import deque

import attrs

from msmq.queues.queue import Queue
from msmq.structures.format_name import FormatName

HISTORY_LENGTH = 64
"""How many entries of its ConnectionHistory an outgoing queue remembers."""


class OutgoingState(enum.Enum):
    """[MS-MQDMPR] 3.1.1.3 State; the values are the texts of [MS-MQMQ] 2.3.12.11, where LOCKED has none."""

    INACTIVE = "INACTIVE"
    WAITING = "WAITING"
    CONNECTED = "CONNECTED"
    NEED_VALIDATION = "NEED VALIDATION"
    ON_HOLD = "ONHOLD"
    LOCKED = "LOCKED"
    DISCONNECTING = "DISCONNECTING"
    DISCONNECTED = "DISCONNECTED"


class ConnectionStatus(enum.IntEnum):
    """[MS-MQDMPR] 3.1.1.3 ConnectionHistory.Status, with the codes of [MS-MQMQ] 2.3.12.25."""

    IN_PROCESS = 0x00000000
    ESTABLISH_PACKET_RECEIVED = 0x00000001
    ESTABLISHED = 0x00000002
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILURE = 0x80000001
    SOCKET_CREATE_FAILURE = 0x80000002
    SOCKET_BIND_FAILURE = 0x80000003
    SOCKET_CONNECT_FAILURE = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SOCKET_SEND_FAILURE = 0x80000006
    CONNECTION_NOT_READY = 0x80000007
    DNS_FAILURE = 0x80000008
    CERTIFICATE_VALIDATION_FAILURE = 0x80000009
    CONNECTION_LIMIT_REACHED = 0x8000000A
    CONNECTION_REFUSED = 0x8000000B
    ROUTING_DATA_NOT_AVAILABLE = 0x8000000C
    LOW_RESOURCE = 0x8000000D

    @property
    def document_name(self) -> str:
        """The name that [MS-MQDMPR] gives it, for example C{InProcess}."""
        return self.name.title().replace("_", "")

    @classmethod
    def named(cls, document_name: str) -> ConnectionStatus:
        """The status of that name.

        @raise KeyError: no status has it.
        """
        return _BY_DOCUMENT_NAME[document_name]


_BY_DOCUMENT_NAME = {status.document_name: status for status in ConnectionStatus}


@attrs.frozen
class ConnectionHistoryEntry:
    """[MS-MQDMPR] 3.1.1.3 one member of ConnectionHistory.

    @ivar time: ConnectionHistoryTime, seconds since 1970-01-01 UTC.
    @ivar error: an HRESULT; 0 if there was no error.
    @ivar addresses: AddressList, the next hops that were tried.
    """

    status: ConnectionStatus
    time: int
    error: int = 0
    addresses: tuple[str, ...] = ()


@attrs.define(eq=False, kw_only=True)
class OutgoingQueue(Queue):
    """[MS-MQDMPR] 3.1.1.3 the queue of what goes to one format name; another name is another queue.

    @ivar destination: DestinationFormatName.
    @ivar next_hops: NextHops, the addresses that its messages can be sent to next.
    @ivar history: ConnectionHistory, the newest entry last; the oldest are forgotten.
    @ivar is_stored: the store was asked to keep its definition, as it is once it has recoverable messages.
    """

    destination: FormatName
    state: OutgoingState = OutgoingState.INACTIVE
    next_hops: tuple[str, ...] = ()
    history: deque[ConnectionHistoryEntry] = attrs.field(
        factory=lambda: deque(maxlen=HISTORY_LENGTH), repr=False
    )
    is_stored: bool = False

    @property
    def is_active(self) -> bool:
        """[MS-MQDMPR] 3.1.1.2 Active, as far as transfer goes: a message waits to be transferred."""
        return self.has_available
