"""C{msmq status}: shows the identity and the state of a queue manager."""

from __future__ import annotations

import click

from msmq.cli.options import Settings, common_options, pass_settings


@click.command
@common_options
@pass_settings
def status(settings: Settings) -> None:
    """Show the identity and the state of the queue manager."""
    settings.output.one(settings.client.status())
    settings.output.flush()
