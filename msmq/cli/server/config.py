"""C{msmq config}: checks a configuration file, and reloads that of a running server."""

from __future__ import annotations

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain


@click.group
@common_options
def config() -> None:
    """Check and reload the configuration of a server."""


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

    output = settings.output
    problems = check(file)
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
        complain(f"{faults[0]}{more}", "msmq config check")
        return REFUSED
    if problems:
        return DONE
    output.text(f"{file}: no problems found")
    return DONE


@config.command("reload")
@common_options
@pass_settings
def config_reload(settings: Settings) -> None:
    """Reload the configuration of the server.

    [hosts], [limits], [timers], [security], tokens, certificates and the enterprise file take effect.
    Prints what changed, and what needs a restart. A mistake in the file changes nothing.
    """
    settings.output.one(settings.client.reload())
    settings.output.flush()
