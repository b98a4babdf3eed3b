"""C{msmq explain}."""

from __future__ import annotations

from typing import Final

import click

from msmq.cli.options import Settings, common_options, pass_settings

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
_EVENTS: Final = ("time", "event", "class_name", "queue", "reason")
_REPORTS: Final = ("time", "event", "queue_manager", "next_hop", "hops", "target_queue", "queue")


@click.command
@click.argument("id")
@common_options
@pass_settings
def explain(settings: Settings, id: str) -> None:
    """Tell everything that is known of the message ID: where it is, what happened to it, and why.

    A message that was received leaves no trace, unless its queue keeps a journal.
    """
    output = settings.output
    known = settings.client.explain(id)
    if output.as_json:
        output.object(known)
    else:
        message, places, events = known["message"], known["places"], known["events"]
        output.one({key: message[key] for key in _SHOWN if key in message})
        output.table("places", places, _PLACES)
        output.table("events", events, _EVENTS)
        reports = known["reports"]
        if reports:
            output.table("reports", reports, _REPORTS)
        if not places and not events and not reports:
            output.write("\nNo record of it here: never seen, received, or forwarded.")
    output.flush()
