"""Problems of an enterprise, of which only so many are recorded."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.problems import MAXIMUM_PROBLEMS, EnterpriseProblem, EnterpriseProblems, ProblemKind

FAULT, NOTICE = ProblemKind.COST, ProblemKind.NO_SITE


class EnterpriseProblemsTests(SynchronousTestCase):
    """The limit, and what is displaced at it."""

    def filled(self, notices: int) -> EnterpriseProblems:
        """As many problems as are recorded, of which the first are notices."""
        found = [
            EnterpriseProblem(NOTICE if number < notices else FAULT, f"{number}", "rule")
            for number in range(MAXIMUM_PROBLEMS)
        ]
        return EnterpriseProblems(found)

    def subjects(self, problems: EnterpriseProblems) -> list[str]:
        return [problem.subject for problem in problems.found]

    def test_below_the_limit(self) -> None:
        """Up to the limit all are recorded, in their order."""
        problems = EnterpriseProblems()
        for number in range(MAXIMUM_PROBLEMS):
            problems.add((FAULT, NOTICE)[number % 2], f"{number}", "rule")
        self.assertEqual(self.subjects(problems), [f"{number}" for number in range(MAXIMUM_PROBLEMS)])
        self.assertEqual(problems.left_out, 0)

    def test_notice_beyond_the_limit(self) -> None:
        """A further notice is only counted."""
        problems = self.filled(notices=2)
        before = self.subjects(problems)
        problems.add(NOTICE, "late", "rule")
        self.assertEqual((self.subjects(problems), problems.left_out), (before, 1))

    def test_fault_beyond_the_limit(self) -> None:
        """A further fault displaces the last notice, and is only counted when none is left."""
        problems = self.filled(notices=2)
        before = self.subjects(problems)
        for number, expected in (
            (1, ["0", *before[2:], "late 1"]),
            (2, [*before[2:], "late 1", "late 2"]),
            (3, [*before[2:], "late 1", "late 2"]),
        ):
            problems.add(FAULT, f"late {number}", "rule")
            self.assertEqual((self.subjects(problems), problems.left_out), (expected, number))

    def test_notices_that_were_added(self) -> None:
        """It makes no difference whether notices were there from the start or added."""
        problems = EnterpriseProblems([EnterpriseProblem(NOTICE, "first", "rule")], left_out=7)
        for number in range(MAXIMUM_PROBLEMS - 2):
            problems.add(FAULT, f"{number}", "rule")
        problems.add(NOTICE, "last", "rule")
        for _ in range(3):
            problems.add(FAULT, "late", "rule")
        faults = [f"{number}" for number in range(MAXIMUM_PROBLEMS - 2)]
        self.assertEqual(self.subjects(problems), [*faults, "late", "late"])
        self.assertEqual(problems.left_out, 10)

    def test_text(self) -> None:
        """A problem is shown with its place, if that is known."""
        problems = EnterpriseProblems()
        problems.add(FAULT, "link A - B", "costs nothing", "estate.toml:3")
        problems.add(NOTICE, "queue manager m", "belongs to no site")
        self.assertEqual(
            [(str(problem), problem.is_fault) for problem in problems.found],
            [
                ("estate.toml:3: link A - B: costs nothing", True),
                ("queue manager m: belongs to no site", False),
            ],
        )
