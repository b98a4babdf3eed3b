"""C{msmq queue}: the queues of a queue manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from msmq.cli.confirmation import confirm, dry_run_option, yes_option
from msmq.cli.exit_status import DONE
from msmq.cli.messages.browsing import browse, browse_options
from msmq.cli.options import (
    KibibytesOption,
    Settings,
    WholeSecondsOption,
    common_options,
    pass_settings,
)
from msmq.cli.queues.patterns import contents, for_each, local_queues, selected
from msmq.cli.wildcards import is_pattern
from msmq.quoting import quoted

_COLUMNS: Final = ("path", "type", "transactional", "journal", "messages", "bytes", "label")
_CONTENTS: Final = ("path", "messages", "bytes", "journal_messages")
_NO_LIMIT: Final = 0xFFFFFFFF
_PRIVACY: Final = click.Choice(["none", "optional", "body"])


_NO_AGE: Final = 0


class _SizeOrNone(KibibytesOption):
    """Option type: a size, or C{none}."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the limit."""
        return _NO_LIMIT if value == "none" else super().convert(value, param, ctx)


class _AgeOrNone(WholeSecondsOption):
    """Option type: a duration, or C{none}."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the limit."""
        return _NO_AGE if value == "none" else super().convert(value, param, ctx)


_SIZE: Final = KibibytesOption()
_AGE: Final = WholeSecondsOption()
_SIZE_LIMIT: Final = _SizeOrNone()
_AGE_LIMIT: Final = _AgeOrNone()


