"""Hypothesis strategies for the headers of packets, for whole UserMessages, and for spoilt ones."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from msmq.structures.identifiers import (
    DistributionListIdentifier,
    MessageIdentifier,
    MulticastIdentifier,
    ObjectIdentifier,
    SequenceInfo,
    TxSequenceID,
    XactUow,
)
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import (
    ElementName,
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.writer import Writer

u8s = st.integers(0, 0xFF)
u16s = st.integers(0, 0xFFFF)
u32s = st.integers(0, 0xFFFFFFFF)
u64s = st.integers(0, 0xFFFFFFFFFFFFFFFF)
i64s = st.integers(-(1 << 63), (1 << 63) - 1)

# A strategy that a composite makes is checked each time that it is drawn from; so those below are made here.
booleans = st.booleans()
uuids = st.uuids()
optional_uuids = st.none() | uuids
nibbles = st.integers(0, 15)
priorities = st.integers(0, 7)
never = st.just(False)
short_bytes = st.binary(max_size=9)

# U+0100 and U+0041 side by side put two zero bytes next to each other without a NUL between.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("AĀ𐀀"))

tx_sequence_ids = st.builds(TxSequenceID, u32s, u32s)
message_identifiers = st.builds(MessageIdentifier, uuids, u32s)
object_identifiers = st.builds(ObjectIdentifier, uuids, u32s)
sequence_infos = st.builds(SequenceInfo, i64s, u32s, u32s)
xact_uows = st.builds(XactUow, uuids)
distribution_list_identifiers = st.builds(DistributionListIdentifier, uuids, st.none() | texts.filter(bool))
multicast_identifiers = st.builds(MulticastIdentifier, u32s, u32s)

internal_headers = st.builds(InternalHeader, st.sampled_from(list(InternalPacketType)), booleans).filter(
    lambda header: not (header.is_refused and header.packet_type is InternalPacketType.SESSION_ACK)
)

session_headers = st.builds(SessionHeader, u16s, u16s, u32s, u16s, u16s, st.integers(1, 0xFFFF))


internal_packet_sizes = st.sampled_from(BaseHeader.INTERNAL_PACKET_SIZES)
user_packet_sizes = st.integers(BaseHeader.SMALLEST_USER_PACKET, BaseHeader.MAXIMUM_PACKET_SIZE)


@st.composite
def base_headers(draw: DrawFn) -> BaseHeader:
    """BaseHeaders of any packet."""
    if draw(booleans):
        return BaseHeader(
            draw(internal_packet_sizes),
            draw(priorities),
            is_internal=True,
            has_session_header=draw(booleans),
        )
    has_debug_header = draw(booleans)
    return BaseHeader(
        draw(user_packet_sizes),
        draw(priorities),
        has_session_header=draw(booleans),
        has_debug_header=has_debug_header,
        is_traced=has_debug_header and draw(booleans),
        time_to_reach_queue=draw(u32s),
    )


private_ids = st.builds(PrivateQueueFormatNameId, u32s)
public_names = st.builds(PublicQueueFormatName, uuids)
private_names = st.builds(PrivateQueueFormatName, uuids, u32s)
direct_texts = st.sampled_from(("OS:alpha\\private$\\orders", "TCP:10.0.0.5\\q", "DIRECT=OS:beta\\q")) | texts
direct_names = st.builds(DirectQueueFormatName, direct_texts)

NAMES_BY_KIND: dict[QueueNameKind, SearchStrategy[QueueName | None]] = {
    QueueNameKind.NONE: st.none(),
    QueueNameKind.SAME_AS_ADMIN_QUEUE: st.none(),
    QueueNameKind.PRIVATE_ON_SOURCE: private_ids,
    QueueNameKind.PRIVATE_ON_DESTINATION: private_ids,
    QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST: private_ids,
    QueueNameKind.PUBLIC: public_names,
    QueueNameKind.PRIVATE: private_names,
    QueueNameKind.DIRECT: direct_names,
}
DESTINATION_KINDS = (
    QueueNameKind.NONE,
    QueueNameKind.PRIVATE_ON_DESTINATION,
    QueueNameKind.PUBLIC,
    QueueNameKind.DIRECT,
)
ADMIN_KINDS = (
    QueueNameKind.NONE,
    QueueNameKind.PRIVATE_ON_SOURCE,
    QueueNameKind.PRIVATE_ON_DESTINATION,
    QueueNameKind.PUBLIC,
    QueueNameKind.PRIVATE,
    QueueNameKind.DIRECT,
)

destination_kinds = st.sampled_from(DESTINATION_KINDS)
admin_kinds = st.sampled_from(ADMIN_KINDS)
response_kinds = st.sampled_from(list(QueueNameKind))
hop_counts = st.integers(0, 0x1D)


@st.composite
def user_headers(draw: DrawFn, *, is_transactional: bool | None = None) -> UserHeader:
    """UserHeaders of any message; by default with arbitrary flags for other headers."""
    destination_kind = draw(destination_kinds)
    admin_kind = draw(admin_kinds)
    response_kind = draw(response_kinds)
    has_transaction = draw(booleans) if is_transactional is None else is_transactional
    announces = booleans if is_transactional is None else never
    return UserHeader(
        source_queue_manager=draw(uuids),
        queue_manager_address=draw(uuids),
        message_id=draw(u32s),
        sent_time=draw(u32s),
        time_to_be_received=draw(u32s),
        hop_count=draw(hop_counts),
        is_recoverable=has_transaction or draw(booleans),
        dead_letter=draw(booleans),
        journal=draw(booleans),
        destination_kind=destination_kind,
        destination_queue=draw(NAMES_BY_KIND[destination_kind]),
        admin_kind=admin_kind,
        admin_queue=draw(NAMES_BY_KIND[admin_kind]),
        response_kind=response_kind,
        response_queue=draw(NAMES_BY_KIND[response_kind]),
        connector_type=draw(optional_uuids),
        has_security_header=draw(announces),
        has_transaction_header=has_transaction,
        has_multi_queue_format_header=draw(announces),
        has_soap_header=draw(announces),
    )


transaction_headers = st.builds(
    TransactionHeader,
    tx_sequence_id=tx_sequence_ids,
    tx_sequence_number=st.integers(1, 0xFFFFFFFF),
    previous_tx_sequence_number=u32s,
    is_final_ack_wanted=booleans,
    is_first=booleans,
    is_last=booleans,
    transaction_id=st.integers(0, 0xFFFFF),
    connector_qm_guid=optional_uuids,
)

optional_provider_infos = st.none() | st.builds(ProviderInfo, u32s, texts)


@st.composite
def security_headers(draw: DrawFn) -> SecurityHeader:
    """With one item at least."""
    sender_id_type = draw(nibbles)
    is_default_provider = draw(booleans)
    header = SecurityHeader(
        sender_id_type,
        draw(short_bytes) if sender_id_type else b"",
        draw(short_bytes),
        draw(short_bytes),
        draw(short_bytes),
        None if is_default_provider else draw(optional_provider_infos),
        draw(booleans),
        is_default_provider,
    )
    if header == SecurityHeader(
        sender_id_type,
        is_body_encrypted=header.is_body_encrypted,
        is_default_provider=is_default_provider,
    ):
        return SecurityHeader(signature=b"signature")
    return header


labels = texts.filter(lambda text: len(text.encode("utf-16-le")) <= 2 * 249) | st.sampled_from(("x" * 249,))

bodies = st.binary(max_size=40)
correlation_ids = st.binary(min_size=20, max_size=20)
acknowledge_flags = st.integers(1, 15)


@st.composite
def message_properties_headers(draw: DrawFn, *, acknowledged: bool | None = None) -> MessagePropertiesHeader:
    """MessagePropertiesHeaders of any message."""
    body = draw(bodies)
    return MessagePropertiesHeader(
        message_body=body,
        label=draw(labels),
        extension_data=draw(short_bytes),
        flags=draw(nibbles) if acknowledged is None else draw(acknowledge_flags) * acknowledged,
        message_class=draw(u16s),
        correlation_id=draw(correlation_ids),
        body_type=draw(u32s),
        application_tag=draw(u32s),
        allocation_body_size=draw(st.integers(len(body), 0xFFFFFFFF)),
        privacy_level=draw(u32s),
        hash_algorithm=draw(u32s),
        encryption_algorithm=draw(u32s),
    )


debug_headers = st.builds(DebugHeader, optional_uuids)
soap_headers = st.builds(SoapHeader, texts, texts)

element_names: SearchStrategy[ElementName] = st.one_of(
    public_names,
    private_names,
    st.builds(MQFDirectQueueFormatName, direct_texts),
    st.builds(MQFDistributionQueueFormatName, uuids),
)
element_lists = st.lists(element_names, max_size=4)
multi_queue_format_headers = st.builds(
    MultiQueueFormatHeader.of, element_lists, element_lists, element_lists, short_bytes
)

optional_transaction_headers = st.none() | transaction_headers
optional_debug_headers = st.none() | debug_headers
optional_security_headers = st.none() | security_headers()
optional_soap_headers = st.none() | soap_headers
optional_multi_queue_format_headers = st.none() | multi_queue_format_headers
headers_of_messages = {each: user_headers(is_transactional=each) for each in (False, True)}
properties_of_messages = message_properties_headers()


@st.composite
def user_messages(draw: DrawFn, *, has_session_header: bool | None = None) -> UserMessage:
    """Any message, with sizes and flags as its parts have them."""
    transaction = draw(optional_transaction_headers)
    debug = draw(optional_debug_headers)
    wants_session = draw(booleans) if has_session_header is None else has_session_header
    return UserMessage(
        BaseHeader(
            priority=draw(priorities),
            is_traced=debug is not None and draw(booleans),
            time_to_reach_queue=draw(u32s),
        ),
        draw(headers_of_messages[transaction is not None]),
        draw(properties_of_messages),
        transaction,
        draw(optional_security_headers),
        debug,
        draw(optional_soap_headers),
        draw(optional_multi_queue_format_headers),
        draw(session_headers) if wants_session else None,
    ).completed()


def packet_of(message: UserMessage) -> bytes:
    """The bytes of a message as it is."""
    writer = Writer()
    message.write(writer)
    return writer.getvalue()


def user_packets() -> SearchStrategy[bytes]:
    """Packets as a queue keeps them, without a SessionHeader."""
    return _user_packets


_user_packets = user_messages(has_session_header=False).map(packet_of)
_up_to_three = st.integers(0, 3)
_up_to_one = st.integers(0, 1)
_bits = st.integers(0, 7)
_flag_positions = st.sampled_from((2, 3, 60, 61, 62, 63, 64, 65))
_changes = st.integers(-8, 8)


@st.composite
def spoilt_packets(draw: DrawFn) -> bytes:
    """Packets in which some bytes are others, or which are longer or shorter than they were.

    Half of those say their size truly.
    """
    packet = bytearray(draw(_user_packets))
    for _ in range(draw(_up_to_three)):
        packet[draw(st.integers(0, len(packet) - 1))] = draw(u8s)
    for _ in range(draw(_up_to_one)):
        # The flags and the sizes that follow them decide most.
        packet[draw(_flag_positions)] ^= 1 << draw(_bits)
    change = draw(_changes)
    data = bytes(packet[:change]) if change < 0 else bytes(packet) + draw(st.binary(max_size=change))
    if draw(booleans):
        return data[:8] + len(data).to_bytes(4, "little") + data[12:]
    return data
