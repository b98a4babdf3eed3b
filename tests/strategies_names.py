"""Hypothesis strategies for every kind of name, and for the structures that hold them."""

from __future__ import annotations

import ipaddress

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DirectProtocol,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    QueueSuffix,
)
from msmq.structures.names.path_name import PathKind, PathName
from msmq.structures.prop_variant import PropVariant

RESERVED = {"journal", "deadletter", "deadxact", "xactonly"}
COMPUTER_ALPHABET = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in "\\;,"]
QUEUE_ALPHABET = [chr(code) for code in range(0x21, 0x80) if chr(code) not in '"+,;\\']
DOMAIN_ALPHABET = [chr(code) for code in range(0x21, 0x7F) if chr(code) != ","]
BEYOND = [*'"+ äßŁ中🙂']
"""Characters that only lenient names hold."""

COMPUTER_SUFFIXES = (QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)
QUEUE_SUFFIXES = st.sampled_from((QueueSuffix.NONE, QueueSuffix.JOURNAL))


def names(alphabet: list[str], longest: int) -> SearchStrategy[str]:
    """Short names, and now and then one that is as long as it may be."""
    characters = st.sampled_from(alphabet)
    whole = characters.map(lambda character: character * longest)
    return st.text(characters, min_size=1, max_size=min(longest, 20)) | whole


def computers(*, lenient: bool = False) -> SearchStrategy[str]:
    """Names of computers."""
    return names(COMPUTER_ALPHABET + (BEYOND if lenient else []), 256)


def queues(*, lenient: bool = False) -> SearchStrategy[str]:
    """Names of queues that are neither private$ nor system$."""
    name = names(QUEUE_ALPHABET + ([*BEYOND, ","] if lenient else []), 124)
    return name.filter(lambda text: text.lower() not in ("private$", "system$"))


def subqueues(*, lenient: bool = False) -> SearchStrategy[str]:
    """Names of subqueues."""
    return names(QUEUE_ALPHABET + (BEYOND if lenient else []), 32).filter(
        lambda text: text.lower() not in RESERVED
    )


def addresses(protocol: DirectProtocol, *, lenient: bool) -> SearchStrategy[str]:
    """Addresses of computers, as each protocol has them."""
    match protocol:
        case DirectProtocol.TCP:
            return st.ip_addresses().map(str)
        case DirectProtocol.IPX:
            return st.from_regex(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{12}", fullmatch=True)
        case DirectProtocol.OS:
            return computers(lenient=lenient)
        case DirectProtocol.HTTP | DirectProtocol.HTTPS:
            host = names([each for each in COMPUTER_ALPHABET if each not in "/:[]"], 256)
            return host | st.ip_addresses(v=6).map(lambda address: f"[{address}]")


@st.composite
def direct_format_names(draw: st.DrawFn, *, lenient: bool = False) -> DirectFormatName:
    """Direct names of every protocol and form."""
    protocol = draw(st.sampled_from(list(DirectProtocol)))
    address = draw(addresses(protocol, lenient=lenient))
    port = draw(st.integers(0, 0xFFFF) | st.sampled_from((80, 443))) if protocol.is_http else None
    if draw(st.booleans()) and draw(st.booleans()):
        suffix = draw(st.sampled_from(COMPUTER_SUFFIXES))
        return DirectFormatName(protocol, address, suffix=suffix, port=port)
    queue = draw(queues(lenient=lenient))
    is_private = draw(st.booleans()) or queue.lower().startswith("private$/")
    if draw(st.booleans()):
        return DirectFormatName(protocol, address, queue, is_private, draw(QUEUE_SUFFIXES), port=port)
    subqueue = draw(subqueues(lenient=lenient))
    return DirectFormatName(protocol, address, queue, is_private, subqueue=subqueue, port=port)


def multicast_format_names() -> SearchStrategy[MulticastFormatName]:
    """Multicast names."""
    address = st.ip_addresses(v=4, network=ipaddress.IPv4Network("224.0.0.0/4")).map(str)
    return st.builds(MulticastFormatName, address, st.integers(0, 0xFFFF))


def format_names(*, lenient: bool = False) -> SearchStrategy[FormatName]:
    """Format names of every kind.

    @param lenient: whether to use characters that only lenient reading allows.
    """
    guid = st.uuids()
    domain = names(DOMAIN_ALPHABET + (BEYOND if lenient else []), 255)
    return st.one_of(
        direct_format_names(lenient=lenient),
        st.builds(PublicFormatName, guid, QUEUE_SUFFIXES),
        st.builds(PrivateFormatName, guid, st.integers(0, 0xFFFFFFFF), QUEUE_SUFFIXES),
        st.builds(DistributionListFormatName, guid, st.none() | domain),
        st.builds(MachineFormatName, guid, st.sampled_from(COMPUTER_SUFFIXES)),
        st.builds(ConnectorFormatName, guid, st.booleans()),
        multicast_format_names(),
    )


@st.composite
def path_names(draw: st.DrawFn, *, lenient: bool = False) -> PathName:
    """Path names of every kind."""
    computer = draw(st.just(".") | computers(lenient=lenient))
    queue = draw(queues(lenient=lenient))
    match draw(st.sampled_from(PathKind)):
        case PathKind.SYSTEM:
            word = draw(st.sampled_from(("journal", "DeadLetter", "DEADXACT")) | st.just(queue))
            return PathName(computer, word, PathKind.SYSTEM)
        case kind if draw(st.booleans()):
            return PathName(computer, queue, kind, draw(subqueues(lenient=lenient)))
        case kind:
            return PathName(computer, queue, kind, suffix=draw(QUEUE_SUFFIXES))


def _integers(bits: int, *, signed: bool) -> SearchStrategy[int]:
    return (
        st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else st.integers(0, (1 << bits) - 1)
    )


def prop_variants() -> SearchStrategy[PropVariant]:
    """Property variants of every type, with vectors of variants in one another."""
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=10)
    numbers = {
        16: _integers(8, signed=True),
        17: _integers(8, signed=False),
        2: _integers(16, signed=True),
        18: _integers(16, signed=False),
        3: _integers(32, signed=True),
        19: _integers(32, signed=False),
        20: _integers(64, signed=True),
        21: _integers(64, signed=False),
        11: st.booleans(),
        31: text,
        65: st.binary(max_size=10),
        72: st.uuids(),
        0x1011: st.binary(max_size=10),
    }
    elements: dict[int, SearchStrategy[object]] = {
        vt: numbers[vt & 0xFFF] for vt in (0x1012, 0x1003, 0x1013, 0x1015, 0x101F, 0x1048)
    }
    leaves = st.one_of(
        st.builds(PropVariant, st.sampled_from((0, 1)), st.none()),
        *(st.builds(PropVariant, st.just(vt), value) for vt, value in numbers.items()),
        *(
            st.builds(PropVariant, st.just(vt), st.lists(value, max_size=4).map(tuple))
            for vt, value in elements.items()
        ),
    )

    def vectors(inner: SearchStrategy[PropVariant]) -> SearchStrategy[PropVariant]:
        return st.builds(PropVariant, st.just(0x100C), st.lists(inner, max_size=3).map(tuple))

    return leaves | vectors(leaves) | vectors(leaves | vectors(leaves))
