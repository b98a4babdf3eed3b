"""C{msmq store}: migrates, verifies, repairs and deletes message stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.output import system_error
from msmq.structures.status import MQError, Status


@click.group
@common_options
def store() -> None:
    """Migrate, check, repair and discard message stores."""


@store.command("migrate")
@click.option(
    "--to",
    "target",
    metavar="STORE",
    type=GIVEN,
    required=True,
    help="log, sqlite or postgresql://..., or either:PATH.",
)
@click.option(
    "--from", "source", metavar="STORE", type=GIVEN, help="By default the store in the data directory."
)
@click.option(
    "--accept-loss", is_flag=True, help="Migrate a source that is not the store used last, or that lost data."
)
@common_options
@pass_settings
def store_migrate(settings: Settings, target: str, source: str | None, accept_loss: bool) -> None:
    """Migrate all data of the store in the data directory to another store.

    The server must be stopped. The source stays unchanged until the target is verified by counts and hashes;
    repeat the command to resume an interrupted migration. Afterwards, set [storage] backend to STORE.
    """
    settings.refuse_on()
    from msmq.service.data_directory.store_migration import migrate

    output = settings.output
    rows = {"copied": 0, "verified": 0}

    def report(step: str, more: int) -> None:
        if step in rows:
            rows[step] += more
            output.progress(f"{rows['copied']} rows copied, {rows['verified']} verified")

    with refusing():
        summary = migrate(Path(settings.data), source, target, report, accepts_loss=accept_loss)
    output.progress("")
    sections: dict[str, Any] = {
        name: {"rows": part.rows, "bytes": part.size, "sha256": part.sha256}
        for name, part in summary.sections.items()
    }
    if output.as_json:
        output.object(
            {
                "source": summary.source,
                "target": summary.target,
                "resumed": summary.is_resumed,
                "sections": sections,
            }
        )
    else:
        if sections:
            columns = ("part", "rows", "bytes", "sha256")
            output.many([{"part": name, **part} for name, part in sections.items()], columns)
        kind = target.partition(":")[0]
        output.text(f"{summary.source} was moved to {summary.target}")
        output.text(f"Set [storage] backend to this {kind} store; the old one stays until it is discarded.")
    output.flush()


@store.command("discard")
@click.argument("description", metavar="STORE", type=GIVEN)
@yes_option
@common_options
@pass_settings
def store_discard(settings: Settings, description: str, yes: bool) -> None:
    """Delete STORE after its migration to another store: sqlite, log or postgresql://..., or either:PATH.

    On a terminal the command asks for confirmation.
    """
    settings.refuse_on()
    # Existing scripts do not have --yes.
    confirm(lambda: f"Delete the store {description} of {settings.data}", yes=yes, is_required=False)
    from msmq.service.data_directory.store_migration import discard

    with refusing():
        store, size = discard(Path(settings.data), description)
    settings.output.one({"discarded": store, "bytes": size})
    settings.output.flush()


@contextmanager
def refusing() -> Iterator[None]:
    """Convert refusals to errors of one line."""
    from msmq.interfaces.storage import StorageError
    from msmq.service.data_directory.data_lock import DataDirectoryError
    from msmq.service.data_directory.identity import IdentityError

    try:
        yield
    except (StorageError, DataDirectoryError, IdentityError) as error:
        raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
    except OSError as error:
        # Most often the directory of another user.
        raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, system_error(error)) from error


@store.command("check")
@click.option(
    "--store", "description", metavar="STORE", type=GIVEN, help="By default the store in the data directory."
)
@common_options
@pass_settings
def store_check(settings: Settings, description: str | None) -> None:
    """Verify all data in the store of the data directory; the server may run.

    Nothing is changed. Damaged or missing data is reported, one line each, and the exit status is 1.
    """
    settings.refuse_on()
    from msmq.service.data_directory.store_check import check

    with refusing():
        found = check(Path(settings.data), description)
    output = settings.output
    if output.as_json:
        output.object(
            {"store": found.location, "rows": found.rows, "bytes": found.size, "problems": found.problems}
        )
    else:
        for problem in found.problems:
            output.text(problem)
        output.text(f"{found.location}: {found.rows} rows verified, {found.size} bytes of packets")
    output.flush()
    _end(len(found.problems), found.location, "msmq store repair moves it into quarantine")


@store.command("repair")
@click.option(
    "--store", "description", metavar="STORE", type=GIVEN, help="By default the store in the data directory."
)
@common_options
@pass_settings
def store_repair(settings: Settings, description: str | None) -> None:
    """Move damaged data into quarantine, so that the server starts with the rest.

    The server must be stopped. Unreadable data is kept in a directory named quarantine, and the event log
    records each message that is removed from its queue. The exit status is 1 if damage remains.
    """
    settings.refuse_on()
    from msmq.service.data_directory.store_check import repair

    with refusing():
        result = repair(Path(settings.data), description)
    before, after = result.found, result.left
    output = settings.output
    if output.as_json:
        output.object(
            {
                "store": after.location,
                "repaired": before.problems,
                "losses": result.losses,
                "left": after.problems,
            }
        )
    else:
        for line in dict.fromkeys([*before.problems, *result.losses]):
            output.text(line)
        output.text(f"{after.location}: {len(before.problems)} found, {len(after.problems)} left")
    output.flush()
    _end(len(after.problems), after.location, "restore the store from a backup")


def _end(problems: int, store: str, remedy: str) -> None:
    if problems:
        raise MQError(
            Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, f"{store}: {problems} damaged or missing; {remedy}"
        )
