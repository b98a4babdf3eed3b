"""The screen of the monitor, with keys as a user presses them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.widgets import DataTable, Static
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.watch.screen import SHOWN, WatchScreen
from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError, Status
from tests.cli.watch.samples import outgoing, queue, sample

NEVER = 3600.0
"""An interval that no test reaches."""


class ScreenTests(SynchronousTestCase):
    """Content of the screen."""

    def setUp(self) -> None:
        queues = tuple(queue(f"q{n:03}", messages=n) for n in range(SHOWN + 1))
        alarm = {"severity": 1, "subject": "", "text": "2 dead letters"}
        self.first = sample(0, queues, alarms=(alarm,), dead_letters=2)
        self.screen = WatchScreen(ControlClient(Path("/nonexistent")), self.first, NEVER)

    def line(self, name: str) -> str:
        """The text of a part of the screen."""
        return str(self.screen.query_one(f"#{name}", Static).render())

    def column(self, number: int = 0) -> list[str]:
        """A column of the table."""
        table = self.screen.query_one(DataTable)
        return [str(table.get_row_at(row)[number]) for row in range(table.row_count)]

    def test_keys(self) -> None:
        """Keys choose a view, an order and a filter; samples change the rows, and a failure is an alarm."""

        async def use() -> None:
            async with self.screen.run_test(size=(120, 30)) as pilot:
                self.assertIn("ALPHA  running", self.line("head"))
                self.assertIn("2 dead letters", self.line("alarms"))
                self.assertIn(f"the first {SHOWN} of {SHOWN + 1}", self.line("views"))
                self.assertEqual(self.column()[:2], ["q200", "q199"])
                await pilot.press("s")
                self.assertEqual(self.column()[:2], ["q000", "q001"])
                await pilot.press("r")
                self.assertEqual(self.column()[0], "q200")
                await pilot.press("slash", "9", "9", "enter")
                self.assertEqual(self.column(), ["q199", "q099"])
                await pilot.press("space")
                self.screen.take(sample(2, (queue("q99", messages=5),)), 2)
                self.assertIn("paused", self.line("views"))
                self.assertEqual(self.column(), ["q199", "q099"])
                await pilot.press("space")
                self.assertEqual(self.column(), ["q99"])
                await pilot.press("escape", "2")
                self.screen.take(sample(4, outgoing=(outgoing("DIRECT=OS:A\\[b]", messages=5),)), 4)
                self.assertEqual(self.column(), ["DIRECT=OS:A\\[b]"])
                lost = MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "it has gone")
                self.screen.take(lost, 10)
                self.assertIn("no answer for 0 s: MQ_ERROR_SERVICE_NOT_AVAILABLE", self.line("alarms"))
                self.assertEqual(self.column(), ["DIRECT=OS:A\\[b]"])
                await pilot.press("q")

        asyncio.run(use())
        self.assertIs(self.screen.is_running, False)

    def test_width(self) -> None:
        """Columns fit a narrow screen; of a long name both ends are shown, and all of it on a wide one."""
        name = f".\\private$\\{'x' * 60}-orders"
        self.screen = WatchScreen(ControlClient(Path("/nonexistent")), sample(0, (queue(name),)), NEVER)

        async def use() -> None:
            async with self.screen.run_test(size=(80, 24)) as pilot:
                table = self.screen.query_one(DataTable)
                [shown] = self.column()
                self.assertTrue(shown.startswith(".\\priv") and shown.endswith("-orders"), shown)
                self.assertLessEqual(table.virtual_size.width, 80)
                await pilot.resize_terminal(200, 24)
                await pilot.pause()
                self.assertEqual(self.column(), [name])

        asyncio.run(use())
