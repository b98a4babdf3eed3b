"""Decoder of the messages of an LDAP server, in bounded steps. RFC 4511 5.1.

The BER of LDAP has definite lengths only, so each element is found by its header. One entry may have a
hundred thousand values (the members of a group in OpenLDAP), which are decoded some at a time.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from msmq.directory.ldap.transport.wire import (
    PAGED_RESULTS,
    Answer,
    Entry,
    LdapWireError,
    Result,
    SearchReference,
)

LONGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Limit on the bytes of a message; MSMQ's longest attribute has one million."""

LONGEST_PASSED_OVER: Final = 1024 * 1024 * 1024
"""Limit on the bytes of a message that is skipped; a longer one is not LDAP."""

PARTS_AT_ONCE: Final = 4000
"""Attributes and values of an entry that are decoded in one step."""

MOST_PARTS: Final = 250_000
"""Limit on the attributes and values of one entry."""

MOST_REFERRALS: Final = 100
MOST_CONTROLS: Final = 100
MOST_ELEMENTS: Final = 16
"""Limit on the elements of a result, or of a control, that are examined; RFC 4511 has three."""
LONGEST_TEXT: Final = 1000
"""Characters of a diagnostic message that are kept."""

HEAD: Final = 4096
"""The first bytes of a message, with its messageID, and its entry's name if that is not very long."""

_INTEGER: Final = 0x02
_OCTET_STRING: Final = 0x04
_ENUMERATED: Final = 0x0A
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_CONTROLS: Final = 0xA0

_ENTRY: Final = 0x64
_REFERENCE: Final = 0x73
_RESULTS: Final = {
    0x61: "BindResponse",
    0x65: "SearchResultDone",
    0x67: "ModifyResponse",
    0x69: "AddResponse",
    0x6B: "DelResponse",
    0x78: "ExtendedResponse",
}
_REFERRALS: Final = 0xA3
_CREDENTIALS: Final = 0x87
"""RFC 4511 4.1.9 referral of a result, and 4.2.2 serverSaslCreds of a BindResponse."""

_MOST_DIGITS: Final = 4


