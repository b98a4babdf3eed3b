"""The screen of C{msmq watch}; the only module that imports textual."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Final

import attrs
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Input, Static

from msmq.cli.output import cut_text, fitted_widths
from msmq.cli.readable import printable
from msmq.cli.units import rate_text, size_text
from msmq.cli.watch.model import VIEWS, Sample, ViewColumn, ViewOrder, ViewRow, WatchModel
from msmq.cli.watch.sampling import Sampler
from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError

SHOWN: Final = 200
"""The most rows on the screen; a filter finds the others."""

_ALARMS_SHOWN: Final = 5
_STYLES: Final = ("", "yellow", "bold red")
_INTERVALS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class WatchScreen(App[None]):
    """Rates, depths, ages, sessions and alarms of one server.

    @param client: the server.
    @param first: its first sample.
    @param interval: seconds between two samples.
    """

    CSS = """
    #head { height: auto; }
    #alarms { height: auto; }
    #views { height: 1; }
    #filter { display: none; height: 3; }
    DataTable { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        ("1", "view('queues')", "Queues"),
        ("2", "view('outgoing')", "Outgoing"),
        ("3", "view('sessions')", "Sessions"),
        ("s", "sort(1)", "Sort"),
        ("S", "sort(-1)", "Sort back"),
        ("r", "reverse", "Reverse"),
        ("slash", "filter", "Filter"),
        ("escape", "clear", "Clear"),
        ("space", "pause", "Pause"),
        ("plus", "interval(1)", "Slower"),
        ("minus", "interval(-1)", "Faster"),
    ]

    def __init__(self, client: ControlClient, first: Sample, interval: float) -> None:
        super().__init__()
        self._model = WatchModel()
        self._model.take(first)
        self._now = first.time
        self._view = "queues"
        self._orders = {name: ViewOrder() for name in VIEWS}
        self._is_paused = False
        self._keys: list[str] = []
        self._sampler = Sampler(client, interval, self._sampled)

    def compose(self) -> ComposeResult:
        """The head, the alarms, the views, the table and the keys."""
        yield Static(id="head", markup=False)
        yield Static(id="alarms", markup=False)
        yield Static(id="views", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="a part of the name, or a pattern with * and ?", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first sample, and go on."""
        self.show()
        self.query_one(DataTable).focus()
        self._sampler.start()

    def on_resize(self) -> None:
        """Fit the columns to the screen, once it has its new size."""
        self.call_after_refresh(self.show)

    def on_unmount(self) -> None:
        """Stop."""
        self._sampler.stop()

    def _sampled(self, found: Sample | MQError) -> None:
        """In the thread of the samples: hand one over."""
        now = time.monotonic()
        try:
            self.call_from_thread(self.take, found, now)
        except RuntimeError:
            # The screen has been closed meanwhile.
            self._sampler.stop()

    def take(self, found: Sample | MQError, now: float) -> None:
        """Show a sample, or why there is none."""
        self._now = now
        if isinstance(found, Sample):
            self._model.take(found)
        else:
            self._model.lose(now, str(found))
        if not self._is_paused:
            self.show()

    def show(self) -> None:
        """Fill the screen."""
        order, columns = self._orders[self._view], VIEWS[self._view]
        rows = self._model.rows(self._view, order)
        self.query_one("#head", Static).update(self._head())
        self.query_one("#alarms", Static).update(self._alarms())
        self.query_one("#views", Static).update(self._views(len(rows)))
        table = self.query_one(DataTable)
        at, top = table.cursor_row, table.scroll_y
        key = self._keys[at] if 0 <= at < len(self._keys) else None
        table.clear(columns=True)
        shown = rows[:SHOWN]
        titles = [_title(column, order, number) for number, column in enumerate(columns)]
        widths = self._widths(titles, shown)
        for title, width in zip(titles, widths, strict=True):
            table.add_column(title, width=width)
        for row in shown:
            table.add_row(*_cells(row, widths))
        self._keys = [row.key for row in shown]
        if key in self._keys:
            table.move_cursor(row=self._keys.index(key), scroll=False)
        table.scroll_to(y=top, animate=False)

    def _widths(self, titles: Sequence[str], rows: Sequence[ViewRow]) -> list[int]:
        """The widths of the columns, such that they fit the screen if they can."""
        texts = zip(titles, *(row.cells for row in rows), strict=True)
        widths = [max(map(len, column)) for column in texts]
        # The table has a space on both sides of each cell, where text output has two between them.
        return fitted_widths(widths, [len(title) for title in titles], self.size.width - 4)

    def _head(self) -> Text:
        totals = self._model.totals
        if totals is None:
            return Text("")
        head = Text(printable(totals.name), style="bold")
        head.append(f"  {totals.state}", style="" if totals.state == "running" else _STYLES[2])
        head.append(
            f"  in {rate_text(totals.in_rate)}/s  out {rate_text(totals.out_rate)}/s"
            f"  messages {totals.messages} ({size_text(totals.bytes)})  to send {totals.waiting}"
            f"  sessions {totals.sessions}  transactions {totals.transactions}"
            f"  dead letters {totals.dead_letters}"
        )
        return head

    def _alarms(self) -> Text:
        alarms = self._model.alarms(self._now)
        text = Text("", overflow="ellipsis")
        for number, alarm in enumerate(alarms[:_ALARMS_SHOWN]):
            text.append("\n" if number else "")
            text.append(f"{'!' * alarm.severity} {printable(alarm.text)}", style=_STYLES[alarm.severity])
        if len(alarms) > _ALARMS_SHOWN:
            text.append(f"\nand {len(alarms) - _ALARMS_SHOWN} more")
        return text

    def _views(self, count: int) -> Text:
        text = Text("")
        for number, name in enumerate(VIEWS, 1):
            text.append(f" {number} {name} ", style="reverse" if name == self._view else "")
        order = self._orders[self._view]
        text.append(f"  {count}" if count <= SHOWN else f"  the first {SHOWN} of {count}")
        if order.pattern:
            text.append(f"  filter: {printable(order.pattern)}")
        text.append(f"  every {self._sampler.interval:g} s")
        if self._is_paused:
            text.append("  paused", style=_STYLES[1])
        return text

    def action_view(self, name: str) -> None:
        """Show another view."""
        self._view = name
        self.show()

    def action_sort(self, step: int) -> None:
        """Sort by the next column."""
        self._orders[self._view] = self._orders[self._view].next_column(VIEWS[self._view], step)
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order of the column that is sorted by."""
        order = self._orders[self._view]
        if order.column is not None:
            self._orders[self._view] = attrs.evolve(order, descends=not order.descends)
            self.show()

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.value = self._orders[self._view].pattern
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter while it is typed."""
        if event.input.display:
            self._select(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        self._close_filter()

    def action_clear(self) -> None:
        """Remove the filter."""
        self._close_filter()
        self._select("")

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one(DataTable).focus()

    def _select(self, pattern: str) -> None:
        self._orders[self._view] = attrs.evolve(self._orders[self._view], pattern=pattern)
        self.show()

    def action_pause(self) -> None:
        """Leave the screen as it is, or go on."""
        self._is_paused = not self._is_paused
        self.show()

    def action_interval(self, step: int) -> None:
        """Take samples more seldom, or more often."""
        longer = [each for each in _INTERVALS if each > self._sampler.interval]
        shorter = [each for each in _INTERVALS if each < self._sampler.interval]
        if step > 0 and longer:
            self._sampler.interval = longer[0]
        elif step < 0 and shorter:
            self._sampler.interval = shorter[-1]
        self._sampler.wake()
        self.show()


def _title(column: ViewColumn, order: ViewOrder, number: int) -> str:
    if number != order.column:
        return column.title
    return f"{column.title}{'▼' if order.descends else '▲'}"


def _cells(row: ViewRow, widths: Sequence[int]) -> list[Text]:
    style = _STYLES[row.severity]
    return [
        Text(
            cut_text(printable(cell), width),
            style=style,
            justify="left" if isinstance(value, str) else "right",
        )
        for cell, value, width in zip(row.cells, row.values, widths, strict=True)
    ]
