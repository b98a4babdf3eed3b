"""C{msmq watch}: a full-screen monitor of one server."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import attrs
import click

from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.cli.watch.model import WatchModel
from msmq.structures.status import MQError, Status

PATIENCE: Final = 10.0
"""Seconds without a byte of an answer after which an alarm says that there is none."""


@click.command
@click.option(
    "--interval",
    metavar="S",
    type=SecondsOption(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two samples.",
)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), help="With --json, end after N objects.  [default: 1]"
)
@common_options
@pass_settings
def watch(settings: Settings, /, interval: float, count: int | None) -> None:
    """Show rates, depths, ages, sessions and alarms of a server on the whole screen, until q.

    The keys are on the last line.  A restart of the server does not end it.  With --json it prints an
    object with the totals and the alarms after each interval.
    """
    from msmq.cli.watch.sampling import take_sample

    settings.patience = PATIENCE
    client = settings.client
    if settings.output.as_json:
        _print(settings, client, interval, count or 1)
        return
    if count is not None:
        raise click.UsageError("--count needs --json")
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise click.UsageError("there is no terminal; --json, msmq top and msmq check work without one")
    try:
        from msmq.cli.watch.screen import WatchScreen
    except ImportError as error:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_OPERATION,
            f"msmq watch needs textual: pip install 'msmq[watch]' brings it ({error}); msmq top does not",
        ) from error
    WatchScreen(client, take_sample(client), interval).run()


def _print(settings: Settings, client: Any, interval: float, count: int) -> None:
    """Print totals and alarms, one object after each interval."""
    from msmq.cli.watch.sampling import take_sample

    model = WatchModel()
    model.take(take_sample(client))
    for _ in range(count):
        time.sleep(interval)
        try:
            model.take(take_sample(client))
        except MQError as error:
            model.lose(time.monotonic(), str(error))
        totals = model.totals
        assert totals is not None
        alarms = [attrs.asdict(alarm) for alarm in model.alarms(time.monotonic())]
        settings.output.object({**attrs.asdict(totals), "alarms": alarms})
        settings.output.flush()
