"""C{msmq shadow}: queues whose messages are copied to a second consumer, and the comparison of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.messages.shadow_comparison import ConsumerAnswer, compare_answers
from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.control.client.client import ControlClient

_COLUMNS: Final = ("queue", "destination", "condition", "copied", "skipped", "reason")
_PAGE: Final = 1000


@click.group
@common_options
def shadow() -> None:
    """List and show the shadows of queues, and compare the answers of both consumers."""


@shadow.command("list")
@common_options
@pass_settings
def shadow_list(settings: Settings) -> None:
    """List the shadows."""
    settings.output.many(settings.client.shadows(), _COLUMNS)
    settings.output.flush()


@shadow.command("show")
@click.argument("queue")
@common_options
@pass_settings
def shadow_show(settings: Settings, queue: str) -> None:
    """Show the shadow of QUEUE."""
    settings.output.one(settings.client.shadow(queue))
    settings.output.flush()


@shadow.command("report")
@click.argument("queue")
@click.option("--late", type=SecondsOption(0), metavar="S", help="Seconds after which an answer is late.")
@click.option(
    "--original-at",
    metavar="SERVER",
    help="The server with the queue of the original answers, if it is another one: a member by name as for"
    " --on, or an endpoint as for --control.",
)
@common_options
@pass_settings
def shadow_report(settings: Settings, queue: str, late: float | None, original_at: str | None) -> int:
    """Compare what both consumers of QUEUE have answered since its shadow began.

    The status is 1 if there is a difference: answers that are missing, extra, reordered, altered or late.
    """
    client, output = settings.client, settings.output
    with settings.naming(queue):
        found = client.shadow(queue)
    if not found["original_answers"]:
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_OPERATION,
            f"the shadow of {found['queue']} has no queues to compare; [[shadow]] compare names them",
        )
    copies, begin = _copies(client, queue)
    since = _began(client, queue, begin or found["sequence"] + 1, none=0.0 if begin else math.inf)
    other = client if original_at is None else settings.client_of(original_at, "--original-at")
    if found["paired_by"] == "correlation":
        known = set(copies.values())
        by_original = _answers(other, found["original_answers"], _by("correlation_id"))
        first = [answer for answer in by_original if answer.pairing in known]
        by_copy = _answers(client, found["shadow_answers"], _by("correlation_id"))
        # The copies of earlier answers are not known: those of a former server, or too many since.
        second = [
            attrs.evolve(each, pairing=copies.get(each.pairing, each.pairing))
            for each in by_copy
            if each.pairing in copies or each.arrived >= since
        ]
    else:
        key = _by("label" if found["paired_by"] == "label" else "body_digest")
        first, second = (
            [each for each in _answers(server, found[kind], key) if each.arrived >= since]
            for server, kind in ((other, "original_answers"), (client, "shadow_answers"))
        )
    comparison = compare_answers(first, second, found["late"] if late is None else late)
    output.one(
        {
            **{key: found[key] for key in ("queue", "destination", "copied", "skipped", "condition")},
            **comparison.record(),
        }
    )
    output.flush()
    return DONE if comparison.is_equal else REFUSED


def _by(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda message: str(message[name])


def _copies(client: ControlClient, queue: str) -> tuple[dict[str, str], int]:
    """The identifiers of messages by those of their copies, and the sequence number of the first message."""
    copies: dict[str, str] = {}
    begin, after = 0, 0
    while page := client.shadow_copies(queue, after, _PAGE):
        begin = begin or page[0]["sequence"]
        after += len(page)
        copies.update((each["copy"], each["original"]) for each in page if each["copy"])
    return copies, begin


def _began(client: ControlClient, queue: str, sequence: int, *, none: float) -> float:
    """When the first message arrived that has at least this number in the message log.

    @param none: the answer if there is no such message.
    """
    try:
        found = client.logged(queue, sequence - 1, 1)
    except MQError as error:
        if error.status != Status.MQ_ERROR_UNSUPPORTED_OPERATION:
            raise
        # The queue has no message log any more.
        return none
    return float(found[0]["arrived"]) if found else none


def _answers(
    client: ControlClient, queue: str, key: Callable[[Mapping[str, Any]], str]
) -> Iterator[ConsumerAnswer]:
    after = 0
    while page := client.logged(queue, after, _PAGE, digests=True):
        for message in page:
            yield ConsumerAnswer(key(message), message["digest"], message["arrived"])
        after = page[-1]["sequence"]
