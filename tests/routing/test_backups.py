"""Backups that cannot be used are named, with a cost that makes them usable."""

from __future__ import annotations

import re

import attrs
from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from msmq.routing import backups
from msmq.routing.alternates import Alternates
from msmq.routing.backups import find_unusable_backups
from msmq.routing.topology import Topology
from tests.routing.builders import Estate
from tests.routing.enterprises import Plan, well_kept
from tests.routing.test_any_enterprise import any_enterprise


def problems(links: str) -> list[str]:
    return [str(problem) for problem in find_unusable_backups(Estate(links).sound())]


def ring(count: int) -> str:
    """Sites in a circle, each linked to the next."""
    sites = [f"S{number:02}" for number in range(count)]
    return ", ".join(f"{one}-{two} 1" for one, two in zip(sites, [*sites[1:], sites[0]], strict=True))


class ExampleTests(SynchronousTestCase):
    """Small enterprises."""

    def test_backup_that_leads_back(self) -> None:
        """The link, both ends, the costs, and what would help; in the other direction it can be used."""
        self.assertEqual(
            problems("Branch-North 1, Head-North 1, Branch-South 5, Head-South 1"),
            [
                "link Head - South: cannot be used as a backup for messages from Head to Branch while North"
                " is down: South is farther from Branch (3) than Head (2), so they wait; with a cost of 1 for"
                " the link Branch - South they would use this route",
                "link North - Branch: cannot be used as a backup for messages from North to South while"
                " Head is down: Branch is farther from South (3) than North (2), so they wait; with a cost of"
                " 1 for the link Branch - South they would use this route",
            ],
        )

    def test_equally_far(self) -> None:
        """Of two at the same distance, one waits for the other; where no lower cost helps, a higher
        one does.
        """
        [first, *_] = problems("A-B 1, B-C 1, C-D 1, D-E 1, E-A 1")
        self.assertEqual(
            first,
            "link C - D: cannot be used as a backup for messages from C to A while B is down: D is as far"
            " from A (2) as C (2), so they wait; with a cost of 2 for the link B - C they would use this"
            " route",
        )

    def test_further_on(self) -> None:
        """The first link that leads no nearer may be behind others, and is then named for all that wait."""
        self.assertEqual(
            problems("S-F 2, F-T 1, C-F 1, D-T 2, C-D 1, S-C 5"),
            [
                "link C - D: cannot be used as a backup for messages from C to T while F is down: D is as far"
                " from T (2) as C (2), so they wait, and so for 1 more pairs of sites; with a cost of 1 for"
                " the link D - T they would use this route",
                "link F - T: cannot be used as a backup for messages from F to D while C is down: T is as far"
                " from D (2) as F (2), so they wait; with a cost of 1 for the link D - T they would use this"
                " route",
                "link T - D: cannot be used as a backup for messages from T to S while F is down: D is"
                " farther from S (4) than T (3), so they wait; with a cost of 1 for the link S - C they would"
                " use this route",
            ],
        )

    def test_no_cost_that_helps(self) -> None:
        """A cost is named only if messages would take the route with it."""
        first, *_ = problems("B-A 4, C-A 2, D-C 3, E-B 1, E-C 2, D-E 1")
        self.assertEqual(
            first,
            "link D - C: cannot be used as a backup for messages from D to B while E is down: C is farther"
            " from B (3) than D (2), so they wait",
        )

    def test_cost_that_helps_where_they_wait(self) -> None:
        """A cost that opens the way from the next site alone is not named."""
        first, *_ = problems("B-A 5, C-B 1, D-B 1, E-C 1, F-B 2, F-E 9")
        self.assertEqual(
            first,
            "link E - F: cannot be used as a backup for messages from E to A while C is down: F is as far"
            " from A (7) as E (7), so they wait, and so for 2 more pairs of sites; with a cost of 1 for the"
            " link F - B they would use this route",
        )

    def test_where(self) -> None:
        """The position of the link is named, if it is known."""
        estate = Estate("Branch-North 1, Head-North 1, Branch-South 5")
        estate.link("Head", "South", 1, "gHead gSouth", where="estate.toml:8")
        self.assertEqual(
            [problem.where for problem in find_unusable_backups(estate.sound())], ["estate.toml:8", ""]
        )

    def test_nothing_to_say(self) -> None:
        """Usable backups, and sites that have none, are no problems."""
        for links in (
            "A-B 1, B-C 1",
            "A-B 1, B-C 1, A-C 5",
            "Branch-North 10, Head-North 10, Branch-South 15, Head-South 15",
        ):
            self.assertEqual(problems(links), [])

    def test_work_limit(self) -> None:
        """Where the work is limited, the problem says how many of the sites were checked."""
        self.patch(backups, "MOST_WORK", 0)
        [problem] = problems("A-B 1, B-C 1")
        self.assertIn("has 3 sites; backups were checked for routes to 1 of them", problem)

    def test_work(self) -> None:
        """Each site costs its steps and links five times, and once more for each site that may fail; the
        check ends when the limit is exceeded.
        """
        # Eight steps and eight links to each site, and five next sites on the way to it.
        for limit, expected in ((159, 1), (160, 2), (319, 2), (320, 3), (1119, 7), (1120, None)):
            self.patch(backups, "MOST_WORK", limit)
            last = problems(ring(8))[-1]
            if expected is None:
                self.assertNotIn("backups were checked", last)
            else:
                self.assertEqual(
                    last,
                    f"the enterprise: has 8 sites; backups were checked for routes to {expected} of them",
                )

    def test_bound(self) -> None:
        """Fifty links are reported, and the number of the rest."""
        self.assertEqual([text for text in problems(ring(25)) if not text.startswith("link")], [])
        found = problems(ring(26))
        self.assertEqual(len(found), 51)
        self.assertEqual(found[-1], "the enterprise: has 2 more links that cannot be used as backups")

    def test_most_pairs_first(self) -> None:
        """Links come first that would serve the most pairs of sites, whose number is named."""
        found = problems("A-B 1, B-C 1, C-D 1, D-E 1, E-A 1, A-F 1, F-G 1, D-H 2")
        self.assertEqual(
            [
                (text.split(":")[0], re.findall("and so for ([0-9]+) more pairs of sites;", text))
                for text in found
            ],
            [
                ("link C - D", ["2"]),
                ("link A - B", ["1"]),
                ("link D - E", []),
                ("link A - E", []),
                ("link B - C", []),
            ],
        )


