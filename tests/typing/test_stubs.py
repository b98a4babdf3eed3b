"""The stubs of the interfaces, and what C{help} shows of an interface."""

from __future__ import annotations

import pydoc
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import msmq.interfaces
from tests.typing.check import PROJECT, generator, marked, reported


class StubTests(SynchronousTestCase):
    """C{msmq-stubs}, which C{make lint} tries with three type checkers."""

    def test_package(self) -> None:
        """It is partial: modules without interfaces are read from C{msmq}."""
        directory = Path(self.mktemp())
        generator().write_stubs(directory)
        package = directory / "msmq-stubs"
        self.assertEqual((package / "py.typed").read_text(), "partial\n")
        self.assertTrue((package / "interfaces" / "storage.pyi").is_file())
        self.assertFalse((package / "interfaces" / "summaries.pyi").exists())

    def test_methods_and_attributes(self) -> None:
        """A method has C{self}, an attribute is a read-only property."""
        storage = generator().stubs()["interfaces/storage.pyi"]
        self.assertIn("class IMessageStore(Interface, _Protocol):", storage)
        self.assertIn("    @property\n    def durable(self) -> bool:\n", storage)
        self.assertIn("    def open(self) -> Deferred[Snapshot]:\n", storage)

    def test_reports_of_type_checkers(self) -> None:
        """Lines with errors are read from the output of mypy and of pyright."""
        self.assertEqual(
            reported(
                "wrong.py:25: error: Argument 1\nwrong.py:25: note: Expected\n"
                "  /tmp/wrong.py:28:16 - error: Argument of type\n"
            ),
            {("wrong.py", 25), ("wrong.py", 28)},
        )
        self.assertEqual(len(marked(PROJECT / "wrong.py")), 11)


class HelpTests(SynchronousTestCase):
    """Help for a developer at the prompt."""

    def test_help_of_an_interface(self) -> None:
        """C{help} shows each method with its arguments, those of extended interfaces too, once."""
        for _ in range(2):
            shown = pydoc.plain(pydoc.render_doc(msmq.interfaces.IQueueManager))
            self.assertEqual(shown.count("send(destination, messages"), 1)
            self.assertIn("create_queue(", shown)
