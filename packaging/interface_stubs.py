"""Writes C{msmq-stubs}: the interfaces as protocols, for type checkers that do not know zope.interface.

The build backend runs it. Each stub is its module, in which an interface is a L{typing.Protocol} too: its
methods have C{self}, and its attributes are read-only properties, so that a frozen class has them.
Functions have no bodies, and nothing has a docstring: editors show those of the module.
Modules without interfaces need no stub, since the package is partial.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
INTERFACES = PROJECT / "msmq" / "interfaces"

HEAD = "# Generated from msmq/interfaces/{name} by packaging/interface_stubs.py.\n"
ROOTS = frozenset({"Interface", "IPlugin"})


def stubs() -> dict[str, str]:
    """The content of each stub, by its path in C{msmq-stubs}."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(INTERFACES.rglob("*.py"))}
    names = _interfaces(trees.values())
    return {
        f"interfaces/{name.with_suffix('.pyi')}": HEAD.format(name=name) + _stub(tree, names)
        for name, tree in ((path.relative_to(INTERFACES), tree) for path, tree in trees.items())
        if any(isinstance(node, ast.ClassDef) and node.name in names for node in tree.body)
    }


def _interfaces(trees: object) -> frozenset[str]:
    """The names of all interfaces, direct and derived."""
    classes = [
        node
        for tree in trees  # type: ignore[attr-defined]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    found: set[str] = set()
    while True:
        more = {node.name for node in classes if {*map(ast.unparse, node.bases)} & (ROOTS | found)}
        if more <= found:
            return frozenset(found)
        found |= more


def _stub(tree: ast.Module, names: frozenset[str]) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            node.body = [each for each in node.body if not _is_text(each)] or [_ELLIPSIS]
    body = [_statement(node, names) for node in tree.body]
    typing = ast.ImportFrom("typing", [ast.alias("Protocol", "_Protocol")], 0)
    at = 1 + next(i for i, node in enumerate(body) if isinstance(node, ast.ImportFrom))
    module = ast.Module([*body[:at], typing, *body[at:]], [])
    return ast.unparse(ast.fix_missing_locations(module)) + "\n"


def _statement(node: ast.stmt, names: frozenset[str]) -> ast.stmt:
    if isinstance(node, ast.ClassDef) and node.name in names:
        node.bases.append(ast.Name("_Protocol"))
        node.body = [member for each in node.body for member in _member(each)]
        return node
    if isinstance(node, ast.ClassDef):
        node.body = [_without_body(each) for each in node.body]
        return node
    return _without_body(node)


def _is_text(node: ast.stmt) -> bool:
    """A docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _member(node: ast.stmt) -> Iterator[ast.stmt]:
    """A member of an interface as that of a protocol."""
    own = ast.arg("self")
    if isinstance(node, ast.FunctionDef):
        node.args.args.insert(0, own)
        yield _without_body(node)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        arguments = ast.arguments([], [own], None, [], [], None, [])
        yield ast.FunctionDef(node.target.id, arguments, [_ELLIPSIS], [ast.Name("property")], node.annotation)
    else:
        yield node


def _without_body(node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.FunctionDef):
        node.body = [_ELLIPSIS]
    return node


_ELLIPSIS = ast.Expr(ast.Constant(...))


def write_stubs(directory: Path = PROJECT) -> None:
    """Write the package of stubs, C{msmq-stubs}, into a directory."""
    package = directory / "msmq-stubs"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    (package / "py.typed").write_text("partial\n", encoding="utf-8")
    for name, content in stubs().items():
        stub = package / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(content, encoding="utf-8")
