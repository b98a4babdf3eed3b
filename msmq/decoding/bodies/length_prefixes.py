""".NET variable-length integers (seven bits a byte) and length-prefixed text."""

from __future__ import annotations

from msmq.wire.reader import Reader


def read_length(reader: Reader, field: str) -> int:
    """Read a length of seven bits in each byte, the lowest first; 31 bits in total.

    [MS-NRBF] 2.1.1.6, and the same in [MC-NBFX] 2.1.2 and [MC-NMF] 2.2.2.
    """
    start = reader.position
    number = 0
    for shift in range(0, 35, 7):
        byte = reader.u8(field)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 31:
                break
            return number
    raise reader.malformed(field, "has a length of more than 31 bits", offset=start)


def read_text(reader: Reader, field: str) -> str:
    """Read UTF-8 text that is preceded by its length in bytes."""
    start = reader.position
    return utf8_text(reader, reader.bytes(read_length(reader, field), field), field, start)


def utf8_text(reader: Reader, data: bytes, field: str, start: int) -> str:
    """The bytes of a field that began at C{start} as text; lone surrogates are kept."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise reader.malformed(field, "is not UTF-8", offset=start) from None
