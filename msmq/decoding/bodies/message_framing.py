"""Bodies of netMsmqBinding: [MC-NMF] framing around a SOAP envelope."""

from __future__ import annotations

import enum
from typing import Any, Final

from zope.interface import implementer

from msmq.decoding.bodies.binary_xml import parse_binary_xml
from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.length_prefixes import read_length, read_text
from msmq.decoding.bodies.xml_text import parse_xml
from msmq.errors import RemoteProtocolError
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits
from msmq.quoting import quoted
from msmq.wire.reader import Reader

_START: Final = b"\x00\x01\x00\x01"


class _Record(enum.IntEnum):
    """2.2.1 record types that a sender writes."""

    VERSION = 0x00
    MODE = 0x01
    VIA = 0x02
    KNOWN_ENCODING = 0x03
    EXTENSIBLE_ENCODING = 0x04
    SIZED_ENVELOPE = 0x06
    END = 0x07
    PREAMBLE_END = 0x0C


_SIMPLEX: Final = 3
_SINGLETON_SIZED: Final = 4
_MODES: Final = {_SIMPLEX: "Simplex", _SINGLETON_SIZED: "Singleton-Sized"}
"""2.2.3.2: the modes of a transport that carries messages."""

_UTF_8, _UTF_16, _UNICODE = "UTF-8", "UTF-16", "UTF-16LE"
_MTOM: Final = "MTOM"
_BINARY: Final = "binary"
_BINARY_WITH_TABLE: Final = "binary with a table of strings"
_ENCODINGS: Final = (
    *(f"SOAP 1.1 in {name}" for name in (_UTF_8, _UTF_16, _UNICODE)),
    *(f"SOAP 1.2 in {name}" for name in (_UTF_8, _UTF_16, _UNICODE)),
    _MTOM,
    _BINARY,
    _BINARY_WITH_TABLE,
)
"""2.2.3.4.1, by their numbers."""
_CONTENT_TYPES: Final = {
    "application/soap+msbin1": _BINARY,
    "application/soap+msbinsession1": _BINARY_WITH_TABLE,
    "application/soap+xml": "SOAP 1.2",
    "text/xml": "SOAP 1.1",
}


@implementer(IBodyDecoder)
class MessageFramingDecoder:
    """The envelope that a client of WCF sent, as XML in binary or in text; the fields of the frame are
    headers.

    A list of envelopes holds several of a session in one message.
    """

    name = "wcf"

    def recognises(self, body: Body) -> bool:
        return body.data.startswith(_START) and body.data[5:6] == b"\x02"

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        try:
            return self._decode(body.data, limits)
        except RemoteProtocolError as error:
            raise BodyNotDecoded(f"is not a sound frame of WCF: {error}") from None

    def _decode(self, data: bytes, limits: Limits) -> DecodedBody:
        reader = Reader(data)
        with reader.header("Preamble", "[MC-NMF] 3.1.1.2"):
            self._expect(reader, _Record.VERSION)
            version = f"{reader.u8('MajorVersion')}.{reader.u8('MinorVersion')}"
            if version != "1.0":
                raise reader.malformed("MajorVersion", f"is {version}, not 1.0", offset=1)
            self._expect(reader, _Record.MODE)
            mode = reader.u8("Mode")
            if mode not in _MODES:
                raise reader.malformed("Mode", f"{mode} is not for messages", offset=4)
            self._expect(reader, _Record.VIA)
            via = read_text(reader, "Via")
            encoding = self._encoding(reader)
        budget = Budget(limits, len(data))
        table: list[str] = []
        value: Any
        if mode == _SINGLETON_SIZED:
            value = _envelope(reader.bytes(reader.remaining, "Envelope"), encoding, budget, table)
        else:
            envelopes = self._session(reader, encoding, budget, table)
            value = envelopes[0] if len(envelopes) == 1 else envelopes
        headers = {"via": via, "mode": _MODES[mode], "encoding": encoding}
        return DecodedBody(self.name, f"WCF message, {encoding}", value, "wcf", headers)

    def _session(self, reader: Reader, encoding: str, budget: Budget, table: list[str]) -> list[Any]:
        """The envelopes of a session up to its end, or to that of the message."""
        envelopes = []
        with reader.header("EnvelopeRecord", "[MC-NMF] 2.2.4"):
            self._expect(reader, _Record.PREAMBLE_END)
            while reader.remaining:
                start = reader.position
                kind = reader.u8("RecordType")
                if kind == _Record.END:
                    break
                if kind != _Record.SIZED_ENVELOPE:
                    raise reader.malformed("RecordType", f"{kind:#04x} is not an envelope", offset=start)
                budget.item()
                size = read_length(reader, "Size")
                envelopes.append(_envelope(reader.bytes(size, "Payload"), encoding, budget, table))
            if not envelopes:
                raise reader.malformed("RecordType", "comes before any envelope")
        return envelopes

    def _encoding(self, reader: Reader) -> str:
        """2.2.3.4."""
        start = reader.position
        kind = reader.u8("RecordType")
        if kind == _Record.KNOWN_ENCODING:
            number = reader.u8("Encoding")
            if number >= len(_ENCODINGS):
                raise reader.malformed("Encoding", f"is {number}, which is not an encoding", offset=start + 1)
            return _ENCODINGS[number]
        if kind == _Record.EXTENSIBLE_ENCODING:
            content_type = read_text(reader, "Encoding")
            found = _CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower())
            if found is None:
                raise BodyNotDecoded(f"is a WCF message in {quoted(content_type)}, which is not supported")
            return found
        raise reader.malformed("RecordType", f"{kind:#04x} is not an encoding", offset=start)

    def _expect(self, reader: Reader, record: _Record) -> None:
        start = reader.position
        kind = reader.u8("RecordType")
        if kind != record:
            raise reader.malformed("RecordType", f"is {kind:#04x}, not {record.name}", offset=start)


def _envelope(data: bytes, encoding: str, budget: Budget, table: list[str]) -> dict[str, Any]:
    if encoding == _MTOM:
        raise BodyNotDecoded("is a WCF message in MTOM, which is not supported")
    if encoding in (_BINARY, _BINARY_WITH_TABLE):
        return parse_binary_xml(data, budget, table=table if encoding == _BINARY_WITH_TABLE else None)
    document, _ = parse_xml(data, budget.limits)
    return document
