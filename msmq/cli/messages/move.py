"""C{msmq move}: moves messages between a queue and its subqueues."""

from __future__ import annotations

import click

from msmq.cli.options import Settings, common_options, pass_settings


@click.command
@click.argument("id")
@click.argument("queue")
@common_options
@pass_settings
def move(settings: Settings, id: str, queue: str) -> None:
    r"""Move the message ID to QUEUE.

    Messages move between a queue and its subqueues, as .\private$\orders;later, and into
    .\system$;deadletter, deadxact and journal.
    """
    with settings.naming(queue):
        settings.output.one(settings.client.move(id, queue))
    settings.output.flush()
