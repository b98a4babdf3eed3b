"""Parsing of a 1 KiB UserMessage in the hot path, compared with the bare C{struct.unpack_from} calls."""

from __future__ import annotations

from struct import Struct

from msmq.structures.packet.user_message_view import UserMessageView
from rig.frames import user_message
from rig.measuring import Result, compare, seconds_each

GOAL = 4.0
ROUNDS = 15
TIMES = 20_000

_BASE = Struct("<BBHIII").unpack_from
_USER = Struct("<16s16sIIIIH").unpack_from
_PROPERTIES = Struct("<BBH20sIIIIIIII").unpack_from


def measure(rounds: int = ROUNDS, times: int = TIMES) -> list[Result]:
    """Nanoseconds per packet, compared round by round."""
    packet = user_message()
    view = UserMessageView(packet)
    assert view.body_size == 1024, "the packet is what the layouts say"
    properties_at = len(packet) - (56 + 22 + 1024 + 2 & ~3)

    def bare() -> object:
        _BASE(packet, 0)
        _USER(packet, 16)
        return _PROPERTIES(packet, properties_at)

    def judge() -> object:
        return UserMessageView(packet)

    def decide() -> object:
        seen = UserMessageView(packet)
        return seen.destination_key, seen.priority, seen.is_recoverable, seen.is_transactional, seen.size

    assert bare() == _PROPERTIES(packet, properties_at) and _PROPERTIES(packet, properties_at)[6] == 1024
    judged: list[tuple[float, float]] = []
    decided: list[tuple[float, float]] = []
    for _ in range(rounds):
        baseline = seconds_each(bare, times) * 1e9
        judged.append((seconds_each(judge, times) * 1e9, baseline))
        decided.append((seconds_each(decide, times) * 1e9, baseline))
    return [
        compare("parse a 1 KiB message: check every header", judged, "ns", at_most=GOAL),
        compare("the same, and ask what a queue manager decides on", decided, "ns"),
    ]
