"""Each log line has an identifier, and docs/events.md is what the code says."""

from __future__ import annotations

import ast
from collections import Counter

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.process.event_ids import EVENT_IDS, EVENT_WORDS
from tests.test_architecture.event_table import PAGE, log_lines, page
from tests.test_architecture.sources import parsed_package
from tests.wiring import nodes_of

_MISSING = (
    "add it to msmq/service/process/event_ids.py, and run python -m tests.test_architecture.event_table"
)


class LogLineTests(SynchronousTestCase):
    """msmq/service/process/event_ids.py."""

    def test_every_line_has_an_identifier(self) -> None:
        """A line without one is new, or its text has changed: then the number stays with the new text."""
        missing = [f"{line.module}: {line.text}" for line in log_lines() if line.number is None]
        self.assertEqual(missing, [], _MISSING)

    def test_identifiers_are_unique(self) -> None:
        """A number stands for one event, and none is left of a line that is not there any more."""
        twice = [number for number, count in Counter(EVENT_IDS.values()).items() if count > 1]
        self.assertEqual(twice, [])
        used = {line.number for line in log_lines()}
        self.assertEqual([key for key, number in EVENT_IDS.items() if number not in used], [])

    def test_words_of_the_event_log(self) -> None:
        """Each word that is appended as a constant is explained."""
        words: set[str] = set()
        for module, tree in parsed_package().items():
            for node in nodes_of(tree):
                if module.startswith("msmq.testing."):
                    continue
                if isinstance(node, ast.Call) and len(node.args) > 2:
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                    third = node.args[2]
                    if name == "AppendEvent" and isinstance(third, ast.Constant):
                        words.add(str(third.value))
        self.assertGreater(len(words), 3)
        self.assertEqual(sorted(words - set(EVENT_WORDS)), [])

    def test_levels(self) -> None:
        """An event that is written with several levels has all of them, for filters by level."""
        rows = [row for row in page().splitlines() if row.startswith(("| 5001 |", "| 2087 |"))]
        levels = [row.split("|")[2].strip() for row in rows]
        self.assertEqual(levels, ["warn", "critical, error, warn"])

    def test_page(self) -> None:
        """docs/events.md is up to date."""
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page(), _MISSING)
