"""LDAP messages as bytes: what is asked, what is answered, and where one message ends.

The encoding is ldaptor's; values are bytes on both sides, and nothing is escaped on the way.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from ldaptor.protocols import pureber, pureldap

from msmq.directory.ldap.transport.filters import All, Equal, Filter, Present
from msmq.errors import MsmqError

LONGEST_MESSAGE: Final = 16 * 1024 * 1024
"""How many bytes an answer may have; MSMQ's longest attribute has one million."""

PAGED_RESULTS: Final = b"1.2.840.113556.1.4.319"
SECURITY_PARTS: Final = b"1.2.840.113556.1.4.801"
"""The control by which Active Directory is told which parts of a security descriptor are meant."""

_SEQUENCE: Final = 0x30
_REFERRAL: Final = 10
_REFERRALS: Final = 0xA3
"""RFC 4511 4.1.9 the tag of the referral in a result, which ldaptor passes over."""

_ADD: Final = 0
_DELETE: Final = 1
_REPLACE: Final = 2
"""RFC 4511 4.6 what a modification does to the values of an attribute."""


class LdapWireError(MsmqError):
    """What a server sent is no LDAP."""


class _KnownTags(pureber.BERDecoderContext):  # type: ignore[misc]
    """The basic elements; ldaptor prints one of another tag to standard output, and goes on without it."""

    def lookup_id(self, id: int) -> Any:
        """The class of an element."""
        found = super().lookup_id(id)
        if found is None:
            raise LdapWireError(f"an element of the unknown tag 0x{id:02X} in an LDAP message")
        return found


_DECODER: Final = pureldap.LDAPBERDecoderContext_TopLevel(
    inherit=pureldap.LDAPBERDecoderContext_LDAPMessage(
        fallback=pureldap.LDAPBERDecoderContext(fallback=_KnownTags()),
        inherit=pureldap.LDAPBERDecoderContext(fallback=_KnownTags()),
    )
)


class Scope(enum.Enum):
    """RFC 4511 4.5.1.2 which entries are searched."""

    ENTRY = pureldap.LDAP_SCOPE_baseObject
    CHILDREN = pureldap.LDAP_SCOPE_singleLevel
    TREE = pureldap.LDAP_SCOPE_wholeSubtree


Values: TypeAlias = Mapping[str, Sequence[bytes]]
"""The values of attributes by their names."""


@attrs.frozen
class Bind:
    """Say who we are; nobody, if C{name} is empty."""

    name: str
    password: bytes = attrs.field(repr=False)


@attrs.frozen
class SaslBind:
    """RFC 4511 4.2 one step of a bind by a SASL mechanism."""

    mechanism: str
    credentials: bytes = attrs.field(repr=False)


@attrs.frozen
class StartTls:
    """Speak TLS from now on."""


@attrs.frozen
class SearchRequest:
    """Find entries.

    @ivar attributes: those that are wanted; all but operational ones if there are none.
    """

    base: str
    scope: Scope
    filter: Filter
    attributes: tuple[str, ...] = ()


@attrs.frozen
class Add:
    """Make an entry."""

    name: str
    values: Values


@attrs.frozen
class Modify:
    """Give attributes of an entry other values; none for those that have an empty sequence."""

    name: str
    values: Values


@attrs.frozen
class Exchange:
    """Give attributes of an entry other values, if they still have those that they had.

    What was there and is to go has to be there, and what is to come must not be; so of two who exchange the
    same value, only one can.

    @ivar former: the values until now, as C{values} are those from now on.
    """

    name: str
    former: Values
    values: Values


@attrs.frozen
class Delete:
    """Remove an entry that has none below it."""

    name: str


Request: TypeAlias = Bind | SaslBind | StartTls | SearchRequest | Add | Modify | Exchange | Delete


@attrs.frozen
class LdapControl:
    """RFC 4511 4.1.11 Control."""

    kind: bytes
    value: bytes | None = None
    is_critical: bool = False


