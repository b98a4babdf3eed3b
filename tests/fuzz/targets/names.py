"""Format names, path names and the other texts that name something."""

from __future__ import annotations

from collections.abc import Callable

from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.management import format_next_hop, parse_multicast_address, parse_next_hop
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import parse_format_name, parse_format_names
from msmq.structures.names.path_name import parse_path_name
from msmq.wire.sid import format_sid, parse_sid
from tests.fuzz.finding import expect, named


def _format_names(text: str, lenient: bool) -> None:
    one = named(lambda: parse_format_name(text, lenient))
    if one is not None:
        expect(parse_format_name(str(one), lenient) == one, "a format name is read as it is written")
        if isinstance(one, DirectFormatName) and one.subqueue is None:
            again = named(lambda: DirectFormatName.from_wire_text(one.wire_text, lenient=lenient))
            expect(again == one, "a direct name is read as it is sent")


def _several(text: str, lenient: bool) -> None:
    several = named(lambda: parse_format_names(text, lenient))
    if several is not None:
        written = ",".join(map(str, several))
        expect(parse_format_names(written, lenient) == several, "several format names are read as written")


def _wire_text(text: str, lenient: bool) -> None:
    name = named(lambda: DirectFormatName.from_wire_text(text, lenient=lenient))
    if name is not None:
        again = named(lambda: parse_format_name(str(name), lenient))
        expect(again == name, "a direct name that was sent is read as it is written")


def _paths(text: str, lenient: bool) -> None:
    for version in (1, 2, 3, 4):
        path = named(lambda version=version: parse_path_name(text, version, lenient))  # type: ignore[misc]
        if path is not None:
            expect(parse_path_name(str(path), version, lenient) == path, "a path is read as it is written")


def _others(text: str, lenient: bool) -> None:
    identifier = named(lambda: MessageIdentifier.parse(text))
    if identifier is not None:
        expect(MessageIdentifier.parse(str(identifier)) == identifier, "an identifier is read as written")
    hop = named(lambda: parse_next_hop(text))
    if hop is not None:
        expect(parse_next_hop(format_next_hop(hop)) == hop, "a next hop is read as it is written")
    named(lambda: parse_multicast_address(text))
    try:
        sid = parse_sid(text)
    except ValueError:
        return
    expect(parse_sid(format_sid(sid)) == sid, "a SID is read as it is written")


READERS: tuple[Callable[[str, bool], None], ...] = (_format_names, _several, _wire_text, _paths, _others)


def names(data: bytes) -> None:
    """Accepted names round-trip; rejected ones have their status.

    The first byte chooses the reader and its leniency; the rest is text, in which lone surrogates occur.
    """
    if not data:
        return
    text = data[1:].decode("utf-8", "surrogateescape")
    READERS[data[0] % len(READERS)](text, data[0] >= 128)