class LdapTooLongError(LdapWireError):
    """A message is too long, or has too many parts; the next one can be read.

    @ivar number: its messageID.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


def message_length(data: bytes | bytearray, start: int) -> int | None:
    """The bytes of the message that begins at C{start}; C{None} if its header has not arrived.

    @raise LdapWireError: no message begins there, or it is longer than L{LONGEST_PASSED_OVER}.
    """
    if len(data) < start + 2:
        return None
    if data[start] != _SEQUENCE:
        raise LdapWireError(f"an LDAP message begins with 0x{data[start]:02X}")
    length, head = data[start + 1], 2
    if length & 0x80:
        digits = length & 0x7F
        if not 1 <= digits <= _MOST_DIGITS:
            raise LdapWireError(f"the length of an LDAP message has {digits} bytes")
        head += digits
        if len(data) < start + head:
            return None
        length = int.from_bytes(data[start + 2 : start + head], "big")
    if length > LONGEST_PASSED_OVER:
        raise LdapWireError(f"an LDAP message of {length} bytes; at most {LONGEST_MESSAGE} are accepted")
    return head + length


def message_number(message: bytes) -> int:
    """The messageID of a message, from its first bytes.

    @raise LdapWireError: it has none.
    """
    _, offset, _ = _header(message, 0)
    return _number(message, offset, len(message))[0]


def too_long(head: bytes, length: int) -> LdapTooLongError:
    """The error of a message that is discarded.

    @param head: its first bytes, L{HEAD} of them.
    @param length: in bytes.
    @raise LdapWireError: it is none.
    """
    _, offset, _ = _header(head, 0)
    number, offset = _number(head, offset, len(head))
    name = "an answer"
    if head[offset : offset + 1] == bytes([_ENTRY]):
        _, start, _ = _header(head, offset)
        _, start, stop = _header(head, start)
        name = _text(head[start:stop])[:LONGEST_TEXT] or name
    return LdapTooLongError(number, f"{name} has {length} bytes; at most {LONGEST_MESSAGE} are accepted")


def decode(message: bytes) -> tuple[int, Answer]:
    """The messageID and the contents of one whole LDAPMessage, in one step.

    @raise LdapWireError: as L{decoding} does.
    """
    steps = decoding(message)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: tuple[int, Answer] = ended.value
            return found


def decoding(message: bytes) -> Generator[None, None, tuple[int, Answer]]:
    """The messageID and the contents of one whole LDAPMessage.

    Elements that later versions of the protocol may append to the known ones are skipped
    (RFC 4511 4).

    @return: a generator that yields between the steps, each of at most L{PARTS_AT_ONCE} parts.
    @raise LdapTooLongError: an entry has more parts than L{MOST_PARTS}.
    @raise LdapWireError: it is not a message, or not one of a server.
    """
    tag, offset, end = _element(message, 0, len(message))
    if tag != _SEQUENCE or end != len(message):
        raise LdapWireError(f"{len(message)} bytes are not an LDAP message")
    number, offset = _number(message, offset, end)
    tag, start, stop = _element(message, offset, end)
    if tag == _ENTRY:
        return number, (yield from _entry(message, start, stop, number))
    if tag == _REFERENCE:
        return number, SearchReference()
    if tag not in _RESULTS:
        raise LdapWireError(f"an LDAP message of the kind 0x{tag:02X}, which a server does not send")
    return number, _result(message, start, stop, _cookie(message, stop, end))


def _entry(data: bytes, offset: int, end: int, number: int) -> Generator[None, None, Entry]:
    """RFC 4511 4.5.2 SearchResultEntry."""
    start, offset = _expected(data, offset, end, _OCTET_STRING, "the name of an entry")
    name = _text(data[start:offset])
    offset, end = _expected(data, offset, end, _SEQUENCE, "the attributes of an entry")
    held: dict[str, tuple[bytes, ...]] = {}
    parts = 0
    while offset < end:
        start, after = _expected(data, offset, end, _SEQUENCE, "an attribute")
        stop, value = _expected(data, start, after, _OCTET_STRING, "the name of an attribute")
        attribute = _text(data[stop:value]).lower()
        if attribute in held:
            raise LdapWireError(f"{name}: the attribute {attribute} twice in one LDAP message")
        value, stop = _expected(data, value, after, _SET, f"the values of {attribute}")
        values: list[bytes] = []
        while value < stop:
            upto = value + 2
            # Most values are short, and a call for each would take half of the time.
            if (
                upto <= stop
                and data[value] == _OCTET_STRING
                and upto + data[value + 1] <= min(stop, upto + 127)
            ):
                value = upto + data[value + 1]
            else:
                upto, value = _expected(data, value, stop, _OCTET_STRING, f"a value of {attribute}")
            values.append(data[upto:value])
            parts += 1
            if not parts % PARTS_AT_ONCE:
                _check_parts(name, parts, number)
                yield
        if values:
            held[attribute] = tuple(values)
        offset = after
        parts += 1
        if not parts % PARTS_AT_ONCE:
            _check_parts(name, parts, number)
            yield
    return Entry(name, held)


def _check_parts(name: str, parts: int, number: int) -> None:
    if parts > MOST_PARTS:
        raise LdapTooLongError(
            number, f"{name[:LONGEST_TEXT]} has more than {MOST_PARTS} attributes and values"
        )


def _result(data: bytes, offset: int, end: int, cookie: bytes) -> Result:
    """RFC 4511 4.1.9 LDAPResult, with what a BindResponse has in addition."""
    start, offset = _expected(data, offset, end, _ENUMERATED, "the code of a result")
    if not 1 <= offset - start <= _MOST_DIGITS:
        raise LdapWireError(f"the code of a result in an LDAP message has {offset - start} bytes")
    code = int.from_bytes(data[start:offset], "big")
    _, offset = _expected(data, offset, end, _OCTET_STRING, "the name in a result")
    start, offset = _expected(data, offset, end, _OCTET_STRING, "the text of a result")
    # Active Directory ends its texts with a NUL.
    said = _text(data[start : min(offset, start + 4 * LONGEST_TEXT)])[:LONGEST_TEXT].rstrip("\0\n ")
    referrals: tuple[str, ...] = ()
    credentials = b""
    for _ in range(MOST_ELEMENTS):
        if offset >= end:
            break
        tag, start, offset = _element(data, offset, end)
        if tag == _REFERRALS:
            referrals = _urls(data, start, offset)
        elif tag == _CREDENTIALS:
            credentials = data[start:offset]
    return Result(code, said, cookie, referrals, credentials)


def _urls(data: bytes, offset: int, end: int) -> tuple[str, ...]:
    found: list[str] = []
    while offset < end and len(found) < MOST_REFERRALS:
        start, offset = _expected(data, offset, end, _OCTET_STRING, "the URL of a referral")
        found.append(_text(data[start : min(offset, start + 4 * LONGEST_TEXT)]))
    return tuple(found)


def _cookie(data: bytes, offset: int, end: int) -> bytes:
    """RFC 2696 the cookie in the controls of a message; empty if there is none."""
    if offset == end:
        return b""
    tag, offset, end = _element(data, offset, end)
    if tag != _CONTROLS:
        return b""
    count = 0
    while offset < end:
        count += 1
        if count > MOST_CONTROLS:
            raise LdapWireError(f"an LDAP message has more than {MOST_CONTROLS} controls")
        start, after = _expected(data, offset, end, _SEQUENCE, "a control")
        kind, start = _expected(data, start, after, _OCTET_STRING, "the OID of a control")
        if data[kind:start] == PAGED_RESULTS:
            return _page(data, start, after)
        offset = after
    return b""


def _page(data: bytes, offset: int, end: int) -> bytes:
    # criticality may precede the value.
    for _ in range(MOST_ELEMENTS):
        if offset >= end:
            break
        tag, start, offset = _element(data, offset, end)
        if tag == _OCTET_STRING:
            start, offset = _expected(data, start, offset, _SEQUENCE, "the value of the control of pages")
            _, start = _expected(data, start, offset, _INTEGER, "the size of a page")
            start, offset = _expected(data, start, offset, _OCTET_STRING, "the cookie of a page")
            return data[start:offset]
    return b""


def _number(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """The messageID, and where the next element begins."""
    start, offset = _expected(data, offset, end, _INTEGER, "the messageID")
    if not 1 <= offset - start <= _MOST_DIGITS:
        raise LdapWireError(f"the messageID of an LDAP message has {offset - start} bytes")
    return int.from_bytes(data[start:offset], "big"), offset


def _text(data: bytes) -> str:
    # A name that is not UTF-8 affects one entry; the others of an answer can be used.
    return data.decode("utf-8", "replace")


def _expected(data: bytes, offset: int, end: int, tag: int, what: str) -> tuple[int, int]:
    """The bounds of the contents of an element.

    @raise LdapWireError: it has another tag.
    """
    found, start, stop = _element(data, offset, end)
    if found != tag:
        raise LdapWireError(f"{what} in an LDAP message has the tag 0x{found:02X} and not 0x{tag:02X}")
    return start, stop


def _element(data: bytes, offset: int, end: int) -> tuple[int, int, int]:
    """The tag of an element, and the bounds of its contents.

    @raise LdapWireError: it ends behind C{end}.
    """
    tag, start, stop = _header(data, offset)
    if stop > end:
        raise LdapWireError(f"an element of {stop - start} bytes in an LDAP message of {end - offset}")
    return tag, start, stop


def _header(data: bytes, offset: int) -> tuple[int, int, int]:
    """The same for an element that may be incomplete."""
    start = offset + 2
    if start > len(data):
        raise LdapWireError("an LDAP message ends within the header of an element")
    length = data[offset + 1]
    if length & 0x80:
        digits = length & 0x7F
        if not 1 <= digits <= _MOST_DIGITS:
            raise LdapWireError(f"the length of an element in an LDAP message has {digits} bytes")
        if start + digits > len(data):
            raise LdapWireError("an LDAP message ends within the header of an element")
        length = int.from_bytes(data[start : start + digits], "big")
        start += digits
    return data[offset], start, start + length
