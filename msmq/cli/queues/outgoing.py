"""C{msmq outgoing}: the queues of messages for other queue managers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from msmq.cli.confirmation import confirm, dry_run_option, yes_option
from msmq.cli.exit_status import DONE
from msmq.cli.messages.browsing import browse, browse_options
from msmq.cli.options import Settings, common_options, pass_settings
from msmq.cli.output import complain
from msmq.cli.queues.patterns import contents, for_each, outgoing_queues, selected
from msmq.cli.readable import time_text
from msmq.cli.units import age_text
from msmq.cli.wildcards import is_pattern

_C = TypeVar("_C", bound=Callable[..., object])

_ATTEMPTS: Final = {
    "InProcess": "connecting",
    "EstablishPacketReceived": "connected, handshake began",
    "Established": "session opened",
    "UnknownFailure": "failed",
    "PingFailure": "no answer to a ping, or it refuses sessions",
    "SocketCreateFailure": "no socket",
    "SocketBindFailure": "the local address cannot be used",
    "SocketConnectFailure": "connection failed",
    "TcpNotEnabled": "TCP is off",
    "SocketSendFailure": "connection lost",
    "ConnectionNotReady": "handshake failed",
    "DnsFailure": "no address found for the name",
    "CertificateValidationFailure": "the certificate for encryption is not valid",
    "ConnectionLimitReached": "limit on sessions reached",
    "ConnectionRefused": "refused by the peer",
    "RoutingDataNotAvailable": "no route",
    "LowResource": "no resources",
}
"""Descriptions of the results of connection attempts, by their names in [MS-MQDMPR]."""
_OUTGOING: Final = (
    "format_name",
    "state",
    "next_hops",
    "messages",
    "bytes",
    "unacknowledged",
    "awaiting_final_acks",
)


@click.group
@common_options
def outgoing() -> None:
    """Show, pause, resume, redirect, purge and retry the outgoing queues."""


@outgoing.command("list")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@common_options
@pass_settings
def outgoing_list(settings: Settings, patterns: tuple[str, ...]) -> None:
    r"""List the outgoing queues, or those that match a PATTERN: ord*, or DIRECT=OS:BETA\*.

    The wildcards are * and ?; without a backslash PATTERN matches the last part of a format name.
    """
    settings.output.many(selected(settings.client.outgoing(), patterns, "format_name"), _OUTGOING)
    settings.output.flush()


@outgoing.command("show")
@click.argument("name")
@common_options
@pass_settings
def outgoing_show(settings: Settings, name: str) -> None:
    """Show everything about the outgoing queue of the format name NAME, with its attempts to connect."""
    output = settings.output
    queue = settings.client.outgoing_queue(name)
    if output.as_json:
        output.one(queue)
    else:
        history = queue.pop("history")
        due = queue.pop("next_attempt")
        output.one({**queue, "next_attempt": _until(due, utc=output.utc)})
        output.write("\nattempts to connect" if history else "\nattempts to connect: none")
        for entry in history:
            output.write(_attempt(entry, utc=output.utc))
    output.flush()


def _attempt(entry: dict[str, Any], *, utc: bool) -> str:
    """One entry of the history as text."""
    from datetime import UTC, datetime

    moment = time_text(datetime.fromtimestamp(int(entry["time"]), UTC).isoformat(), utc=utc)
    text = _ATTEMPTS.get(entry["status"], entry["status"])
    addresses = f" ({', '.join(entry['addresses'])})" if entry["addresses"] else ""
    error = f", error {entry['error']:#x}" if entry["error"] else ""
    return f"{moment}  {text}{addresses}{error}"


def _until(due: str | None, *, utc: bool) -> str:
    """The time, and the seconds until then by the clock of this computer."""
    if due is None:
        return "-"
    import time
    from datetime import datetime

    seconds = max(0, round(datetime.fromisoformat(due).timestamp() - time.time()))
    return f"in {age_text(seconds)}, at {time_text(due, utc=utc)}"


@outgoing.command("browse")
@click.argument("name")
@browse_options
@pass_settings
def outgoing_browse(settings: Settings, /, name: str, **wanted: Any) -> None:
    """Browse the pending messages for the format name NAME without removing them."""
    browse(settings, name, **wanted)


def _several(command: _C) -> _C:
    """Add NAME, C{--all} and C{--next-hop}, which are mutually exclusive."""
    for option in (
        click.option(
            "--next-hop",
            metavar="HOST",
            help="All messages with the next hop HOST: an address, a computer name, or a queue manager's "
            "GUID.",
        ),
        click.option("--all", "everything", is_flag=True, help="All messages to other queue managers."),
        click.argument("name", required=False),
    ):
        command = option(command)
    return command


@outgoing.command("pause")
@_several
@common_options
@pass_settings
def outgoing_pause(settings: Settings, name: str | None, everything: bool, next_hop: str | None) -> int:
    """Pause sending to the format name NAME, to a next hop, or to all other queue managers.

    The pause persists across restarts, and may be set before the first message is sent.
    """
    return _hold(settings, "pause", name, everything, next_hop)


@outgoing.command("resume")
@_several
@common_options
@pass_settings
def outgoing_resume(settings: Settings, name: str | None, everything: bool, next_hop: str | None) -> int:
    """Resume sending to the format name NAME, to a next hop, or to all other queue managers.

    It ends only a pause with the same option; paused_by shows the remaining pauses of a queue.
    """
    return _hold(settings, "resume", name, everything, next_hop)


@outgoing.command("purge")
@click.argument("name")
@yes_option
@dry_run_option
@common_options
@pass_settings
def outgoing_purge(settings: Settings, name: str, yes: bool, dry_run: bool) -> int:
    """Remove all pending messages for the format name NAME, and print their number.

    NAME may have the wildcards * and ?, as in outgoing list.
    Their senders get the acknowledgements and the dead letters that they requested; a message that was sent
    and not yet acknowledged may have arrived.  On a terminal the command asks for confirmation; elsewhere it
    requires --yes.
    """
    output, client = settings.output, settings.client
    is_one = not is_pattern(name)

    def purge(each: str) -> None:
        purged = client.purge_outgoing(each, lambda left: output.progress(f"{left} messages left"))
        output.progress("")
        if is_one:
            output.one(purged)
        elif output.as_json:
            output.object({"format_name": each, **purged})
        else:
            output.text(f"purged  {purged['purged']}  {each}")

    status = DONE
    if is_one and not dry_run:
        confirm(lambda: f"Purge {contents([client.outgoing_queue(name)], 'format_name')}", yes=yes)
        purge(name)
    else:
        queues = [client.outgoing_queue(name)] if is_one else outgoing_queues(settings, name)
        if dry_run:
            output.many(queues, _OUTGOING)
        else:
            confirm(lambda: f"Purge {contents(queues, 'format_name')}", yes=yes)
            status = for_each([queue["format_name"] for queue in queues], purge)
    output.flush()
    return status


@outgoing.command("retry-now")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="All outgoing queues that wait for a retry.")
@common_options
@pass_settings
def outgoing_retry_now(settings: Settings, name: str | None, everything: bool) -> int:
    """Connect to the next hop of the format name NAME now, without waiting for the next retry.

    NAME may have the wildcards * and ?, as in outgoing list; a queue that is refused is named, and the others
    follow.
    This applies to all outgoing queues with the same next hop; their retry intervals start again with the
    shortest. A paused queue is not retried: resume it.
    """
    if (name is not None) == everything:
        raise click.UsageError("name one of NAME and --all")
    status = DONE
    if name is not None and is_pattern(name):
        retried: list[dict[str, Any]] = []
        status = for_each(
            [queue["format_name"] for queue in outgoing_queues(settings, name)],
            lambda each: retried.append(settings.client.retry_outgoing(each)),
        )
        settings.output.many(retried, _OUTGOING)
    elif name is not None:
        settings.output.one(settings.client.retry_outgoing(name))
    else:
        settings.output.many(settings.client.retry_all_outgoing(), _OUTGOING)
        paused = sum(bool(queue["paused_by"]) for queue in settings.client.outgoing())
        if paused:
            complain(
                f"{paused} paused outgoing queue(s) left out; paused_by in msmq outgoing show NAME says why",
                "msmq outgoing retry-now",
            )
    settings.output.flush()
    return status


@outgoing.command("redirect")
@click.argument("name")
@click.option("--to", metavar="ADDRESS", help="An IP address or the name of a computer.")
@click.option("--undo", is_flag=True, help="End the redirect.")
@common_options
@pass_settings
def outgoing_redirect(settings: Settings, name: str, to: str | None, undo: bool) -> None:
    """Redirect the direct format name NAME to another address, pending messages included.

    The redirect persists across restarts, and may be set before the first message is sent.
    """
    if (to is not None) == undo:
        raise click.UsageError("give one of --to ADDRESS and --undo")
    settings.output.one(settings.client.redirect_outgoing(name, to))
    settings.output.flush()


def _hold(settings: Settings, action: str, name: str | None, everything: bool, next_hop: str | None) -> int:
    if (name is not None) + everything + (next_hop is not None) != 1:
        raise click.UsageError("give one of NAME, --next-hop HOST and --all")
    client = settings.client
    hold = client.pause_outgoing if action == "pause" else client.resume_outgoing
    status = DONE
    if name is not None and is_pattern(name):
        held: list[dict[str, Any]] = []
        names = [queue["format_name"] for queue in outgoing_queues(settings, name)]
        status = for_each(names, lambda each: held.append(hold(each)))
        settings.output.many(held, (*_OUTGOING, "paused_by"))
    elif name is not None:
        settings.output.one(hold(name))
    else:
        settings.output.many(client.hold_outgoing(action, next_hop), (*_OUTGOING, "paused_by"))
    settings.output.flush()
    return status
