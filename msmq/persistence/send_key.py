"""Idempotency key of a sent message: an application may repeat a send under it safely."""

from __future__ import annotations

from typing import Final

from msmq.structures.status import MQError, Status

KEY_LENGTH: Final = 512
"""Maximum length of a key, in bytes of UTF-8."""


def check_key(key: str) -> bytes:
    """Check a key, and encode it.

    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a key that is empty, or too long.
    """
    text = key.encode("utf-8", "surrogatepass")
    if not 0 < len(text) <= KEY_LENGTH:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
            f"a key has 1 to {KEY_LENGTH} bytes in UTF-8, not {len(text)}",
        )
    return text
