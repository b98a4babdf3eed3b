"""C{msmq config}."""

from __future__ import annotations

import click

from msmq.cli.options import Settings, common_options, pass_settings


@click.group
@common_options
def config() -> None:
    """Look after the configuration of a server."""


@config.command("check")
@click.argument("file")
@common_options
@pass_settings
def config_check(settings: Settings, file: str) -> int:
    """Tell everything that is wrong with the configuration in FILE, each with its line.

    Status 1 if anything is.
    """
    from msmq.cli.command import DONE, REFUSED
    from msmq.service.configuration import check

    output = settings.output
    problems = check(file)
    for problem in problems:
        if output.as_json:
            keys = ("path", "line", "key", "problem")
            output.object({key: getattr(problem, key) for key in keys})
        else:
            output.write(str(problem))
    output.flush()
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        click.echo(f"msmq config check: {problems[0]}{more}", err=True)
        return REFUSED
    output.text(f"{file}: nothing is wrong")
    return DONE
