"""C{msmq send}: sends messages, one or a stream."""

from __future__ import annotations

import itertools
import os
import stat
import sys
from typing import Any, Final

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import GIVEN, Settings, WholeSecondsOption, common_options, pass_settings
from msmq.cli.output import OutputError, complain
from msmq.cli.standard_input import standard_input
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status

_NUMBER: Final = click.IntRange(0, 0xFFFFFFFF)
_TIME: Final = WholeSecondsOption()
_LARGEST: Final = 0x400000
_SHOWN: Final = 500
"""Number of messages after which the progress is updated."""

_PRIVACY_LEVELS: Final = ("base", "enhanced", "advanced")
_ACKNOWLEDGE: Final = ("none", "reach", "receive", "full-reach", "full-receive", "nack-reach", "nack-receive")


class AcknowledgeList(click.ParamType[list[str]]):
    """Option type: kinds of acknowledgements, separated by commas."""

    name = "kinds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Parse and check the kinds."""
        kinds = [kind.strip() for kind in str(value).split(",")]
        for kind in kinds:
            if kind not in _ACKNOWLEDGE:
                self.fail(f"{quoted(kind)} is not one of {', '.join(_ACKNOWLEDGE)}", param, ctx)
        return kinds


@click.command
@click.argument("destination", required=False)
@click.option(
    "--json-lines",
    metavar="F",
    type=GIVEN,
    help="Send a message for each line of a file, JSON as receive --json prints it; - is standard input.",
)
@click.option(
    "--lines", metavar="F", type=GIVEN, help="Send a message for each line of a file, the line as its body."
)
@click.option(
    "--body",
    metavar="T",
    help="The body as text; it is sent as UTF-8.  [default: what is piped in, or nothing]",
)
@click.option("--body-file", metavar="F", help="Read the body from a file; - is standard input.")
@click.option("--label", metavar="T", help="The label, up to 249 characters.")
@click.option("--recoverable", is_flag=True, help="Store it on disk until it is received.")
@click.option("--transactional", is_flag=True, help="Send it in a transaction; with --count, all in one.")
@click.option("--priority", metavar="N", type=click.IntRange(0, 7), help="0 to 7, 7 first.  [default: 3]")
@click.option(
    "--time-to-reach-queue", metavar="S", type=_TIME, help="How long it may take to reach its queue."
)
@click.option("--time-to-be-received", metavar="S", type=_TIME, help="How long it may take to be received.")
@click.option("--journal", is_flag=True, help="Keep a copy of the sent message here.")
@click.option("--dead-letter", is_flag=True, help="Keep a copy if the message cannot be delivered.")
@click.option(
    "--dead-letter-queue", metavar="PATH", help="Keep that copy in this queue; --dead-letter is implied."
)
@click.option(
    "--ack",
    "acknowledge",
    metavar="KIND,...",
    type=AcknowledgeList(),
    help=f"Acknowledgements to request: {', '.join(_ACKNOWLEDGE)}.",
)
@click.option("--admin-queue", metavar="FN", help="The queue for acknowledgements.")
@click.option("--response-queue", metavar="FN", help="The queue for responses.")
@click.option("--correlation-id", metavar="ID", help=r"The identifier of the related message: {guid}\number.")
@click.option("--app-tag", "application_tag", metavar="N", type=_NUMBER, help="A number for applications.")
@click.option("--body-type", metavar="N", type=_NUMBER, help="The type of the body, a VARTYPE.")
@click.option("--extension-file", metavar="F", help="Read the extension from a file.")
@click.option("--trace", metavar="GUID", help="The public queue to which each hop sends a report.")
@click.option(
    "--encrypt",
    "privacy_level",
    type=click.Choice(_PRIVACY_LEVELS),
    help="Encrypt the body for the queue manager of DESTINATION, with at least this strength.",
)
@click.option(
    "--sign",
    type=click.Choice(["1.0", "2.0", "3.0"]),
    help="Sign it in the signature format of this MSMQ version.",
)
@click.option("--certificate", metavar="HEX", help="Sign with the certificate with this fingerprint.")
@click.option(
    "--hash",
    type=click.Choice(["md2", "md4", "md5", "sha1", "sha256", "sha512"]),
    help="Sign with this hash algorithm.  [default: sha512]",
)
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), default=1, help="Send N identical messages."
)
@click.option(
    "--key",
    metavar="K",
    type=GIVEN,
    help="Send it only if no message was sent there with this key before; up to 512 bytes. With lines, the "
    "beginning"
    " of their keys.",
)
@common_options
@pass_settings
def send(
    settings: Settings,
    /,
    destination: str | None,
    json_lines: str | None,
    lines: str | None,
    body: str | None,
    body_file: str | None,
    extension_file: str | None,
    recoverable: bool,
    count: int,
    **properties: Any,
) -> int | None:
    r"""Send messages to DESTINATION, and print their identifiers.

    DESTINATION is a format name, as DIRECT=TCP:127.0.0.2\private$\orders, several with commas, or the path of
    a local queue.  With status 0 every recoverable message is on disk.

    S is a number of seconds, or has a unit: "12 h".
    """
    from msmq.control.protocol.records import StreamRecord

    sources = {"--json-lines": json_lines, "--lines": lines, "--body": body, "--body-file": body_file}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    if destination is None and json_lines is None:
        raise click.UsageError("the argument DESTINATION is missing")
    if (path := json_lines or lines) is not None and count > 1:
        raise click.UsageError(f"{given[0]} and --count exclude each other")
    if properties["key"] is not None and count > 1:
        raise click.UsageError("--key and --count cannot be combined")
    content = _content(body, body_file) if path is None else b""
    extension = b"" if extension_file is None else _read(extension_file)
    if len(content) + len(extension) > _LARGEST:
        raise MQError(
            Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
            f"a message holds at most {_LARGEST} bytes with all its headers; "
            f"the body and the extension of this one have more",
        )
    header = {name: value for name, value in properties.items() if value is not None and value is not False}
    if "dead_letter_queue" in header:
        header["dead_letter"] = True
    if recoverable:
        header["delivery"] = "recoverable"
    if extension:
        header["extension_size"] = len(extension)
    if not properties["sign"] and (properties["certificate"] or properties["hash"]):
        raise click.UsageError("--certificate and --hash need --sign")
    output = settings.output
    if path is not None:
        if extension:
            raise click.UsageError(f"{given[0]} and --extension-file exclude each other")
        return _send_lines(settings, path, header, destination, is_json=json_lines is not None)
    assert destination is not None
    header["destination"] = destination
    messages = itertools.repeat(StreamRecord(header, content + extension), count)
    one_transaction = bool(properties["transactional"])
    with settings.naming(destination):
        for identifier in settings.client.send(messages, one_transaction=one_transaction):
            output.one({"id": identifier}) if output.as_json else output.write(identifier)
    output.flush()
    return None


