"""C{msmq bridge}: the routes to other brokers."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.server.config import report_problems

_COLUMNS: Final = (
    "name",
    "condition",
    "source",
    "destination",
    "in_flight",
    "forwarded",
    "dead_letters",
    "reason",
)
_TESTED: Final = ("message", "destination", "body_size", "reason")


@click.group
@common_options
def bridge() -> None:
    """List, show, pause, resume and test the routes to other brokers; check a configuration."""


@bridge.command("check")
@click.argument("file")
@common_options
@pass_settings
def bridge_check(settings: Settings, file: str) -> int:
    """List all faults of FILE, the configuration of twistd msmq-bridge, each with its line.

    The files of tokens and certificates that it names are read too. Status 1 if there is a fault.
    """
    settings.refuse_on()
    from msmq.bridge_program.configuration import check_bridge

    return report_problems(settings.output, check_bridge(file), file, "msmq bridge check")


@bridge.command("list")
@common_options
@pass_settings
def bridge_list(settings: Settings) -> None:
    """List the routes."""
    settings.output.many(settings.client.bridges(), _COLUMNS)
    settings.output.flush()


@bridge.command("show")
@click.argument("name")
@common_options
@pass_settings
def bridge_show(settings: Settings, name: str) -> None:
    """Show the route NAME."""
    settings.output.one(settings.client.bridge(name))
    settings.output.flush()


@bridge.command("pause")
@click.argument("name")
@common_options
@pass_settings
def bridge_pause(settings: Settings, name: str) -> None:
    """Forward nothing more on the route NAME until it is resumed, or the server restarts."""
    settings.output.one(settings.client.pause_bridge(name))
    settings.output.flush()


@bridge.command("resume")
@click.argument("name")
@common_options
@pass_settings
def bridge_resume(settings: Settings, name: str) -> None:
    """Resume the route NAME; a message at which it has stopped is tried again."""
    settings.output.one(settings.client.resume_bridge(name))
    settings.output.flush()


@bridge.command("test")
@click.argument("name")
@click.option("--count", type=click.IntRange(0, 100), default=10, show_default=True, help="Messages to map.")
@common_options
@pass_settings
def bridge_test(settings: Settings, name: str, count: int) -> None:
    """Connect to the broker of the route NAME, and print what would be sent, without sending it.

    Messages of a broker are taken and returned for it, and count as delivered before.
    """
    settings.output.many(settings.client.test_bridge(name, count), _TESTED)
    settings.output.flush()
