"""Idempotency key of a sent message: an application may repeat a send under it safely.

The state C{send_keys/N} of a store has the keys of one commit: in version 1 for messages of the queue manager
itself; in version 2 with the GUID of the queue manager that it was when it sent them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.structures.status import MQError, Status

KEY_LENGTH: Final = 512
"""Maximum length of a key, in bytes of UTF-8."""

PAGE_PREFIX: Final = "send_keys/"
"""Prefix of the names of stored values; a number follows."""

OWN_VERSION: Final = 1
FORMER_VERSION: Final = 2
"""Versions of a page of the present identifier, and of one of a former identifier."""

_HEAD_SIZE: Final = 9
"""Bytes of version, time and count, which the GUID follows in version 2."""


def page_of_former(page: bytes, former: UUID) -> bytes:
    """A page of keys for a queue manager that gets another identifier: its messages keep theirs.

    @param former: the identifier of the queue manager whose page it is.
    """
    if page[:1] != bytes([OWN_VERSION]):
        return page
    return bytes([FORMER_VERSION]) + page[1:_HEAD_SIZE] + former.bytes_le + page[_HEAD_SIZE:]


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
