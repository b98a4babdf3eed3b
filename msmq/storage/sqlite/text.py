"""Encoding of text columns in the SQLite file."""

from __future__ import annotations

from msmq.quoting import is_unicode


def stored_text(text: str) -> str | bytes:
    """Text as TEXT if it is valid Unicode, otherwise as BLOB, since text from peers may have surrogates."""
    return text if is_unicode(text) else text.encode("utf-8", "surrogatepass")


def text_of(stored: str | bytes) -> str:
    """Decode the stored form of a text."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def stored_bytes(stored: str | bytes) -> bytes:
    """The bytes of a stored text, for its checksum."""
    return stored if isinstance(stored, bytes) else stored.encode("utf-8", "surrogatepass")
