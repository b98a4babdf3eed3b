"""The check of commit messages that git runs as a hook."""

from __future__ import annotations

import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

CHECK = Path(__file__).resolve().parent.parent.parent / ".ci" / "check-commit-message"

GOOD = """storage: a full disk is noticed before a batch is written

The reserve of the file is looked at first, so that a batch is refused whole.
"""


class CommitMessageTests(SynchronousTestCase):
    """C{.ci/check-commit-message}."""

    def check(self, message: str) -> str:
        """The output of the check for a message; empty for a valid one."""
        file = Path(self.mktemp())
        file.write_text(message, encoding="utf-8")
        found = subprocess.run([str(CHECK), str(file)], capture_output=True, text=True, check=False)
        self.assertEqual(found.returncode, bool(found.stderr), found.stderr)
        return found.stderr

    def test_valid_messages(self) -> None:
        """A short subject with its area, a blank line, and a body; comments of git do not count."""
        self.assertEqual(self.check(GOOD), "")
        self.assertEqual(self.check(GOOD + "# On branch main\n"), "")

    def test_invalid_messages(self) -> None:
        """Each fault is named, with the subject."""
        subject, _, body = GOOD.partition("\n")
        for message, fault in (
            (subject + "x" * 30 + "\n" + body, "72 are allowed"),
            ("it works\n" + body, "names no area"),
            (subject + "\n", "no body"),
            (subject + "\n\nSigned-off-by: A <a@example.com>\n", "no body"),
            (subject + "\nand more\n", "second line"),
        ):
            said = self.check(message)
            self.assertIn(fault, said)
            self.assertIn(message.splitlines()[0], said)
