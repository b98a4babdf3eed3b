"""Mutations of functions, and of what modules and classes define: what can be changed, and changing it."""

from __future__ import annotations

import ast
import copy
import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

import attrs

PROJECT: Final = Path(__file__).resolve().parent.parent.parent

Node: TypeAlias = ast.stmt | ast.expr
Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module

BODY: Final = "<body>"
"""In a qualified name: what a module or class defines outside of its functions, as constants and fields."""

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
    """A node of a function, or of a definition of a module or class, and what replaces it.

    @ivar path: of the file, from the project.
    @ivar function: its qualified name in the module; that of a module or class ends in L{BODY}.
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
        return _nodes(_scope(_parsed(self.path), self), self)[self.place].lineno

    def apply(self) -> None:
        """Change the live function of this process.

        @raise Stale: it is not there.
        """
        if self.function.endswith(BODY):
            raise Stale(f"{self}: not a function that can be changed")
        code = _code(self.code(), self.function)
        _live(self).__code__ = code

    def code(self) -> CodeType:
        """The code of the module with the mutation.

        @raise Stale: the source has no such node.
        """
        tree = ast.parse((PROJECT / self.path).read_text())
        scope = _scope(tree, self)
        _replace(scope, _nodes(scope, self)[self.place], self.after)
        return compile(ast.fix_missing_locations(tree), str(PROJECT / self.path), "exec")


class ModuleFinder(MetaPathFinder):
    """Has the next import of a module take its code with a mutation.

    What runs at import, a state machine or a table that a function makes, is as the mutation has it.
    """

    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The module, if it is the one of the mutation."""
        if fullname != self._mutation.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _MutantLoader(fullname, spec.origin, self._mutation.code())
        return spec


class _MutantLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def import_anew(mutation: Mutation, kept: Sequence[str]) -> None:
    """Forget the modules of the product and of its tests, and import them with the mutation from now on.

    For a process that ends soon: objects of the old modules and of the new ones have different classes.

    @param kept: modules that stay, with those in them.
    """
    for name in list(sys.modules):
        is_ours = name.partition(".")[0] in ("msmq", "tests")
        if is_ours and not any(name == each or name.startswith(f"{each}.") for each in kept):
            del sys.modules[name]
    sys.meta_path.insert(0, ModuleFinder(mutation))


def scopes(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Scope]]:
    """The functions of a module and its classes, and the bodies of these, with their qualified names.

    Nested functions belong to theirs.
    """
    yield f"{prefix}{BODY}", tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from scopes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def mutations_of(path: str, name: str, scope: Scope) -> Iterator[tuple[int, Mutation]]:
    """Every mutation of a function or a body, with its line."""
    seen: dict[str, int] = {}
    tests = [each.test for each in _walk(scope) if isinstance(each, ast.If | ast.While)]
    for node in _walk(scope):
        text = ast.unparse(node)
        place = seen.get(text, -1) + 1
        seen[text] = place
        changes = list(_changes(node))
        if any(node is test for test in tests):
            changes.append(ast.UnaryOp(ast.Not(), node))  # type: ignore[arg-type]
        for changed in changes:
            after = ast.unparse(ast.fix_missing_locations(changed))
            if after != text:
                yield node.lineno, Mutation(path, name, text, after, place)


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse((PROJECT / path).read_text())


def _walk(scope: Scope) -> Iterator[Node]:
    """Expressions and statements of a body, without docstrings, annotations and decorators."""
    for statement in _statements(scope):
        parts: list[ast.AST] = [statement]
        if isinstance(scope, ast.Module | ast.ClassDef):
            # What stands on the right: the annotation of a constant or field is no rule.
            parts = [each for each in [getattr(statement, "value", None)] if each is not None]
        for part in parts:
            for node in ast.walk(part):
                if isinstance(node, ast.stmt | ast.expr):
                    yield node


def _statements(scope: Scope) -> list[ast.stmt]:
    """The statements of a function; of a module or class, what it defines outside of functions."""
    if isinstance(scope, ast.Module | ast.ClassDef):
        return [each for each in scope.body if isinstance(each, ast.Assign | ast.AnnAssign)]
    return [
        each
        for each in scope.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]


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


def _scope(tree: ast.Module, mutation: Mutation) -> Scope:
    for name, scope in scopes(tree):
        if name == mutation.function:
            return scope
    raise Stale(f"{mutation}: there is no such function")


def _nodes(scope: Scope, mutation: Mutation) -> list[Node]:
    found = [node for node in _walk(scope) if ast.unparse(node) == mutation.before]
    if len(found) <= mutation.place:
        raise Stale(f"{mutation}: not in the source any more")
    return found


def _replace(scope: Scope, target: ast.AST, after: str) -> None:
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

    replacer = Replacer()
    statements = _statements(scope)
    scope.body = [replacer.visit(each) if each in statements else each for each in scope.body]


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
