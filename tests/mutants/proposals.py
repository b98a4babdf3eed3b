"""Proposals: for a rule, the mutations that its tests should notice first."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from tests.mutants.citations import addresses, section_of
from tests.mutants.mutations import BODY, PROJECT, Mutation, mutations_of, scopes
from tests.mutants.running import is_killed, lines_of
from tests.mutants.table import Row

_WORD = re.compile(r"[A-Z]?[a-z]+")
TRIES = 10
"""Mutations of a rule that are tried; a rule of which none is noticed has no row."""


@attrs.frozen
class Candidate:
    """A mutation, with its line and the sections that its function names."""

    line: int
    sections: frozenset[str]
    mutation: Mutation


def words(text: str) -> frozenset[str]:
    """The words of a text or of names, of at least four letters: a term maps to a name mechanically."""
    return frozenset(word.lower() for word in _WORD.findall(text) if len(word) > 3)


def candidates(rooms: Sequence[str]) -> list[Candidate]:
    """Every mutation of some folders of the product."""
    found: list[Candidate] = []
    for room in rooms:
        for path in sorted((PROJECT / room).rglob("*.py")):
            name = str(path.relative_to(PROJECT))
            tree = ast.parse(path.read_text())
            of_classes = {
                node.name: addresses(ast.get_docstring(node) or "")
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef)
            }
            for function, node in scopes(tree):
                sections = frozenset(
                    addresses(ast.get_docstring(node) or "")
                    | of_classes.get(function.split(".")[0], set())
                    | addresses(ast.get_docstring(tree) or "")
                )
                found += [Candidate(line, sections, one) for line, one in mutations_of(name, function, node)]
    return found


def propose(
    rules: Mapping[str, Sequence[str]],
    rooms: Sequence[str],
    statements: Mapping[str, str],
    used: Collection[Mutation],
) -> Iterator[tuple[str, Row | None, int]]:
    """For each rule, a row, and how many mutations its tests did not notice before.

    Mutations in functions that name the section of the rule come first, of those the ones that have words of
    the rule, of those the ones that fewest other rules reach.

    @param rules: rules, with their tests.
    @param statements: what rules say.
    @param used: mutations that other rules have.
    """
    taken = set(used)
    reached = {rule: lines_of(tests, rooms) for rule, tests in rules.items()}
    common = Counter(line for lines in reached.values() for line in lines)
    everything = candidates(rooms)
    for rule in rules:
        section = section_of(rule)
        near = [
            one
            for one in everything
            if (one.mutation.path, one.line) in reached[rule]
            # What a module defines is reached before the tests run.
            or (one.mutation.function.endswith(BODY) and section in one.sections)
        ]
        said = words(statements.get(rule, ""))

        def rank(
            one: Candidate, section: str = section, said: frozenset[str] = said
        ) -> tuple[bool, bool, bool, int, int, int]:
            shared = len(said & words(f"{one.mutation.function} {one.mutation.before}"))
            often = common[one.mutation.path, one.line] or len(rules)
            # A result that is missing is noticed by any test that reaches it, whatever the rule says.
            is_crude = one.mutation.after == "return None"
            is_far = section not in one.sections
            return one.mutation in taken, is_far, is_crude, -shared, often, one.line

        near.sort(key=rank)
        survived = 0
        row = None
        for one in near[:TRIES]:
            if is_killed(one.mutation, rules[rule]):
                row = Row(rule, one.mutation)
                taken.add(one.mutation)
                break
            survived += 1
            sys.stderr.write(f"{rule}: not noticed: {one.mutation}\n")
        yield rule, row, survived
