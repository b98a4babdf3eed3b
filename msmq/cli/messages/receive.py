"""C{msmq receive}: receives messages, one or a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.cli.output import Output
from msmq.cli.readable import cell, printable

if TYPE_CHECKING:
    from msmq.control.client.client import Delivered
    from msmq.decoding.bodies import BodyDecoders

_ALWAYS: Final = ("id", "sent_time", "arrived_time", "priority", "delivery", "body_size")
_UNUSUAL: Final = {
    "label": "",
    "class_name": "MQMSG_CLASS_NORMAL",
    "transactional": False,
    "body_type": 0,
    "admin_queue": None,
    "response_queue": None,
    "correlation_id": None,
    "application_tag": 0,
    "abort_count": 0,
    "move_count": 0,
}
"""Default values of properties; these are not printed."""

_NO_CORRELATION: Final = "{00000000-0000-0000-0000-000000000000}\\0"


@click.command
@click.argument("queue")
@click.option(
    "--timeout",
    metavar="S",
    type=SecondsOption(min=0),
    help="The longest wait for the next message, in seconds.  [default: no limit; 0 with --peek]",
)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), default=1, help="The maximum number of messages."
)
@click.option("--peek", is_flag=True, help="Show messages without removing them.")
@click.option("--transactional", is_flag=True, help="Receive all in one transaction.")
@click.option("--decode", is_flag=True, help="Decode the body: XML, .NET, COM, WCF, JSON and others.")
@common_options
@pass_settings
def receive(
    settings: Settings,
    queue: str,
    timeout: float | None,
    count: int,
    peek: bool,
    transactional: bool,
    decode: bool,
) -> None:
    r"""Receive messages from QUEUE, a path or a format name.

    A message is removed once it is printed; if the command is killed before, it returns to its position.
    Status 0 with fewer than N messages, 3 with none.
    QUEUE may be a journal, as .\private$\orders;journal, a subqueue, or .\system$;deadletter, deadxact
    or journal.
    """
    from msmq.control.client.client import Receipt

    if peek and transactional:
        raise click.UsageError("--peek and --transactional cannot be combined")
    if peek and timeout is None:
        timeout = 0.0
    output = settings.output
    decoders = _installed_decoders() if decode else None
    with (
        settings.naming(queue),
        settings.client.receive(
            queue, count=count, timeout=timeout, peek=peek, transactional=transactional
        ) as stream,
    ):
        for item in stream:
            if isinstance(item, Receipt):
                output.flush()
                item.confirm()
            else:
                _print(output, item, decoders)
    output.flush()


def _installed_decoders() -> BodyDecoders:
    from msmq.pipeline.bodies import installed_decoders

    try:
        return installed_decoders()
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _print(output: Output, message: Delivered, decoders: BodyDecoders | None) -> None:
    value = message_object(message)
    if decoders is not None:
        value |= _decoded(message, decoders)
    if output.as_json:
        output.object(value)
    else:
        output.write(readable_message(value, utc=output.utc))


def message_object(message: Delivered) -> dict[str, Any]:
    """The whole message in JSON."""
    from msmq.decoding.message_json import body_json
    from msmq.decoding.values import base64_text

    value: dict[str, Any] = {}
    for key, part in message.properties.items():
        if key == "extension_size":
            value["extension_base64"] = base64_text(message.extension)
            continue
        if key == "body_size":
            properties = message.properties
            value |= body_json(properties["class"], properties["label"], message.body)
        value[key] = part
    return value


def _decoded(message: Delivered, decoders: BodyDecoders) -> dict[str, Any]:
    """The keys that C{--decode} adds to a message in JSON."""
    from msmq.decoding.bodies import Body

    body = Body(message.body, message.properties["body_type"], message.extension)
    outcome = decoders.decode(body)
    decoded = None if outcome.decoded is None else outcome.decoded.as_json()
    return {"decoded": decoded, "decode_error": outcome.error or None}


def readable_message(value: Mapping[str, Any], *, utc: bool) -> str:
    """A message as text: its usual properties, others with unusual values, and its body."""
    shown = {key: value[key] for key in _ALWAYS if key in value}
    for key, usual in _UNUSUAL.items():
        if value.get(key, usual) not in (usual, None, _NO_CORRELATION):
            shown[key] = value[key]
    width = max(map(len, shown))
    lines = [f"{key:{width}}  {cell(part, key, utc=utc)}".rstrip() for key, part in shown.items()]
    decoded = value.get("decoded")
    if decoded is not None:
        readable = json.dumps(decoded, indent=2, ensure_ascii=False)
        lines += ["", *(printable(part) for part in readable.split("\n"))]
    elif "body" in value:
        lines += ["", *printable(value["body"], also="\t\r\n").splitlines()]
    else:
        lines += ["", "(not text; --json prints it as base64)"]
    if value.get("decode_error") is not None:
        lines += ["", f"({cell(value['decode_error'])})"]
    return "\n".join([*lines, ""])
