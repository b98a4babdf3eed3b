"""IBodyDecoder: decodes message bodies of one format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute

from msmq.errors import MsmqError


class BodyNotDecoded(MsmqError):
    """The body is not in the requested format, or is damaged; the text is the reason."""


def _deepest_allowed(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if not 1 <= value <= 200:
        raise ValueError(f"a depth of {value} is not from 1 to 200")


@attrs.frozen
class Limits:
    """Limits of a decoder, which bound the cost of any body.

    Of formats in which a few bytes can stand for many, those of .NET and WCF, a small body may have less.

    @ivar size: bytes of a body; a message can have 4 MB.
    @ivar depth: the maximum nesting of values, 1 to 200.
    @ivar items: elements, attributes, members and items of arrays together.
    @ivar characters: characters of text in the result, which may be longer than the body.
    """

    size: int = 16 << 20
    depth: int = attrs.field(default=100, validator=_deepest_allowed)
    items: int = 1_000_000
    characters: int = 16 << 20


@attrs.frozen
class Body:
    """The input of a decoder.

    @ivar data: the body.
    @ivar body_type: BodyType, see [MS-MQMQ] 2.2.12.
    @ivar extension: the extension, in which some frameworks keep headers.
    """

    data: bytes
    body_type: int = 0
    extension: bytes = b""


@attrs.frozen
class DecodedBody:
    """A body as plain data: text, numbers, C{bool}, C{None}, and lists and dictionaries of them.

    @ivar format: of the body itself, as C{xml}; C{None} if only its envelope could be decoded.
    @ivar reading: the chosen interpretation, as text.
    @ivar value: the content.
    @ivar envelope: the framework of its headers, as C{nservicebus}.
    @ivar headers: those headers.
    @ivar error: why a part of it could not be decoded; empty if all was.
    """

    format: str | None
    reading: str
    value: Any
    envelope: str | None = None
    headers: Mapping[str, Any] | None = None
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as one JSON object; without C{envelope} and C{headers} where there are none."""
        surrounding = {} if self.envelope is None else {"envelope": self.envelope, "headers": self.headers}
        return {"format": self.format, "reading": self.reading, **surrounding, "value": self.value}


class IBodyDecoder(IPlugin):
    """Decodes bodies of one format.

    It returns plain data and never instantiates a type that a body names.
    A decoder that is a plugin, an object at module level of a file in C{twisted/plugins}, is found by
    C{receive --decode} and by the pipeline.
    """

    name: str = Attribute("The name of the format in lower case, as C{xml}.")

    def recognises(body: Body) -> bool:
        """Whether the body appears to be in this format, by its first bytes; must be fast."""

    def decode(body: Body, limits: Limits) -> DecodedBody:
        """Decode the body.

        @raise BodyNotDecoded: it is in another format, damaged, or over a limit.
        """
