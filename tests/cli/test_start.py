"""Imports of the command, which take most of the time of a short command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, ClassVar, Final

from twisted.trial.unittest import SynchronousTestCase

_PROGRAM: Final = """
import contextlib, io, json, sys
from msmq.cli import main
found = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = main(arguments)
    found.append([status, sorted(sys.modules)])
print(json.dumps(found))
"""

_EVERYWHERE: Final = {"attr", "attrs", "click", "msmq"}
"""Packages that every command needs."""

_MISSING: Final = ("--control", "/nonexistent/control.sock")

_REQUESTS: Final = (
    ("status", *_MISSING),
    ("send", "x", "--body", "y", *_MISSING),
    ("receive", "x", *_MISSING),
    ("queue", "list", *_MISSING),
    ("queue", "browse", "x", *_MISSING),
    ("outgoing", "list", *_MISSING),
    ("deadletter", "list", *_MISSING),
    ("explain", "x", *_MISSING),
)
"""Commands that are nothing but requests to a server."""


class StartTests(SynchronousTestCase):
    """A command imports what it needs, and no reactor, store, cipher or data frame that it does not use."""

    ended: ClassVar[list[list[Any]]] = []

    def setUp(self) -> None:
        """Run all the commands, one after the other, in one interpreter."""
        if not self.ended:
            commands = json.dumps([["--help"], *_REQUESTS])
            ran = subprocess.run(
                [sys.executable, "-c", _PROGRAM, commands], capture_output=True, check=True, text=True
            )
            self.ended.extend(json.loads(ran.stdout))

    def _packages(self, number: int) -> set[str]:
        """The packages from outside that were imported up to the end of a command."""
        names = {name.partition(".")[0] for name in self.ended[number][1]}
        # What begins with an underscore belongs to the installation, and so do these two.
        outside = names - sys.stdlib_module_names - {"sitecustomize", "usercustomize"}
        return {name for name in outside if not name.startswith("_")}

    def test_help_imports_no_verb(self) -> None:
        """C{msmq --help} needs click and the table of verbs, not the verbs and not the client."""
        status, modules = self.ended[0]
        self.assertEqual(status, 0)
        self.assertLessEqual(self._packages(0), _EVERYWHERE)
        families = ("messages", "queues", "files", "server", "enterprise")
        forbidden = ("msmq.control", *(f"msmq.cli.{family}" for family in families))
        self.assertEqual([name for name in modules if name.startswith(forbidden)], [])

    def test_a_request_imports_no_twisted(self) -> None:
        """A request to a server needs only click and attrs: no Twisted, no cryptography."""
        for number, arguments in enumerate(_REQUESTS, 1):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.ended[number][0], 1)
                self.assertLessEqual(self._packages(number), _EVERYWHERE)
