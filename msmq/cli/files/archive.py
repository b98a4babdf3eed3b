"""C{msmq archive}: writes, shows, verifies and erases the archive of a store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.files.export import progress_bar
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.pipeline.archive.archiver import ArchiveProgress


@click.group
@common_options
def archive() -> None:
    """Write, show, verify and erase an archive of logs, journals, dead letters and events."""


@archive.command("update")
@click.argument("directory", metavar="DIR")
@click.option(
    "--store",
    metavar="STORE",
    help="The store: a data directory, a record log, a SQLite file, or postgresql://...; instead of --data.",
)
@click.option("--compact", is_flag=True, help="Also write the newest rows as Parquet.")
@click.option("--keep-days", type=click.IntRange(1, 36_500), metavar="N", help="Remove rows of older dates.")
@click.option("--follow", is_flag=True, help="Continue with what is new, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 86_400),
    default=5.0,
    metavar="S",
    help="Seconds between two updates with --follow; default: 5.",
)
@common_options
@pass_settings
def archive_update(
    settings: Settings,
    directory: str,
    store: str | None,
    compact: bool,
    keep_days: int | None,
    follow: bool,
    interval: float,
) -> None:
    """Archive what the store has gained since the last time into DIR; the server may run.

    DIR is created if it does not exist. Each row is archived once, whatever is interrupted.
    """
    if follow and compact:
        raise click.UsageError("--compact and --follow exclude each other")

    def report(progress: ArchiveProgress) -> None:
        for gap in progress.gaps:
            complain(gap, "msmq archive")
        settings.output.one({"rows": progress.rows, "behind": progress.behind})
        settings.output.flush()

    def is_over() -> bool:
        time.sleep(interval)
        return False

    with _refusing():
        from msmq.pipeline.archive.archiver import Archiver
        from msmq.pipeline.archive.following import follow as run
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.files.errors import parquet
        from msmq.pipeline.files.exporter import store_at

        parquet()
        with store_at(store or settings.data) as opened:
            archiver = Archiver(opened, Archive(Path(directory)), keep_days=keep_days or 0)
            if follow:
                with suppress(KeyboardInterrupt):
                    run(archiver, is_over, report, lambda line: complain(line, "msmq archive"))
                return
            progress = archiver.run()
            if compact:
                archiver.compact()
    report(progress)


@archive.command("show")
@click.argument("directory", metavar="DIR")
@common_options
@pass_settings
def archive_show(settings: Settings, directory: str) -> None:
    """Show the streams of the archive in DIR, and up to which number each is archived."""
    with _refusing():
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import summaries

        found = summaries(Archive(Path(directory)))
    columns = ("topic", "stream", "rows", "files", "bytes", "next", "gaps", "erased", "expired")
    settings.output.many([attrs.asdict(each) for each in found], columns)
    settings.output.flush()


@archive.command("check")
@click.argument("directory", metavar="DIR")
@common_options
@pass_settings
def archive_check(settings: Settings, directory: str) -> int:
    """Verify every file of the archive in DIR, and print what is wrong; the status is 1 then."""
    with _refusing(), progress_bar() as bar:
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import problems

        found = list(problems(Archive(Path(directory)), bar.update))
    settings.output.many([{"problem": each} for each in found], ("problem",))
    settings.output.flush()
    if found:
        return REFUSED
    return DONE


@archive.command("erase")
@click.argument("directory", metavar="DIR")
@click.option(
    "--where",
    metavar="CONDITION",
    required=True,
    help="The rows: COLUMN = VALUE, with = != < <= > >=, joined by and; texts in single quotes.",
)
@click.option("--dry-run", is_flag=True, help="Only print how many rows fulfil the condition.")
@yes_option
@common_options
@pass_settings
def archive_erase(settings: Settings, directory: str, where: str, dry_run: bool, yes: bool) -> None:
    """Erase the rows of the archive in DIR that fulfil a condition; they cannot be restored.

    The files that have such rows are written again without them. Erased rows are not archived again.
    """
    with _refusing():
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import erase
        from msmq.pipeline.archive.where import parse_condition

        condition = parse_condition(where)
        found = erase(Archive(Path(directory)), condition, time.time(), dry_run=True)
        if found and not dry_run:
            total = sum(found.values())
            confirm(lambda: f"Erase {total} rows of {directory}", yes=yes)
            found = erase(Archive(Path(directory)), condition, time.time())
    rows = [
        {"topic": name.rpartition(" ")[0], "stream": name.rpartition(" ")[2], "rows": count}
        for name, count in found.items()
    ]
    settings.output.many(rows, ("topic", "stream", "rows"))
    settings.output.flush()


@contextmanager
def _refusing() -> Iterator[None]:
    """Report errors of the archive and the store as a refusal."""
    from msmq.interfaces.storage import StorageError
    from msmq.pipeline.archive.errors import ArchiveError
    from msmq.pipeline.files.errors import FilesError

    try:
        yield
    except (ArchiveError, FilesError) as error:
        raise click.UsageError(str(error)) from error
    except StorageError as error:
        raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
