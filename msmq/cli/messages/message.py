"""C{msmq message}: shows, removes, copies and moves messages."""

from __future__ import annotations

import base64
from typing import Any

import click

from msmq.cli.confirmation import yes_option
from msmq.cli.messages.receive import readable_message
from msmq.cli.messages.selection import (
    ChangeReport,
    Selection,
    canonical_path,
    change,
    is_lookup_id,
    read_document,
    selection_options,
)
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.structures.status import MQError, Status


@click.group
@common_options
def message() -> None:
    """Show, remove, copy and move messages."""


@message.command("show")
@click.argument("id", metavar="ID|LOOKUP")
@click.option("--queue", metavar="PATH", help="The queue of the message; required for a lookup_id.")
@click.option("--decode", is_flag=True, help="Decode the body: XML, .NET, COM, WCF, JSON and others.")
@click.option("--hex", "as_hex", is_flag=True, help="Print the body as a hex dump.")
@common_options
@pass_settings
def message_show(settings: Settings, id: str, queue: str | None, decode: bool, as_hex: bool) -> None:
    r"""Show the message ID, as {guid}\number, in each queue that holds it; or by the LOOKUP of a queue.

    The message is not changed, and is shown also while a reader has locked it.
    """
    client, output = settings.client, settings.output
    if is_lookup_id(id):
        if queue is None:
            raise click.UsageError("a lookup_id needs --queue")
        with settings.naming(queue):
            found = [(queue, client.message(queue, int(id), decode=decode, raw=as_hex))]
    else:
        known = client.explain(id)
        names = () if queue is None else (queue, canonical_path(settings, queue))

        def chosen(kind: str) -> list[Any]:
            return [place for place in known[kind] if queue is None or place["queue"] in names]

        wanted = chosen("places")
        if not wanted:
            for place in chosen("unreadable"):
                raise MQError(
                    Status.MQ_ERROR_MESSAGE_STORAGE_FAILED,
                    f"message {id} in {place['queue']} cannot be read: {place['reason']}",
                )
            where = "here" if queue is None else f"in {queue}"
            raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"message {id} does not exist {where}")
        found = [
            (
                place["queue"],
                client.message(place["queue"], place["lookup_id"], decode=decode, raw=as_hex),
            )
            for place in wanted
        ]
    for path, value in found:
        print_message(settings, path, value, as_hex=as_hex)
    output.flush()


def print_message(settings: Settings, queue: str, value: dict[str, Any], *, as_hex: bool) -> None:
    """Print a message and where it is; with C{as_hex} only its body."""
    output = settings.output
    if output.as_json:
        output.object({"queue": queue, **value})
    elif as_hex:
        output.write("\n".join(_dump(base64.b64decode(value["body_base64"]))))
    else:
        output.write(f"queue       {queue}\n{readable_message(value, utc=output.utc)}")


@message.command("remove")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@selection_options
@yes_option
@common_options
@pass_settings
def message_remove(
    settings: Settings, /, ids: tuple[str, ...], dry_run: bool, yes: bool, **chosen: Any
) -> int:
    """Remove messages from their queue, as a purge does: by identifier, or all that match.

    Their senders get the acknowledgements that they requested.  On a terminal the command asks for
    confirmation; elsewhere it requires --yes.
    """
    selection = Selection(ids, **chosen)
    selection.check()
    report = ChangeReport(settings, "removed", dry_run)
    return change(settings, "remove", selection.parts(settings), report, question="Remove", yes=yes)


@message.command("copy")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--to", metavar="DESTINATION", required=True, help="The destination of the copies, as in send.")
@click.option(
    "--in-clear",
    is_flag=True,
    help="Send all copies unencrypted, even if their senders requested encryption.",
)
@click.option(
    "--edit",
    metavar="FILE",
    help="Send FILE as the copy of the one message: JSON as show --json prints it; - is standard input.",
)
@selection_options
@common_options
@pass_settings
def message_copy(
    settings: Settings,
    /,
    ids: tuple[str, ...],
    to: str,
    in_clear: bool,
    edit: str | None,
    dry_run: bool,
    **chosen: Any,
) -> int:
    """Send copies of messages to DESTINATION, and print their identifiers; the messages stay.

    A copy is a new message, which requests no acknowledgements and does not expire.
    """
    selection = Selection(ids, **chosen)
    selection.check()
    report = ChangeReport(settings, "copied", dry_run, prints_new=True)
    if edit is not None and len(ids) != 1:
        raise click.UsageError("--edit is for one ID")
    message = None if edit is None else read_document(edit)
    options = {"destination": to, "in_clear": in_clear or None, "message": message}
    return change(settings, "copy", selection.parts(settings), report, options=options)


@message.command("move")
@click.argument("arguments", metavar="[ID]... QUEUE", nargs=-1, required=True)
@selection_options
@common_options
@pass_settings
def message_move(settings: Settings, /, arguments: tuple[str, ...], dry_run: bool, **chosen: Any) -> int:
    """Move messages to the local queue QUEUE; they stay as they are, with their identifiers.

    Both queues are transactional, or neither is.  Between unlike queues, and out of journals and
    dead-letter queues, use copy and remove.
    """
    *ids, target = arguments
    selection = Selection(ids, **chosen)
    selection.check()
    report = ChangeReport(settings, f"moved to {target}", dry_run)
    return change(settings, "move", selection.parts(settings), report, options={"queue": target})


def _dump(body: bytes) -> list[str]:
    """The bytes in the format of C{hexdump -C}."""
    lines = []
    for offset in range(0, len(body), 16):
        part = body[offset : offset + 16]
        digits = f"{part[:8].hex(' '):23}  {part[8:].hex(' '):23}"
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{offset:08x}  {digits}  |{text}|")
    return [*lines, f"{len(body):08x}"]
