"""Compares the answers of two consumers: of the messages of a queue, and of their copies."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

EXAMPLES: Final = 5
"""Answers that are shown of each kind of difference."""


@attrs.frozen
class ConsumerAnswer:
    """One answer.

    @ivar pairing: the same for the two answers that belong together.
    @ivar digest: of its contents.
    @ivar arrived: seconds.
    """

    pairing: str
    digest: str
    arrived: float


@attrs.frozen
class Comparison:
    """The differences, each with the pairings of the answers.

    @ivar matched: answers of the first consumer that the second one has given too, the same or not.
    @ivar delays: of these, how many seconds later than the first one the second one has answered.
    """

    original: int
    shadow: int
    matched: int
    missing: Sequence[str]
    extra: Sequence[str]
    reordered: Sequence[str]
    altered: Sequence[str]
    late: Sequence[str]
    delays: Sequence[float] = attrs.field(repr=False)

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.reordered or self.altered or self.late)

    def record(self) -> dict[str, Any]:
        """The counts, and examples of each kind."""
        delays = sorted(self.delays)
        kinds: Mapping[str, Sequence[str]] = {
            "missing": self.missing,
            "extra": self.extra,
            "reordered": self.reordered,
            "altered": self.altered,
            "late": self.late,
        }
        return {
            "original": self.original,
            "shadow": self.shadow,
            "matched": self.matched,
            **{kind: len(keys) for kind, keys in kinds.items()},
            "delay_median": _quantile(delays, 0.5),
            "delay_p99": _quantile(delays, 0.99),
            "examples": {kind: list(keys[:EXAMPLES]) for kind, keys in kinds.items() if keys},
        }


def compare_answers(
    original: Iterable[ConsumerAnswer], shadow: Iterable[ConsumerAnswer], late: float
) -> Comparison:
    """Compare two sequences of answers, each in the order of arrival.

    Several answers with one pairing are paired in order. Those that have changed their position among the
    matched ones are reordered: as few as possible, so one that has moved is one.

    @param late: seconds after the first answer from which the second one is late.
    """
    first, second = list(original), list(shadow)
    waiting: dict[str, list[int]] = defaultdict(list)
    for index, answer in enumerate(first):
        waiting[answer.pairing].append(index)
    for indices in waiting.values():
        indices.reverse()
    extra: list[str] = []
    pairs: list[tuple[int, ConsumerAnswer]] = []
    for answer in second:
        indices = waiting.get(answer.pairing) or []
        if indices:
            pairs.append((indices.pop(), answer))
        else:
            extra.append(answer.pairing)
    unmatched = sorted(index for indices in waiting.values() for index in indices)
    in_order = _longest_rise([index for index, _ in pairs])
    delays = [answer.arrived - first[index].arrived for index, answer in pairs]
    return Comparison(
        original=len(first),
        shadow=len(second),
        matched=len(pairs),
        missing=[first[index].pairing for index in unmatched],
        extra=extra,
        reordered=[answer.pairing for number, (_, answer) in enumerate(pairs) if number not in in_order],
        altered=[answer.pairing for index, answer in pairs if answer.digest != first[index].digest],
        late=[answer.pairing for (_, answer), delay in zip(pairs, delays, strict=True) if delay > late],
        delays=delays,
    )


def _longest_rise(values: Sequence[int]) -> set[int]:
    """The positions of the longest rising subsequence of distinct numbers."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for position, value in enumerate(values):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            ends.append(position)
        else:
            tails[length] = value
            ends[length] = position
    found: set[int] = set()
    position = ends[-1] if ends else -1
    while position >= 0:
        found.add(position)
        position = before[position]
    return found


def _quantile(ordered: Sequence[float], part: float) -> float | None:
    return round(ordered[min(int(len(ordered) * part), len(ordered) - 1)], 3) if ordered else None
