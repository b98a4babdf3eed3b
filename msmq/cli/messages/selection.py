"""Selection of the messages that a command changes, and the report of the changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import click

from msmq.cli.confirmation import confirm
from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings
from msmq.cli.output import complain
from msmq.cli.standard_input import standard_input
from msmq.control.protocol.records import json_problem, parse_json
from msmq.structures.status import MQError, Status

_C = TypeVar("_C", bound=Callable[..., object])

_DIGITS: Final = 20
"""Digits of the largest LookupIdentifier."""

COLUMNS: Final = ("lookup_id", "id", "arrived_time", "priority", "body_size", "class_name", "label")


def selection_options(verb: _C) -> _C:
    """Add the options that select messages to a command."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Change nothing; list the messages."),
        click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N messages."),
        click.option("--all", "everything", is_flag=True, help="All messages of the queue."),
        click.option("--body", metavar="TEXT", help="Only messages whose body contains TEXT."),
        click.option(
            "--where",
            metavar="EXPRESSION",
            help="Only messages for which this JMESPath expression over their JSON keys is true.",
        ),
        click.option("--queue", metavar="PATH", help="The queue of the messages."),
    ):
        verb = option(verb)
    return verb


@attrs.frozen
class Selection:
    """A selection of messages: by identifiers, or by a filter on a queue.

    @ivar ids: message identifiers, or with C{queue} LookupIdentifiers.
    @ivar queue: the queue of the messages; C{None} to find the queues by the identifiers.
    """

    ids: Sequence[str]
    queue: str | None
    where: str | None = None
    body: str | None = None
    everything: bool = False
    limit: int | None = None

    def check(self) -> None:
        """Check that exactly one kind of selection was chosen.

        @raise click.UsageError: none or several were chosen.
        """
        is_matching = self.where is not None or self.body is not None
        if [bool(self.ids), is_matching, self.everything].count(True) != 1:
            raise click.UsageError("select messages: ID..., or --queue PATH with --where, --body or --all")
        if self.queue is None and not self.ids:
            raise click.UsageError("--where, --body and --all need --queue")
        if self.body == "":
            raise click.UsageError("--body: an empty text is in every body; --all selects all messages")
        if self.ids and self.limit is not None:
            raise click.UsageError("--limit needs --where, --body or --all")

    def parts(self, settings: Settings) -> dict[str, dict[str, Any]]:
        """The selection of each queue.

        @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND for an identifier without a message in the queue.
        @raise click.UsageError: several queues hold a message with one of the identifiers.
        """
        if self.ids:
            return {path: {"lookup_ids": ids} for path, ids in self._by_queue(settings).items()}
        assert self.queue is not None
        chosen = {"where": self.where, "body": self.body, "limit": self.limit}
        return {self.queue: {**chosen, "everything": self.everything}}

    def _by_queue(self, settings: Settings) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for text in self.ids:
            if is_lookup_id(text):
                if self.queue is None:
                    raise click.UsageError(
                        "a lookup_id is unique only within a queue; name the queue with --queue"
                    )
                found.setdefault(self.queue, []).append(int(text))
                continue
            queue, lookup_id = locate_message(settings, text, self.queue)
            found.setdefault(queue, []).append(lookup_id)
        return found


def is_lookup_id(text: str) -> bool:
    """Whether a text is a LookupIdentifier, which has 64 bits."""
    return text.isdecimal() and len(text) <= _DIGITS


def locate_message(settings: Settings, identifier: str, queue: str | None) -> tuple[str, int]:
    """Find the queue that holds a message, and its LookupIdentifier in it.

    @param queue: the queue to search; C{None} for all.
    @raise MQError: MQ_ERROR_MESSAGE_NOT_FOUND.
    @raise click.UsageError: several queues hold the message, and C{queue} is C{None}.
    """
    known = settings.client.explain(identifier)
    # A damaged one can be removed.
    places = [*known["places"], *known["unreadable"]]
    if queue is not None:
        path = canonical_path(settings, queue)
        places = [place for place in places if place["queue"] in (queue, path)]
    if not places:
        where = "here" if queue is None else f"in {queue}"
        raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"there is no message {identifier} {where}")
    queues = sorted({place["queue"] for place in places})
    if len(queues) > 1:
        raise click.UsageError(f"{identifier} is in {' and '.join(queues)}; name one with --queue")
    return places[0]["queue"], places[0]["lookup_id"]


def canonical_path(settings: Settings, queue: str) -> str:
    """The path of a queue, under which the places of a message name it."""
    try:
        return str(settings.client.queue(queue)["path"])
    except MQError:
        # An outgoing queue has only its format name.
        return queue


