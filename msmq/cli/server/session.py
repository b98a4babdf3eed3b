"""C{msmq session}: the sessions with other queue managers."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = (
    "direction",
    "state",
    "remote_identifier",
    "remote_address",
    "sent",
    "received",
    "recoverable_sent",
    "recoverable_received",
    "unacknowledged",
    "window",
    "clock_skew",
    "other_addresses",
)


@click.group
@common_options
def session() -> None:
    """List the sessions with other queue managers."""


@session.command("list")
@common_options
@pass_settings
def session_list(settings: Settings) -> None:
    """List the sessions, in both directions."""
    settings.output.many(settings.client.sessions(), _COLUMNS)
    settings.output.flush()
