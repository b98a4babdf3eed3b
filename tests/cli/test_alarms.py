"""C{msmq alarms}."""

from __future__ import annotations

from tests.cli.served import ServedCommandTestCase


class AlarmsTests(ServedCommandTestCase):
    """The list of alarms for people and for programs."""

    def test_calm(self) -> None:
        """Without alarms the command says so; JSON has no line."""
        self.assertEqual(self.msmq("alarms").output, "no alarms\n")
        self.assertEqual(self.msmq("alarms", "--json").output, "")

    def test_alarms(self) -> None:
        """Each alarm has its severity and what to do; the rest is counted."""
        for name in ("one", "two"):
            self.run_to_end(self.service.pause_queue(self.make_queue(name)))
        lines = self.msmq("alarms", "--limit", "1").output.splitlines()
        self.assertRegex(lines[0], r"^warning   .*private\$\\one is paused$")
        self.assertEqual(lines[1].strip(), "Readers receive nothing until it is resumed.")
        self.assertEqual(lines[2], "1 more about queues; --limit shows up to 1000")
        found = self.msmq("alarms", "--json").objects
        self.assertEqual([alarm["kind"] for alarm in found], ["paused", "paused"])
        self.assertEqual(set(found[0]), {"severity", "kind", "subject", "text", "action"})
