"""The composition root leaves nothing to a default that a configuration could say."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from enum import Enum

from twisted.trial.unittest import SynchronousTestCase

from msmq.service import composition

DEFAULTS = {
    # Its queue manager attaches itself.
    ("DiallingSessionFactory", "broker"),
    # The domain is found in the directory.
    ("HostIdentity", "domain_name"),
    ("HostIdentity", "domain_identifier"),
    # Chance, of which tests have their own.
    ("KeyRing", "make"),
    ("OwnNames", "is_local"),
}
"""The only parameters that the composition leaves out, but for those of L{CONSTANTS}."""

CONSTANTS = {"ControlLimits": "receives"}
"""Settings of which a configuration decides about this one; the others are the same for every server."""


def omitted(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The class and the parameter of each constructor argument that a function leaves out."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        made = getattr(composition, node.func.id, None)
        if not (inspect.isclass(made) or inspect.isfunction(made)) or not made.__module__.startswith("msmq."):
            continue
        if inspect.isclass(made) and issubclass(made, Enum):
            continue
        parameters = inspect.signature(made).parameters
        given = {keyword.arg for keyword in node.keywords} | set(list(parameters)[: len(node.args)])
        needed = CONSTANTS.get(node.func.id)
        for name in parameters if needed is None else [needed]:
            if name not in given:
                yield node.func.id, name


class CompositionTests(SynchronousTestCase):
    """What C{compose} and its helpers construct."""

    def test_every_argument_is_given(self) -> None:
        """Each constructor gets every argument: a setting that is forgotten here would be one without effect.

        That is worst where the default is more permissive than what the configuration says.
        """
        tree = ast.parse(inspect.getsource(composition))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        found = {each for function in functions for each in omitted(function)}
        self.assertEqual(found, DEFAULTS)

    def test_a_missing_argument_is_found(self) -> None:
        """A gate without its acknowledgers is found, given by position or by name."""
        for source in ("TrustedPeers(1, 2)", "TrustedPeers(unauthenticated=1, peers=2)"):
            [function] = ast.parse(f"def f():\n    {source}").body
            assert isinstance(function, ast.FunctionDef)
            self.assertEqual(set(omitted(function)), {("TrustedPeers", "acknowledgers")})