class _LogBound(click.ParamType[str]):
    """Option type: the first or last entry of a range of a message log."""

    name = "bound"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that the value is a number or a time."""
        from datetime import datetime

        try:
            if not str(value).isdecimal():
                datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{quoted(value)} is neither a sequence number nor a time as 2026-01-31T12:00:00", param, ctx
            )
        return str(value)


_BOUND: Final = _LogBound()


@click.group
@common_options
def queue() -> None:
    r"""Create, list, show, change, pause, purge, replay and delete queues.

    PATH is the path of a queue, as .\private$\orders, or its format name.
    """


@queue.command("create")
@click.argument("path")
@click.option("--transactional", is_flag=True, help="Accept only messages that are sent in a transaction.")
@click.option("--journal", is_flag=True, help="Keep a copy of every received message.")
@click.option("--log", is_flag=True, help="Keep a log of every message that enters it.")
@click.option("--log-age", metavar="S", type=_AGE, help="How long the log keeps a message.")
@click.option("--log-size", metavar="SIZE", type=_SIZE, help="Size limit of the log.")
@click.option("--quota", metavar="SIZE", type=_SIZE, help="Size limit of the queue.")
@click.option("--journal-quota", metavar="SIZE", type=_SIZE, help="Size limit of its journal.")
@click.option("--label", metavar="T", help="A description.")
@click.option("--authenticate", is_flag=True, help="Accept only signed messages.")
@click.option(
    "--privacy",
    type=_PRIVACY,
    help="Whether messages must not, may or must be encrypted.",
)
@click.option("--security", metavar="SDDL", help="Its security descriptor, as SDDL text.")
@click.option(
    "--type",
    "application_type",
    metavar="GUID",
    help="The service type, by which applications find the queues of a service.",
)
@common_options
@pass_settings
def queue_create(settings: Settings, /, path: str, **options: Any) -> None:
    """Create the queue PATH.

    S is a number of seconds, or has a unit: "7 d". SIZE is a number of KiB, or has a unit: "64 MiB".
    """
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    with settings.naming(path, is_new=True):
        created = settings.client.create_queue(path, chosen)
    settings.output.one(created)
    settings.output.flush()


@queue.command("list")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--system", is_flag=True, help="List the machine journal and the dead-letter queues too.")
@common_options
@pass_settings
def queue_list(settings: Settings, patterns: tuple[str, ...], system: bool) -> None:
    r"""List the queues, or those that match a PATTERN: ord*, or .\private$\*.

    The wildcards are * and ?; without a backslash PATTERN matches the last part of a path.
    """
    queues = selected(settings.client.queues(system=system), patterns)
    # Most servers have no paused queue.
    paused = ("paused",) if any(queue.get("paused") for queue in queues) else ()
    settings.output.many(queues, (*_COLUMNS, *paused))
    settings.output.flush()


@queue.command("find")
@click.option("--label", metavar="T", help="The label, with wildcards.")
@click.option("--type", "kind", metavar="GUID", help="The service type.")
@click.option("--path", metavar="PATH", help="The path with the computer name, with wildcards.")
@common_options
@pass_settings
def queue_find(settings: Settings, label: str | None, kind: str | None, path: str | None) -> None:
    """Find public queues of the enterprise in the directory.

    T and PATH may contain the wildcards * and ?, and are case-insensitive.
    """
    found = settings.client.public_queues(label=label, kind=kind, path=path)
    settings.output.many(found, ("path", "format_name", "application_type", "label"))
    settings.output.flush()


@queue.command("show")
@click.argument("path")
@common_options
@pass_settings
def queue_show(settings: Settings, path: str) -> None:
    """Show everything about the queue PATH, or about each that matches the pattern PATH."""
    paths = [queue["path"] for queue in local_queues(settings, [path])] if is_pattern(path) else [path]
    for number, each in enumerate(paths):
        if number:
            settings.output.text("")
        with settings.naming(each):
            settings.output.one(settings.client.queue(each))
    settings.output.flush()


@queue.command("browse")
@click.argument("path")
@browse_options
@pass_settings
def queue_browse(settings: Settings, /, path: str, **wanted: Any) -> None:
    """Browse the messages of the queue PATH from any position, without removing them."""
    browse(settings, path, **wanted)


@queue.command("set")
@click.argument("path")
@click.option("--journal/--no-journal", default=None, help="Keep a copy of every received message.")
@click.option("--log/--no-log", default=None, help="Keep a log of every message that enters it.")
@click.option("--log-age", metavar="S", type=_AGE_LIMIT, help="How long the log keeps a message, or none.")
@click.option("--log-size", metavar="SIZE", type=_SIZE_LIMIT, help="Size limit of the log, or none.")
@click.option("--quota", metavar="SIZE", type=_SIZE_LIMIT, help="Size limit of the queue, or none.")
@click.option("--journal-quota", metavar="SIZE", type=_SIZE_LIMIT, help="Size limit of its journal, or none.")
@click.option("--label", metavar="T", help="A description.")
@click.option("--authenticate/--no-authenticate", default=None, help="Accept only signed messages.")
@click.option("--privacy", type=_PRIVACY, help="Whether messages must not, may or must be encrypted.")
@common_options
@pass_settings
def queue_set(settings: Settings, /, path: str, **options: Any) -> None:
    """Change properties of the queue PATH.

    S is a number of seconds, or has a unit: "7 d". SIZE is a number of KiB, or has a unit: "64 MiB".
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    if not chosen:
        raise click.UsageError("there is nothing to set; give at least one option")
    with settings.naming(path):
        settings.output.one(settings.client.set_queue(path, chosen))
    settings.output.flush()


@queue.command("pause")
@click.argument("path")
@common_options
@pass_settings
def queue_pause(settings: Settings, path: str) -> int:
    """Pause delivery to readers of the queue PATH; it still accepts messages.

    Readers wait as at an empty queue.  The pause includes subqueues, and persists across restarts.  Messages
    that a reader has already locked can still be confirmed; peek, browse, move and purge see all messages.
    """
    return _pause(settings, path, settings.client.pause_queue)


@queue.command("resume")
@click.argument("path")
@common_options
@pass_settings
def queue_resume(settings: Settings, path: str) -> int:
    """Resume delivery to readers of the paused queue PATH."""
    return _pause(settings, path, settings.client.resume_queue)


