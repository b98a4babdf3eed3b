"""Values of management properties: queue type, state, next hops, multicast. [MS-MQMQ] 2.3.12 and 2.3.1.23."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from msmq.quoting import quoted
from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    read_multicast_address,
)
from msmq.structures.names.name_text import Span
from msmq.structures.prop_variant import PropVariant, VarEnum
from msmq.structures.status import MQError, Status
from msmq.wire.guid import GUID_TEXT, format_guid

PROPID_MGMT_QUEUE_NEXTHOPS: Final = 12
"""[MS-MQMQ] 2.3.12.12."""


class ManagementQueueType(enum.Enum):
    """PROPID_MGMT_QUEUE_TYPE. [MS-MQMQ] 2.3.12.3."""

    PUBLIC = "PUBLIC"
    PRIVATE = "PRIVATE"
    MACHINE = "MACHINE"
    CONNECTOR = "CONNECTOR"
    MULTICAST = "MULTICAST"

    @classmethod
    def of(cls, name: FormatName) -> ManagementQueueType:
        """The type of the queue with this format name.

        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a distribution list.
        """
        match name:
            case DirectFormatName(is_system=True) | MachineFormatName():
                return cls.MACHINE
            case DirectFormatName(is_private=True) | PrivateFormatName():
                return cls.PRIVATE
            case DirectFormatName() | PublicFormatName():
                return cls.PUBLIC
            case ConnectorFormatName():
                return cls.CONNECTOR
            case MulticastFormatName():
                return cls.MULTICAST
            case DistributionListFormatName():
                status = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
                raise MQError(status, f"{name} is a distribution list, not a queue")


class ManagementTransactional(enum.Enum):
    """PROPID_MGMT_QUEUE_XACT. [MS-MQMQ] 2.3.12.5."""

    UNKNOWN = "UNKNOWN"
    YES = "YES"
    NO = "NO"

    @classmethod
    def of(cls, is_transactional: bool | None) -> ManagementTransactional:
        """The text for a queue that is transactional or not; of a remote queue it is often unknown."""
        if is_transactional is None:
            return cls.UNKNOWN
        return cls.YES if is_transactional else cls.NO


class ManagementQueueState(enum.Enum):
    """PROPID_MGMT_QUEUE_STATE, the texts for the states of a queue. [MS-MQMQ] 2.3.12.11."""

    LOCAL_CONNECTION = "LOCAL CONNECTION"
    INACTIVE = "INACTIVE"
    WAITING = "WAITING"
    NEED_VALIDATION = "NEED VALIDATION"
    ONHOLD = "ONHOLD"
    CONNECTED = "CONNECTED"
    DISCONNECTING = "DISCONNECTING"
    DISCONNECTED = "DISCONNECTED"


class OutgoingState(enum.Enum):
    """State. [MS-MQDMPR] 3.1.1.3.

    The values are the texts of [MS-MQMQ] 2.3.12.11, which has none for LOCKED; its LOCAL CONNECTION is no
    state of an outgoing queue.
    """

    INACTIVE = ManagementQueueState.INACTIVE.value
    WAITING = ManagementQueueState.WAITING.value
    CONNECTED = ManagementQueueState.CONNECTED.value
    NEED_VALIDATION = ManagementQueueState.NEED_VALIDATION.value
    ON_HOLD = ManagementQueueState.ONHOLD.value
    LOCKED = "LOCKED"
    DISCONNECTING = ManagementQueueState.DISCONNECTING.value
    DISCONNECTED = ManagementQueueState.DISCONNECTED.value


class ConnectionStatus(enum.IntEnum):
    """PROPID_MGMT_QUEUE_CONNECTION_HISTORY, and [MS-MQDMPR] 3.1.1.3 ConnectionHistory. [MS-MQMQ] 2.3.12.25.

    The first has the codes, the second the names of the results of an attempt to connect.
    """

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
    def is_failure(self) -> bool:
        """Whether the attempt to connect has failed."""
        return self >= ConnectionStatus.UNKNOWN_FAILURE

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


_BY_DOCUMENT_NAME: Final = {status.document_name: status for status in ConnectionStatus}


NextHop = ipaddress.IPv4Address | ipaddress.IPv6Address | UUID
"""Where messages go next: an address, or the GUID of a foreign connected network."""


def format_next_hop(hop: NextHop | str) -> str:
    """The text of one next hop. [MS-MQMQ] 2.3.12.12.

    @param hop: the hop, or an IP address as text.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE if the text is not an IP address.
    """
    if isinstance(hop, str):
        try:
            hop = ipaddress.ip_address(hop)
        except ValueError:
            raise _illegal(f"{quoted(hop)} is not an IP address") from None
    match hop:
        case ipaddress.IPv4Address():
            return f"IP={hop}"
        case ipaddress.IPv6Address():
            return f"IPv6={hop}"
        case UUID():
            return f"FOREIGN={format_guid(hop)}"


def parse_next_hop(text: str) -> NextHop:
    """Parse the text of one next hop, whose literal part ignores case. [MS-MQMQ] 2.3.12.12.

    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
    """
    kind, _, value = text.partition("=")
    try:
        match kind.lower():
            case "ip":
                return ipaddress.IPv4Address(value)
            case "ipv6":
                return ipaddress.IPv6Address(value)
            case "foreign" if GUID_TEXT.fullmatch(value):
                return UUID(value)
    except ValueError as error:
        raise _illegal(f"{quoted(text)} is not a next hop: {error}") from None
    raise _illegal(f"{quoted(text)} is not one of IP=, IPv6= and FOREIGN= with an address")


def next_hops_property(hops: Iterable[NextHop | str]) -> PropVariant:
    """The value of PROPID_MGMT_QUEUE_NEXTHOPS. [MS-MQMQ] 2.3.12.12.

    @raise MQError: as L{format_next_hop}.
    """
    return PropVariant(VarEnum.VT_VECTOR | VarEnum.VT_LPWSTR, tuple(map(format_next_hop, hops)))


def parse_multicast_address(text: str) -> MulticastFormatName:
    """Parse the multicast address that a queue listens to, C{234.1.1.1:8001}. [MS-MQMQ] 2.3.1.23.

    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
    """
    address, port = read_multicast_address(Span.of(text, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE))
    return MulticastFormatName(address, port)


def format_multicast_address(name: MulticastFormatName) -> str:
    """The text of the multicast address that a queue listens to. [MS-MQMQ] 2.3.1.23."""
    return f"{name.address}:{name.port}"


def _illegal(detail: str) -> MQError:
    return MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, detail)
