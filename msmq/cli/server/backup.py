"""C{msmq backup}, C{msmq restore} and C{msmq identity}: copies of a data directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.output import Output
from msmq.cli.server.store import refusing
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.service.data_directory.backup import RestoreSummary

_PARTS = ("part", "rows", "bytes", "sha256")


@click.command
@click.argument("directory", metavar="DIR", type=GIVEN)
@click.option(
    "--store", "description", metavar="STORE", type=GIVEN, help="By default the store in the data directory."
)
@common_options
@pass_settings
def backup(settings: Settings, directory: str, description: str | None) -> None:
    """Back up the data directory into DIR, and verify the backup; the server may run.

    The backup shows one moment. Repeated into the same DIR, it writes only messages that are new. Express
    messages and the configuration are not part of it; it has the keys, so keep it as safe as the server.
    """
    settings.refuse_on()
    from msmq.service.data_directory.backup import backup as back_up

    output = settings.output
    with refusing():
        summary = back_up(Path(settings.data), description, Path(directory), _progress(output))
    output.progress("")
    found = {
        "backup": str(summary.path),
        "identifier": summary.facts.identifier,
        "store": summary.facts.store,
        "new_messages": summary.new_messages,
    }
    _print(output, found, summary.facts.sections)


@click.command
@click.argument("directory", metavar="DIR", type=GIVEN)
@click.option(
    "--new-identity",
    is_flag=True,
    help="Create another queue manager with its messages, beside the original.",
)
@click.option(
    "--storage",
    type=click.Choice(["log", "sqlite"]),
    help="The store to create.  [default: that of the original, or log]",
)
@common_options
@pass_settings
def restore(settings: Settings, directory: str, new_identity: bool, storage: str | None) -> None:
    """Restore the backup in DIR into a new data directory.

    The backup is verified first. The data directory must not exist, or be empty, and the original must not
    run. With --new-identity messages to other queue managers become dead letters, since the original sends
    them.
    """
    settings.refuse_on()
    from msmq.service.data_directory.backup import restore as restore_backup
    from msmq.service.data_directory.store_migration import run_reactor

    output, data = settings.output, Path(settings.data)
    with refusing():
        summary = run_reactor(
            lambda reactor: restore_backup(
                Path(directory), data, kind=storage, new_identity=new_identity, report=_progress(output)
            )
        )
    output.progress("")
    found: dict[str, Any] = {"data": str(data), "identifier": _braced(summary.identifier)}
    if new_identity:
        found |= _of_renewal(summary)
    _print(output, found, summary.sections)


@click.group
@common_options
def identity() -> None:
    """Show the identifier of the queue manager, keep it, or give a clone a new one."""


@identity.command("show")
@common_options
@pass_settings
def identity_show(settings: Settings) -> None:
    """Show the identifier of the server, and whether its data directory may be a copy."""
    settings.output.one(_of_status(settings.client.status()))
    settings.output.flush()


@identity.command("keep")
@common_options
@pass_settings
def identity_keep(settings: Settings) -> None:
    """Decide that a server that may be a clone is the original, which was moved: it sends again.

    Do this only if no other server with the same identifier runs.
    """
    settings.output.one(_of_status(settings.client.keep_identity()))
    settings.output.flush()


def _of_status(status: Mapping[str, Any]) -> dict[str, Any]:
    if status["state"] == "standby":
        # Its identifier is that of the active server, and unknown to it until it takes over.
        raise MQError(
            Status.MQ_ERROR_SERVICE_NOT_AVAILABLE,
            "this server is a standby, and another one is active; msmq status shows what it waits for",
        )
    return {key: status[key] for key in ("identifier", "identity", "clone_suspicion")}


@identity.command("renew")
@click.option(
    "--store", "description", metavar="STORE", type=GIVEN, help="By default the store in the data directory."
)
@yes_option
@common_options
@pass_settings
def identity_renew(settings: Settings, description: str | None, yes: bool) -> None:
    """Give the queue manager of a cloned computer or data directory a new identifier.

    The server must be stopped. Messages of its queues stay; those to other queue managers become dead
    letters, since the original sends them. The former data directory is kept under the printed name.
    """
    settings.refuse_on()
    from msmq.service.data_directory.backup import renew_identity
    from msmq.service.data_directory.store_migration import run_reactor

    output, data = settings.output, Path(settings.data)
    confirm(lambda: f"Give the queue manager in {data} a new identifier", yes=yes)
    with refusing():
        summary = run_reactor(lambda reactor: renew_identity(data, description, report=_progress(output)))
    output.progress("")
    output.one(
        {
            "data": str(data),
            "identifier": _braced(summary.identifier),
            **_of_renewal(summary),
            "former_data": str(summary.former),
        }
    )
    output.flush()


def _of_renewal(summary: RestoreSummary) -> dict[str, int]:
    """What a new identity changes and leaves out, by count."""
    return {
        "moved_to_dead_letters": summary.moved,
        "left_out_queues": summary.left_out.queues,
        "left_out_messages": summary.left_out.messages,
        "left_out_values": summary.left_out.values,
    }


def _progress(output: Output) -> Callable[[int], None]:
    rows = 0

    def report(more: int) -> None:
        nonlocal rows
        rows += more
        output.progress(f"{rows} rows read")

    return report


def _braced(identifier: Any) -> str:
    from msmq.wire.guid import braced

    return braced(identifier)


def _print(output: Output, found: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    parts = {
        name: {"rows": part.rows, "bytes": part.size, "sha256": part.sha256}
        for name, part in sections.items()
    }
    if output.as_json:
        output.object({**found, "sections": parts})
    else:
        output.one(found)
        output.write("")
        output.many([{"part": name, **part} for name, part in parts.items()], _PARTS)
    output.flush()
