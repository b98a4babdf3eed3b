"""C{msmq export}: writes stored messages to Parquet files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.structures.status import MQError, Status


@click.command
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@click.option("--output", "directory", metavar="DIR", type=GIVEN, required=True, help="The output directory.")
@click.option(
    "--log", is_flag=True, help="Export the message logs of these queues instead of their messages."
)
@click.option(
    "--store",
    metavar="STORE",
    type=GIVEN,
    help="The store: a data directory, a record log, a SQLite file, or postgresql://...; instead of --data.",
)
@click.option(
    "--decode", metavar="FORMAT", default="none", help="Decode bodies: auto, or the name of a format."
)
@common_options
@pass_settings
def export(
    settings: Settings, queues: tuple[str, ...], directory: str, log: bool, store: str | None, decode: str
) -> int:
    r"""Export the stored messages of each QUEUE to Parquet files; the server may run.

    QUEUE is the path of a queue, as .\private$\orders, of a journal or a dead-letter queue, the format name
    of an outgoing queue, or events for the event log.  Messages that are already in DIR are not written
    again.
    """
    settings.refuse_on()
    from msmq.interfaces.storage import StorageError
    from msmq.pipeline.bodies import reading
    from msmq.pipeline.files.errors import FilesError
    from msmq.pipeline.files.exporter import Exporter, export_request, store_at
    from msmq.pipeline.reading.errors import ReadingError

    output = settings.output
    try:
        how = reading(decode)
    except ValueError as error:
        raise click.UsageError(f"--decode: {error}") from error
    try:
        with store_at(store or settings.data) as opened, progress_bar() as bar:
            requests = [export_request(opened, name, log=log) for name in queues]
            exporter = Exporter(opened, Path(directory), reading=how, on_rows=bar.update)
            bar.length = exporter.expected(requests)
            done = list(exporter.run(requests))
    except (FilesError, ReadingError) as error:
        raise click.UsageError(str(error)) from error
    except StorageError as error:
        raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
    for exported in done:
        if exported.trimmed is not None:
            first, last = exported.trimmed
            complain(
                f"{exported.topic}: the entries {first} to {last} were trimmed before they were exported",
                "msmq export",
            )
        for problem in exported.problems:
            complain(f"{exported.topic}: not exported: {problem}", "msmq export")
        if exported.unreadable > len(exported.problems):
            more = exported.unreadable - len(exported.problems)
            complain(f"{exported.topic}: {more} more rows are damaged and not exported", "msmq export")
    columns = ("topic", "stream", "rows", "damaged", "files")
    output.many(
        [attrs.asdict(one, filter=lambda field, _: field.name != "problems") for one in done], columns
    )
    output.flush()
    return REFUSED if any(one.unreadable for one in done) else DONE


def progress_bar() -> Any:
    """A progress bar on standard error, if that is a terminal."""
    return click.progressbar(
        length=1,
        file=sys.stderr,
        hidden=sys.stderr is None or not sys.stderr.isatty(),
        show_pos=True,
        update_min_steps=1000,
    )
