"""The manual pages that are made from the help."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.manual import pages
from msmq.cli.verbs import VERBS


class ManualTests(SynchronousTestCase):
    """C{make man}."""

    def test_every_verb_has_a_page(self) -> None:
        """There is a page for the command and one for each verb, with its options and the verbs below it."""
        found = dict(pages())
        self.assertEqual(list(found), ["msmq", *(f"msmq-{name}" for name in VERBS)])
        self.assertIn(".BR msmq-queue (1)", found["msmq"])
        self.assertIn("\\-\\-quota", found["msmq-queue"])
        self.assertIn(".SS msmq queue purge", found["msmq-queue"])
        self.assertIn("\\eprivate$\\eorders", found["msmq-send"])

    def test_no_text_is_a_request(self) -> None:
        """A line begins with a point only where it is a request that these pages use."""
        used = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR"}
        for name, text in pages():
            for line in text.splitlines():
                self.assertFalse(line.startswith("'"), (name, line))
                if line.startswith("."):
                    self.assertIn(line.split()[0], used, (name, line))
