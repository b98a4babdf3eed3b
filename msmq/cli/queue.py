"""C{msmq queue}: the queues of a queue manager."""

from __future__ import annotations

from typing import Any, Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

_COLUMNS: Final = ("path", "type", "transactional", "journal", "messages", "bytes", "label")
_NO_LIMIT: Final = 0xFFFFFFFF
_KILOBYTES: Final = click.IntRange(0, _NO_LIMIT)
_PRIVACY: Final = click.Choice(["none", "optional", "body"])


class _KilobytesOrNone(click.IntRange):
    """A quota, or that there is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of kilobytes."""
        return _NO_LIMIT if value == "none" else super().convert(value, param, ctx)


_LIMIT: Final = _KilobytesOrNone(0, _NO_LIMIT)


@click.group
@common_options
def queue() -> None:
    r"""Create, list, show, change, purge and delete queues.

    PATH is the path of a queue, as .\private$\orders, or its format name.
    """


@queue.command("create")
@click.argument("path")
@click.option("--transactional", is_flag=True, help="Take only messages that are sent in a transaction.")
@click.option("--journal", is_flag=True, help="Keep a copy of every message that is received from it.")
@click.option("--log", is_flag=True, help="Keep a log of every message that enters it.")
@click.option("--quota", metavar="KB", type=_KILOBYTES, help="The most that it holds.")
@click.option("--journal-quota", metavar="KB", type=_KILOBYTES, help="The most that its journal holds.")
@click.option("--label", metavar="T", help="A text for people.")
@click.option("--authenticate", is_flag=True, help="Take only messages that are signed.")
@click.option(
    "--privacy",
    type=_PRIVACY,
    help="Whether messages must not, may or must be encrypted.",
)
@common_options
@pass_settings
def queue_create(settings: Settings, /, path: str, **options: Any) -> None:
    """Make the queue PATH."""
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    created = settings.client.create_queue(path, chosen)
    settings.output.one(created)
    settings.output.flush()


@queue.command("list")
@common_options
@pass_settings
def queue_list(settings: Settings) -> None:
    """List the queues."""
    settings.output.many(settings.client.queues(), _COLUMNS)
    settings.output.flush()


@queue.command("show")
@click.argument("path")
@common_options
@pass_settings
def queue_show(settings: Settings, path: str) -> None:
    """Show everything about the queue PATH."""
    settings.output.one(settings.client.queue(path))
    settings.output.flush()


@queue.command("set")
@click.argument("path")
@click.option("--journal/--no-journal", default=None, help="Keep a copy of what is received from it.")
@click.option("--log/--no-log", default=None, help="Keep a log of every message that enters it.")
@click.option("--quota", metavar="KB", type=_LIMIT, help="The most that it holds, or none.")
@click.option("--journal-quota", metavar="KB", type=_LIMIT, help="The most that its journal holds, or none.")
@click.option("--label", metavar="T", help="A text for people.")
@click.option("--authenticate/--no-authenticate", default=None, help="Take only messages that are signed.")
@click.option("--privacy", type=_PRIVACY, help="Whether messages must not, may or must be encrypted.")
@common_options
@pass_settings
def queue_set(settings: Settings, /, path: str, **options: Any) -> None:
    """Change what the options name of the queue PATH."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if not chosen:
        raise click.UsageError("there is nothing to set; name at least one option")
    settings.output.one(settings.client.set_queue(path, chosen))
    settings.output.flush()


@queue.command("purge")
@click.argument("path")
@common_options
@pass_settings
def queue_purge(settings: Settings, path: str) -> None:
    """Remove all messages in the queue PATH, and print how many."""
    settings.output.one(settings.client.purge_queue(path))
    settings.output.flush()


@queue.command("delete")
@click.argument("path")
@common_options
@pass_settings
def queue_delete(settings: Settings, path: str) -> None:
    """Delete the queue PATH and all messages in it."""
    settings.output.one(settings.client.delete_queue(path))
    settings.output.flush()