class AnyEnterpriseTests(SynchronousTestCase):
    """Compared with the decisions of the queue managers."""

    def waiting(self, topology: Topology) -> set[tuple[str, str, str]]:
        """Source, destination and failed site where a message waits although links lead around."""
        found: set[tuple[str, str, str]] = set()
        alternates = Alternates(topology)
        gates = {site.identifier: topology.gates(site.identifier) for site in topology.sites}
        for source in topology.sites:
            for target in topology.queue_managers:
                [destination] = target.sites
                if not gates[source.identifier]:
                    continue
                own = gates[source.identifier][0]
                plain = alternates.decide(own, target.identifier, frozenset())
                if destination == source.identifier or plain.site in (None, destination):
                    continue
                assert plain.site is not None
                down = frozenset(gates[plain.site])
                hops = alternates.decide(own, target.identifier, down).hops
                rest = [link for link in topology.links if plain.site not in (link.site1, link.site2)]
                without = attrs.evolve(topology, links=tuple(rest))
                around = Alternates(without).decide(own, target.identifier, frozenset()).hops
                if around and hops[0] in down:
                    found.add((str(source), topology.site_name(destination), topology.site_name(plain.site)))
        return found

    @given(plan=well_kept(one_site=True))
    @any_enterprise
    def test_all_are_named(self, plan: Plan) -> None:
        """A backup is named if, and only if, messages wait for its sake; the cost that is named helps."""
        topology = plan.builder().build().topology
        waiting = self.waiting(topology)
        found = find_unusable_backups(topology)
        for problem in found:
            match = re.search("from (\\S+) to (\\S+) while (\\S+) is down", problem.rule)
            assert match is not None
            self.assertIn(match.groups(), waiting)
        self.assertEqual(bool(found), bool(waiting))
        self.assertLessEqual(len(found), len(waiting))
