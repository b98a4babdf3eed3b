"""C{msmq enterprise}: checks an enterprise file; the group of commands about members and links."""

from __future__ import annotations

from pathlib import Path

import click

from msmq.cli.enterprise.enrollment import join, leave, link, role, site
from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain


@click.group
@common_options
def enterprise() -> None:
    """Set the members, roles, sites and links of an enterprise, and check the file that describes one."""


for _command in (join, leave, role, site, link):
    enterprise.add_command(_command)


@enterprise.command("check")
@click.argument("file")
@common_options
@pass_settings
def enterprise_check(settings: Settings, file: str) -> int:
    """List all faults and probable mistakes of the enterprise in FILE, each with its line.

    Status 1 if a server would refuse the file; only advice is status 0.
    """
    settings.refuse_on()
    from msmq.directory.enterprise_file import check_enterprise

    output = settings.output
    problems = check_enterprise(Path(file))
    for problem in problems:
        if output.as_json:
            keys = ("path", "line", "key", "problem", "is_fault")
            output.object({key: getattr(problem, key) for key in keys})
        else:
            output.write(str(problem) if problem.is_fault else f"{problem} (advice)")
    output.flush()
    faults = [problem for problem in problems if problem.is_fault]
    if faults:
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        complain(f"{faults[0]}{more}", "msmq enterprise check")
        return REFUSED
    output.text(f"{file}: no problems found")
    return DONE
