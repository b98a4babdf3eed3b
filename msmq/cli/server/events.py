"""C{msmq events}: the event log of a server."""

from __future__ import annotations

from typing import Any, Final

import click

from msmq.cli.messages.deadletter import PastTime
from msmq.cli.messages.selection import complain_of_failures, literal
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.readable import time_text

_TAIL: Final = 20


@click.command
@click.option("--follow", is_flag=True, help="Continue with new events, until Ctrl-C.")
@click.option(
    "--tail",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Start with the last N events.  [default: {_TAIL}]",
)
@click.option("--after", metavar="N", type=click.IntRange(min=0), help="Start after the sequence number N.")
@click.option(
    "--since",
    metavar="TIME",
    type=PastTime(),
    help="Only events since TIME: 2026-01-31T12:00 (UTC unless it has an offset), or 15m ago.",
)
@click.option(
    "--where",
    metavar="EXPRESSION",
    help="Only events for which this JMESPath expression over their keys is true.",
)
@common_options
@pass_settings
def events(
    settings: Settings,
    /,
    follow: bool,
    tail: int | None,
    after: int | None,
    since: str | None,
    where: str | None,
) -> None:
    """Print the event log: results of messages, and changes by operators."""
    if tail is not None and (after is not None or since is not None):
        raise click.UsageError("--tail excludes --after and --since")
    output = settings.output
    terms = [*([f"time >= {literal(since)}"] if since else []), *([f"({where})"] if where else [])]
    if tail is None and after is None and since is None:
        tail = _TAIL
    found = settings.client.events(
        after=after, tail=tail, follow=follow, where=" && ".join(terms) if terms else None
    )
    try:
        for event in found:
            if "end" in event:
                complain_of_failures([event], "event(s)")
                continue
            output.object(event) if output.as_json else output.write(_line(event, utc=output.utc))
            if follow:
                output.flush()
    except KeyboardInterrupt:
        if not follow:
            raise
    output.flush()


def _line(event: dict[str, Any], *, utc: bool) -> str:
    moment = time_text(event["time"], utc=utc)
    parts = [moment, event["event"], event["queue"] or "-", event["message"] or "-"]
    why = "; ".join(part for part in (event["class_name"], event["reason"]) if part)
    return f"{'  '.join(parts)}  {why}".rstrip()
