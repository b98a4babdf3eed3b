"""C{msmq session}: lists and closes the sessions with other queue managers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.wire.addresses import read_address

_COLUMNS: Final = (
    "identifier",
    "direction",
    "state",
    "remote_identifier",
    "remote_address",
    "sent",
    "received",
    "recoverable_sent",
    "recoverable_received",
    "unacknowledged",
    "window",
    "clock_skew",
    "other_addresses",
)


@click.group
@common_options
def session() -> None:
    """List and close the sessions with other queue managers."""


@session.command("list")
@common_options
@pass_settings
def session_list(settings: Settings) -> None:
    """List the sessions, in both directions."""
    settings.output.many(settings.client.sessions(), _COLUMNS)
    settings.output.flush()


@session.command("close")
@click.argument("session", metavar="ID|ADDRESS")
@common_options
@pass_settings
def session_close(settings: Settings, session: str) -> None:
    """Close the session with this identifier, or its beginning, or every session with a peer at ADDRESS.

    No message is lost: those that the peer has not acknowledged are sent again. The peer may connect again,
    and this queue manager does so while messages wait for it.
    """
    client = settings.client
    sessions = client.sessions()
    wanted = session.strip("{}").casefold()
    address = read_address(session.strip("[]"))
    found = [each for each in sessions if _is_at(each["remote_address"], wanted, address)]
    if not found:
        found = [each for each in sessions if wanted and each["identifier"].casefold().startswith(wanted)]
        if len(found) > 1:
            raise click.UsageError(f"{len(found)} sessions have an identifier that begins so")
    if not found:
        raise MQError(
            Status.MQ_ERROR_INVALID_HANDLE, f"no session has the identifier or address {quoted(session)}"
        )
    closed: list[dict[str, Any]] = []
    ended: MQError | None = None
    try:
        for each in found:
            try:
                closed.append(client.close_session(each["identifier"]))
            except MQError as error:
                if error.status is not Status.MQ_ERROR_INVALID_HANDLE:
                    raise
                # It has ended since it was listed; the others are closed all the same.
                ended = error
    finally:
        if closed:
            settings.output.many(closed, _COLUMNS)
            settings.output.flush()
    if ended is not None and not closed:
        raise ended


def _is_at(remote: str, wanted: str, address: IPv4Address | IPv6Address | None) -> bool:
    """Whether a peer has an address, however that is written."""
    return remote.casefold() == wanted or (address is not None and read_address(remote) == address)
