"""C{msmq explain}: copies, events and acknowledgements of one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.control.protocol.joined_explanations import ServerExplanation, check_explanation, join_explanations
from msmq.structures.status import MQError

_SHOWN: Final = (
    "id",
    "label",
    "body_size",
    "priority",
    "delivery",
    "transactional",
    "sent_time",
    "source_queue_manager",
    "destination_queue",
)
_PLACES: Final = ("queue", "state", "arrived_time", "class_name", "abort_count", "move_count", "transaction")
_UNREADABLE: Final = ("queue", "lookup_id", "arrived_time", "reason")
_EVENTS: Final = ("time", "event", "class_name", "queue", "reason")
_REPORTS: Final = ("time", "event", "queue_manager", "next_hop", "hops", "target_queue", "queue")


@click.command
@click.argument("id")
@click.argument("host", nargs=-1)
@click.option(
    "--ask",
    metavar="HOST...",
    help="Other servers to query too: members by name as for --on, or endpoints as for --control.",
)
@common_options
@pass_settings
def explain(settings: Settings, id: str, host: tuple[str, ...], ask: str | None) -> None:
    """Show everything known about the message ID: where it is, what happened to it, and why.

    With --ask the answers of several servers are joined into one timeline, by the clock of each.
    A received message leaves no record, unless its queue keeps a journal.
    """
    if ask is None:
        if host:
            raise click.UsageError(f"{host[0]}: only one message is explained; servers follow --ask")
        known = settings.client.explain(id)
        _show(settings, known)
        return
    failed = _ask(settings, id, (ask, *host))
    if failed is not None:
        raise failed


def _show(settings: Settings, known: Mapping[str, Any]) -> None:
    output = settings.output
    if output.as_json:
        output.object(known)
    else:
        message = known["message"]
        output.one({key: message[key] for key in _SHOWN if key in message})
        output.write(f"\n{known['summary']}")
        output.table("places", known["places"], _PLACES)
        if known["unreadable"]:
            output.table("unreadable", known["unreadable"], _UNREADABLE)
        output.table("events", known["events"], _EVENTS)
        if known["reports"]:
            output.table("reports", known["reports"], _REPORTS)
    output.flush()


def _ask(settings: Settings, message: str, hosts: Sequence[str]) -> MQError | None:
    """Show the answers of this server and of others; returns the failure of a server that did not answer."""
    answers: list[ServerExplanation] = []
    failed: MQError | None = None
    for place in (None, *hosts):
        server = place or "."
        try:
            client = settings.client if place is None else settings.client_of(place)
            known = client.explain(message)
            check_explanation(known)
            answers.append(ServerExplanation(server, known, None))
        except MQError as error:
            failed = failed or MQError(error.status, f"{server}: {error.detail}")
            answers.append(ServerExplanation(server, None, str(error)))
    joined = join_explanations(message, answers)
    properties = joined["message"]
    output = settings.output
    if output.as_json:
        output.object(joined)
    else:
        output.one({key: properties[key] for key in _SHOWN if key in properties})
        output.table(
            "servers",
            [each | {"summary": each["summary"] or each["error"]} for each in joined["servers"]],
            ("server", "summary"),
        )
        output.table("places", joined["places"], ("server", *_PLACES))
        if joined["unreadable"]:
            output.table("unreadable", joined["unreadable"], ("server", *_UNREADABLE))
        output.table("events", joined["events"], ("time", "server", *_EVENTS[1:]))
        if joined["reports"]:
            output.table("reports", joined["reports"], ("server", *_REPORTS))
    output.flush()
    return failed
