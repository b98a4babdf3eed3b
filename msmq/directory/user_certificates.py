"""Certificates of users in files, as an enterprise file names them."""

from __future__ import annotations

import ssl
from typing import Final

_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_CONTENT: Final = (_INTEGER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE)
"""The tags of serialNumber, signature, issuer, validity and subject, with which the content of a certificate
begins, behind its version. Keys, requests, revocation lists, PKCS #7 and PKCS #12 begin otherwise."""


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
    if data[:1] != bytes([_SEQUENCE]):
        raise ValueError("is neither PEM nor DER")
    start, stop = _content(data, 0)
    if stop > len(data):
        raise ValueError("is incomplete")
    if not _is_certificate(data, start):
        raise ValueError("has no certificate, but a key, a request, PKCS #7 or PKCS #12 for example")
    return data[:stop]


def _is_certificate(data: bytes, start: int) -> bool:
    """Whether the first element of the outer sequence is the content of a certificate. RFC 5280 4.1."""
    if data[start : start + 1] != bytes([_SEQUENCE]):
        return False
    start, _ = _content(data, start)
    if data[start : start + 1] == bytes([_VERSION]):
        _, start = _content(data, start)
    for tag in _CONTENT:
        if data[start : start + 1] != bytes([tag]):
            return False
        _, start = _content(data, start)
    return True


def _content(data: bytes, start: int) -> tuple[int, int]:
    """Where the content of a DER element begins and ends; both may be beyond the data."""
    length = data[start + 1] if start + 1 < len(data) else 0
    if length < 0x80:
        return start + 2, start + 2 + length
    begin = start + 2 + (length & 0x7F)
    return begin, begin + int.from_bytes(data[start + 2 : begin], "big")
