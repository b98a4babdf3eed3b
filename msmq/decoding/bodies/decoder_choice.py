"""Choice of the decoder of a body: the requested one, or the first that recognises it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from msmq.decoding.bodies.activex import ActiveXDecoder
from msmq.decoding.bodies.envelopes import (
    EnvelopeDecoder,
    nservicebus,
    nservicebus_headers,
    rebus,
    rebus_headers,
)
from msmq.decoding.bodies.message_framing import MessageFramingDecoder
from msmq.decoding.bodies.nrbf import NrbfDecoder
from msmq.decoding.bodies.plain import JsonDecoder, TextDecoder
from msmq.decoding.bodies.xml_text import XmlDecoder
from msmq.errors import LocalProtocolError
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits
from msmq.quoting import kind_of

AUTO: Final = "auto"
"""The name under which the decoder is chosen by the body."""

STANDARD: Final[tuple[IBodyDecoder, ...]] = (
    MessageFramingDecoder(),
    NrbfDecoder(),
    ActiveXDecoder(),
    XmlDecoder(),
    JsonDecoder(),
    TextDecoder(),
)
"""The built-in body decoders, in the order in which they are tried."""


LONGEST_ERROR: Final = 1000
"""Maximum length of a reason in characters; names in a body can be long."""


def _on_one_line(reason: str) -> str:
    """Escape a reason for terminals and logs, since it can quote names of the body."""
    if len(reason) > LONGEST_ERROR:
        reason = reason[: LONGEST_ERROR - 3] + "..."
    return "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in reason)


@attrs.frozen
class DecodingOutcome:
    """Result of decoding a body.

    @ivar decoded: its content; C{None} if none of it could be decoded.
    @ivar error: why the body or a part of it could not be read, in printable characters; empty if all could.
    """

    decoded: DecodedBody | None
    error: str = attrs.field(default="", converter=_on_one_line)


class BodyDecoders:
    """The registry of body decoders. No content of a body makes it raise.

    @param also: further decoders, which are tried before the built-in ones.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    @raise ValueError: two decoders have the same name.
    """

    def __init__(self, also: Iterable[IBodyDecoder] = (), *, limits: Limits | None = None) -> None:
        given: object = limits
        if given is not None and not isinstance(given, Limits):
            raise LocalProtocolError(f"BodyDecoders: limits is {kind_of(given)}; it has to be a Limits")
        self._limits = Limits() if limits is None else limits
        self._foreign: Sequence[IBodyDecoder] = _checked_decoders(also)
        self._decoders: Sequence[IBodyDecoder] = (*self._foreign, *STANDARD)
        self._envelopes: Sequence[EnvelopeDecoder] = nservicebus(self._inner), rebus(self._inner)
        self._named: dict[str, IBodyDecoder] = {}
        for decoder in (*self._decoders, *self._envelopes):
            if decoder.name in self._named or decoder.name == AUTO:
                raise ValueError(f"there are two body decoders of the name {decoder.name}")
            self._named[decoder.name] = decoder

    @property
    def names(self) -> Sequence[str]:
        """The names of the decoders."""
        return (AUTO, *self._named)

    def decode(self, body: Body, choice: str = AUTO) -> DecodingOutcome:
        """Read a body.

        @param choice: the name of a decoder, which then decodes the body without a check of its format.
        @raise LocalProtocolError: C{body} is no L{Body<msmq.interfaces.Body>} with bytes.
        @raise KeyError: no decoder has this name.
        """
        _check_body(body)
        if type(body.data) is not bytes or type(body.extension) is not bytes:
            # As the body of a view of a packet, which is a memoryview; decoders get bytes.
            body = attrs.evolve(body, data=bytes(body.data), extension=bytes(body.extension))
        decoder = None if choice == AUTO else self._named[choice]
        try:
            decoded = self._read(body, self._limits) if decoder is None else self._run(decoder, body)
        except BodyNotDecoded as error:
            return DecodingOutcome(None, f"the body {error}")
        return DecodingOutcome(decoded, decoded.error)

    def _read(self, body: Body, limits: Limits) -> DecodedBody:
        for envelope in self._envelopes:
            if envelope.recognises(body):
                return self._run(envelope, body)
        return self._inner(body, limits)

    def _inner(self, body: Body, limits: Limits) -> DecodedBody:
        for decoder in self._decoders:
            if _recognises(decoder, body):
                return self._run(decoder, body)
        raise BodyNotDecoded(f"is in an unknown format; its BodyType is {body.body_type}")

    def _run(self, decoder: IBodyDecoder, body: Body) -> DecodedBody:
        for name, data in (("has", body.data), ("has an extension of", body.extension)):
            if len(data) > self._limits.size:
                raise BodyNotDecoded(f"{name} {len(data)} bytes, more than {self._limits.size}")
        try:
            decoded = decoder.decode(body, self._limits)
            if decoder in self._foreign:
                # The result is written as JSON later, where an error could not be attributed.
                json.dumps(decoded.as_json(), allow_nan=False)
            return decoded
        except BodyNotDecoded:
            raise
        except Exception as error:
            # An internal error of any decoder: the message must stay readable nevertheless.
            raise BodyNotDecoded(
                f"made the decoder {decoder.name} fail: {type(error).__name__}: {error}"
            ) from error


def _checked_decoders(given: object) -> Sequence[IBodyDecoder]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise LocalProtocolError(f"BodyDecoders: also is {kind_of(given)}; it has to be a list of decoders")
    decoders = tuple(given)
    for decoder in decoders:
        if not isinstance(getattr(decoder, "name", None), str):
            raise LocalProtocolError(
                f"BodyDecoders: also has {kind_of(decoder)} without a name, not an IBodyDecoder"
            )
        for method in "recognises", "decode":
            if not callable(getattr(decoder, method, None)):
                raise LocalProtocolError(
                    f"BodyDecoders: also has {kind_of(decoder)} without {method}, not an IBodyDecoder"
                )
    return decoders


def _check_body(body: object) -> None:
    if not isinstance(body, Body):
        raise LocalProtocolError(
            f"BodyDecoders: body is {kind_of(body)}; it has to be a Body, such as Body(message.body)"
        )
    for name, data in ("data", body.data), ("extension", body.extension):
        if not isinstance(data, bytes | bytearray | memoryview):
            raise LocalProtocolError(f"BodyDecoders: {name} of body is {kind_of(data)}; it has to be bytes")


def _recognises(decoder: IBodyDecoder, body: Body) -> bool:
    try:
        return decoder.recognises(body)
    except Exception:
        # A plugin's decoder; another one may support the format.
        return False


def extension_headers(extension: bytes) -> Sequence[tuple[str, bytes]] | None:
    """The headers of NServiceBus or Rebus in an extension, in UTF-8; C{None} if there are none.

    A header without a value is empty; repeated headers are kept.
    """
    for read in (nservicebus_headers, rebus_headers):
        try:
            headers, _ = read(extension, Limits())
        except BodyNotDecoded:
            continue
        return [
            (key, ("" if value is None else str(value)).encode("utf-8", "replace"))
            for key, held in headers.items()
            for value in (held if isinstance(held, list) else [held])
        ]
    return None
