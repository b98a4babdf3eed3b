"""Security descriptors, as bytes and as text, and the rights that they grant."""

from __future__ import annotations

from typing import Final

from msmq.errors import LocalProtocolError
from msmq.windows.access_check import Privilege, Token, check_access
from msmq.windows.access_masks import QUEUE_KIND, QUEUE_MANAGER_KIND, AccessMask
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.windows.security_descriptor import (
    SecurityDescriptor,
    allow,
    deny,
    restricted,
    with_entry,
    without_entries_of,
)
from msmq.wire.sid import parse_sid
from tests.fuzz.finding import accepted, expect, written
from tests.fuzz.seeds_conditions import CLAIMS

DOMAIN: Final = parse_sid("S-1-5-21-1-2-3")
USER: Final = parse_sid("S-1-5-21-1-2-3-1001")
TOKENS: Final = (
    Token(USER, frozenset([parse_sid("S-1-1-0"), parse_sid("S-1-5-32-545")])),
    Token(parse_sid("S-1-5-7"), frozenset(), frozenset(Privilege)),
    Token(USER, frozenset([parse_sid("S-1-1-0")]), claims=CLAIMS),
)


def descriptors(data: bytes) -> None:
    """An accepted descriptor is read again as it is written, in both forms, and grants no more than was asked
    for.

    The first byte says whether the rest is text.
    """
    if not data:
        return
    if data[0] & 1:
        text = data[1:].decode("utf-8", "surrogateescape")
        descriptor = accepted(lambda _: parse_sddl(text, DOMAIN), data)
    else:
        descriptor = accepted(SecurityDescriptor.from_bytes, data[1:])
    if descriptor is None:
        return
    again = written(descriptor.to_bytes)
    expect(again is None or SecurityDescriptor.from_bytes(again) == descriptor, "a descriptor comes back")
    _as_text(descriptor)
    for token in TOKENS:
        _ask(descriptor, token, int.from_bytes(data[-4:], "little"))
    _change(descriptor)
    repr(descriptor)


def _as_text(descriptor: SecurityDescriptor) -> None:
    try:
        text = format_sddl(descriptor)
    except LocalProtocolError:
        # Some entries have no text.
        return
    expect(format_sddl(parse_sddl(text, DOMAIN)) == text, "a text is read as it is written")


def _ask(descriptor: SecurityDescriptor, token: Token, asked: int) -> None:
    for kind in (QUEUE_KIND, QUEUE_MANAGER_KIND):
        for mask in (asked, kind.every_right, int(AccessMask.MAXIMUM_ALLOWED)):
            decision = check_access(descriptor, token, mask, kind)
            wants_all = decision.asked & AccessMask.MAXIMUM_ALLOWED
            bounds = decision.asked | (kind.every_right if wants_all else 0)
            expect(not decision.granted_rights & ~bounds, "nothing is granted that was not asked for")
            rights = [part.rights for part in decision.decided]
            expect(sum(rights) == _union(rights), "each right is decided once")
            expect(wants_all or decision.granted == (not decision.missing), "granted is all or nothing")
            decision.why()


def _union(masks: list[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _change(descriptor: SecurityDescriptor) -> None:
    bare = without_entries_of(descriptor, USER)
    expect(without_entries_of(bare, USER) == bare, "who has no entries has none to lose")
    mask = QUEUE_KIND.every_right
    allowed = with_entry(bare, allow(USER, mask))
    expect(with_entry(allowed, allow(USER, mask)) == allowed, "what is allowed is not allowed twice")
    denied = with_entry(allowed, deny(USER, mask))
    expect(without_entries_of(denied, USER) == bare or descriptor.dacl is None, "a change is taken back")
    try:
        restricted(descriptor, QUEUE_KIND)
    except LocalProtocolError:
        # An entry has a bit that is no right of a queue.
        return