@attrs.frozen
class Entry:
    """RFC 4511 4.5.2 SearchResultEntry.

    @ivar values: by the names of the attributes in lower case; no attribute is without values.
    """

    name: str
    values: Mapping[str, tuple[bytes, ...]] = attrs.field(repr=False)

    def first(self, attribute: str) -> bytes | None:
        """The value of an attribute that has one."""
        values = self.values.get(attribute.lower())
        return values[0] if values else None

    def all(self, attribute: str) -> tuple[bytes, ...]:
        """The values of an attribute, in no order."""
        return self.values.get(attribute.lower(), ())


@attrs.frozen
class Result:
    """RFC 4511 4.1.9 LDAPResult, which ends every operation.

    @ivar cookie: of the paged results; empty after the last page.
    @ivar referrals: RFC 4511 4.1.10 the URLs of other servers to ask.
    @ivar credentials: RFC 4511 4.2.2 the server's step of a SASL bind.
    """

    code: int
    message: str = ""
    cookie: bytes = b""
    referrals: tuple[str, ...] = ()
    credentials: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class SearchReference:
    """RFC 4511 4.5.3 SearchResultReference: part of what was searched is on another server."""


Answer: TypeAlias = Entry | SearchReference | Result


def encode(number: int, request: Request, controls: Sequence[LdapControl] = ()) -> bytes:
    """An LDAPMessage.

    @param number: messageID.
    """
    packed = [(control.kind, control.is_critical or None, control.value) for control in controls]
    message = pureldap.LDAPMessage(_operation(request), controls=packed or None, id=number)
    return bytes(message.toWire())


def decode(message: bytes) -> tuple[int, Answer]:
    """The messageID and the contents of one whole LDAPMessage.

    @raise LdapWireError: it is none, or none that a server sends.
    """
    try:
        decoded, used = pureber.berDecodeObject(_DECODER, message)
        if decoded is None or used != len(message):
            raise LdapWireError(f"{len(message)} bytes are no LDAP message")
        answer = _answer(decoded)
        if isinstance(answer, Result) and answer.code == _REFERRAL:
            answer = attrs.evolve(answer, referrals=_referrals(message))
        return decoded.id, answer
    except LdapWireError:
        raise
    # What ldaptor raises for malformed input is not told; assertions and look-up errors are among it.
    except Exception as error:
        raise LdapWireError(f"an LDAP message cannot be read: {type(error).__name__} {error}") from error


def whole_message(data: bytes | bytearray, start: int) -> int | None:
    """Where the message that begins at C{start} ends; C{None} if that has not arrived.

    @raise LdapWireError: none begins there, or it is too long.
    """
    if len(data) < start + 2:
        return None
    if data[start] != _SEQUENCE:
        raise LdapWireError(f"an LDAP message begins with 0x{data[start]:02X}")
    length, head = data[start + 1], 2
    if length & 0x80:
        digits = length & 0x7F
        if not 1 <= digits <= 4:
            raise LdapWireError(f"the length of an LDAP message has {digits} bytes")
        head += digits
        if len(data) < start + head:
            return None
        length = int.from_bytes(data[start + 2 : start + head], "big")
    if length > LONGEST_MESSAGE:
        raise LdapWireError(f"an LDAP message of {length} bytes; at most {LONGEST_MESSAGE} are taken")
    end = start + head + length
    return end if len(data) >= end else None


def paged(size: int, cookie: bytes) -> LdapControl:
    """RFC 2696 ask for at most so many entries, after those before C{cookie}."""
    value = pureber.BERSequence([pureber.BERInteger(size), pureber.BEROctetString(cookie)])
    return LdapControl(PAGED_RESULTS, bytes(value.toWire()))


def security_parts(flags: int) -> LdapControl:
    """[MS-ADTS] 3.1.1.3.4.1.11 read or write these parts: 1 owner, 2 group, 4 DACL, 8 SACL."""
    return LdapControl(SECURITY_PARTS, bytes(pureber.BERSequence([pureber.BERInteger(flags)]).toWire()), True)


