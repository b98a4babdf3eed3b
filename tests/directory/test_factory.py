"""From the description of a directory to the directory."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

import twisted.plugins
from msmq.directory.factory import (
    BUILT_IN,
    DirectoryDescriptionError,
    check_directory,
    directory_factories,
    identifier_in_directory,
    make_directory,
)
from msmq.directory.file import FileDirectory
from msmq.directory.memory import MemoryDirectory
from msmq.interfaces import IDirectory
from msmq.interfaces.plugins import DirectoryContext, IDirectoryFactory
from msmq.testing.clock import ManualClock
from tests.directory.test_enterprise_file import ALPHA, BETA, WHOLE

PLUGIN = """
from zope.interface import implementer
from twisted.plugin import IPlugin
from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.plugins import IDirectoryFactory

@implementer(IPlugin, IDirectoryFactory)
class Phonebook:
    name = "phonebook"
    description = "a directory of a plugin"

    def make_directory(self, argument, context):
        if not argument:
            raise ValueError("needs a number")
        return MemoryDirectory(context.clock)

phonebook = Phonebook()
"""


class FactoryTests(SynchronousTestCase):
    """Descriptions in C{backend =} of the table C{[directory]}."""

    def setUp(self) -> None:
        clock = ManualClock()
        self.context = DirectoryContext(clock, clock.reactor, Path("data"))
        self.path = Path(self.mktemp())
        people = WHOLE[: WHOLE.index("[[user]]")]
        self.path.write_text(people, encoding="utf-8")

    def refused(self, description: str) -> str:
        error = self.assertRaises(DirectoryDescriptionError, make_directory, description, self.context)
        return str(error)

    def identifier(self, description: str, name: str) -> UUID | None:
        asked = Deferred.fromCoroutine(identifier_in_directory(description, name, self.context))
        return self.successResultOf(asked)

    def fault(self, name: str) -> DirectoryDescriptionError:
        asked = Deferred.fromCoroutine(identifier_in_directory(f"file:{self.path}", name, self.context))
        error = self.failureResultOf(asked, DirectoryDescriptionError).value
        assert isinstance(error, DirectoryDescriptionError)
        return error

    def test_built_in(self) -> None:
        """Each is a factory with a name of its own and a line for people."""
        for factory in BUILT_IN:
            verifyObject(IDirectoryFactory, factory)
        names = [factory.name for factory in directory_factories()]
        self.assertIn("file", names)
        self.assertEqual(len(names), len(set(names)))

    def test_no_directory(self) -> None:
        """No directory at all is one of the descriptions, and knows no objects."""
        check_directory("none")
        self.assertIsNone(make_directory("none", self.context))
        self.assertIsNone(self.identifier("none", "ALPHA"))

    def test_file(self) -> None:
        """A file is not read before the directory is opened."""
        check_directory("file:nowhere.toml")
        directory = make_directory("file:nowhere.toml", self.context)
        self.assertIsInstance(directory, FileDirectory)

    def test_unsuitable_argument(self) -> None:
        """The error says what the description lacks."""
        for description in ("file", "file:", "file:\0"):
            self.assertIn("needs the path of a file", self.refused(description))

    def test_unknown_backend(self) -> None:
        """An unknown name is reported with the known ones."""
        for refuse in (self.refused, self.refused_check):
            self.assertIn("unknown directory 'fiel'; known are: ", refuse("fiel:estate.toml"))
            self.assertIn("file", refuse("fiel:estate.toml"))

    def refused_check(self, description: str) -> str:
        return str(self.assertRaises(DirectoryDescriptionError, check_directory, description))

    def test_identifier(self) -> None:
        """The file has the identifier of a computer, case-insensitively; queue managers cannot be added to
        it.
        """
        self.assertEqual(self.identifier(f"file:{self.path}", "alpha"), ALPHA)
        error = self.fault("NOBODY")
        self.assertIn(f"file:{self.path}': holds no queue manager NOBODY", str(error))

    def test_identifier_of_a_file_with_faults(self) -> None:
        """The first of its faults is reported, and how many more there are."""
        self.path.write_text("[[site]]\n[[link]]\n", encoding="utf-8")
        error = self.fault("ALPHA")
        self.assertRegex(str(error), rf"{self.path}.*, and \d+ more; the first start needs the file")

    def test_identifier_despite_faults(self) -> None:
        """A fault elsewhere in the file does not hide the identifier; an ambiguous entry is refused."""
        entry = '[[queue_manager]]\nname = "{}"\nid = "{}"\n'
        faulty = "[[link]]\ncost = 0\n"
        self.path.write_text(faulty + entry.format("ALPHA", ALPHA), encoding="utf-8")
        self.assertEqual(self.identifier(f"file:{self.path}", "alpha"), ALPHA)
        for rows in (
            entry.format("alpha", BETA),
            entry.format("GAMMA", ALPHA),
            entry.format("ALPHA", "nonsense"),
        ):
            self.path.write_text(faulty + entry.format("ALPHA", ALPHA) + rows, encoding="utf-8")
            self.assertRegex(str(self.fault("ALPHA")), "the first start needs the file")
        for text in ("queue_manager = 7\n", "queue_manager = [7]\n", "[[queue_manager\n"):
            self.path.write_text(text, encoding="utf-8")
            self.assertRegex(str(self.fault("ALPHA")), "the first start needs the file")

    def test_plugin(self) -> None:
        """A directory of a plugin is found by its name; it may know nothing of identifiers."""
        plugins = Path(self.mktemp())
        plugins.mkdir()
        (plugins / "phonebook_plugin.py").write_text(PLUGIN, encoding="utf-8")
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(plugins)])
        check_directory("phonebook:42")
        directory = make_directory("phonebook:42", self.context)
        self.assertIsInstance(directory, MemoryDirectory)
        verifyObject(IDirectory, directory)
        self.assertIsNone(self.identifier("phonebook:42", "ALPHA"))
        self.assertIn("'phonebook:': needs a number", self.refused("phonebook:"))
