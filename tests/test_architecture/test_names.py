"""Names in the package: those of public classes are unique, and all are in the field's terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.sources import parsed_package

SHARED_NAMES: frozenset[str] = frozenset()
"""Names of public classes that may stand in more than one file: none."""

REPLACED = re.compile(r"(?:^|_)(?:nobody|somebody|strangers?|told|vouch\w*|whoever)(?:_|$)", re.IGNORECASE)
"""Words for which the field has terms: unknown, unauthenticated, reported, authenticated, any caller."""


class NameTests(SynchronousTestCase):
    """A name of a public class means one thing in the whole package."""

    def duplicates(self, trees: dict[str, ast.Module]) -> dict[str, list[str]]:
        """The modules of each name that several modules define."""
        modules: dict[str, list[str]] = {}
        for module, tree in trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules.setdefault(node.name, []).append(module)
        return {name: found for name, found in modules.items() if len(found) > 1}

    def test_public_classes_have_names_of_their_own(self) -> None:
        """No public class has the name of another one, except those of the allow-list."""
        duplicates = self.duplicates(parsed_package())
        new = {name: modules for name, modules in duplicates.items() if name not in SHARED_NAMES}
        self.assertEqual(new, {})
        self.assertEqual(SHARED_NAMES - duplicates.keys(), set(), "these are unique by now; unlist them")

    def test_second_class_of_a_name_is_found(self) -> None:
        """Two modules with a class of one name are found; private classes and nested ones are not."""
        one, other = (
            ast.parse("class Page: ...\nclass _Row: ...\nclass A:\n    class Inner: ..."),
            ast.parse("class Page: ...\nclass _Row: ...\nclass B:\n    class Inner: ..."),
        )
        self.assertEqual(self.duplicates({"one": one, "other": other}), {"Page": ["one", "other"]})

    def test_terms(self) -> None:
        """No name has a word for which the field has a term."""
        found = {
            f"{module}: {name}"
            for module, tree in parsed_package().items()
            for name in _names(tree)
            if REPLACED.search(name)
        }
        self.assertEqual(found, set())

    def test_replaced_words_are_found(self) -> None:
        """In names of classes, functions, parameters, variables and attributes."""
        tree = ast.parse("class A:\n    def tell(self, told):\n        self._stranger = NOBODY = told_by")
        found = {name for name in _names(tree) if REPLACED.search(name)}
        self.assertEqual(found, {"told", "_stranger", "NOBODY", "told_by"})


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
