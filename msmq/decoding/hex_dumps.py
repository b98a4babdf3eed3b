"""Hex dumps of several frames or of both directions of a conversation, as capture tools print them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from msmq.decoding.hex_text import LARGEST_DUMP, parse_dump

_LINE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<hex>0[xX])?(?P<offset>[0-9A-Fa-f]{4,16}):?(?:\s+\S.*)?")
_FOLLOWED: Final = re.compile(r"=+|(?:Follow|Filter): .*|Node [01]: .*")
_REPEATED: Final = "*"


@attrs.frozen
class HexDump:
    """A hex dump in a text: lines with offsets and bytes.

    @ivar indent: the leading white space of its lines.
    @ivar start: the first offset: 0, or where an earlier dump with the same indent ended.
    """

    indent: str
    start: int
    data: bytes = attrs.field(repr=False)


@attrs.define
class _Run:
    indent: str
    start: int
    lines: list[str] = attrs.field(factory=list)


def parse_dumps(text: str, largest: int = LARGEST_DUMP) -> Sequence[HexDump] | None:
    """The dumps in a text, as C{xxd}, C{hexdump -C}, C{tshark -x}, C{tcpdump -X} and Wireshark write them.

    Blank lines, comments, and between lines of C{tcpdump} its descriptions of the frames, separate dumps.

    @param largest: the maximum number of bytes to which repeated lines may expand all dumps together.
    @return: C{None} if something else is in the text, an offset is wrong, or the dumps are larger.
    """
    runs: list[_Run] = []
    is_over = True
    ends: dict[str, int] = {}
    found: list[HexDump] = []
    other, is_tcpdump = False, True
    for line in text.splitlines():
        bare = line.strip()
        match = _LINE.fullmatch(line.rstrip())
        if bare == _REPEATED and not is_over:
            runs[-1].lines.append(bare)
        elif match is not None:
            is_tcpdump = is_tcpdump and match["hex"] is not None
            offset = int(match["offset"], 16)
            if is_over or offset == 0 or match["indent"] != runs[-1].indent:
                runs.append(_Run(match["indent"], offset))
            runs[-1].lines.append(bare)
            is_over = False
        else:
            is_over = True
            other = other or not (not bare or bare.startswith("#") or _FOLLOWED.fullmatch(bare))
    if not runs or (other and not is_tcpdump):
        return None
    for run in runs:
        if run.start not in (0, ends.get(run.indent)):
            return None
        data = parse_dump(run.lines, run.start, largest)
        if data is None:
            return None
        largest -= len(data)
        ends[run.indent] = run.start + len(data)
        found.append(HexDump(run.indent, run.start, data))
    return found


def directions(dumps: Sequence[HexDump]) -> Sequence[bytes] | None:
    """The two streams of a conversation, whose second direction is indented; C{None} for anything else."""
    indents = list(dict.fromkeys(dump.indent for dump in dumps))
    if len(indents) != 2:
        return None
    return [b"".join(dump.data for dump in dumps if dump.indent == indent) for indent in indents]
