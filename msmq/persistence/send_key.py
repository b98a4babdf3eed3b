"""The key under which an application sends a message, so that it may safely send it again."""

from __future__ import annotations

from typing import Final

from msmq.structures.status import MQError, Status

KEY_LENGTH: Final = 512
"""The most bytes of a key, in UTF-8."""


def check_key(key: str) -> bytes:
    """The bytes of a key.

    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a key that is empty, or too long.
    """
    text = key.encode("utf-8", "surrogatepass")
    if not 0 < len(text) <= KEY_LENGTH:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
            f"a key has 1 to {KEY_LENGTH} bytes in UTF-8, not {len(text)}",
        )
    return text
