"""Mutations of functions: what can be changed, and changing it in a live function."""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

import attrs

PROJECT: Final = Path(__file__).resolve().parent.parent.parent

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_COMPARES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


class Stale(Exception):
    """A mutation that the present source does not have; names it."""


@attrs.frozen
class Mutation:
    """A node of a function, and what replaces it.

    @ivar path: of the file, from the project.
    @ivar function: its qualified name in the module.
    @ivar before: the source of the node, as L{ast.unparse} has it; C{place} counts those that are the same.
    """

    path: str
    function: str
    before: str
    after: str
    place: int = 0

    @property
    def module(self) -> str:
        """The module of the file."""
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:80] for text in (self.before, self.after))
        return f"{self.path}, {self.function}: {before!r} is {after!r}"

    def line(self) -> int:
        """The line of the node.

        @raise Stale: it is not there.
        """
        tree = ast.parse((PROJECT / self.path).read_text())
        return int(_nodes(_function(tree, self), self)[self.place].lineno)  # type: ignore[attr-defined]

    def apply(self) -> None:
        """Change the live function of this process.

        @raise Stale: it is not there.
        """
        source = (PROJECT / self.path).read_text()
        tree = ast.parse(source)
        function = _function(tree, self)
        found = _nodes(function, self)
        if self.place >= len(found):
            raise Stale(f"{self}: not in the source any more")
        _replace(function, found[self.place], self.after)
        code = _code(
            compile(ast.fix_missing_locations(tree), str(PROJECT / self.path), "exec"), self.function
        )
        _live(self).__code__ = code


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module and its classes with their qualified names; nested ones belong to theirs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def mutations_of(path: str, name: str, function: Function) -> Iterator[tuple[int, Mutation]]:
    """Every mutation of a function, with its line."""
    seen: dict[str, int] = {}
    tests = [each.test for each in _walk(function) if isinstance(each, ast.If | ast.While)]
    for node in _walk(function):
        text = ast.unparse(node)
        place = seen.get(text, -1) + 1
        seen[text] = place
        changes = list(_changes(node))
        if any(node is test for test in tests):
            changes.append(ast.UnaryOp(ast.Not(), node))  # type: ignore[arg-type]
        for changed in changes:
            after = ast.unparse(ast.fix_missing_locations(changed))
            if after != text:
                yield node.lineno, Mutation(path, name, text, after, place)  # type: ignore[attr-defined]


def _walk(function: Function) -> Iterator[ast.AST]:
    """Expressions and statements of a body, without docstrings, annotations and decorators."""
    for statement in function.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr):
                yield node


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARES:
            changed = copy.deepcopy(node)
            changed.ops = [_COMPARES[type(operator)]()]
            yield changed
        case ast.BoolOp():
            changed_op = copy.deepcopy(node)
            changed_op.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield changed_op
        case ast.UnaryOp(op=ast.Not()):
            yield copy.deepcopy(node.operand)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            changed_sum = copy.deepcopy(node)
            changed_sum.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield changed_sum
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield()) | ast.AugAssign() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Return(value=ast.Call() | ast.Name() | ast.Attribute()):
            yield ast.Return(ast.Constant(None))


def _function(tree: ast.Module, mutation: Mutation) -> Function:
    for name, function in functions(tree):
        if name == mutation.function:
            return function
    raise Stale(f"{mutation}: there is no such function")


def _nodes(function: Function, mutation: Mutation) -> list[ast.AST]:
    found = [node for node in _walk(function) if ast.unparse(node) == mutation.before]
    if len(found) <= mutation.place:
        raise Stale(f"{mutation}: not in the source any more")
    return found


def _replace(function: Function, target: ast.AST, after: str) -> None:
    """Put other source in the place of a node."""
    parsed = ast.parse(after).body[0]

    class Replacer(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if node is not target:
                return self.generic_visit(node)
            wanted: ast.AST = parsed
            if isinstance(target, ast.expr):
                assert isinstance(parsed, ast.Expr)
                wanted = parsed.value
            return ast.copy_location(wanted, target)

    function.body = [Replacer().visit(statement) for statement in function.body]


def _code(module: CodeType, name: str) -> CodeType:
    code = module
    for part in name.split("."):
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == part)
    return code


def _live(mutation: Mutation) -> FunctionType:
    found: Any = importlib.import_module(mutation.module)
    for part in mutation.function.split("."):
        found = vars(found)[part] if isinstance(found, type) else getattr(found, part)
    for _ in range(5):
        found = getattr(found, "fget", None) or getattr(found, "func", None) or found
        found = getattr(found, "__func__", None) or getattr(found, "__wrapped__", None) or found
    if not isinstance(found, FunctionType):
        raise Stale(f"{mutation}: not a function that can be changed")
    return found
