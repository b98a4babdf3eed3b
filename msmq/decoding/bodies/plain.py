"""Decoders of JSON and plain-text bodies."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from zope.interface import implementer

from msmq.decoding.bodies.budget import Budget
from msmq.decoding.values import plain_text
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STRUCTURE: Final = re.compile(r"[\[\]{},]")
_JSON: Final = re.compile(rb"\s*[\[{]")
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@implementer(IBodyDecoder)
class JsonDecoder:
    """Decodes JSON in UTF-8, or in UTF-16 with a byte order mark.

    Unless it is requested by name, it accepts only objects and arrays as JSON, since C{42} is ambiguous.
    """

    name = "json"

    def recognises(self, body: Body) -> bool:
        start = body.data[:64]
        for mark, encoding in _MARKS:
            if start.startswith(mark):
                start = start.removeprefix(mark).decode(encoding, "ignore").encode()
        return _JSON.match(start) is not None

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        return DecodedBody(self.name, "JSON", parse_json(body.data, limits))


@implementer(IBodyDecoder)
class TextDecoder:
    """Decodes text in UTF-8 without control characters, or in UTF-16 with a byte order mark."""

    name = "text"

    def recognises(self, body: Body) -> bool:
        return body.body_type == 0 and (
            body.data.startswith(tuple(mark for mark, _ in _MARKS)) or plain_text(body.data) is not None
        )

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        text, encoding = _text(body.data)
        if plain_text(text.encode("utf-8", "replace")) is None:
            raise BodyNotDecoded("is not text: it has control characters")
        return DecodedBody(self.name, f"text in {encoding}", text)


def parse_json(data: bytes, limits: Limits) -> Any:
    """Parse a JSON document; NaN and infinities, which are not JSON, are refused.

    @raise BodyNotDecoded: it is malformed, or exceeds the limits.
    """
    text, _ = _text(data)
    _measure(text, Budget(limits))
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BodyNotDecoded(f"is not JSON: {error}") from None


def _text(data: bytes) -> tuple[str, str]:
    encoding = "utf-8"
    for mark, marked in _MARKS:
        if data.startswith(mark):
            data, encoding = data.removeprefix(mark), marked
    try:
        return data.decode(encoding), encoding.upper()
    except UnicodeDecodeError as error:
        raise BodyNotDecoded(f"is not {encoding.upper()}: {error.reason} at offset {error.start}") from None


def _measure(text: str, budget: Budget) -> None:
    """Check the limits of a document before it is parsed."""
    depth = 0
    for mark in _STRUCTURE.finditer(_STRING.sub("", text)):
        if mark[0] in "[{":
            depth += 1
            budget.depth(depth)
            budget.item()
        elif mark[0] == ",":
            budget.item()
        else:
            depth -= 1


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:32]} is too large a number")
    return number
