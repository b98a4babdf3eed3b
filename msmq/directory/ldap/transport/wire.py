"""Requests of an LDAP client, their answers, and the encoding of requests. RFC 4511 4.

The encoding is ldaptor's; values are bytes on both sides, and nothing is escaped on the way.
L{msmq.directory.ldap.transport.decoder} decodes the answers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from ldaptor.protocols import pureber, pureldap

from msmq.directory.ldap.transport.filters import All, Equal, Filter, Present
from msmq.errors import MsmqError

PAGED_RESULTS: Final = b"1.2.840.113556.1.4.319"
SECURITY_PARTS: Final = b"1.2.840.113556.1.4.801"
"""Active Directory's control for the requested parts of a security descriptor."""

_ADD: Final = 0
_DELETE: Final = 1
_REPLACE: Final = 2
"""RFC 4511 4.6 the operations of a modification."""


class LdapWireError(MsmqError):
    """A server sent data that is not LDAP."""


class Scope(enum.Enum):
    """RFC 4511 4.5.1.2 which entries are searched."""

    ENTRY = pureldap.LDAP_SCOPE_baseObject
    CHILDREN = pureldap.LDAP_SCOPE_singleLevel
    TREE = pureldap.LDAP_SCOPE_wholeSubtree


Values: TypeAlias = Mapping[str, Sequence[bytes]]
"""The values of attributes by their names."""


@attrs.frozen
class Bind:
    """A simple bind; anonymous if C{name} is empty."""

    name: str
    password: bytes = attrs.field(repr=False)


@attrs.frozen
class SaslBind:
    """RFC 4511 4.2 one step of a bind by a SASL mechanism."""

    mechanism: str
    credentials: bytes = attrs.field(repr=False)


@attrs.frozen
class StartTls:
    """RFC 4511 4.14 StartTLS."""


@attrs.frozen
class SearchRequest:
    """Search for entries.

    @ivar attributes: the requested ones; all but operational ones if empty.
    """

    base: str
    scope: Scope
    filter: Filter
    attributes: tuple[str, ...] = ()


@attrs.frozen
class Add:
    """Create an entry."""

    name: str
    values: Values


@attrs.frozen
class Modify:
    """Replace the values of attributes of an entry; an empty sequence removes them."""

    name: str
    values: Values


@attrs.frozen
class Exchange:
    """Replace the values of attributes of an entry, if they still have the former values.

    The values to delete have to exist, and the values to add must not; so only one of two concurrent
    exchanges of a value succeeds.

    @ivar former: the current values, which C{values} replace.
    """

    name: str
    former: Values
    values: Values


@attrs.frozen
class Delete:
    """Delete an entry without children."""

    name: str


@attrs.frozen
class Abandon:
    """RFC 4511 4.11 abandon a request; this has no answer itself.

    @ivar number: the messageID of the request.
    """

    number: int


Request: TypeAlias = Bind | SaslBind | StartTls | SearchRequest | Add | Modify | Exchange | Delete | Abandon


@attrs.frozen
class LdapControl:
    """RFC 4511 4.1.11 Control."""

    kind: bytes
    value: bytes | None = None
    is_critical: bool = False


@attrs.frozen
class Entry:
    """RFC 4511 4.5.2 SearchResultEntry.

    @ivar values: by the names of the attributes in lower case; every attribute has values.
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


def paged(size: int, cookie: bytes) -> LdapControl:
    """RFC 2696 the control for a page of at most this many entries, from C{cookie} on."""
    value = pureber.BERSequence([pureber.BERInteger(size), pureber.BEROctetString(cookie)])
    return LdapControl(PAGED_RESULTS, bytes(value.toWire()))


def security_parts(flags: int) -> LdapControl:
    """Read or write these parts: 1 owner, 2 group, 4 DACL, 8 SACL. [MS-ADTS] 3.1.1.3.4.1.11."""
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
        case Abandon(abandoned):
            return pureldap.LDAPAbandonRequest(id=abandoned)


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
