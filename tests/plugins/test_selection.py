"""Which plugin a name selects, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

from zope.interface import directlyProvides

from msmq.interfaces import IMessageStore, IStorageFactory
from msmq.plugins import PluginError, lacking, plugins, select_plugin
from msmq.storage.factory import StorageDescriptionError, make_store
from tests.plugins.plugin_files import PluginTestCase

IMPORTS = """
from zope.interface import implementer
from msmq.interfaces import IStorageFactory
"""

FACTORY = """
@implementer(IStorageFactory)
class Factory:
    description = "a store of a test"

    def __init__(self, name):
        self.name = name

    def open_store(self, argument, data):
        return object()
"""


class SelectionTests(PluginTestCase):
    """L{select_plugin} with files of plugins that are as users write them, with mistakes."""

    def write(self, name: str, body: str) -> Path:
        return self.plugin_file(name, IMPORTS + FACTORY + body)

    def fault(self, name: str) -> str:
        error = self.assertRaises(PluginError, select_plugin, name, IStorageFactory, (), kind="store")
        return str(error)

    def test_selected_by_name(self) -> None:
        """The plugin with the name is used."""
        self.write("two_stores", "one = Factory('one')\ntwo = Factory('two')\n")
        chosen = select_plugin("two", IStorageFactory, (), kind="store")
        self.assertEqual(chosen.name, "two")
        self.assertEqual(sorted(each.name for each in plugins(IStorageFactory)), ["one", "two"])

    def test_unknown_name(self) -> None:
        """An unknown name is reported with the names that there are."""
        self.write("stores", "one = Factory('ledger')\n")
        self.assertEqual(self.fault("leger"), "unknown store 'leger'; known are: ledger")
        # A value of the environment that is empty, for example.
        self.assertEqual(self.fault(""), "unknown store ''; known are: ledger")

    def test_file_that_cannot_be_imported(self) -> None:
        """A plugin whose module lacks a dependency is reported with its file and the error."""
        path = self.plugin_file("broken_store", "import lmdb_of_another_machine\n")
        said = self.fault("broken")
        self.flushLoggedErrors(ModuleNotFoundError)
        self.assertIn(
            f"plugins that cannot be used: {path}: cannot be imported: ModuleNotFoundError: No module named"
            " 'lmdb_of_another_machine'",
            said,
        )

    def test_object_without_the_interface(self) -> None:
        """A factory whose class does not declare the interface is reported with its file and its name."""
        path = self.plugin_file("undeclared", "class Factory:\n    name = 'ledger'\nstore = Factory()\n")
        self.assertIn(f"{path}: store does not provide IStorageFactory", self.fault("ledger"))

    def test_factory_that_lacks_a_method(self) -> None:
        """A factory that declares the interface and lacks a method is refused, with the method."""
        path = self.plugin_file(
            "half",
            IMPORTS
            + """
@implementer(IStorageFactory)
class Factory:
    name = "half"

    def open_store(self):
        pass

store = Factory()
""",
        )
        said = self.fault("half")
        self.assertIn(f"{path}: the store plugin 'half' cannot be used: ", said)
        self.assertIn("it lacks IStorageFactory.description", said)
        self.assertIn("IStorageFactory.open_store has other parameters: ", said)
        self.assertNotIn("\n", said)

    def test_two_plugins_of_one_name(self) -> None:
        """Which of two plugins with one name is meant is not guessed."""
        one = self.write("one", "store = Factory('ledger')\n")
        two = self.write("two", "store = Factory('ledger')\n")
        said = self.fault("ledger")
        self.assertIn("several plugins have the store 'ledger'", said)
        for path in (one, two):
            self.assertIn(str(path), said)

    def test_plugin_of_two_names(self) -> None:
        """A plugin that a file has under two names, one of them imported, is one plugin."""
        self.write("once", "LEDGER = Factory('ledger')\nstore = LEDGER\n")
        self.assertEqual(select_plugin("ledger", IStorageFactory, (), kind="store").name, "ledger")

    def test_invalid_store(self) -> None:
        """The result of a factory is checked before a server uses it."""
        self.write("nothing", "store = Factory('nothing')\n")
        error = self.assertRaises(StorageDescriptionError, make_store, "nothing:x", Path())
        self.assertIn("'nothing:x': what the plugin 'nothing' has created cannot be used", str(error))
        self.assertIn("does not provide IMessageStore", str(error))

    def test_several_faults(self) -> None:
        """All missing members of an interface are listed in one line."""

        class Hasty:
            name = "hasty"

        hasty = Hasty()
        directlyProvides(hasty, IMessageStore)
        said = lacking(IMessageStore, hasty)
        for member in ("durable", "open", "commit", "close"):
            self.assertIn(f"it lacks IMessageStore.{member}", said)
        self.assertNotIn("\n", said)