def literal(text: str) -> str:
    """Quote a text as a JMESPath literal."""
    return "`" + json.dumps(text).replace("`", "\\`") + "`"


@attrs.define(slots=False)
class ChangeReport:
    """Prints and counts the results of changes of messages.

    @ivar done: the participle for output: C{moved to X}.
    """

    settings: Settings
    done: str
    is_dry: bool
    prints_new: bool = False
    changed: int = 0
    refused: int = 0
    _listed: list[Mapping[str, Any]] = attrs.field(factory=list, init=False)

    def take(self, queue: str, lines: Iterator[dict[str, Any]]) -> None:
        """Print the results of one queue as they arrive."""
        output = self.settings.output
        for value in lines:
            if "lookup_id" not in value:
                if "end" not in value:
                    count = f"{self.changed} {self.done}" if value.get("done") else f"{value['found']} found"
                    output.progress(f"{value['looked_at']} examined, {count}")
                elif "not_compared" in value:
                    output.progress("")
                    complain_of_failures([value])
            elif "error" in value:
                output.progress("")
                self.refused += 1
                name = value.get("id") or f"message {value['lookup_id']} of {queue}"
                complain(f"{name} was not {self.done}: {value['error']}: {value['detail']}")
            else:
                self.changed += 1
                self._print(queue, value)

    def _print(self, queue: str, value: dict[str, Any]) -> None:
        output = self.settings.output
        if output.as_json:
            output.object(self.printed(queue, value))
        elif self.is_dry:
            self._listed.append(value)
        elif self.prints_new and "new_id" in value:
            output.progress("")
            output.write(value["new_id"])

    def printed(self, queue: str, value: dict[str, Any]) -> dict[str, Any]:
        """The JSON object of one result."""
        return {"queue": queue, **value}

    def end(self) -> int:
        """Print the summary; returns the exit status."""
        output = self.settings.output
        output.progress("")
        if self._listed:
            output.many(self._listed, COLUMNS)
        count = "1 message" if self.changed == 1 else f"{self.changed} messages"
        if self.is_dry:
            output.text(f"{count} would be {self.done}")
        elif not self.prints_new:
            output.text(f"{count} {self.done}")
        output.flush()
        return REFUSED if self.refused else DONE


def change(
    settings: Settings,
    action: str,
    parts: Mapping[str, dict[str, Any]],
    report: ChangeReport,
    *,
    question: str | None = None,
    yes: bool = False,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Change messages, and print the result of each; returns the exit status.

    @param parts: the selection of each queue, as of L{Selection.parts}.
    @param question: the confirmation question, to which the number of messages is appended; C{None} for no
        confirmation.
    @param options: as of L{ControlClient.change_messages<msmq.control.client.client.ControlClient>}.
    """
    if question is not None and not report.is_dry:
        asked = question
        confirm(lambda: f"{asked} {_counted(settings, action, parts, options or {})}", yes=yes)
    for queue, part in parts.items():
        with settings.naming(queue):
            lines = settings.client.change_messages(
                queue, action, dry_run=report.is_dry, **part, **(options or {})
            )
            report.take(queue, lines)
    return report.end()


def _counted(
    settings: Settings, action: str, parts: Mapping[str, dict[str, Any]], options: Mapping[str, Any]
) -> str:
    count = 0
    for queue, part in parts.items():
        with settings.naming(queue):
            lines = settings.client.change_messages(queue, action, dry_run=True, **part, **options)
            count += sum("lookup_id" in value for value in lines)
    messages = "1 message" if count == 1 else f"{count} messages"
    return f"{messages} of {', '.join(parts)}"


def complain_of_failures(ends: Iterable[Mapping[str, Any]], what: str = "message(s)") -> None:
    """Report to how many messages the expression of C{--where} could not be applied.

    @param ends: the last object of each search.
    """
    failed = [end for end in ends if "not_compared" in end]
    if failed:
        count = sum(end["not_compared"] for end in failed)
        complain(f"{count} {what} could not be compared: {failed[0]['reason']}")


def read_document(path: str) -> object:
    """Read the JSON document of an edited message.

    @param path: a file; C{-} for standard input.
    @raise click.UsageError: it cannot be read, or is not JSON.
    """
    try:
        if path == "-":
            content = standard_input().read()
        else:
            with open(path, "rb") as file:
                content = file.read()
        return parse_json(content)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{path} is not JSON: {json_problem(error)}") from error
