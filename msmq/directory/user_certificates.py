"""Certificates of users in files, as an enterprise file names them."""

from __future__ import annotations

import ssl
from typing import Final

_OTHERS: Final = (2, 6)
"""The tags of a version, with which a private key begins, and PKCS #12, and of the type of PKCS #7."""


def certificate_of(data: bytes) -> bytes:
    """The first certificate of a file as DER, from DER or PEM; in a chain that is the one of the user.

    @raise ValueError: there is none.
    """
    if b"-----BEGIN " in data:
        _, begin, rest = data.partition(ssl.PEM_HEADER.encode("ascii"))
        block, end, _ = rest.partition(ssl.PEM_FOOTER.encode("ascii"))
        if not end:
            raise ValueError("has no certificate in PEM")
        return ssl.PEM_cert_to_DER_cert((begin + block + end).decode("ascii", "replace"))
    if not data.startswith(b"\x30"):
        raise ValueError("is neither PEM nor DER")
    if _first_tag(data) in _OTHERS:
        raise ValueError("is a private key, PKCS #7 or PKCS #12, and not a certificate")
    return data


def _first_tag(data: bytes) -> int | None:
    """The tag of the first element of a DER sequence."""
    length = data[1] if len(data) > 1 else 0
    start = 2 + (length & 0x7F if length & 0x80 else 0)
    return data[start] if start < len(data) else None
