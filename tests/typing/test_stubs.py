"""The stubs of the interfaces, and what C{help} shows of an interface."""

from __future__ import annotations

import pydoc

from twisted.trial.unittest import SynchronousTestCase

import msmq.interfaces
from tests.typing.check import PROJECT, marked, reported
from tests.typing.stubs import STUBS, stubs


class StubTests(SynchronousTestCase):
    """C{msmq-stubs}, which C{make lint} tries with three type checkers."""

    def test_stubs_are_current(self) -> None:
        """Each interface is a protocol there as it stands in its module; C{make stubs} writes them."""
        found = {
            str(path.relative_to(STUBS)): path.read_text(encoding="utf-8") for path in STUBS.rglob("*.pyi")
        }
        wanted = stubs()
        self.assertEqual(sorted(found), sorted(wanted))
        self.assertEqual([name for name in wanted if found[name] != wanted[name]], [], "run make stubs")
        self.assertEqual((STUBS / "py.typed").read_text(), "partial\n")

    def test_methods_and_attributes(self) -> None:
        """A method has C{self}, an attribute is a read-only property."""
        storage = stubs()["interfaces/storage.pyi"]
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
        self.assertEqual(len(marked(PROJECT / "wrong.py")), 7)


class HelpTests(SynchronousTestCase):
    """Help for a developer at the prompt."""

    def test_help_of_an_interface(self) -> None:
        """C{help} shows each method with its arguments, those of extended interfaces too, once."""
        for _ in range(2):
            shown = pydoc.plain(pydoc.render_doc(msmq.interfaces.IQueueManager))
            self.assertEqual(shown.count("send(destination, messages"), 1)
            self.assertIn("create_queue(", shown)
