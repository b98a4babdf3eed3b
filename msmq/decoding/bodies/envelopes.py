"""Decoders of framework headers in the extension: NServiceBus in XML, Rebus in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from zope.interface import implementer

from msmq.decoding.bodies.plain import parse_json
from msmq.decoding.bodies.xml_text import lenience, parse_xml
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

_ROOT: Final = "ArrayOfHeaderInfo"
_CLOSING: Final = f"</{_ROOT}>".encode()

Headers: TypeAlias = Mapping[str, Any]
Inner: TypeAlias = Callable[[Body, Limits], DecodedBody]
"""Reads the body itself; raises L{BodyNotDecoded} if it cannot."""


@implementer(IBodyDecoder)
@attrs.frozen
class EnvelopeDecoder:
    """Decodes a body in any format with headers in the extension.

    Headers and body are decoded independently; the C{error} of the result reports problems of either.

    @ivar title: the name of the framework.
    @ivar looks_like: whether an extension looks as if the framework had written it.
    @ivar read: the headers in an extension, and a remark on how they were read, which may be empty.
    @ivar inner: decodes the body itself.
    """

    name: str
    title: str
    looks_like: Callable[[bytes], bool]
    read: Callable[[bytes, Limits], tuple[Headers, str]]
    inner: Inner

    def recognises(self, body: Body) -> bool:
        return self.looks_like(body.extension)

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        headers: Headers | None
        try:
            headers, remark = self.read(body.extension, limits)
            about, broken = f"headers of {self.title} in the extension{remark}", ""
        except BodyNotDecoded as error:
            headers, about, broken = None, f"extension of {self.title}", f"its extension {error}"
        try:
            inner = self.inner(body, limits)
        except BodyNotDecoded as error:
            if headers is None:
                raise BodyNotDecoded(f"{error}; {broken}") from None
            return DecodedBody(None, about, None, self.name, headers, f"the body {error}")
        reading = f"{inner.reading}; {about}"
        return DecodedBody(inner.format, reading, inner.value, self.name, headers, broken or inner.error)


def nservicebus(inner: Inner) -> EnvelopeDecoder:
    """The decoder of NServiceBus messages."""
    return EnvelopeDecoder("nservicebus", "NServiceBus", _is_of_nservicebus, nservicebus_headers, inner)


def rebus(inner: Inner) -> EnvelopeDecoder:
    """The decoder of Rebus messages."""
    return EnvelopeDecoder("rebus", "Rebus", _is_of_rebus, rebus_headers, inner)


def _is_of_nservicebus(extension: bytes) -> bool:
    return f"<{_ROOT}".encode() in extension[:256]


def _is_of_rebus(extension: bytes) -> bool:
    return extension.removeprefix(b"\xef\xbb\xbf")[:64].lstrip().startswith(b"{")


def nservicebus_headers(extension: bytes, limits: Limits) -> tuple[Headers, str]:
    """The headers of NServiceBus by their keys; a repeated key has a list, one without a value C{None}.

    Bytes after the end of the document, which writers leave there, and characters that XML does not allow are
    ignored; the remark mentions them.

    @raise BodyNotDecoded: the extension is not such a document.
    """
    end = extension.rfind(_CLOSING)
    behind = b""
    if end >= 0:
        end += len(_CLOSING)
        extension, behind = extension[:end], extension[end:]
    document, illegal = parse_xml(extension, limits)
    remark = lenience(illegal)
    if behind.strip(b"\0 \t\r\n"):
        remark += f", {len(behind)} bytes behind them passed over"
    if _ROOT not in document:
        raise BodyNotDecoded(f"is not a {_ROOT}")
    content = document[_ROOT]
    entries = content.get("HeaderInfo", []) if isinstance(content, dict) else []
    headers: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for entry in entries if isinstance(entries, list) else [entries]:
        key = entry.get("Key") if isinstance(entry, dict) else None
        if not isinstance(key, str):
            raise BodyNotDecoded("has a HeaderInfo without a Key")
        value = entry.get("Value")
        if key in repeated:
            repeated[key].append(value)
        elif key in headers:
            headers[key] = repeated[key] = [headers[key], value]
        else:
            headers[key] = value
    return headers, remark


def rebus_headers(extension: bytes, limits: Limits) -> tuple[Headers, str]:
    """The headers of Rebus by their keys.

    @raise BodyNotDecoded: the extension is not a JSON object.
    """
    headers = parse_json(extension.rstrip(b"\0"), limits)
    if not isinstance(headers, dict):
        raise BodyNotDecoded("is not a JSON object")
    return headers, ""
