"""C{msmq outgoing} and C{msmq session}: what is on its way to and from other queue managers."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_OUTGOING: Final = ("format_name", "state", "next_hops", "messages", "bytes", "unacknowledged")
_SESSION: Final = (
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
def outgoing() -> None:
    """Watch, pause and resume the queues of what is sent to other queue managers."""


@outgoing.command("list")
@common_options
@pass_settings
def outgoing_list(settings: Settings) -> None:
    """List the outgoing queues."""
    settings.output.many(settings.client.outgoing(), _OUTGOING)
    settings.output.flush()


@outgoing.command("show")
@click.argument("name")
@common_options
@pass_settings
def outgoing_show(settings: Settings, name: str) -> None:
    """Show everything about the outgoing queue of the format name NAME."""
    settings.output.one(settings.client.outgoing_queue(name))
    settings.output.flush()


@outgoing.command("pause")
@click.argument("name")
@common_options
@pass_settings
def outgoing_pause(settings: Settings, name: str) -> None:
    """Send nothing more from the outgoing queue of the format name NAME."""
    settings.output.one(settings.client.pause_outgoing(name))
    settings.output.flush()


@outgoing.command("resume")
@click.argument("name")
@common_options
@pass_settings
def outgoing_resume(settings: Settings, name: str) -> None:
    """Send again from the outgoing queue of the format name NAME."""
    settings.output.one(settings.client.resume_outgoing(name))
    settings.output.flush()


@click.group
@common_options
def session() -> None:
    """Watch the sessions with other queue managers."""


@session.command("list")
@common_options
@pass_settings
def session_list(settings: Settings) -> None:
    """List the sessions, in both directions."""
    settings.output.many(settings.client.sessions(), _SESSION)
    settings.output.flush()
