"""Readers that wait at one queue share what comes."""

from __future__ import annotations

import itertools

from tests.control.support import Caller, ControlTestCase


class SharingTests(ControlTestCase):
    """Three receives that wait, each for up to 200 messages."""

    def receivers(self, number: int = 3, **parameters: int) -> list[Caller]:
        return [self.receive(timeout=50, **{"count": 200, **parameters}) for _ in range(number)]

    def confirm_all(self, receivers: list[Caller], confirmed: set[tuple[int, int]]) -> None:
        """Each confirms what it has got."""
        for number, caller in enumerate(receivers):
            for record in caller.answer.records if caller.is_answered else ():
                receipt = record.header.get("receipt")
                if receipt is not None and (number, receipt) not in confirmed:
                    confirmed.add((number, receipt))
                    self.confirm(record)

    def shared(self, *bursts: int) -> list[int]:
        """How many of these messages each gets; they come in bursts, and are confirmed at once."""
        receivers, confirmed = self.receivers(), set[tuple[int, int]]()
        expected = [b"%d" % number for number in range(sum(bursts))]
        left = list(expected)
        for burst in bursts:
            self.put(*left[:burst])
            del left[:burst]
            self.clock.advance(0.001)
            self.confirm_all(receivers, confirmed)
        for _ in range(20):
            self.clock.advance(0.001)
            self.confirm_all(receivers, confirmed)
        got = [[r.body for r in caller.answer.records if "id" in r.header] for caller in receivers]
        self.assertEqual(sorted(itertools.chain(*got), key=int), expected, "each once")
        for bodies in got:
            self.assertEqual(bodies, sorted(bodies, key=int), "in order")
        for caller in receivers:
            caller.hang_up()
        return [len(bodies) for bodies in got]

    def test_bursts(self) -> None:
        """With bursts of any size, no reader gets much more than its share."""
        for bursts in ((90,), (1,) * 30, (10,) * 6, (50,) * 2, (7, 33, 1, 1, 18)):
            with self.subTest(bursts=bursts):
                shares = self.shared(*bursts)
                self.assertLessEqual(max(shares) - min(shares), 6, shares)

    def test_different_wishes(self) -> None:
        """Messages that one reader does not need go to the others."""
        few, many = self.receivers(1, count=2) + self.receivers(1)
        self.put(*[b"x"] * 40)
        self.clock.advance(0.001)
        counts = [sum("id" in record.header for record in each.answer.records) for each in (few, many)]
        self.assertEqual(counts, [2, 38])
