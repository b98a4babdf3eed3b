"""C{msmq route} and C{msmq topology}: routes, next hops, sites and links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.routing.topology import Topology

_FORMATS: Final = ("text", "dot")


def _enterprise_option(command: Any) -> Any:
    return click.option(
        "--enterprise",
        metavar="FILE",
        help="Use an enterprise file instead of a server.",
    )(command)


@click.command
@click.argument("source")
@click.argument("destination")
@_enterprise_option
@click.option(
    "--down",
    metavar="NAME,...",
    default="",
    help="Show the route while these queue managers are down.",
)
@common_options
@pass_settings
def route(settings: Settings, source: str, destination: str, enterprise: str | None, down: str) -> int:
    """Show the route of a message from SOURCE to DESTINATION, queue managers by name or GUID.

    Shows each hop with its cost and reason.  Status 1 if the message does not arrive, or waits.
    """
    from msmq.routing.topology_description import describe_route, find_route

    if enterprise is not None:
        settings.refuse_on()

    members = [name.strip() for name in down.split(",") if name.strip()]
    if enterprise is None:
        answer = settings.client.route(source, destination, members)
    else:
        topology = _topology(enterprise)
        answer = describe_route(topology, find_route(topology, source, destination, members))
    output = settings.output
    if output.as_json:
        output.object(answer)
    elif answer["hops"]:
        rows = [{"hop": number, **hop} for number, hop in enumerate(answer["hops"], 1)]
        output.many(rows, ("hop", "name", "site", "cost", "total", "reason"))
    else:
        output.text(f"{answer['source']} has the message already" if not answer["problem"] else "no hop")
    if not output.as_json and answer["connector_queue"]:
        server = answer["hops"][-1]["name"] if answer["hops"] else answer["source"]
        output.write(
            f"{answer['destination']} is in a foreign site: {server} stores the message in"
            f" {answer['connector_queue']} for a connector program, if that queue exists; otherwise "
            "the message waits there"
        )
    output.flush()
    if answer["problem"]:
        complain(answer["problem"], "msmq route")
        return REFUSED
    return DONE


@click.command
@_enterprise_option
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="text",
    help="Text, or dot for Graphviz.  [default: text]",
)
@common_options
@pass_settings
def topology(settings: Settings, enterprise: str | None, form: str) -> None:
    """Show the sites, links and queue managers of the enterprise."""
    from msmq.routing.topology_description import describe_topology, to_graphviz

    if enterprise is not None:
        settings.refuse_on()

    answer = settings.client.topology() if enterprise is None else describe_topology(_topology(enterprise))
    output = settings.output
    if output.as_json:
        output.object(answer)
    elif form == "dot":
        output.write(to_graphviz(answer))
    else:
        output.table("sites", answer["sites"], ("name", "identifier", "gates", "foreign"))
        output.table("links", answer["links"], ("sites", "cost", "gates"))
        output.table(
            "queue managers",
            answer["queue_managers"],
            ("name", "identifier", "sites", "routing_server", "address"),
        )
    output.flush()


def _topology(enterprise: str) -> Topology:
    from msmq.directory.enterprise_file import EnterpriseFileError, load_enterprise

    try:
        return load_enterprise(Path(enterprise)).topology
    except EnterpriseFileError as error:
        more = f", and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
        raise MQError(Status.MQ_ERROR_DS_ERROR, f"{error.problems[0]}{more}") from error
