"""C{msmq deadletter}: lists dead letters, and sends them again."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = ("id", "queue", "class_name", "destination_queue", "arrived_time", "body_size", "label")


@click.group
@common_options
def deadletter() -> None:
    """Look at dead letters, and send them again."""


@deadletter.command("list")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="At most N of each dead-letter queue.  [default: 1000]",
)
@common_options
@pass_settings
def deadletter_list(settings: Settings, limit: int | None) -> None:
    """List what lies in both dead-letter queues."""
    settings.output.many(settings.client.dead_letters(limit), _COLUMNS)
    settings.output.flush()


@deadletter.command("requeue")
@click.argument("id")
@common_options
@pass_settings
def deadletter_requeue(settings: Settings, id: str) -> None:
    """Send the dead letter ID again to the queue that it was for, and print its new identifier.

    It leaves the dead-letter queue atomically.
    """
    output = settings.output
    sent = settings.client.requeue(id)
    output.one(sent) if output.as_json else output.write(sent["id"])
    output.flush()
