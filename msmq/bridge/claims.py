"""Claim checks: bodies that are too large for a broker stay in a file, and the message has the reference."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from msmq.interfaces.bridge_messages import AmqpMessage, MappingError
from msmq.quoting import quoted

CLAIM: Final = "msmq-claim-check"
"""Header with the reference of a body: the SHA-256 of its bytes, in hexadecimal digits."""

SIZE: Final = "msmq-claim-size"
"""Header with the size of that body, in bytes."""

_REFERENCE: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_DIGITS: Final = 12


@attrs.frozen
class BodyClaim:
    """The reference of a body.

    It depends on the bytes alone, so a message that is published again refers to the same file.
    """

    reference: str
    size: int

    @classmethod
    def of(cls, body: bytes) -> Self:
        """The claim of a body."""
        return cls(hashlib.sha256(body).hexdigest(), len(body))

    @classmethod
    def read(cls, headers: Mapping[str, Any]) -> Self | None:
        """The claim in the headers of a message; C{None} if its body is where it should be.

        @raise MappingError: the headers are invalid.
        """
        if CLAIM not in headers:
            return None
        reference, size = headers[CLAIM], str(headers.get(SIZE, ""))
        if not isinstance(reference, str) or _REFERENCE.fullmatch(reference) is None:
            raise MappingError(f"claim check: {CLAIM} is {quoted(reference, 80)}, it has to be a SHA-256")
        if not (size.isascii() and size.isdecimal() and len(size) <= _DIGITS):
            raise MappingError(f"claim check: {SIZE} is {quoted(size, 80)}, it has to be a number of bytes")
        return cls(reference, int(size))

    def headers(self) -> dict[str, Any]:
        """The headers that carry it."""
        return {CLAIM: self.reference, SIZE: self.size}

    def check_in(self, message: AmqpMessage) -> AmqpMessage:
        """The message without its body, which is stored."""
        headers = {**message.properties.headers, **self.headers()}
        return attrs.evolve(message, body=b"", properties=attrs.evolve(message.properties, headers=headers))

    def check_out(self, message: AmqpMessage, body: bytes) -> AmqpMessage:
        """The message with its body again.

        @raise MappingError: the stored body is another one.
        """
        if BodyClaim.of(body) != self:
            raise MappingError(f"claim check: the body that is stored as {self.reference} is damaged")
        headers = {
            name: value for name, value in message.properties.headers.items() if name not in (CLAIM, SIZE)
        }
        return attrs.evolve(message, body=body, properties=attrs.evolve(message.properties, headers=headers))
