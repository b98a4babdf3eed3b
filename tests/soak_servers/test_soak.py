"""A short soak, and the comparison by itself."""

from __future__ import annotations

from collections import Counter

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.soak_servers.comparison import LOG, REMAINDERS, grown_types, left_over
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
            within, beyond = (attrs.evolve(SAMPLE, **{field.name: 10 + most + more}) for more in (0, 1))
            self.assertEqual(left_over("ALPHA", SAMPLE, within, 1), [])
            [line] = left_over("ALPHA", SAMPLE, beyond, 1)
            self.assertIn(f"ALPHA: {field.name} grew by ", line)

    def test_types_of_objects(self) -> None:
        """The types of which there are more objects now, the largest growth first."""
        before = Counter({"list": 5, "dict": 7, "tuple": 3})
        after = Counter({"list": 6, "dict": 7, "tuple": 1, "Delivery": 1_500})
        self.assertEqual(grown_types(before, after), "more objects of Delivery (1,500), list (1)")
