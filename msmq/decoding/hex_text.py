"""Parser of hex text: digits in any grouping, and the dumps of C{xxd} and C{hexdump -C}."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msmq.errors import RemoteProtocolError

_SEPARATORS = re.compile(r"0[xX]|\\[xX]|[\s:,;-]")
_DIGITS = re.compile(r"[0-9A-Fa-f]*")
_DUMP_LINE = re.compile(r"(?:0[xX])?(?P<offset>[0-9A-Fa-f]{4,16}):?(?:\s+(?P<rest>\S.*))?")
_COLUMNS = re.compile(r"\s{2,}", re.ASCII)
# White space that C{bytes.fromhex} skips; less than that of Unicode.
_BYTES = re.compile(r"(?:[0-9A-Fa-f]{2}\s?)+", re.ASCII)

LARGEST_DUMP = 1 << 30
"""Limit on the bytes of a text whose dumps have repeated lines (C{*}), which expand."""


def looks_like_hex(data: bytes) -> bool:
    """Whether these bytes are text that L{parse_hex} understands, rather than packets.

    No packet, and no capture file, consists of hex digits and white space alone.
    """
    try:
        return bool(parse_hex(data.decode("ascii")))
    except (UnicodeDecodeError, RemoteProtocolError):
        return False


def parse_hex(text: str) -> bytes:
    """Parse the bytes of a hex text.

    White space, colons, commas, semicolons, hyphens, C{0x} and C{\\x} are separators.
    A line that begins with C{#} is a comment.
    If every line begins with the offset of its bytes, as C{xxd} and C{hexdump -C} write it, the
    offsets and the text column are ignored.

    @raise RemoteProtocolError: the text has other characters, or half a byte; the error's offset is that
        of the character, its rule names the line.
    """
    lines = text.splitlines(keepends=True)
    dumped = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    dump = parse_dump(dumped) if len(dumped) > 1 or ":" in text else None
    if dump is not None:
        return dump
    digits: list[str] = []
    position = 0
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("#"):
            kept = _SEPARATORS.sub("", line)
            end = _DIGITS.match(kept)
            if end is None or end.end() != len(kept):
                wrong = kept[end.end() if end else 0]
                raise _malformed(position + line.index(wrong), f"line {number}: {wrong!r} is not a hex digit")
            digits.append(kept)
        position += len(line)
    joined = "".join(digits)
    if len(joined) % 2:
        raise _malformed(position, f"{len(joined)} hex digits are not whole bytes")
    return bytes.fromhex(joined)


def parse_dump(lines: Sequence[str], start: int = 0, largest: int = LARGEST_DUMP) -> bytes | None:
    """Parse one dump, whose lines begin with offsets.

    A line C{*} stands for lines that are equal to the one before.

    @param lines: without the white space around them.
    @param start: the offset of the first line.
    @param largest: the maximum number of bytes to which repeated lines may expand the dump.
    @return: C{None} if a line is something else, its offset is not that of its bytes, or the dump is larger.
    """
    data = bytearray()
    part: bytes | None = b""
    is_repeated = False
    following = [_DUMP_LINE.fullmatch(line) for line in lines]
    for index, match in enumerate(following):
        if lines[index] == "*":
            is_repeated = True
            continue
        if match is None:
            return None
        offset = int(match["offset"], 16) - start
        if is_repeated:
            if not part or offset <= len(data) or offset > largest:
                return None
            data += (part * ((offset - len(data)) // len(part) + 1))[: offset - len(data)]
            is_repeated = False
        if offset != len(data):
            return None
        after = following[index + 1] if index + 1 < len(following) else None
        size = None if after is None else int(after["offset"], 16) - start - offset
        if match["rest"] is None:
            # hexdump ends with the offset after the last byte.
            return bytes(data) if index == len(lines) - 1 else None
        part = _dump_line_bytes(match["rest"], size)
        if part is None:
            return None
        data += part
    return None if is_repeated else bytes(data)


def _dump_line_bytes(text: str, size: int | None) -> bytes | None:
    """The bytes in one line of a dump, after its offset.

    Bytes and characters stand in columns, and so may the bytes among themselves; characters may look
    like hex digits.

    @param size: the number of bytes in the line, from the offset of the next one.
    """
    before, bar, characters_there = text.partition("|")
    if bar and (characters_there.endswith("|") or before.endswith("  ")):
        before = _COLUMNS.sub(" ", before)
        return bytes.fromhex(before) if _BYTES.fullmatch(before) else None
    columns = _COLUMNS.split(text)
    part = bytearray()
    characters = len("  ".join(columns))
    for column in columns:
        if not _BYTES.fullmatch(column):
            return None
        part += bytes.fromhex(column)
        characters = max(characters - len(column) - 2, 0)
        # Some tools separate the characters after the eighth, like the bytes.
        if len(part) == size or (size is None and characters <= len(part) + (len(part) > 8)):
            return bytes(part)
    return None


def _malformed(offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError("hex text", "HexText", "digits", offset, rule)
