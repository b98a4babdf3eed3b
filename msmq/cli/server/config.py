"""C{msmq config}: checks a configuration file, and shows and reloads that of a running server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import Output, complain
from msmq.quoting import quoted

if TYPE_CHECKING:
    from msmq.service.configuration import ConfigurationProblem

_COLUMNS: Final = ("key", "value", "unit", "source", "line", "applied_by", "differs", "next")


@click.group
@common_options
def config() -> None:
    """Check, show and reload the configuration of a server."""


@config.command("check")
@click.argument("file")
@common_options
@pass_settings
def config_check(settings: Settings, file: str) -> int:
    """List all faults of the configuration in FILE, each with its line.

    Status 1 if there is a fault; a warning is not a fault.
    """
    settings.refuse_on()
    from msmq.service.configuration import check

    return report_problems(settings.output, check(file), file, "msmq config check")


def report_problems(output: Output, problems: Sequence[ConfigurationProblem], file: str, command: str) -> int:
    """Print the problems of a configuration; returns the exit status.

    The first fault is an error line too, except on a terminal that shows both streams.
    """
    for problem in problems:
        if output.as_json:
            keys = ("path", "line", "key", "problem")
            found = {key: getattr(problem, key) for key in keys}
            output.object({**found, "warning": problem.is_warning})
        else:
            output.write(str(problem))
    output.flush()
    faults = [problem for problem in problems if not problem.is_warning]
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        if not output.is_read_with_errors:
            complain(f"{faults[0]}{more}", command)
        return REFUSED
    if problems:
        return DONE
    output.text(f"{file}: no problems found")
    return DONE


@config.command("show")
@click.argument("key", nargs=-1)
@click.option("--all", "all_keys", is_flag=True, help="Every key, and not only those that are set.")
@common_options
@pass_settings
def config_show(settings: Settings, key: tuple[str, ...], all_keys: bool) -> None:
    """Show the keys that are set, where, and the values that the files have now.

    With KEYs, limits.quota for example, only these; a table stands for its keys. Secrets are left out.
    """
    report = settings.client.configuration()
    entries = report["entries"]
    if key:
        known = {each["key"] for each in entries} | {each["key"].partition(".")[0] for each in entries}
        for each in key:
            if each not in known:
                raise click.UsageError(f"there is no key {quoted(each)}")
    shown = [
        {name: each[name] for name in _COLUMNS}
        for each in entries
        if (each["key"] in key or each["key"].partition(".")[0] in key)
        or (not key and (all_keys or each["source"] or each["differs"]))
    ]
    settings.output.many(shown, _COLUMNS)
    settings.output.flush()
    for problem in report["reload"]["problems"]:
        complain(f"a reload would be refused: {problem}", "msmq config show")


@config.command("reload")
@common_options
@pass_settings
def config_reload(settings: Settings) -> None:
    """Reload the configuration of the server.

    [hosts], [limits], [log], [timers], [security], [web], tokens, certificates and the enterprise file
    take effect. Prints what changed, and what needs a restart. A mistake in the file changes nothing.
    """
    settings.output.one(settings.client.reload())
    settings.output.flush()
