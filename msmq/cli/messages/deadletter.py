"""C{msmq deadletter}: lists and counts dead letters, sends them again, discards them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import click

from msmq.cli.confirmation import yes_option
from msmq.cli.messages.message import print_message
from msmq.cli.messages.selection import (
    ChangeReport,
    change,
    complain_of_failures,
    literal,
    locate_message,
    read_document,
)
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.quoting import quoted
from msmq.spelling import closest
from msmq.structures.status import MQError, Status

_C = TypeVar("_C", bound=Callable[..., object])

_COLUMNS: Final = ("id", "queue", "class_name", "destination_queue", "arrived_time", "body_size", "label")
_QUEUES: Final = (".\\system$;deadletter", ".\\system$;deadxact")
_KEYS: Final = {
    "class": "class_name",
    "queue": "destination_queue",
    "reason": "reason",
    "label": "label",
    "source": "source_queue_manager",
}
_LISTED: Final = 1000
_CLASS: Final = "MQMSG_CLASS_"


class _GroupKeys(click.ParamType[list[str]]):
    """Option type: grouping keys, separated by commas."""

    name = "keys"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Parse and check the keys."""
        keys = [key.strip() for key in str(value).split(",")]
        for key in keys:
            if key not in _KEYS:
                self.fail(f"{key} is not one of {', '.join(_KEYS)}", param, ctx)
        return keys


class _ClassName(click.ParamType[str]):
    """Option type: the name of a message class, with or without its prefix; it is returned without."""

    name = "class"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no class has, since no message matches it."""
        from msmq.structures.packet.message_class import CLASS_NAMES

        name = str(value).upper().removeprefix(_CLASS)
        known = [each.removeprefix(_CLASS) for each in CLASS_NAMES]
        if name not in known:
            close = closest(name, known)
            meant = "" if close is None else f"; did you mean {close}?"
            self.fail(f"there is no class {value}{meant}", param, ctx)
        return name


class _QueueEnd(click.ParamType[str]):
    """Option type: a format name or the end of one, as which a local path is returned."""

    name = "queue"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse the end of every name: the filter would select all dead letters, to discard them."""
        end = str(value).removeprefix(".")
        if not end.strip():
            self.fail(f"{quoted(value)} is the end of every name; --all selects all dead letters", param, ctx)
        return end


class PastTime(click.ParamType[str]):
    """Option type: a time in ISO 8601, or an age: C{90s}, C{15m}, C{2h}, C{1d}."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parse the time into the server's format."""
        from msmq.cli.times import parse_time

        try:
            return parse_time(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _filters(verb: _C) -> _C:
    for option in (
        click.option(
            "--where",
            metavar="EXPRESSION",
            help="Only dead letters for which this JMESPath expression is true.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            type=PastTime(),
            help="Only dead letters that failed since TIME: 2026-01-31T12:00 (default UTC), or 15m ago.",
        ),
        click.option(
            "--queue",
            metavar="Q",
            type=_QueueEnd(),
            help="Only dead letters for Q, a format name or the end of one.",
        ),
        click.option(
            "--class",
            "kind",
            metavar="CLASS",
            type=_ClassName(),
            help="Only dead letters of a class, such as NACK_Q_EXCEED_QUOTA.",
        ),
    ):
        verb = option(verb)
    return verb


@attrs.frozen
class _Filters:
    """Filters of dead letters."""

    kind: str | None
    queue: str | None
    since: str | None
    where: str | None

    @property
    def expression(self) -> str | None:
        """The filters as one JMESPath expression."""
        terms = []
        if self.kind is not None:
            terms.append(f"class_name == {literal(_CLASS + self.kind)}")
        if self.queue is not None:
            terms.append(f"destination_queue && ends_with(destination_queue, {literal(self.queue)})")
        if self.since is not None:
            terms.append(f"arrived_time >= {literal(self.since)}")
        if self.where is not None:
            terms.append(f"({self.where})")
        return " && ".join(terms) or None


@click.group
@common_options
def deadletter() -> None:
    """List, show, requeue and discard dead letters."""


@deadletter.command("list")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="The maximum number for each dead-letter queue.  [default: 1000]",
)
@click.option(
    "--group-by",
    metavar="KEY,...",
    type=_GroupKeys(),
    help=f"Count them by {', '.join(_KEYS)}.",
)
@_filters
@common_options
@pass_settings
def deadletter_list(
    settings: Settings, /, limit: int | None, group_by: list[str] | None, **filters: Any
) -> None:
    """List the messages in both dead-letter queues, or count them."""
    output, where = settings.output, _Filters(**filters).expression
    if group_by is not None:
        if limit is not None:
            raise click.UsageError(
                "--limit and --group-by exclude each other: the groups count all dead letters"
            )
        _count(settings, group_by, where)
    elif where is None:
        output.many(settings.client.dead_letters(limit), _COLUMNS)
    else:
        found, ends = [], []
        for queue in _QUEUES:
            for value in settings.client.browse(queue, where=where, limit=limit or _LISTED, bodies=False):
                if "unreadable" in value:
                    complain(f"message {value['lookup_id']} of {queue} cannot be read: {value['unreadable']}")
                elif "end" in value:
                    ends.append(value)
                elif "looked_at" in value:
                    output.progress(f"{value['looked_at']} examined, {value['found']} found")
                else:
                    found.append({"queue": queue, "state": "available", **value})
        output.progress("")
        output.many(found, _COLUMNS)
        complain_of_failures(ends)
    output.flush()


