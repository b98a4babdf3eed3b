"""C{msmq status}."""

from __future__ import annotations

import click

from msmq.cli.options import Settings, common_options, pass_settings


@click.command
@common_options
@pass_settings
def status(settings: Settings) -> None:
    """Tell what the queue manager is and how it does."""
    settings.output.one(settings.client.status())
    settings.output.flush()
