"""C{msmq outgoing}: the queues of messages for other queue managers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from msmq.cli.messages.browsing import browse, browse_options
from msmq.cli.options import Settings, common_options, pass_settings

_C = TypeVar("_C", bound=Callable[..., object])

_OUTGOING: Final = ("format_name", "state", "next_hops", "messages", "bytes", "unacknowledged")


@click.group
@common_options
def outgoing() -> None:
    """Show, pause, resume and redirect the outgoing queues."""


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


@outgoing.command("browse")
@click.argument("name")
@browse_options
@pass_settings
def outgoing_browse(settings: Settings, /, name: str, **wanted: Any) -> None:
    """Look at the messages that wait for the format name NAME; they stay there."""
    browse(settings, name, **wanted)


def _several(command: _C) -> _C:
    """Let a command take one NAME, C{--all} or C{--next-hop}."""
    for option in (
        click.option(
            "--next-hop",
            metavar="HOST",
            help="What goes to HOST next: an address, the name of a computer, or a queue manager's GUID.",
        ),
        click.option("--all", "everything", is_flag=True, help="What goes to any other queue manager."),
        click.argument("name", required=False),
    ):
        command = option(command)
    return command


@outgoing.command("pause")
@_several
@common_options
@pass_settings
def outgoing_pause(settings: Settings, name: str | None, everything: bool, next_hop: str | None) -> None:
    """Send nothing more to the format name NAME, to a next hop, or to any other queue manager.

    It stays so, over restarts too, until it is resumed; nothing needs to have been sent there before.
    """
    _hold(settings, "pause", name, everything, next_hop)


@outgoing.command("resume")
@_several
@common_options
@pass_settings
def outgoing_resume(settings: Settings, name: str | None, everything: bool, next_hop: str | None) -> None:
    """Send again to the format name NAME, to a next hop, or to all other queue managers.

    Each ends what was paused by the same option; paused_by names what else holds a queue.
    """
    _hold(settings, "resume", name, everything, next_hop)


@outgoing.command("redirect")
@click.argument("name")
@click.option("--to", metavar="ADDRESS", help="An IP address or the name of a computer.")
@click.option("--undo", is_flag=True, help="Send to the address in NAME again.")
@common_options
@pass_settings
def outgoing_redirect(settings: Settings, name: str, to: str | None, undo: bool) -> None:
    """Send what is sent to the direct format name NAME to another address, pending messages included.

    It stays so, over restarts too, until --undo; nothing needs to have been sent to NAME before.
    """
    if (to is not None) == undo:
        raise click.UsageError("give one of --to ADDRESS and --undo")
    settings.output.one(settings.client.redirect_outgoing(name, to))
    settings.output.flush()


def _hold(settings: Settings, action: str, name: str | None, everything: bool, next_hop: str | None) -> None:
    if (name is not None) + everything + (next_hop is not None) != 1:
        raise click.UsageError("name one of NAME, --next-hop HOST and --all")
    client = settings.client
    if name is not None:
        hold = client.pause_outgoing if action == "pause" else client.resume_outgoing
        settings.output.one(hold(name))
    else:
        settings.output.many(client.hold_outgoing(action, next_hop), (*_OUTGOING, "paused_by"))
    settings.output.flush()
