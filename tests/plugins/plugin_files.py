"""Plugin files of a test, in a directory of its own."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import twisted.plugins


class PluginTestCase(SynchronousTestCase):
    """A test with only the plugins that it writes."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()
        self.patch(twisted.plugins, "__path__", [str(self.directory)])

    def plugin_file(self, name: str, content: str) -> Path:
        """Write a plugin file; its module is removed at the end of the test."""
        path = self.directory / f"{name}.py"
        path.write_text(textwrap.dedent(content), encoding="utf-8")
        self.addCleanup(sys.modules.pop, f"twisted.plugins.{name}", None)
        self.addCleanup(vars(twisted.plugins).pop, name, None)
        return path

    def use(self, name: str, factory: object) -> None:
        """Install a factory, a class of the test, as a plugin."""
        _FACTORIES[name] = factory
        self.addCleanup(_FACTORIES.pop, name)
        self.plugin_file(
            name,
            f"""
            from tests.plugins.plugin_files import factory_named
            plugin = factory_named({name!r})
            """,
        )


_FACTORIES: dict[str, object] = {}


def factory_named(name: str) -> object:
    """The factory of the running test."""
    return _FACTORIES[name]
