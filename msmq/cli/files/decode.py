"""C{msmq decode}: prints packets and captures as JSON."""

from __future__ import annotations

import os

import click

from msmq.cli.exit_status import DONE, REFUSED
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.cli.standard_input import standard_input


@click.command
@click.argument("file", default="-")
@click.option("--hex", "is_hex", is_flag=True, help="Read the input as hex text, without detection.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65535),
    default=1801,
    help="The port of sessions in captures.",
)
@click.option(
    "--ping-port",
    metavar="N",
    type=click.IntRange(1, 65535),
    default=3527,
    help="The port of pings in captures.",
)
@click.option("--fields", "with_positions", is_flag=True, help="Add where each field of a packet is.")
@click.option(
    "--anonymise",
    "copy",
    metavar="OUT",
    help="Print nothing, and write a copy without names, addresses and contents to OUT, a new file.",
)
@common_options
@pass_settings
def decode(
    settings: Settings,
    file: str,
    is_hex: bool,
    port: int,
    ping_port: int,
    with_positions: bool,
    copy: str | None,
) -> int:
    """Print the packets in FILE, or in standard input without FILE or with -, as JSON lines.

    FILE contains the bytes of a session or of a datagram, raw or as hex text, or a capture: pcap, pcapng, or
    the hex dump that a capture tool prints.  It may be compressed with gzip.
    Status 1 if a packet is malformed.
    """
    settings.refuse_on()
    from msmq.decoding.captures import decode as decode_input
    from msmq.decoding.records import is_malformed

    if copy is not None:
        return _anonymise(settings, _read(file), copy, is_hex, port, ping_port)
    output = settings.output
    malformed = 0
    records = decode_input(
        _read(file), is_hex=is_hex, session_port=port, ping_port=ping_port, with_positions=with_positions
    )
    for record in records:
        output.object(record)
        malformed += is_malformed(record)
    output.flush()
    if malformed:
        complain(f"{malformed} malformed in {file}", "msmq decode")
    return REFUSED if malformed else DONE


def _anonymise(settings: Settings, data: bytes, path: str, is_hex: bool, port: int, ping_port: int) -> int:
    from msmq.decoding.anonymising.captures import anonymise
    from msmq.decoding.anonymising.pseudonyms import KEY_SIZE
    from msmq.errors import RemoteProtocolError

    try:
        copy = anonymise(data, os.urandom(KEY_SIZE), is_hex=is_hex, session_port=port, ping_port=ping_port)
        _write_new(path, copy.data)
    except RemoteProtocolError as error:
        complain(str(error), "msmq decode")
        return REFUSED
    except (OSError, ValueError) as error:
        raise click.UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    settings.output.one(
        {
            "file": path,
            "packets": copy.packets,
            "cleared_bytes": copy.cleared,
            "omitted_frames": copy.omitted,
        }
    )
    if copy.damage:
        complain(f"the copy ends where the capture is damaged: {copy.damage}", "msmq decode")
    return REFUSED if copy.damage else DONE


def _write_new(path: str, data: bytes) -> None:
    """Write a file that does not exist; an incomplete one is removed."""
    with open(path, "xb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            os.unlink(path)
            raise


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return standard_input().read()
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read {path}: {reason}") from error
