"""Headers in the Extension of a message: those of NServiceBus and Rebus, and those of a bridge.

NServiceBus writes C{<ArrayOfHeaderInfo>} in XML, Rebus a JSON object in UTF-8.
A bridge writes a JSON object too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

from msmq.decoding.bodies.decoder_choice import extension_headers

EXTENSION: Final = "msmq-extension"
"""Header with an Extension that has no headers in it, as bytes."""

LONGEST_EXTENSION: Final = 0x8000
"""The largest Extension that becomes a header, in bytes: all headers share one frame of the broker."""

_LARGEST: Final = 1 << 19
"""Bytes of an Extension beyond which it is not parsed, which would take seconds: 64 KiB of headers, which are
the most that a broker gets, are much shorter, however they are escaped."""

NATIVE: Final = {"content_type": "content-type", "content_encoding": "content-encoding", "type": "type"}
"""Properties of AMQP that MSMQ has no field for, and that return with a message: their headers."""

NSERVICEBUS: Final = "NServiceBus."
"""Prefix of the headers of NServiceBus."""

_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def read_extension(extension: bytes) -> dict[str, str] | None:
    """The headers in an Extension; C{None} if it has another format, or is too large for headers."""
    if not extension:
        return {}
    if len(extension) > _LARGEST:
        return None
    found = extension_headers(extension)
    if found is None:
        return None
    return {name: value.decode("utf-8", "replace") for name, value in found}


def write_extension(headers: Mapping[str, Any]) -> bytes:
    """An Extension with headers: the XML of NServiceBus if they have some of its own, or else JSON."""
    if not headers:
        return b""
    texts = {name: _text(value) for name, value in headers.items()}
    if any(name.startswith(NSERVICEBUS) for name in texts):
        return _nservicebus(texts)
    return json.dumps(texts, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")


def _nservicebus(headers: Mapping[str, str]) -> bytes:
    infos = "".join(
        f"<HeaderInfo><Key>{_xml(name)}</Key><Value>{_xml(value)}</Value></HeaderInfo>"
        for name, value in headers.items()
    )
    text = f'<?xml version="1.0"?><ArrayOfHeaderInfo>{infos}</ArrayOfHeaderInfo>'
    return text.encode("utf-8", "backslashreplace")


def _xml(text: str) -> str:
    return escape(_ILLEGAL.sub("\ufffd", text))


def _text(value: object) -> str:
    """A header as text: bytes as UTF-8, everything that is not text as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return json.dumps(value, default=str, separators=(",", ":"))
