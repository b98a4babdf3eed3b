"""A short soak, and the comparison by itself."""

from __future__ import annotations

from collections import Counter

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.soak_servers.comparison import LOG, MOST_OBJECTS, REMAINDERS, TYPES, grown_types, left_over
from tests.soak_servers.estate import Sample
from tests.soak_servers.soak import soak

SAMPLE = Sample(**{field.name: 10.0 for field in attrs.fields(Sample)})


class SoakTests(SynchronousTestCase):
    """Three servers, of which one is a relay; C{make soak-servers} runs them for an hour."""

    def test_short(self) -> None:
        """After some rounds all that was used comes back, or has a reason."""
        problems, table = soak(0, rounds=2)
        self.assertEqual(problems, [], f"\n{table}")


class ComparisonTests(SynchronousTestCase):
    """What counts as having come back."""

    def test_growth(self) -> None:
        """What grew is reported, unless it has a reason, and then beyond its limit."""
        self.assertEqual(left_over("ALPHA", SAMPLE, SAMPLE, 1), [])
        for field in attrs.fields(Sample):
            most = LOG if field.name == "log" else 0.0
            if field.name in REMAINDERS and field.name != "log":
                most = REMAINDERS[field.name].most
            if most == float("inf"):
                continue
            within, beyond = (attrs.evolve(SAMPLE, **{field.name: 10 + most + more}) for more in (0, 1))
            self.assertEqual(left_over("ALPHA", SAMPLE, within, 1), [])
            [line] = left_over("ALPHA", SAMPLE, beyond, 1)
            self.assertIn(f"ALPHA: {field.name} grew by ", line)

    def test_types_of_objects(self) -> None:
        """A type of which there are too many more is named; those of a table may fill it."""
        filled = {kind: 10 + int(remainder.most) for kind, remainder in TYPES.items()}
        before = Counter({kind: 10 for kind in [*TYPES, "Delivery"]})
        within = Counter({**filled, "Delivery": 10 + MOST_OBJECTS})
        self.assertEqual(grown_types("ALPHA", before, within), [])
        for kind in within:
            beyond = within + Counter([kind])
            [line] = grown_types("ALPHA", before, beyond)
            self.assertRegex(line, f"^ALPHA: [0-9,]+ more objects of {kind}, more than [0-9,]+$")
