"""Encoding of text columns in the SQLite file."""

from __future__ import annotations

from msmq.storage.records import is_text


def stored_text(text: str) -> str | bytes:
    """Text as TEXT where SQLite can hold it, else as BLOB, since peers send what is not Unicode text."""
    return text if is_text(text) else text.encode("utf-8", "surrogatepass")


def text_of(stored: str | bytes) -> str:
    """The text that stands in the file so."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def stored_bytes(stored: str | bytes) -> bytes:
    """The bytes of a text that stands in the file, for its checksum."""
    return stored if isinstance(stored, bytes) else stored.encode("utf-8", "surrogatepass")
