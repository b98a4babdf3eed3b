"""Packets that were made to break their readers: the public classes of flaws in readers of MSMQ.

Made from the byte layouts alone; each function takes the size that the packet, or the packets, shall have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

_DIRECT = 7 << 10
_PROPERTIES = 1 << 21
_TRANSACTION = 1 << 20
_SECURITY = 1 << 19
_SOAP = 1 << 28
_MULTI_QUEUE = 1 << 23
_DEBUG = 0x20

FIXED = 16 + 48 + 4 + 56
"""Bytes of a packet to the direct name of nothing, up to its label."""


def packet(size: int, user_flags: int, name: bytes, rest: bytes, base_flags: int = 0) -> bytes:
    """A UserMessage of this size to a direct name.

    @param name: DestinationQueue, with its Count and padding.
    @param rest: the bytes after the UserHeader, padded with letters or truncated to the size.
    """
    user = struct.pack(
        "<16s16sIIII",
        bytes(range(16)),
        bytes(16),
        0xFFFFFFFF,
        0,
        1,
        _DIRECT | _PROPERTIES | user_flags,
    )
    data = (user + name + rest).ljust(size - 16, b"a")[: size - 16]
    base = struct.pack("<BBHIII", 0x10, 0, 3 | base_flags, 0x524F494C, 16 + len(data), 0xFFFFFFFF)
    return base + data


def properties(*, label: int = 0, body: int = 0, extension: int = 0) -> bytes:
    """A MessagePropertiesHeader with these sizes, without what they are of."""
    return struct.pack("<BBH20sIIIIIIII", 0, label, 0, bytes(20), 0, 0, body, body, 0, 0, 0, extension)


NAME = struct.pack("<H", 2) + b"\0\0"


def benign(size: int) -> bytes:
    """A message of this size, all of it body."""
    return packet(size, 0, NAME, properties(body=size - FIXED))


def endless_name(size: int) -> bytes:
    """A direct name as long as may be, without its NUL."""
    count = min(0xFFFE, (size - 16 - 48 - 2) & ~1)
    return packet(size, 0, struct.pack("<H", count), b"")


def name_beyond_the_end(size: int) -> bytes:
    """A direct name that is longer than the packet, or at least than what is left of it."""
    rest = properties(body=size - FIXED)
    cut = packet(size, 1 << 13 | 7 << 13, NAME, struct.pack("<H", 0xFFFE) + rest)
    return cut


def label_beyond_the_end(size: int) -> bytes:
    """A label of 250 characters where the packet ends."""
    body = size - FIXED
    return packet(size, 0, NAME, properties(label=250, body=body))


def body_beyond_the_end(size: int) -> bytes:
    """MessageSize is all that 32 bits can say."""
    return packet(size, 0, NAME, properties(body=0xFFFFFFFF))


def sizes_that_overflow(size: int) -> bytes:
    """Extension and body, added in 32 bits, are what is there."""
    rest = size - FIXED
    return packet(size, 0, NAME, properties(body=(rest + 0x80000000) & 0xFFFFFFFF, extension=0x80000000))


def headers_that_are_absent(size: int) -> bytes:
    """Every header is announced, and the body is in their place."""
    flags = _TRANSACTION | _SECURITY | _SOAP | _MULTI_QUEUE
    return packet(size, flags, NAME, properties(body=size - FIXED), _DEBUG)


def security_beyond_the_end(size: int) -> bytes:
    """A SecurityHeader whose parts are as long as their fields can say."""
    security = struct.pack("<HHHHII", 0x000F, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    return packet(size, _SECURITY, NAME, security + properties())


def provider_that_never_ends(size: int) -> bytes:
    """A ProviderInfo that takes all the rest, whose name has no NUL."""
    return packet(size, _SECURITY, NAME, _provider(size))


def provider_of_halves(size: int) -> bytes:
    """The same with zeros that belong to two characters."""
    return packet(size, _SECURITY, NAME, _provider(size) + b"\1\0\0\1" * (size // 4))


def _provider(size: int) -> bytes:
    rest = size - 16 - 48 - len(NAME) - 16 - 4
    return struct.pack("<HHHHII", 0x0010, 0, 0, 4, 0, rest) + b"sign" + struct.pack("<I", 1)


def _lists(first: bytes) -> bytes:
    empty = struct.pack("<IHHI", 12, 0x00C8, 0, 0) + struct.pack("<IHHI", 12, 0x012C, 0, 0)
    return first + empty + struct.pack("<HHI", 0x015E, 0, 0)


def _with_list(size: int, count: int, names: bytes, header_size: int | None = None) -> bytes:
    names += bytes(-len(names) % 4)
    head = struct.pack("<IHHI", 12 + len(names) if header_size is None else header_size, 0x0064, 0, count)
    return packet(size, _MULTI_QUEUE, NAME, properties() + _lists(head + names))


_OTHERS = 12 + 12 + 12 + 8


def count_that_overflows(size: int) -> bytes:
    """A list says that it has as many names as 32 bits can say."""
    return _with_list(size, 0xFFFFFFFF, b"\3\0\0\0" * ((size - FIXED - _OTHERS) // 4))


def list_of_nothing(size: int) -> bytes:
    """As many empty names as fit, and their right number."""
    count = (size - FIXED - _OTHERS) // 4
    return _with_list(size - (size - FIXED - _OTHERS) % 4, count, b"\3\0\0\0" * count)


def list_as_long_as_may_be(size: int) -> bytes:
    """As many empty names as a list may have, or as fit."""
    count = min(10_000, (size - FIXED - _OTHERS) // 4)
    return _with_list(FIXED + _OTHERS + 4 * count, count, b"\3\0\0\0" * count)


def list_beyond_the_end(size: int) -> bytes:
    """A list that is longer than the packet."""
    return _with_list(size, 1, b"\3\0\0\0", 0xFFFFFFF0)


def name_of_halves(size: int) -> bytes:
    """One name in which every pair of zeros is across two characters."""
    room = (size - FIXED - _OTHERS - 4) // 8 * 8
    return _with_list(size, 1, b"\3\0" + b"\1\0\0\1\1\0\0\1" * (room // 8) + b"\0\0")


def envelope_that_overflows(size: int) -> bytes:
    """The characters of a SOAP section, times two, are 0 in 32 bits."""
    soap = struct.pack("<HHI", 0x0320, 0, 0x80000000)
    return packet(size, _SOAP, NAME, properties() + soap)


def envelope_as_long_as_may_be(size: int) -> bytes:
    """Two SOAP sections that share the packet; all of it is text."""
    room = (size - FIXED - 16) // 4
    text = ("a" * (room // 2 * 2 - 1) + "\0").encode("utf-16-le")
    characters = len(text) // 2
    section = struct.pack("<HHI", 0x0320, 0, characters) + text
    return packet(
        FIXED + 2 * len(section),
        _SOAP,
        NAME,
        properties() + section + struct.pack("<HHI", 0x0384, 0, characters) + text,
    )


def envelope_in_an_envelope(size: int) -> bytes:
    """Nested SOAP sections, each of which claims the whole rest."""
    count = (size - FIXED) // 8
    sections = [struct.pack("<HHI", 0x0320, 0, (size - FIXED - 8 * n - 8) // 2) for n in range(count)]
    return packet(size, _SOAP, NAME, properties() + b"".join(sections))


def envelope_that_ends_early(size: int) -> bytes:
    """A SOAP section with its NUL in front."""
    characters = (size - FIXED - 8) // 2
    return packet(size, _SOAP, NAME, properties() + struct.pack("<HHI", 0x0320, 0, characters) + b"\0\0")


def more_than_there_may_be(size: int) -> bytes:
    """PacketSize is one more than 4 MiB."""
    whole = benign(size)
    return whole[:8] + struct.pack("<I", 0x00400001) + whole[12:]


def flood_of_acknowledgements(size: int) -> bytes:
    """SessionAcks of nothing, one after the other."""
    base = struct.pack("<BBHIII", 0x10, 0, 0x001B, 0x524F494C, 36, 0xFFFFFFFF)
    ack = base + struct.pack("<HH", 0, 1) + struct.pack("<HHIHHHH", 0, 0, 0, 0, 0, 64, 0)
    return ack * (size // len(ack))


def flood_of_messages(size: int) -> bytes:
    """The smallest messages that there are, one after the other."""
    one = packet(FIXED, 0, NAME, properties())
    return one * (size // len(one))


def rubbish(size: int) -> bytes:
    """No packet at all."""
    return bytes(range(256)) * (size // 256)


HOSTILE: Mapping[str, Callable[[int], bytes]] = {
    function.__name__: function
    for function in (
        endless_name,
        name_beyond_the_end,
        label_beyond_the_end,
        body_beyond_the_end,
        sizes_that_overflow,
        headers_that_are_absent,
        security_beyond_the_end,
        provider_that_never_ends,
        provider_of_halves,
        count_that_overflows,
        list_of_nothing,
        list_as_long_as_may_be,
        list_beyond_the_end,
        name_of_halves,
        envelope_that_overflows,
        envelope_as_long_as_may_be,
        envelope_in_an_envelope,
        envelope_that_ends_early,
        more_than_there_may_be,
        flood_of_acknowledgements,
        flood_of_messages,
        rubbish,
    )
}
"""All of them by their names."""
