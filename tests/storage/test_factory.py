"""Stores by description, ours and those of plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

import twisted.plugins
from msmq.interfaces import IStorageFactory
from msmq.storage.factory import StorageDescriptionError, make_store, storage_factories
from msmq.storage.memory import MemoryMessageStore

PLUGIN = dedent(
    """
    from zope.interface import implementer

    from msmq.interfaces import IStorageFactory
    from msmq.storage.memory import MemoryMessageStore


    class LedgerStore(MemoryMessageStore):
        name = "ledger"


    @implementer(IStorageFactory)
    class LedgerFactory:
        name = "ledger"
        description = "a store of a plugin"

        def open_store(self, argument, data):
            if not argument:
                raise ValueError("the ledger needs a place")
            store = LedgerStore()
            store.place = data / argument
            return store


    factory = LedgerFactory()
    """
)


class BuiltInTests(SynchronousTestCase):
    """Built-in stores."""

    def test_memory(self) -> None:
        """C{memory} is the store that keeps nothing."""
        store = make_store("memory", Path("data"))
        self.assertIsInstance(store, MemoryMessageStore)
        self.assertFalse(store.durable)

    def test_memory_takes_no_argument(self) -> None:
        """An argument that means nothing is refused rather than ignored."""
        with self.assertRaises(StorageDescriptionError) as caught:
            make_store("memory:/srv", Path("data"))
        self.assertIn("takes no argument", str(caught.exception))

    def test_unknown_name(self) -> None:
        """A name that nothing has is refused, with the names that would do."""
        with self.assertRaises(StorageDescriptionError) as caught:
            make_store("memroy", Path("data"))
        self.assertIn("'memroy'", str(caught.exception))
        self.assertIn("memory", str(caught.exception).split("known are:")[1])

    def test_factories_provide_the_interface(self) -> None:
        """Every factory is named, described, and makes stores."""
        for factory in storage_factories():
            verifyObject(IStorageFactory, factory)
            self.assertTrue(factory.name and factory.description)


class PluginTests(SynchronousTestCase):
    """A store of a plugin is found by its name."""

    def setUp(self) -> None:
        site = Path(self.mktemp()).resolve()
        directory = site / "twisted" / "plugins"
        directory.mkdir(parents=True)
        (directory / "ledger_store_for_tests.py").write_text(PLUGIN, encoding="utf-8")
        self.patch(sys, "path", [*sys.path, str(site)])
        self.addCleanup(sys.modules.pop, "twisted.plugins.ledger_store_for_tests", None)
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(directory)])

    def test_found_by_name(self) -> None:
        """A file in C{twisted/plugins} is enough; its store gets the argument and the data directory."""
        store = make_store("ledger:a:b", Path("data"))
        self.assertEqual(store.name, "ledger")
        self.assertEqual(getattr(store, "place", None), Path("data/a:b"))

    def test_unsuitable_argument(self) -> None:
        """A plugin's complaint about its argument reaches the user."""
        with self.assertRaises(StorageDescriptionError) as caught:
            make_store("ledger", Path("data"))
        self.assertEqual(str(caught.exception), "storage 'ledger': the ledger needs a place")

    def test_named_among_the_others(self) -> None:
        """The names that would do include those of plugins."""
        with self.assertRaises(StorageDescriptionError) as caught:
            make_store("leger", Path("data"))
        self.assertIn("ledger", str(caught.exception))
