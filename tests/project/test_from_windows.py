"""The page for administrators of MSMQ on Windows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.command import command

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "guide" / "from-windows.md"

CMDLETS: Final = {
    *(f"{verb}-MsmqOutgoingQueue" for verb in ("Clear", "Get", "Resume", "Suspend")),
    *(f"{verb}-MsmqQueue" for verb in ("Clear", "Get", "New", "Receive", "Remove", "Send", "Set")),
    *(f"{verb}-MsmqQueue{what}" for verb in ("Get", "Set") for what in ("ACL", "Manager", "ManagerACL")),
    *(f"{verb}-MsmqMessage" for verb in ("New", "Move")),
    *(f"{verb}-MsmqCertificate" for verb in ("Enable", "Get", "Remove")),
}
"""The module MSMQ of Windows PowerShell."""

_COMMAND: Final = re.compile(r"`msmq ([a-z][a-z-]*)((?: [a-z][a-z-]*,?)*)([^`]*)`")


class FromWindowsTests(SynchronousTestCase):
    """Each cmdlet has a row, and each command of the page exists."""

    def test_each_cmdlet(self) -> None:
        """The table has each of the 22 cmdlets once."""
        rows = re.findall(r"^\| `(\w+-Msmq\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(len(CMDLETS), 22)
        self.assertEqual(sorted(rows), sorted(CMDLETS))

    def test_commands_exist(self) -> None:
        """The verbs and options that the page names are those of the command."""
        context = click.Context(command)
        for verb, below, rest in _COMMAND.findall(PAGE.read_text(encoding="utf-8")):
            found = command.get_command(context, verb)
            self.assertIsNotNone(found, verb)
            names = re.findall(r"[a-z][a-z-]*", below)
            commands = [found]
            if isinstance(found, click.Group) and names:
                commands = [found.get_command(context, name) for name in names]
                self.assertNotIn(None, commands, (verb, below))
            known = {name for each in commands if each for option in each.params for name in option.opts}
            for option in re.findall(r"--[a-z][a-z-]*", rest):
                self.assertIn(option, known, (verb, below))
