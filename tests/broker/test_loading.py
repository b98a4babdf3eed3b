"""C{twistd msmq --broker MODULE:CLASS}: what cannot be used is named, with its place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.program import BrokerProgram
from msmq.service.program_loading import ProgramError, load_program
from msmq.testing.clock import ManualClock

PROGRAMS = """
from msmq import Broker, accept

class Good(Broker):
    async def message_received(self, message):
        return accept()

class Empty(Broker):
    pass

class Failing(Good):
    def __init__(self):
        raise KeyError("warehouse")

class Talking(Good):
    def __init__(self):
        raise ValueError("the warehouse is closed\\n  until Monday")

def make():
    return Good(queues=["orders"])

def nothing():
    return 5

NOT_CALLABLE = 5
"""


class LoadTests(SynchronousTestCase):
    def setUp(self) -> None:
        directory = Path(str(self.mktemp()))
        directory.mkdir()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory)
        self.patch(sys, "path", list(sys.path))
        self.addCleanup(sys.modules.pop, "broker_programs", None)
        Path("broker_programs.py").write_text(PROGRAMS)
        Path("broker_unfinished.py").write_text("import a_package_that_is_not_installed\n")

    def test_classes_and_callables(self) -> None:
        """A module of the working directory is found; its class is created without arguments."""
        for name in ("Good", "make"):
            program = load_program(f"broker_programs:{name}", Clock(), ManualClock())
            self.assertIsInstance(program, BrokerProgram)

    def test_unusable_values(self) -> None:
        """Each is one line that names what is wrong."""
        for text, refusal in (
            ("broker_programs", "it has to be MODULE:CLASS, such as orders:Orders"),
            (":Good", "it has to be MODULE:CLASS"),
            ("no_such_module:Good", "there is no module 'no_such_module'; the working directory and"),
            (
                "broker_programs.py:Good",
                "'broker_programs.py' is not a module; write MODULE:CLASS, such as orders:O",
            ),
            ("./broker_programs:Good", "'./broker_programs' is not a module; write MODULE:CLASS"),
            ("broker_programs:Talking", "ValueError: the warehouse is closed until Monday ("),
            ("broker_programs:Bad", "module 'broker_programs' has no class 'Bad'"),
            ("broker_programs:NOT_CALLABLE", "module 'broker_programs' has no class 'NOT_CALLABLE'"),
            ("broker_programs:Empty", "Empty has no message_received: write async def"),
            ("broker_programs:Failing", "cannot be created: KeyError: 'warehouse' ("),
            ("broker_programs:nothing", "it creates an int; it has to create a msmq.Broker"),
            ("broker_unfinished:X", "cannot be imported: ModuleNotFoundError: No module named 'a_package"),
        ):
            error = self.assertRaises(ProgramError, load_program, text, Clock(), ManualClock())
            self.assertIn(refusal, str(error))
            self.assertNotIn("\n", str(error))
