"""Imports of a module, violations of the tables, and import cycles."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping

import attrs

from tests.test_architecture.rooms import (
    FORBIDDEN_EVERYWHERE,
    IMPURE_STANDARD,
    ONLY_IN,
    PURE_OUTSIDE,
    ROOMS,
    is_within,
    room_of,
)
from tests.wiring import nodes_of


@attrs.frozen
class Import:
    """One import statement: the dotted name that it needs, its line, and whether it runs on import."""

    name: str
    line: int
    at_module_level: bool


_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""What an import can stand in: expressions hold none."""


def imports_of(module: str, tree: ast.Module, *, is_package: bool = False) -> list[Import]:
    """Every import in a module, with relative names made absolute."""
    found: list[Import] = []

    def visit(node: ast.AST, at_module_level: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, at_module_level) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                package = parts[: len(parts) - node.level + is_package]
                base = ".".join([*package, base] if base else package)
            found.extend(Import(f"{base}.{alias.name}", node.lineno, at_module_level) for alias in node.names)
        inner = at_module_level and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for child in getattr(node, name, ()):
                if isinstance(child, _STATEMENTS):
                    visit(child, inner)

    for statement in tree.body:
        visit(statement, True)
    return found


def import_offences(module: str, tree: ast.Module, *, is_package: bool = False) -> Iterator[str]:
    """The imports of a module of that dotted name that violate the tables."""
    room = room_of(module)
    row = ROOMS[room]
    for needed in imports_of(module, tree, is_package=is_package):
        top = needed.name.split(".")[0]
        where = f"{module}:{needed.line} imports {needed.name}"
        if top == "msmq":
            other = room_of(needed.name)
            if other != room and other not in row.may_import:
                yield f"{where}: {room} may not import {other}"
        elif row.pure:
            if top in sys.stdlib_module_names:
                if top in IMPURE_STANDARD:
                    yield f"{where}: {room} is pure"
            elif top not in PURE_OUTSIDE[room]:
                yield f"{where}: {room} is pure"
        doors = ONLY_IN.get(top, ())
        if doors and not any(is_within(module, door) for door in doors):
            yield f"{where}: only {' and '.join(doors)} may"
        if any(is_within(needed.name, name) for name in FORBIDDEN_EVERYWHERE):
            yield f"{where}: nothing in msmq does"
        if is_within(needed.name, "twisted.internet.reactor") and needed.at_module_level:
            yield f"{where}: importing it chooses the reactor; take it as an argument"


def import_graph(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which of the modules each module imports, in functions and for types alone included."""
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        needed = graph[module] = set()
        for node in nodes_of(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    needed.add(name if name in trees else node.module)
            elif isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
        needed &= trees.keys() - {module}
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected parts of a graph that have more than one node (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            if len(stack) - place > 1:
                found.add(frozenset(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in index:
            visit(node)
    return found
