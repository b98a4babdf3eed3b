"""C{msmq quota}: the quotas of all queues of a server together."""

from __future__ import annotations

from typing import Any, Final

import click

from msmq.cli.options import KibibytesOption, Settings, common_options, pass_settings

CONFIGURATION: Final = "configuration"
"""The value that returns to that of the configuration."""


class _Quota(KibibytesOption):
    """Option type: a size, C{none} or C{configuration}."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the quota."""
        return value if value in ("none", CONFIGURATION) else super().convert(value, param, ctx)


_QUOTA: Final = _Quota()


@click.group
@common_options
def quota() -> None:
    """Show and set the quotas of all queues together."""


@quota.command("show")
@common_options
@pass_settings
def quota_show(settings: Settings) -> None:
    """Show the quotas of all queues together in kilobytes, where they come from, and their use."""
    settings.output.one(settings.client.quotas())
    settings.output.flush()


@quota.command("set")
@click.option(
    "--queues", metavar="SIZE", type=_QUOTA, help="Limit of all messages: SIZE, none or configuration."
)
@click.option(
    "--journals",
    metavar="SIZE",
    type=_QUOTA,
    help="Limit of journals and dead-letter queues: SIZE, none or configuration.",
)
@common_options
@pass_settings
def quota_set(settings: Settings, queues: Any, journals: Any) -> None:
    """Set the quotas of all queues together, without a restart.

    SIZE is a number of KiB, or has a unit: "512 MiB". With 0 every new message is refused until the quota is
    set again; no limit is none.

    A value persists across restarts and wins over [limits] in the configuration, until it is set to
    configuration. Messages beyond a quota stay, and new ones are refused.
    """
    given = {"quota": queues, "journal_quota": journals}
    changes = {key: None if value == "none" else value for key, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("there is nothing to set; give --queues, --journals or both")
    settings.output.one(settings.client.set_quotas(changes))
    settings.output.flush()
