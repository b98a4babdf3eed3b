"""Rules of the ledger, and the tests that cite them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from typing import Final

from tests.mutants.mutations import PROJECT

RULE: Final = re.compile(r"\b(MQQB|MQDMPR|MQSD|MQBR|MQMQ)-([0-9.]+)-\d+[a-z]?\b")
_ADDRESS: Final = re.compile(r"\[MS-(\w+)\] ((?:\d+(?:\.\d+)+)(?:(?:, | and )\d+(?:\.\d+)+)*)")


@cache
def citing_tests() -> dict[str, list[str]]:
    """By rule, the tests whose docstring cites it, as C{module.Class.test}; of a class, all its tests."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((PROJECT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if RULE.search(text) is None:
            continue
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                for rule, name in _cited(node):
                    found[rule].append(f"{module}.{node.name}{name}")
    return dict(found)


def _cited(case: ast.ClassDef) -> list[tuple[str, str]]:
    own = {match[0] for match in RULE.finditer(ast.get_docstring(case) or "")}
    cited = [(rule, "") for rule in sorted(own)]
    for node in case.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            rules = {match[0] for match in RULE.finditer(ast.get_docstring(node) or "")} - own
            cited += [(rule, f".{node.name}") for rule in sorted(rules)]
    return cited


def addresses(docstring: str) -> set[str]:
    """The sections that a docstring names: C{MQQB 3.1.5.3.1}."""
    found: set[str] = set()
    for document, sections in _ADDRESS.findall(docstring):
        found.update(f"{document} {section}" for section in re.findall(r"\d+(?:\.\d+)+", sections))
    return found


def section_of(rule: str) -> str:
    """The section of a rule: C{MQQB 3.1.5.3.1}."""
    match = RULE.fullmatch(rule)
    assert match is not None
    return f"{match[1]} {match[2]}"
