"""NDR encoding of structures made for remote procedure calls. [C706] 14.

Little-endian; numbers are aligned to their own size, a pointer is four bytes whose only information is
whether it is null, and its referent follows the structure.
"""

from __future__ import annotations

from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

REFERENT = 0x00020000
"""A pointer that is not null; its value has no further meaning."""


def read_pointer(reader: Reader, field: str) -> bool:
    """Whether the pointer, aligned to four bytes, has a referent."""
    reader.align(4, field)
    return reader.u32(field) != 0


def read_string_pointer(reader: Reader, field: str) -> None:
    """Read a pointer to a string, which must not be null."""
    if not read_pointer(reader, field):
        raise reader.malformed(field, "is a null pointer", offset=reader.position - 4)


def write_pointer(writer: Writer, field: str, *, is_null: bool = False) -> None:
    """A pointer, aligned to four bytes."""
    writer.align(4)
    writer.u32(0 if is_null else REFERENT, field)


def read_string(reader: Reader, field: str) -> str:
    """What a C{[string] wchar_t*} points to: three counts of characters, the text and its NUL."""
    reader.align(4, field)
    start = reader.position
    maximum, offset, actual = reader.u32(field), reader.u32(field), reader.u32(field)
    if offset or actual > maximum:
        raise reader.malformed(field, f"counts {actual} of {maximum} characters from {offset}", offset=start)
    return reader.utf16(2 * actual, field)


def write_string(writer: Writer, text: str, field: str) -> None:
    """What a C{[string] wchar_t*} points to."""
    count = len(text.encode("utf-16-le", "surrogatepass")) // 2 + 1
    writer.align(4)
    writer.u32(count, field)
    writer.u32(0, field)
    writer.u32(count, field)
    writer.utf16(text, field)
