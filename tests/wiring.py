"""Finds collaborators that are assigned to another object's attribute after it was constructed.

The scan uses annotations only: an attribute is a slot for a collaborator if any class of the package
annotates it, or the constructor argument that it stores, with C{Callable}, an interface or a Protocol.
An assigned value is a collaborator if it is a lambda, a function, a bound method, C{self}, an instance of a
class of the package that is constructed with collaborators of its own, or if the attribute is such a slot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

import attrs

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DATA_BASES = ("Enum", "Flag", "Exception", "Error", "NamedTuple", "TypedDict", "tuple", "dict", "int")


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module, walked once for all tests."""
    return tuple(ast.walk(tree))


def _names(node: ast.AST | None) -> set[str]:
    """The types of an annotation, one that is written as a string included; of C{dict[str, A]} dict."""
    match node:
        case ast.Constant(str(text)):
            return _names(ast.parse(text, mode="eval").body)
        case ast.BinOp(left, ast.BitOr(), right):
            return _names(left) | _names(right)
        case ast.Subscript(value):
            return _names(value)
        case ast.Name(name) | ast.Attribute(attr=name):
            return {name}
        case _:
            return set()


def _own(node: ast.AST) -> str | None:
    """The attribute, if this is one of C{self} or C{cls}."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id in ("self", "cls") else None
    return None


def _is_interface(defined: ast.ClassDef) -> bool:
    bases = [ast.unparse(base) for base in defined.bases]
    return any(base == "Interface" or base.split("[")[0] == "Protocol" for base in bases)


def _is_data(defined: ast.ClassDef) -> bool:
    decorators = " ".join(ast.unparse(each) for each in defined.decorator_list)
    bases = " ".join(ast.unparse(base) for base in defined.bases)
    return "attrs." in decorators or any(each in bases for each in _DATA_BASES)


def _is_setattr(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr | None]:
    arguments = function.args
    return {each.arg: each.annotation for each in (*arguments.args, *arguments.kwonlyargs)}


@attrs.frozen
class Offence:
    """An assignment that should have been a constructor argument.

    @ivar target: what is assigned to, as it is written.
    """

    line: int
    target: str
    value: str

    def __str__(self) -> str:
        """The statement, and where it is."""
        return f"line {self.line}: {self.target} = {self.value}"


@attrs.define
class Vocabulary:
    """What the classes of a package say about their attributes.

    @ivar kinds: the names of types of collaborators: C{Callable}, its aliases, interfaces and Protocols.
    @ivar parts: the classes that are constructed with collaborators.
    @ivar slots: the attributes that hold collaborators.
    @ivar methods: names that are methods, and attributes nowhere.
    """

    kinds: set[str] = attrs.field(factory=lambda: {"Callable"})
    parts: set[str] = attrs.field(factory=set)
    slots: set[str] = attrs.field(factory=set)
    methods: set[str] = attrs.field(factory=set)

    @classmethod
    def of(cls, modules: Iterable[ast.Module]) -> Vocabulary:
        """The vocabulary of all these modules together."""
        self = cls()
        trees = list(modules)
        classes = [node for tree in trees for node in nodes_of(tree) if isinstance(node, ast.ClassDef)]
        self.kinds |= {each.name for each in classes if _is_interface(each)}
        for tree in trees:
            for node in tree.body:
                if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Subscript):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    if isinstance(target, ast.Name) and "Callable" in _names(node.value.value):
                        self.kinds.add(target.id)
        attributes: set[str] = set()
        for each in classes:
            attributes |= self._learn(each)
        self.methods -= attributes
        return self

    def _learn(self, defined: ast.ClassDef) -> set[str]:
        """Learn from one class; answers with the names of its attributes."""
        attributes: set[str] = set()

        def note(name: str, annotation: ast.AST | None) -> None:
            attributes.add(name)
            if _names(annotation) & self.kinds:
                self.slots.add(name)

        for node in defined.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                note(node.target.id, node.annotation)
            if not isinstance(node, _FUNCTIONS):
                continue
            if any("property" in ast.unparse(each) for each in node.decorator_list):
                attributes.add(node.name)
            else:
                self.methods.add(node.name)
            parameters = _parameters(node)
            if node.name == "__init__" and not _is_data(defined):
                annotations = set().union(*map(_names, parameters.values()))
                if annotations & (self.kinds | {"IReactorTime", "Performer"}):
                    self.parts.add(defined.name)
            for inner in ast.walk(node):
                if isinstance(inner, ast.AnnAssign) and (name := _own(inner.target)) is not None:
                    note(name, inner.annotation)
                elif isinstance(inner, ast.Assign) and (name := _own(inner.targets[0])) is not None:
                    value = inner.value
                    note(name, parameters.get(value.id) if isinstance(value, ast.Name) else None)
        return attributes

    def offences(self, tree: ast.Module) -> Iterator[Offence]:
        """The assignments of a module that give another object a collaborator, and slots with a default."""
        functions = {
            each.name
            for each in nodes_of(tree)
            if isinstance(each, (*_FUNCTIONS, ast.ClassDef))
            and not any("property" in ast.unparse(decorator) for decorator in each.decorator_list)
        }
        for node in nodes_of(tree):
            if isinstance(node, ast.Call) and _is_setattr(node):
                if self._is_collaborator(node.args[2], functions):
                    yield Offence(node.lineno, ast.unparse(node), ast.unparse(node.args[2]))
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_offence = self._is_collaborator(node.value, functions)
            for target in targets:
                for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if not isinstance(each, ast.Attribute):
                        continue
                    if _own(each) is not None:
                        is_wrong = isinstance(node, ast.AnnAssign) and self._has_default(node, functions)
                    else:
                        is_value = isinstance(node.value, ast.Constant)
                        is_wrong = is_offence or (each.attr in self.slots and not is_value)
                    if is_wrong:
                        yield Offence(node.lineno, ast.unparse(each), ast.unparse(node.value))

    def _is_collaborator(self, value: ast.expr, functions: set[str]) -> bool:
        match value:
            case ast.Lambda():
                return True
            case ast.Name(name):
                return name == "self" or name in functions
            case ast.Attribute(ast.Name("self"), name):
                return name in functions or name in self.methods
            case ast.Attribute(attr=name):
                return name in self.methods
            case ast.Call(function):
                return ast.unparse(function).split(".")[-1] in self.parts | {"partial"}
            case _:
                return False

    def _has_default(self, node: ast.AnnAssign, functions: set[str]) -> bool:
        """Whether an attribute for a collaborator is public, and begins with a default that answers
        instead.
        """
        name = _own(node.target)
        if name is None or name.startswith("_") or not _names(node.annotation) & self.kinds:
            return False
        return isinstance(node.value, ast.Lambda) or (
            isinstance(node.value, ast.Name) and node.value.id in functions
        )
