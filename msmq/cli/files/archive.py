"""C{msmq archive}: the archive that a server keeps, and archives that the command writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from msmq.cli.confirmation import confirm, yes_option
from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.files.export import progress_bar
from msmq.cli.options import GIVEN, SecondsOption, Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.pipeline.archive.archiver import ArchiveProgress

_PACKAGES: Final = ("numpy", "pyarrow")
"""What C{msmq[parquet]} installs."""


@click.group
@common_options
def archive() -> None:
    """Write, show, verify and erase an archive of logs, journals, dead letters and events."""


@archive.command("update")
@click.argument("directory", metavar="DIR", type=GIVEN)
@click.option(
    "--store",
    metavar="STORE",
    type=GIVEN,
    help="The store: a data directory, a record log, a SQLite file, or postgresql://...; instead of --data.",
)
@click.option("--compact", is_flag=True, help="Also write the newest rows as Parquet.")
@click.option("--keep-days", type=click.IntRange(1, 36_500), metavar="N", help="Remove rows of older dates.")
@click.option("--follow", is_flag=True, help="Continue with what is new, until Ctrl-C.")
@click.option(
    "--interval",
    type=SecondsOption(0.1, 86_400),
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
    settings.refuse_on()
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
        from msmq.pipeline.archive.upkeep import compact as write_parquet
        from msmq.pipeline.files.errors import parquet
        from msmq.pipeline.files.exporter import store_at

        parquet()
        with store_at(store or settings.data) as opened:
            archiver = Archiver(opened, Archive(Path(directory)), keep_days=keep_days or 0)
            try:
                if follow:
                    with suppress(KeyboardInterrupt):
                        run(archiver, is_over, report, lambda line: complain(line, "msmq archive"))
                    return
                progress = archiver.run()
            finally:
                # Those of a pass that has failed: the manifests have them, so no other pass reports them.
                for gap in archiver.take_gaps():
                    complain(gap, "msmq archive")
            report(progress)
            if compact:
                write_parquet(Archive(Path(directory)), time.time())


@archive.command("show")
@click.argument("directory", metavar="DIR", type=GIVEN)
@common_options
@pass_settings
def archive_show(settings: Settings, directory: str) -> None:
    """Show the streams of the archive in DIR, and up to which number each is archived."""
    settings.refuse_on()
    with _refusing():
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import summaries

        found = summaries(Archive(Path(directory)))
    columns = ("topic", "stream", "rows", "files", "bytes", "next", "gaps", "erased", "expired")
    settings.output.many([attrs.asdict(each) for each in found], columns)
    settings.output.flush()


@archive.command("check")
@click.argument("directory", metavar="DIR", type=GIVEN)
@common_options
@pass_settings
def archive_check(settings: Settings, directory: str) -> int:
    """Verify every file of the archive in DIR, and print what is wrong; the status is 1 then."""
    settings.refuse_on()
    with _refusing(), progress_bar() as bar:
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import problems

        found = list(problems(Archive(Path(directory)), bar.update))
    settings.output.many([{"problem": each} for each in found], ("problem",))
    settings.output.flush()
    if found:
        return REFUSED
    return DONE


@archive.command("status")
@common_options
@pass_settings
def archive_status(settings: Settings) -> None:
    """Show the state of the archive that the server keeps, as [archive] of its configuration says."""
    settings.output.one(settings.client.archive())
    settings.output.flush()


@archive.command("compact")
@click.argument("directory", metavar="[DIR]", type=GIVEN, required=False)
@common_options
@pass_settings
def archive_compact(settings: Settings, directory: str | None) -> None:
    """Write all rows of the archive of the server, or of the archive in DIR, as Parquet."""
    if directory is None:
        settings.output.one(settings.client.compact_archive())
        settings.output.flush()
        return
    settings.refuse_on()
    with _refusing():
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import compact

        compact(Archive(Path(directory)), time.time())


@archive.command("erase")
@click.argument("directory", metavar="[DIR]", type=GIVEN, required=False)
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
def archive_erase(settings: Settings, directory: str | None, where: str, dry_run: bool, yes: bool) -> None:
    """Erase the rows of the archive of the server, or of the archive in DIR, that fulfil a condition.

    They cannot be restored: the files that have such rows are written again without them. Erased rows are not
    archived again. The event log records the time, the columns of the condition and the numbers of rows.
    """
    erase = _erasure(settings, directory)
    with _refusing():
        rows = erase(where, True)
        if rows and not dry_run:
            total = sum(row["rows"] for row in rows)
            confirm(lambda: f"Erase {total} rows of {directory or 'the archive of the server'}", yes=yes)
            rows = erase(where, False)
    settings.output.many(rows, ("topic", "stream", "rows"))
    settings.output.flush()


def _erasure(settings: Settings, directory: str | None) -> Callable[[str, bool], list[dict[str, Any]]]:
    """Erases by the server, or without a server in a directory."""
    if directory is None:
        return lambda where, dry_run: settings.client.erase_archived(where, dry_run=dry_run)
    settings.refuse_on()

    def erase_in(where: str, dry_run: bool) -> list[dict[str, Any]]:
        from msmq.pipeline.archive.manifest import Archive
        from msmq.pipeline.archive.upkeep import erase
        from msmq.pipeline.archive.where import parse_condition

        found = erase(Archive(Path(directory)), parse_condition(where), time.time(), dry_run=dry_run)
        return [
            {"topic": name.rpartition(" ")[0], "stream": name.rpartition(" ")[2], "rows": count}
            for name, count in found.items()
        ]

    return erase_in


@contextmanager
def _refusing() -> Iterator[None]:
    """Report errors of the archive and the store, and a missing package, as a refusal."""
    from msmq.interfaces.storage import StorageError
    from msmq.pipeline.files.errors import FilesError

    try:
        yield
    except FilesError as error:
        raise click.UsageError(str(error)) from error
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise click.UsageError(f"an archive needs {package}: pip install 'msmq[parquet]'") from error
    except StorageError as error:
        raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