def _operation(request: Request) -> Any:
    match request:
        case Bind(name, password):
            return pureldap.LDAPBindRequest(dn=name, auth=password)
        case SaslBind(mechanism, credentials):
            return pureldap.LDAPBindRequest(dn="", auth=(mechanism.encode(), credentials), sasl=True)
        case StartTls():
            return pureldap.LDAPStartTLSRequest()
        case SearchRequest(base, scope, wanted, attributes):
            return pureldap.LDAPSearchRequest(
                baseObject=base, scope=scope.value, filter=_filter(wanted), attributes=list(attributes)
            )
        case Add(name, values):
            return pureldap.LDAPAddRequest(entry=name, attributes=list(map(_attribute, values.items())))
        case Modify(name, values):
            changes = [_change(_REPLACE, *item) for item in values.items()]
            return pureldap.LDAPModifyRequest(object=name, modification=changes)
        case Exchange(name, former, values):
            return pureldap.LDAPModifyRequest(object=name, modification=_exchanged(former, values))
        case Delete(name):
            return pureldap.LDAPDelRequest(entry=name)


def _change(kind: int, name: str, values: Sequence[bytes]) -> Any:
    """RFC 4511 4.6 one change of an attribute."""
    return pureber.BERSequence([pureber.BEREnumerated(kind), pureber.BERSequence(_attribute((name, values)))])


def _exchanged(former: Values, values: Values) -> list[Any]:
    changes = []
    for name, wanted in values.items():
        had = former.get(name, ())
        if gone := [value for value in had if value not in wanted]:
            changes.append(_change(_DELETE, name, gone))
        if new := [value for value in wanted if value not in had]:
            changes.append(_change(_ADD, name, new))
    return changes


def _attribute(item: tuple[str, Sequence[bytes]]) -> tuple[Any, Any]:
    name, values = item
    return (
        pureldap.LDAPAttributeDescription(name),
        pureber.BERSet([pureldap.LDAPAttributeValue(value) for value in values]),
    )


def _filter(wanted: Filter) -> Any:
    match wanted:
        case Equal(attribute, value):
            return pureldap.LDAPFilter_equalityMatch(
                attributeDesc=pureldap.LDAPAttributeDescription(attribute),
                assertionValue=pureldap.LDAPAssertionValue(value),
            )
        case Present(attribute):
            return pureldap.LDAPFilter_present(attribute)
        case All(terms):
            return pureldap.LDAPFilter_and([_filter(term) for term in terms])


def _answer(message: Any) -> Answer:
    value = message.value
    if isinstance(value, pureldap.LDAPSearchResultEntry):
        values = {name.decode().lower(): tuple(held) for name, held in value.attributes if held}
        return Entry(value.objectName.decode(), values)
    if isinstance(value, pureldap.LDAPSearchResultReference):
        return SearchReference()
    if isinstance(value, pureldap.LDAPResult):
        text = value.errorMessage
        # Active Directory ends its texts with a NUL.
        said = (text if isinstance(text, str) else text.decode(errors="replace")).rstrip("\0\n ")
        step = getattr(value, "serverSaslCreds", None) or b""
        return Result(value.resultCode, said, _cookie(message.controls or ()), credentials=step)
    raise LdapWireError(f"a server does not send {type(value).__name__}")


def _cookie(controls: Sequence[tuple[bytes, Any, bytes]]) -> bytes:
    for kind, _, value in controls:
        if kind == PAGED_RESULTS:
            held, _ = pureber.berDecodeObject(_KnownTags(), value)
            return bytes(held[1].value)
    return b""


def _referrals(message: bytes) -> tuple[str, ...]:
    """The URLs of a referral, in the third part and behind of the operation of a whole message."""
    [(_, sequence)] = _elements(message)
    [_, (_, operation), *_] = _elements(sequence)
    for tag, content in _elements(operation)[3:]:
        if tag == _REFERRALS:
            return tuple(url.decode(errors="replace") for _, url in _elements(content))
    return ()


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """The tags and contents of BER elements that stand one after the other.

    @raise LdapWireError: one ends behind the data.
    """
    found, place = [], 0
    while place < len(data):
        length, start = data[place + 1] if place + 1 < len(data) else 0, place + 2
        if length & 0x80:
            digits = length & 0x7F
            length = int.from_bytes(data[start : start + digits], "big")
            start += digits
        if start + length > len(data):
            raise LdapWireError(f"an element of {length} bytes in an LDAP message of {len(data)}")
        found.append((data[place], data[start : start + length]))
        place = start + length
    return found
