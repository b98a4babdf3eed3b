"""A directory server in the process of the test, for what slapd and Samba do not do.

It answers long value lists in ranges, as [MS-ADTS] 3.1.1.3.1.3.3 has it, limits the size of its answers,
refers writes to another server, and changes entries between two answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from ldaptor.protocols import pureber, pureldap
from twisted.internet.protocol import Factory, Protocol

from msmq.directory.ldap.names import folded
from msmq.directory.ldap.settings import LdapServer
from msmq.directory.ldap.transport.decoder import message_length

SUFFIX: Final = "DC=example,DC=com"
PAGED: Final = b"1.2.840.113556.1.4.319"
NO_RANGE_ERROR: Final = b"1.2.840.113556.1.4.1948"

_REQUESTS: Final = pureldap.LDAPBERDecoderContext_TopLevel(
    inherit=pureldap.LDAPBERDecoderContext_LDAPMessage(
        fallback=pureldap.LDAPBERDecoderContext(fallback=pureber.BERDecoderContext()),
        inherit=pureldap.LDAPBERDecoderContext(fallback=pureber.BERDecoderContext()),
    )
)
_WRITES: Final = (pureldap.LDAPAddRequest, pureldap.LDAPModifyRequest, pureldap.LDAPDelRequest)
_RESPONSES: Final = {
    pureldap.LDAPAddRequest: pureldap.LDAPAddResponse,
    pureldap.LDAPModifyRequest: pureldap.LDAPModifyResponse,
    pureldap.LDAPDelRequest: pureldap.LDAPDelResponse,
}

Values = Mapping[str, Sequence[bytes]]


@attrs.define
class Record:
    """One entry."""

    name: str
    values: dict[str, list[bytes]]


@attrs.define
class EmulatedDirectory:
    """Entries of a directory, and the answers of its server.

    @ivar range_limit: MaxValRange.
    @ivar size_limit: limit on the entries of one search, over all of its pages.
    @ivar page_limit: limit on the entries of one page.
    @ivar write_result: the result of each write, with its text and the URLs of a referral; C{None} to write.
    @ivar bind_result: the result of each bind.
    @ivar said_instead: bytes sent in place of each answer, none if empty; C{None} to answer.
    @ivar before_answer: called with each request before it is answered.
    @ivar requests: the names of all requests, of searches with base and attributes.
    @ivar connections: the open connections.
    """

    range_limit: int = 1500
    size_limit: int | None = None
    page_limit: int = 1000
    write_result: tuple[int, str, Sequence[str]] | None = None
    bind_result: tuple[int, str] = (0, "")
    capabilities: Sequence[bytes] = (b"1.2.840.113556.1.4.800",)
    said_instead: bytes | None = None
    before_answer: Callable[[Any], None] = lambda request: None
    requests: list[tuple[str, str, tuple[str, ...]]] = attrs.field(factory=list)
    connections: list[Protocol] = attrs.field(factory=list)
    records: dict[str, Record] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.add(SUFFIX, objectClass=[b"domain"])
        self.add(f"CN=Configuration,{SUFFIX}", objectClass=[b"configuration"])
        self.add(f"CN=Sites,CN=Configuration,{SUFFIX}", objectClass=[b"sitesContainer"])
        self.add(f"CN=Services,CN=Configuration,{SUFFIX}", objectClass=[b"container"])

    def add(self, name: str, **values: Sequence[bytes]) -> Record:
        """Have this entry."""
        kept = {key: list(held) for key, held in values.items()}
        record = self.records[folded(name)] = Record(name, kept)
        record.values.setdefault("uSNChanged", [b"1"])
        return record

    def factory(self) -> Factory:
        """Makes the connections of clients."""
        return Factory.forProtocol(lambda: _Connection(self))

    def listen(self, reactor: Any, address: str = "127.0.0.1", port: int = 0) -> tuple[Any, LdapServer]:
        """The port, which is to be closed, and where that is."""
        listening = reactor.listenTCP(port, self.factory(), interface=address)
        return listening, LdapServer(address, listening.getHost().port)

    # Answers

    def root(self) -> Record:
        """The entry without a name."""
        return Record(
            "",
            {
                "defaultNamingContext": [SUFFIX.encode()],
                "configurationNamingContext": [f"CN=Configuration,{SUFFIX}".encode()],
                "rootDomainNamingContext": [SUFFIX.encode()],
                "supportedCapabilities": list(self.capabilities),
                "namingContexts": [SUFFIX.encode()],
            },
        )

    def found(self, request: Any) -> list[Record] | None:
        """The entries that a search finds; C{None} if its base does not exist."""
        base, scope = request.baseObject.decode(), request.scope
        if not base and scope == 0:
            return [self.root()]
        key = folded(base)
        if key not in self.records:
            return None
        candidates = (
            [self.records[key]]
            if scope == 0
            else [held for name, held in self.records.items() if name == key or name.endswith(f",{key}")]
        )
        return [record for record in candidates if _matches(record, request.filter)]

    def attributes(self, record: Record, wanted: Sequence[str]) -> Iterator[tuple[str, list[bytes]]]:
        """The attributes of an entry as an answer has them."""
        asked = dict(_option(name) for name in wanted)
        for name, values in record.values.items():
            if asked and name.lower() not in asked:
                continue
            first, last = asked.get(name.lower()) or (0, None)
            part = values[first : None if last is None else last + 1][: self.range_limit]
            if asked.get(name.lower()) is None and len(values) <= self.range_limit:
                yield name, values
                continue
            if asked.get(name.lower()) is None:
                yield name, []
            end = "*" if first + len(part) >= len(values) else str(first + len(part) - 1)
            if part:
                yield f"{name};range={first}-{end}", part


class _Connection(Protocol):
    """One client."""

    def __init__(self, directory: EmulatedDirectory) -> None:
        self._directory = directory
        self._buffer = b""

    def connectionMade(self) -> None:
        self._directory.connections.append(self)

    def connectionLost(self, reason: object = None) -> None:
        self._directory.connections.remove(self)

    def dataReceived(self, data: bytes) -> None:
        self._buffer += data
        while (end := message_length(self._buffer, 0)) is not None and end <= len(self._buffer):
            message, _ = pureber.berDecodeObject(_REQUESTS, self._buffer[:end])
            self._buffer = self._buffer[end:]
            self._take(message.id, message.value, message.controls or ())

    def _take(self, number: int, request: Any, controls: Sequence[Any]) -> None:
        directory = self._directory
        wanted = tuple(
            each.decode() for each in getattr(request, "attributes", ()) if isinstance(each, bytes)
        )
        base = getattr(request, "baseObject", b"").decode()
        directory.requests.append((type(request).__name__, base, wanted))
        directory.before_answer(request)
        if directory.said_instead is not None:
            transport: Any = self.transport
            transport.write(directory.said_instead)
            return
        if isinstance(request, pureldap.LDAPBindRequest):
            code, text = directory.bind_result
            self._send(number, pureldap.LDAPBindResponse(resultCode=code, errorMessage=text))
        elif isinstance(request, pureldap.LDAPSearchRequest):
            self._search(number, request, wanted, {kind: value for kind, _, value in controls})
        elif isinstance(request, _WRITES):
            self._write(number, request)

    def _search(
        self, number: int, request: Any, wanted: Sequence[str], controls: Mapping[bytes, bytes]
    ) -> None:
        directory = self._directory
        found = directory.found(request)
        if found is None:
            self._send(number, pureldap.LDAPSearchResultDone(resultCode=32))
            return
        code, start, size, cookie = 0, 0, len(found), b""
        if directory.size_limit is not None and len(found) > directory.size_limit:
            code, found = 4, found[: directory.size_limit]
        if PAGED in controls:
            page, _ = pureber.berDecodeObject(pureber.BERDecoderContext(), controls[PAGED])
            start, size = int(page[1].value or b"0"), min(page[0].value, directory.page_limit)
            if start + size < len(found):
                cookie = str(start + size).encode()
        for record in found[start : start + size]:
            held = list(directory.attributes(record, wanted))
            if any(_option(each)[1] and not part for each, part in held) and NO_RANGE_ERROR not in controls:
                code = 1
            self._send(number, pureldap.LDAPSearchResultEntry(record.name, held))
        done = pureldap.LDAPSearchResultDone(resultCode=0 if cookie else code)
        answer = pureber.BERSequence([pureber.BERInteger(0), pureber.BEROctetString(cookie)])
        self._send(number, done, [(PAGED, None, answer.toWire())] if PAGED in controls else None)

    def _write(self, number: int, request: Any) -> None:
        code, text, urls = self._directory.write_result or (0, "", ())
        response = _RESPONSES[type(request)](resultCode=code, errorMessage=text)
        if not urls:
            if self._directory.write_result is None:
                code = self._directory_write(request)
                response = _RESPONSES[type(request)](resultCode=code)
            self._send(number, response)
            return
        # ldaptor writes no referrals.
        referral = pureber.BERSequence([pureber.BEROctetString(url) for url in urls], tag=0xA3)
        parts = [
            pureber.BEREnumerated(code),
            pureber.BEROctetString(""),
            pureber.BEROctetString(text),
            referral,
        ]
        self._send(number, pureber.BERSequence(parts, tag=response.tag))

    def _directory_write(self, request: Any) -> int:
        records = self._directory.records
        if isinstance(request, pureldap.LDAPAddRequest):
            name = request.entry.decode()
            if folded(name) in records:
                return 68
            values = {key.value.decode(): [each.value for each in held] for key, held in request.attributes}
            self._directory.add(name, **values)
            return 0
        name = (request.object if isinstance(request, pureldap.LDAPModifyRequest) else request.value).decode()
        if folded(name) not in records:
            return 32
        if isinstance(request, pureldap.LDAPDelRequest):
            del records[folded(name)]
            return 0
        for _, change in request.modification:
            key = change[0].value.decode()
            records[folded(name)].values[key] = [each.value for each in change[1]]
        return 0

    def _send(self, number: int, operation: Any, controls: Any = None) -> None:
        transport: Any = self.transport
        transport.write(pureldap.LDAPMessage(operation, controls=controls, id=number).toWire())


def _option(name: str) -> tuple[str, tuple[int, int | None] | None]:
    attribute, _, part = name.partition(";range=")
    if not part:
        return name.lower(), None
    first, _, last = part.partition("-")
    return attribute.lower(), (int(first), None if last == "*" else int(last))


def _matches(record: Record, wanted: Any) -> bool:
    values = {key.lower(): held for key, held in record.values.items()}
    if isinstance(wanted, pureldap.LDAPFilter_and):
        return all(_matches(record, term) for term in wanted)
    if isinstance(wanted, pureldap.LDAPFilter_or):
        return any(_matches(record, term) for term in wanted)
    if isinstance(wanted, pureldap.LDAPFilter_present):
        return wanted.value.decode().lower() in values
    name, value = wanted.attributeDesc.value.decode().lower(), wanted.assertionValue.value
    held = values.get(name, [])
    if name == "cn" and not held:
        held = [record.name.split(",")[0].partition("=")[2].encode()]
    return value.lower() in [each.lower() for each in held]
