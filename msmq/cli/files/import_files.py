"""C{msmq import}: sends messages from Parquet files."""

from __future__ import annotations

from pathlib import Path

import click

from msmq.cli.files.export import progress_bar
from msmq.cli.options import GIVEN, Settings, common_options, pass_settings
from msmq.cli.output import complain

_SHOWN = 20


@click.command("import")
@click.argument("paths", metavar="PATH...", type=GIVEN, nargs=-1, required=True)
@click.option("--into", metavar="QUEUE", type=GIVEN, help="The destination of the copies, as in send.")
@click.option("--topic", metavar="QUEUE", default="", help="Send only messages exported from this queue.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, without sending.")
@click.option(
    "--key", metavar="T", default="", help="With a new text, send messages again that were imported before."
)
@click.option("--express", is_flag=True, help="Copies of express messages are express, not recoverable.")
@click.option("--progress", metavar="F", type=GIVEN, help="The file that records the progress.")
@common_options
@pass_settings
def import_(
    settings: Settings,
    paths: tuple[str, ...],
    into: str | None,
    topic: str,
    dry_run: bool,
    key: str,
    express: bool,
    progress: str | None,
) -> int:
    """Send copies of the messages in exported files or directories, and print their number.

    Without --into each goes to the queue from which it was exported; dead letters and messages of outgoing
    queues are left out then.  An interrupted import resumes when it is started again.
    """
    from msmq.pipeline.files.errors import FilesError
    from msmq.pipeline.files.import_files import files_in
    from msmq.pipeline.files.import_progress import PROGRESS_NAME, ImportProgress
    from msmq.pipeline.files.import_rows import Row
    from msmq.pipeline.files.importer import Importer

    problems = 0

    def skip(row: Row | str, reason: str) -> None:
        nonlocal problems
        problems += 1
        if problems <= _SHOWN:
            complain(f"{row}: {reason}", "msmq import")

    try:
        files = files_in(
            [Path(path) for path in paths],
            topic=topic,
            on_left_out=lambda line: complain(line, "msmq import"),
        )
        with progress_bar() as bar:
            importer = Importer(
                settings.client,
                files,
                into=into,
                topic=topic,
                key=key,
                keep_express=express,
                on_skipped=skip,
                on_rows=bar.update,
            )
            bar.length = importer.expected()
            if dry_run:
                done = importer.rehearse()
            else:
                first = Path(paths[0])
                where = first if first.is_dir() else first.parent
                noted = Path(progress) if progress else where / f"{PROGRESS_NAME}-{importer.task}.json"
                done = importer.run(ImportProgress(noted, importer.task))
    except FilesError as error:
        raise click.UsageError(str(error)) from error
    if problems > _SHOWN:
        complain(f"and {problems - _SHOWN} more", "msmq import")
    output = settings.output
    rows = [
        {"destination": destination, "messages": count, "dry_run": dry_run}
        for destination, count in done.messages.items()
    ]
    output.many(rows, ("destination", "messages", "dry_run"))
    output.flush()
    return 1 if done.skipped else 0