def _send_lines(
    settings: Settings, path: str, header: dict[str, Any], destination: str | None, *, is_json: bool
) -> int:
    """Send the lines of a file, and print the identifiers; returns the exit status."""
    from msmq.cli.messages.message_lines import DamagedLine, MessageLines, open_lines

    output = settings.output
    key = header.pop("key", None)
    one_transaction = bool(header.get("transactional"))
    name = "standard input" if path == "-" else path
    with open_lines(path) as file:
        lines = MessageLines(name, file, header, destination, key, is_json=is_json, is_whole=one_transaction)
        shows_progress = sys.stdout is None or not sys.stdout.isatty()
        try:
            with settings.naming(destination or ""):
                for identifier in settings.client.send(lines, one_transaction=one_transaction):
                    lines.accepted()
                    output.one({"id": identifier}) if output.as_json else output.write(identifier)
                    if shows_progress and lines.sent % _SHOWN == 0:
                        output.progress(f"{lines.sent} messages sent")
        except DamagedLine as damage:
            lines.damage = damage
        except MQError as error:
            output.flush()
            # After a refusal no message is sent; a connection that is lost leaves that open.
            is_lost = error.status is Status.MQ_ERROR_SERVICE_NOT_AVAILABLE
            if is_lost:
                detail = f"{error.detail}; {name}: {lines.interrupted_result()}"
            else:
                detail = f"{lines.refused}: {error.detail}; {lines.refused_result()}"
            raise MQError(error.status, detail) from error
        except OutputError as error:
            raise OutputError(f"{error}; {name}: {lines.interrupted_result()}") from error
        except KeyboardInterrupt:
            output.flush()
            complain(f"{name}: {lines.interrupted_result()}")
            raise
    output.progress("")
    output.flush()
    if lines.damage is None:
        return DONE
    complain(f"{lines.damage}; {lines.result()}")
    return REFUSED


def _content(body: str | None, body_file: str | None) -> bytes:
    """The body from the options, or else from redirected standard input."""
    if body_file is not None:
        return _read(body_file)
    if body is not None:
        return _encoded(body)
    return _read("-") if _is_redirected() else b""


def _is_redirected() -> bool:
    """Whether standard input is a pipe, a socket or a file; a terminal and /dev/null are devices."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _encoded(text: str) -> bytes:
    # Arguments that are not UTF-8 arrive as lone surrogates, and are sent as their original bytes.
    return text.encode("utf-8", "surrogateescape")


def _read(path: str) -> bytes:
    """Read a file, up to the size limit."""
    try:
        if path == "-":
            return standard_input().read(_LARGEST + 1)
        with open(path, "rb") as file:
            return file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read {path}: {reason}") from error
