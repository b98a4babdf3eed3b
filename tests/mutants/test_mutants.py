"""The tables of mutations fit the source, and a sample of them is noticed; C{make mutants} tries all."""

from __future__ import annotations

import ast

from twisted.trial.unittest import SynchronousTestCase

from tests.mutants.citations import addresses, citing_tests, section_of
from tests.mutants.mutations import BODY, Mutation, Stale, mutations_of, scopes
from tests.mutants.running import is_killed, lines_of, passes
from tests.mutants.table import SURVIVORS, read_rules, read_table

SAMPLE = 4
"""Mutations of the table that are tried here."""
MACHINE = "msmq/session/ping_initiator.py", "_machine"
"""A function that runs when its module is imported."""
PINGS = ["tests.session.test_ping_initiator"]
SOURCE = '''
"""A module has a docstring."""
LIMIT: Final = 5
class Kind:
    """So does a class."""
    SMALL = 1
def limit(count, most):
    """A docstring has no mutations."""
    if count < most and not count == 0:
        return most
    return count + 1
'''


class TableTests(SynchronousTestCase):
    """The tables of rules, and C{survivors.csv}."""

    def test_rows_fit_the_source(self) -> None:
        """Each mutation is in the source, and its rule is cited by a test; otherwise it proves nothing.

        A row that became stale is removed from the table, and proposed again with the tool.
        """
        tests = citing_tests()
        for row in read_rules():
            self.assertIn(row.about, tests)
            self.assertGreater(row.mutation.line(), 0)
        for row in read_table(SURVIVORS):
            self.assertGreater(row.mutation.line(), 0)

    def test_one_row_for_each_rule(self) -> None:
        """A rule has one mutation."""
        rules = [row.about for row in read_rules()]
        self.assertEqual(len(set(rules)), len(rules))

    def test_a_sample_is_noticed(self) -> None:
        """The citing tests pass as the product is, and fail with the mutation."""
        tests, rows = citing_tests(), read_rules()
        for row in rows[:: max(1, len(rows) // SAMPLE)][:SAMPLE]:
            self.assertTrue(passes(tests[row.about]), row)
            self.assertTrue(is_killed(row.mutation, tests[row.about]), row)


class MutationTests(SynchronousTestCase):
    """What is changed in functions, modules and classes."""

    def test_kinds(self) -> None:
        """Comparisons, connectives, negations, conditions, numbers, sums and results."""
        found = self.mutations("limit")
        self.assertEqual(
            found,
            {
                ("count < most", "count <= most"),
                ("count < most and (not count == 0)", "count < most or not count == 0"),
                ("count < most and (not count == 0)", "not (count < most and (not count == 0))"),
                ("not count == 0", "count == 0"),
                ("count == 0", "count != 0"),
                ("0", "1"),
                ("1", "2"),
                ("count + 1", "count - 1"),
                ("return most", "return None"),
            },
        )

    def test_definitions(self) -> None:
        """Constants, members and fields are changed, docstrings are not."""
        self.assertEqual(self.mutations(BODY), {("5", "6")})
        self.assertEqual(self.mutations(f"Kind.{BODY}"), {("1", "2")})

    def mutations(self, scope: str) -> set[tuple[str, str]]:
        """Those of L{SOURCE} in a function or body."""
        found = dict(scopes(ast.parse(SOURCE)))
        return {(one.before, one.after) for _, one in mutations_of("x.py", scope, found[scope])}

    def test_what_runs_at_import(self) -> None:
        """A constant, and a function that ran when its module was imported, are as the mutation has them."""
        tests = ["tests.discovery.test_packets"]
        kind = "msmq/discovery/packets.py", f"TopologyPacketType.{BODY}"
        self.assertTrue(is_killed(Mutation(*kind, "1", "2"), tests))
        self.assertTrue(is_killed(Mutation(*MACHINE, "request.end(False, response, now)", "pass"), PINGS))
        self.assertTrue(passes(PINGS))

    def test_a_mutation_that_no_test_reaches(self) -> None:
        """It survives: the process of the mutant is another one, whose tests pass."""
        row = read_rules()[0]
        test = ["tests.wire.test_reader"]
        self.assertFalse(is_killed(row.mutation, test))
        self.assertEqual(lines_of(test, ["msmq/transfer"]), set())

    def test_stale(self) -> None:
        """A mutation that the source does not have any more is reported."""
        row = read_rules()[0].mutation
        for one in (
            Mutation(row.path, "no_such_function", row.before, row.after),
            Mutation(row.path, row.function, "no_such_name", row.after),
        ):
            self.assertRaises(Stale, one.line)


class CitationTests(SynchronousTestCase):
    """Rules, their sections and their tests."""

    def test_addresses(self) -> None:
        """A docstring may name several sections of several documents."""
        text = "The limit. [MS-MQQB] 3.1.5.3.1, 3.1.5.3.2 and 2.2.4; [MS-MQMQ] 2.2.19"
        self.assertEqual(addresses(text), {"MQQB 3.1.5.3.1", "MQQB 3.1.5.3.2", "MQQB 2.2.4", "MQMQ 2.2.19"})
        self.assertEqual(section_of("MQQB-3.1.5.3.1-02"), "MQQB 3.1.5.3.1")
