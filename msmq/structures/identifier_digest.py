"""A digest of a set of message identifiers that does not depend on their order."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

_MODULUS: Final = 1 << 256


def add_to_digest(digest: int, identities: Iterable[bytes]) -> int:
    """The digest with more identifiers: the sum of their SHA-256 hashes, modulo 2 to the power of 256.

    Two queue managers get the same digest of the same identifiers, in whatever order and batches they add
    them; one that is missing, added or counted twice changes it.

    @param identities: 20 bytes each: the GUID of the source and the MessageID. [MS-MQMQ] 2.2.19.2.
    """
    for identity in identities:
        digest += int.from_bytes(sha256(identity).digest(), "big")
    return digest % _MODULUS


def digest_text(digest: int) -> str:
    """The digest in hex digits, as commands and the control API show it."""
    return f"{digest:064x}"