def _count(settings: Settings, by: list[str], where: str | None) -> None:
    output = settings.output
    groups, ends = [], []
    for value in settings.client.dead_letter_groups(by, where):
        if "messages" in value:
            groups.append(value)
        elif "end" in value:
            ends.append(value)
        else:
            output.progress(f"{value['looked_at']} examined, {value['groups']} groups")
    output.progress("")
    output.many(groups, ("messages", *(_KEYS[key] for key in by), "bytes", "oldest", "newest"))
    for end in ends:
        if "unreadable" in end:
            complain(f"{end['unreadable']} dead letter(s) cannot be read, and are not counted")
    complain_of_failures(ends)


@deadletter.command("show")
@click.argument("id")
@click.option("--decode", is_flag=True, help="Read the body: XML, .NET, COM, WCF, JSON and others.")
@click.option("--hex", "as_hex", is_flag=True, help="Print the body as a hex dump.")
@common_options
@pass_settings
def deadletter_show(settings: Settings, id: str, decode: bool, as_hex: bool) -> None:
    """Show the dead letter ID and the reason of its failure."""
    queue, lookup_id = _locate(settings, id)
    explained = settings.client.explain(id)
    reasons = [event for event in explained["events"] if event["class"]]
    value = settings.client.message(queue, lookup_id, decode=decode, raw=as_hex)
    value["reason"] = reasons[-1]["reason"] if reasons else None
    if not as_hex:
        settings.output.text(f"failed      {reasons[-1]['time'] if reasons else '-'}")
        settings.output.text(f"reason      {value['reason'] or value['class_name']}")
        settings.output.text(f"destination {value['destination_queue'] or '-'}")
    print_message(settings, queue, value, as_hex=as_hex)
    settings.output.flush()


@deadletter.command("requeue")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--to", metavar="D", help="Send to this destination instead of the original one.")
@click.option("--all", "everything", is_flag=True, help="Select all dead letters.")
@click.option(
    "--edit",
    metavar="FILE",
    help="Send FILE instead of the one dead letter: JSON as show --json prints it; - is standard input.",
)
@click.option("--dry-run", is_flag=True, help="Send nothing; list the selected dead letters.")
@_filters
@common_options
@pass_settings
def deadletter_requeue(
    settings: Settings,
    /,
    ids: tuple[str, ...],
    to: str | None,
    everything: bool,
    edit: str | None,
    dry_run: bool,
    **filters: Any,
) -> int:
    """Send dead letters again to their destination queues, and print the new identifiers.

    Each message is sent and removed from its dead-letter queue atomically. A message that is refused stays
    and is reported, the others are sent, and the exit status is 1.
    """
    chosen = _chosen(ids, everything, _Filters(**filters))
    message = None
    if edit is not None:
        if len(ids) != 1:
            raise click.UsageError("--edit is for one ID")
        message = read_document(edit)
    report = _DeadLetterReport(settings, "requeued", dry_run, prints_new=True)
    return _change(settings, "requeue", chosen, report, options={"to": to, "message": message})


@deadletter.command("discard")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Select all dead letters.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; list the selected dead letters.")
@_filters
@yes_option
@common_options
@pass_settings
def deadletter_discard(
    settings: Settings, /, ids: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, **filters: Any
) -> int:
    """Remove dead letters; the event log records each removal.

    On a terminal the command asks for confirmation; elsewhere it requires --yes.
    """
    chosen = _chosen(ids, everything, _Filters(**filters))
    report = ChangeReport(settings, "discarded", dry_run)
    return _change(settings, "remove", chosen, report, question="Discard", yes=yes)


def _chosen(ids: tuple[str, ...], everything: bool, filters: _Filters) -> tuple[str, ...] | str | None:
    """Identifiers, an expression, or C{None} for all."""
    where = filters.expression
    if [bool(ids), where is not None, everything].count(True) != 1:
        raise click.UsageError(
            "select dead letters: ID..., or --class, --queue, --since and --where, or --all"
        )
    return ids or where


def _change(
    settings: Settings,
    action: str,
    chosen: tuple[str, ...] | str | None,
    report: ChangeReport,
    question: str | None = None,
    yes: bool = False,
    options: dict[str, object] | None = None,
) -> int:
    if isinstance(chosen, tuple):
        parts: dict[str, dict[str, Any]] = {}
        for text in chosen:
            queue, lookup_id = _locate(settings, text)
            parts.setdefault(queue, {"lookup_ids": []})["lookup_ids"].append(lookup_id)
    else:
        part = {"everything": True} if chosen is None else {"where": chosen}
        parts = {queue: part for queue in _QUEUES}
    return change(settings, action, parts, report, question=question, yes=yes, options=options)


class _DeadLetterReport(ChangeReport):
    """Report of a requeue; C{id} is the identifier of the new message."""

    def printed(self, queue: str, value: dict[str, Any]) -> dict[str, Any]:
        """The JSON object of one result."""
        if "new_id" not in value:
            return super().printed(queue, value)
        return {"id": value["new_id"], "dead_letter": value["id"], "queue": queue}


def _locate(settings: Settings, identifier: str) -> tuple[str, int]:
    for queue in _QUEUES:
        try:
            return locate_message(settings, identifier, queue)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_MESSAGE_NOT_FOUND:
                raise
    raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"there is no dead letter {identifier}")
