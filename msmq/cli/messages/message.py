"""C{msmq message}: shows single messages."""

from __future__ import annotations

import base64

import click

from msmq.cli.messages.receive import readable_message
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.structures.status import MQError, Status


@click.group
@common_options
def message() -> None:
    """Look at single messages."""


@message.command("show")
@click.argument("id", metavar="ID|LOOKUP")
@click.option("--queue", metavar="PATH", help="Where it lies; needed for a lookup_id.")
@click.option("--decode", is_flag=True, help="Read the body: XML, .NET, COM, WCF, JSON and others.")
@click.option("--hex", "as_hex", is_flag=True, help="Print the body as a hex dump.")
@common_options
@pass_settings
def message_show(settings: Settings, id: str, queue: str | None, decode: bool, as_hex: bool) -> None:
    r"""Show the message ID, as {guid}\number, in each queue that holds it; or LOOKUP of a queue.

    It is shown wherever it lies here, also while a reader has it, and stays as it is.
    """
    client, output = settings.client, settings.output
    if id.isdecimal():
        if queue is None:
            raise click.UsageError("a lookup_id is that of a queue; name it with --queue")
        with settings.naming(queue):
            found = [(queue, client.message(queue, int(id), decode=decode, raw=as_hex))]
    else:
        places = client.explain(id)["places"]
        wanted = [place for place in places if queue is None or place["queue"] == queue]
        if not wanted:
            where = "here" if queue is None else f"in {queue}"
            raise MQError(Status.MQ_ERROR_MESSAGE_NOT_FOUND, f"there is no message {id} {where}")
        found = [
            (
                place["queue"],
                client.message(place["queue"], place["lookup_id"], decode=decode, raw=as_hex),
            )
            for place in wanted
        ]
    for path, value in found:
        if output.as_json:
            output.object({"queue": path, **value})
        elif as_hex:
            output.write("\n".join(_dump(base64.b64decode(value["body_base64"]))))
        else:
            output.write(f"queue       {path}\n{readable_message(value)}")
    output.flush()


def _dump(body: bytes) -> list[str]:
    """The bytes as C{hexdump -C} has them."""
    lines = []
    for offset in range(0, len(body), 16):
        part = body[offset : offset + 16]
        digits = f"{part[:8].hex(' '):23}  {part[8:].hex(' '):23}"
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{offset:08x}  {digits}  |{text}|")
    return [*lines, f"{len(body):08x}"]
