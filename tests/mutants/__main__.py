"""C{python -m tests.mutants}: mutations that tests have to notice.

Without options every row of the tables of rules is tried with the tests that cite its rule.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from pathlib import Path

from tests.mutants.citations import citing_tests
from tests.mutants.mutations import Stale
from tests.mutants.proposals import candidates, propose
from tests.mutants.running import is_killed
from tests.mutants.table import SURVIVORS, Row, read_rules, read_table, write_rules

CORES = {
    "msmq/wire": "tests.wire",
    "msmq/structures": "tests.structures",
    "msmq/queues": "tests.queues",
    "msmq/session": "tests.session",
    "msmq/transfer": "tests.transfer",
    "msmq/routing": "tests.routing",
    "msmq/discovery": "tests.discovery",
    "msmq/membership": "tests.membership",
}
"""The cores, and the tests of each."""


def main(arguments: list[str]) -> int:
    """Do what the arguments say; 1 if a mutation survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="rules that begin so")
    parser.add_argument("--propose", metavar="ROOM", nargs="+", help="propose rows: msmq/session ...")
    parser.add_argument("--ledger", type=Path, nargs="+", help="with --propose: rules at level MUST alone")
    parser.add_argument("--tests", nargs="+", default=[""], help="with --propose: rules of these tests alone")
    parser.add_argument("--random", type=int, default=0, help="how many random mutations of each core")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rooms", nargs="+", choices=list(CORES), default=list(CORES))
    options = parser.parse_args(arguments)
    if options.propose:
        return _propose(options)
    survivors = _try_rows(options.only)
    if options.random:
        survivors += _try_random(options)
    return bool(survivors)


def _try_rows(only: str) -> int:
    """Try the tables of rules; the number of survivors and stale rows."""
    tests = citing_tests()
    tried = survived = 0
    for row in read_rules():
        if not row.about.startswith(only):
            continue
        tried += 1
        try:
            row.mutation.line()
            if row.about in tests and is_killed(row.mutation, tests[row.about]):
                continue
            reason = "not noticed" if row.about in tests else "no test cites the rule"
        except Stale as error:
            reason = str(error)
        survived += 1
        sys.stdout.write(f"{row.about}: {reason}: {row.mutation}\n")
    sys.stdout.write(f"{tried} rules, {survived} mutations survived\n")
    return survived


def _try_random(options: argparse.Namespace) -> int:
    """Try random mutations with the tests of their core; the number of those without an explanation."""
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    explained = {row.mutation for row in read_table(SURVIVORS)}
    chance = random.Random(seed)
    tried = survived = known = 0
    for room in options.rooms:
        every = candidates([room])
        for one in chance.sample(every, min(options.random, len(every))):
            tried += 1
            if is_killed(one.mutation, [CORES[room]]):
                continue
            if one.mutation in explained:
                known += 1
                continue
            survived += 1
            sys.stdout.write(f"not noticed by {CORES[room]}: line {one.line}: {one.mutation}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"seed {seed}: {tried} random mutations, {survived} survived, {known} more with a reason\n"
    )
    return survived


def _propose(options: argparse.Namespace) -> int:
    """Add rows for rules that have none."""
    rows = read_rules()
    known = {row.about for row in rows}
    wanted = _must(options.ledger)
    rules = {
        rule: tests
        for rule, tests in citing_tests().items()
        if rule.startswith(options.only) and rule not in known and (wanted is None or rule in wanted)
        if all(test.startswith(tuple(options.tests)) for test in tests)
    }
    missing: list[str] = []
    new: list[Row] = []
    used = [row.mutation for row in rows]
    for rule, row, survived in propose(rules, options.propose, wanted or {}, used):
        if row is None:
            missing.append(rule)
        else:
            new.append(row)
            write_rules([*rows, *new])
            sys.stdout.write(f"{rule}: {row.mutation} (after {survived})\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(new)} new rows; no mutation found for {len(missing)}: {' '.join(missing)}\n")
    return 0


def _must(ledgers: list[Path] | None) -> dict[str, str] | None:
    """The statements of rules at level MUST."""
    if not ledgers:
        return None
    wanted: dict[str, str] = {}
    for path in ledgers:
        with path.open(newline="", encoding="utf-8") as file:
            wanted |= {
                each["id"]: each["statement"] for each in csv.DictReader(file) if each["level"] == "MUST"
            }
    return wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