def _pause(settings: Settings, path: str, action: Callable[[str], dict[str, Any]]) -> int:
    """Pause or resume a queue, or each that matches a pattern; the exit status."""
    status = DONE
    if is_pattern(path):
        done: list[dict[str, Any]] = []
        names = [queue["path"] for queue in local_queues(settings, [path])]
        status = for_each(names, lambda each: done.append(action(each)))
        settings.output.many(done, (*_COLUMNS, "paused"))
    else:
        with settings.naming(path):
            settings.output.one(action(path))
    settings.output.flush()
    return status


@queue.command("purge")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@yes_option
@dry_run_option
@common_options
@pass_settings
def queue_purge(settings: Settings, paths: tuple[str, ...], yes: bool, dry_run: bool) -> int:
    """Remove all messages in the queue PATH, and print their number.

    PATH may have the wildcards * and ?, as in queue list; then the command needs --yes without a terminal.
    On a terminal the command asks first.  The server continues if the command is interrupted; the same
    command waits for the rest.
    """
    output = settings.output

    def purge(path: str) -> None:
        purged = settings.client.purge_queue(path, lambda left: output.progress(f"{left} messages left"))
        output.progress("")
        if _is_one(paths):
            output.one(purged)
        elif output.as_json:
            output.object({"path": path, **purged})
        else:
            output.text(f"purged  {purged['purged']}  {path}")

    return _remove(settings, paths, "Purge", purge, yes=yes, dry_run=dry_run)


@queue.command("replay")
@click.argument("path")
@click.option("--from", "begin", metavar="BOUND", type=_BOUND, help="The first entry.  [default: the oldest]")
@click.option("--to", "end", metavar="BOUND", type=_BOUND, help="The last entry.  [default: the newest]")
@click.option("--into", metavar="QUEUE", required=True, help="The destination of the copies, as in send.")
@click.option(
    "--in-clear",
    is_flag=True,
    help="Send all copies unencrypted, even if their senders requested encryption.",
)
@common_options
@pass_settings
def queue_replay(
    settings: Settings, path: str, begin: str | None, end: str | None, into: str, in_clear: bool
) -> None:
    """Send copies of entries in the message log of the queue PATH, and print their number.

    BOUND is a sequence number of the log, or an arrival time in ISO 8601, in UTC unless it has an offset.
    """
    with settings.naming(path):
        settings.output.one(settings.client.replay(path, into, begin=begin, end=end, in_clear=in_clear))
    settings.output.flush()


@queue.command("delete")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@yes_option
@dry_run_option
@common_options
@pass_settings
def queue_delete(settings: Settings, paths: tuple[str, ...], yes: bool, dry_run: bool) -> int:
    """Delete the queue PATH and all messages in it.

    PATH may have the wildcards * and ?, as in queue list; then the command needs --yes without a terminal.
    On a terminal the command asks first.
    """

    def delete(path: str) -> None:
        settings.output.one(settings.client.delete_queue(path))

    return _remove(settings, paths, "Delete", delete, yes=yes, dry_run=dry_run)


def _is_one(paths: Sequence[str]) -> bool:
    return len(paths) == 1 and not is_pattern(paths[0])


def _remove(
    settings: Settings,
    paths: Sequence[str],
    word: str,
    action: Callable[[str], None],
    *,
    yes: bool,
    dry_run: bool,
) -> int:
    """Ask, then perform an action on one queue after the other; return the exit status."""
    output, status = settings.output, DONE
    if dry_run:
        output.many(local_queues(settings, paths), _CONTENTS)
    elif _is_one(paths):
        with settings.naming(paths[0]):
            # Existing scripts do not have --yes.
            confirm(
                lambda: f"{word} {contents([settings.client.queue(paths[0])])}", yes=yes, is_required=False
            )
            action(paths[0])
    else:
        queues = local_queues(settings, paths)
        confirm(lambda: f"{word} {contents(queues)}", yes=yes)
        status = for_each([queue["path"] for queue in queues], action)
    output.flush()
    return status
