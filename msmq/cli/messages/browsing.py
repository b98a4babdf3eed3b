"""C{msmq queue browse} and C{msmq outgoing browse}: messages at any depth of a queue, filtered."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, TypeVar

import click

from msmq.cli.messages.selection import complain_of_failures
from msmq.cli.options import Settings, common_options
from msmq.cli.output import complain

_C = TypeVar("_C", bound=Callable[..., object])

_COLUMNS: Final = ("lookup_id", "id", "arrived_time", "priority", "body_size", "class_name", "label")
_LIMIT: Final = 100


def browse_options(verb: _C) -> _C:
    """Add the options for filtering the messages of a queue."""
    for option in (
        common_options,
        click.option("--decode", is_flag=True, help="With --json, add the decoded body."),
        click.option(
            "--sort",
            metavar="KEY,...",
            help="Sort the messages found by these keys; -KEY in descending order.",
        ),
        click.option("--body", metavar="TEXT", help="Only messages whose body contains TEXT."),
        click.option(
            "--where",
            metavar="EXPRESSION",
            help="Only messages for which this JMESPath expression over their JSON keys is true.",
        ),
        click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(min=1),
            default=_LIMIT,
            show_default=True,
            help="The maximum number of messages.",
        ),
        click.option(
            "--after", metavar="LOOKUP", type=click.IntRange(min=0), help="Start after this lookup_id."
        ),
    ):
        verb = option(verb)
    return verb


def browse(settings: Settings, path: str, **wanted: Any) -> None:
    """Print the messages found, how to continue, and the progress of a long search."""
    output = settings.output
    decode, sort = wanted.pop("decode"), wanted.pop("sort")
    if decode and not output.as_json:
        raise click.UsageError("--decode adds to what --json prints")
    found: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    with settings.naming(path):
        for value in settings.client.browse(path, bodies=output.as_json, decode=decode, **wanted):
            if "unreadable" in value:
                complain(f"message {value['lookup_id']} cannot be read: {value['unreadable']}")
            elif "looked_at" in value:
                last = value
                if "end" not in value:
                    output.progress(f"{value['looked_at']} examined, {value['found']} found")
            elif output.as_json and sort is None:
                output.object(value)
            else:
                found.append(value)
    output.progress("")
    output.many(sorted_messages(found, sort) if sort else found, _COLUMNS)
    if last["end"] == "limit":
        output.text(f"there may be more: --after {last['after']}")
    complain_of_failures([last])
    output.flush()


def sorted_messages(found: list[dict[str, Any]], keys: str) -> list[dict[str, Any]]:
    """Messages in the order of some keys, the first the most significant; those without a value are last.

    @param keys: separated by commas; C{-} in front of one is for descending order.
    @raise click.UsageError: no message has such a key, or its values have no order.
    """
    for key in reversed([key.strip() for key in keys.split(",")]):
        name = key.removeprefix("-")
        if found and not any(name in value for value in found):
            raise click.UsageError(f"--sort {name}: a message has no such key; it has {', '.join(found[0])}")
        known = [value for value in found if value.get(name) is not None]
        try:
            known.sort(key=itemgetter(name), reverse=key != name)
        except TypeError:
            raise click.UsageError(f"--sort {name}: its values are neither texts nor numbers") from None
        found = [*known, *(value for value in found if value.get(name) is None)]
    return found
