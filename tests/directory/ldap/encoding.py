"""BER as a server writes it, in lengths and sizes that ldaptor does not."""

from __future__ import annotations


def element(tag: int, contents: bytes, digits: int = 0) -> bytes:
    """A BER element; with C{digits} its length is written in that many bytes."""
    if not digits:
        digits = 0 if len(contents) < 0x80 else (len(contents).bit_length() + 7) // 8
    length = (
        bytes([0x80 | digits]) + len(contents).to_bytes(digits, "big") if digits else bytes([len(contents)])
    )
    return bytes([tag]) + length + contents


def group(members: int, digits: int = 0, name: bytes = b"CN=all,DC=example", number: int = 5) -> bytes:
    """A message with one entry that has this number of values, each of three bytes."""
    values = b"".join(element(4, each.to_bytes(3, "big"), digits) for each in range(members))
    attribute = element(0x30, element(4, b"member") + element(0x31, values, digits), digits)
    entry = element(0x64, element(4, name) + element(0x30, attribute, digits), digits)
    return element(0x30, element(2, bytes([number])) + entry, digits)
