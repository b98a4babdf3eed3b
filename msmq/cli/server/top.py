"""C{msmq top}: the busiest queues and sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings

_QUEUES: Final = ("messages", "bytes", "in_rate", "out_rate", "path")
_SESSIONS: Final = ("in_rate", "out_rate", "unacknowledged", "direction", "state", "remote_address")


@click.command
@click.argument("what", type=click.Choice(["queues", "sessions"]))
@click.option(
    "--by", metavar="COLUMN", help="Sort by this column.  [default: the rates, then the first column]"
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The maximum number of rows.",
)
@click.option(
    "--interval",
    metavar="S",
    type=SecondsOption(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two samples, from which the rates are computed.",
)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), help="Stop after N tables.  [default: Ctrl-C]"
)
@common_options
@pass_settings
def top(
    settings: Settings, /, what: str, by: str | None, limit: int, interval: float, count: int | None
) -> None:
    """Show the busiest queues or sessions, with their rates per second, until Ctrl-C.

    On a terminal each table replaces the previous one.  Elsewhere, and with --json, there is one table.
    """
    import sys
    import time

    output = settings.output
    columns = _QUEUES if what == "queues" else _SESSIONS
    if by is not None and by not in columns:
        raise click.UsageError(f"--by {by}: unknown column; the columns are {', '.join(columns)}")
    is_live = not output.as_json and sys.stdout is not None and sys.stdout.isatty()
    left = count or (None if is_live else 1)
    look = _queues if what == "queues" else _sessions
    try:
        before = look(settings)
        while left is None or left > 0:
            began = time.monotonic()
            time.sleep(interval)
            now = look(settings)
            rows = _with_rates(before, now, time.monotonic() - began)
            rows.sort(key=_order(by, columns))
            if is_live:
                sys.stdout.write("\033[H\033[2J")
            output.many(rows[:limit], columns)
            output.flush()
            before = now
            left = None if left is None else left - 1
    except KeyboardInterrupt:
        if not is_live:
            raise
    output.flush()


def _queues(settings: Settings) -> dict[object, dict[str, Any]]:
    found = settings.client.queues(system=True)
    return {
        queue["path"]: {**queue, "in": queue["sent_total"], "out": queue["received_total"]} for queue in found
    }


def _sessions(settings: Settings) -> dict[object, dict[str, Any]]:
    return {
        each["identifier"]: {**each, "in": each["received"], "out": each["sent"]}
        for each in settings.client.sessions()
    }


def _with_rates(
    before: Mapping[object, Mapping[str, Any]], now: Mapping[object, Mapping[str, Any]], seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for key, value in now.items():
        old = before.get(key, value)
        row = dict(value)
        for name in ("in", "out"):
            row[f"{name}_rate"] = round(max(0, row.pop(name) - old[name]) / seconds, 1)
        rows.append(row)
    return rows


def _order(by: str | None, columns: Sequence[str]) -> Callable[[Mapping[str, Any]], Any]:
    if by is None:
        return lambda row: (
            -(row["in_rate"] + row["out_rate"]),
            -(row.get("messages") or 0),
            str(row[columns[-1]]),
        )
    if by in ("path", "direction", "state", "remote_address"):
        return lambda row: str(row[by])
    return lambda row: -(row[by] or 0)
