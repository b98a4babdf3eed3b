"""Decoded bodies: what a route with C{decode} forwards in place of the bytes."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from msmq.decoding.bodies.decoder_choice import BodyDecoders
from msmq.interfaces.bridge_messages import MappingError
from msmq.interfaces.decoding import Body

JSON: Final = "application/json"
"""The content type of a decoded body."""

_MARK: Final = b"\xef\xbb\xbf"


@attrs.frozen
class ForwardedBody:
    """A body as it is forwarded.

    @ivar value: as expressions see it.
    """

    data: bytes = attrs.field(repr=False)
    value: Any


@attrs.frozen
class BodyDecoding:
    """Decodes bodies, which are then JSON in UTF-8.

    @ivar choice: the name of a decoder, or C{auto}.
    """

    choice: str
    _decoders: BodyDecoders = attrs.field(factory=BodyDecoders, eq=False, repr=False)

    def decode(self, data: bytes, body_type: int = 0, extension: bytes = b"") -> ForwardedBody:
        """Decode a body; JSON in UTF-8 keeps its bytes, whose numbers may be longer than those of a program.

        @raise MappingError: it cannot be decoded, or only in part.
        """
        outcome = self._decoders.decode(Body(data, body_type, extension), self.choice)
        decoded = outcome.decoded
        if decoded is None or outcome.error:
            raise MappingError(f"decode: {outcome.error}")
        if decoded.format == "json" and _is_utf8(data):
            return ForwardedBody(data.removeprefix(_MARK), decoded.value)
        try:
            text = json.dumps(decoded.value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise MappingError(f"decode: the body is nothing that JSON can say: {error}") from error
        # A half of a surrogate pair has no UTF-8; JSON can escape it.
        return ForwardedBody(text.encode("utf-8", "backslashreplace"), decoded.value)


def forwarded_body(
    decoding: BodyDecoding | None, data: bytes, body_type: int = 0, extension: bytes = b""
) -> ForwardedBody:
    """A body as a route forwards it: the bytes, which expressions see as text if they are UTF-8, or decoded.

    @raise MappingError: it cannot be decoded.
    """
    if decoding is not None:
        return decoding.decode(data, body_type, extension)
    try:
        return ForwardedBody(data, data.decode("utf-8"))
    except UnicodeDecodeError:
        return ForwardedBody(data, None)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
