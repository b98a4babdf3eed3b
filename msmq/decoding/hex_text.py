"""Bytes as people paste them: hex digits in any grouping, and the dumps of C{xxd} and C{hexdump -C}."""

from __future__ import annotations

import re

from msmq.errors import RemoteProtocolError

_SEPARATORS = re.compile(r"0[xX]|\\[xX]|[\s:,;-]")
_DIGITS = re.compile(r"[0-9A-Fa-f]*")
_DUMP_LINE = re.compile(
    r"""\s*(?:0[xX])?(?P<offset>[0-9A-Fa-f]{4,16})(?P<colon>:)?\s+
        (?P<digits>[0-9A-Fa-f]{2}(?:[ ]{0,2}[0-9A-Fa-f]{2})*)
        (?P<text>\s{2,}.*|\s*\|.*)?\s*""",
    re.VERBOSE,
)
_LAST_LINE = re.compile(r"\s*(?:0[xX])?(?P<offset>[0-9A-Fa-f]{4,16}):?\s*")


def looks_like_hex(data: bytes) -> bool:
    """Whether these bytes are text that L{parse_hex} understands, rather than packets.

    No packet, and no capture file, consists of hex digits and white space alone.
    """
    try:
        return bool(parse_hex(data.decode("ascii")))
    except (UnicodeDecodeError, RemoteProtocolError):
        return False


def parse_hex(text: str) -> bytes:
    """The bytes that the text spells.

    White space, colons, commas, semicolons, hyphens, C{0x} and C{\\x} are separators.
    A line that begins with C{#} is a comment.
    If every line begins with the offset of its bytes, as C{xxd} and C{hexdump -C} write it, the
    offsets and the characters beside the digits are left out.

    @raise RemoteProtocolError: something else is in it, or half a byte; the error's offset is that
        of the character, its rule names the line.
    """
    lines = text.splitlines(keepends=True)
    dump = _parse_dump([line for line in lines if line.strip() and not line.lstrip().startswith("#")])
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
                raise _malformed(position + line.index(wrong), f"line {number}: {wrong!r} is no hex digit")
            digits.append(kept)
        position += len(line)
    joined = "".join(digits)
    if len(joined) % 2:
        raise _malformed(position, f"{len(joined)} hex digits are not whole bytes")
    return bytes.fromhex(joined)


def _parse_dump(lines: list[str]) -> bytes | None:
    """The bytes of a dump, or C{None} if the lines are none: the offsets have to be right."""
    data = bytearray()
    for index, line in enumerate(lines):
        match = _DUMP_LINE.fullmatch(line.rstrip("\r\n"))
        if match is None:
            last = _LAST_LINE.fullmatch(line)
            if index and index == len(lines) - 1 and last and int(last["offset"], 16) == len(data):
                return bytes(data)
            return None
        if int(match["offset"], 16) != len(data):
            return None
        data += bytes.fromhex(match["digits"])
    return bytes(data) if len(lines) > 1 or (lines and ":" in lines[0]) else None


def _malformed(offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError("hex text", "HexText", "digits", offset, rule)
