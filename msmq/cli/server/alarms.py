"""C{msmq alarms}: lists what needs an operator's attention."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_SEVERITIES: Final = {1: "warning", 2: "critical"}
_MOST: Final = 1000


@click.command
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0, _MOST),
    default=100,
    show_default=True,
    help="At most N alarms about queues.",
)
@common_options
@pass_settings
def alarms(settings: Settings, /, limit: int) -> None:
    """List what needs attention, and what to do about it.

    The worst alarms come first.  With --json each is an object with severity (1 is a warning; with 2 messages
    are refused, or the server does not work), kind, subject, text and action.  msmq check has an exit status
    for monitoring systems.
    """
    report, output = settings.client.alarms(limit), settings.output
    if output.as_json:
        for alarm in report["alarms"]:
            output.object(alarm)
    else:
        for alarm in report["alarms"]:
            output.write(f"{_SEVERITIES[alarm['severity']]:8}  {alarm['text']}")
            if alarm["action"]:
                output.write(f"{'':8}  {alarm['action']}")
        if not report["alarms"] and not report["further"]:
            output.write("no alarms")
        if report["further"]:
            output.write(f"{report['further']} more about queues; --limit shows up to {_MOST}")
    output.flush()
