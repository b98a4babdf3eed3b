"""C{msmq drain}: queues whose messages are moved to another queue manager while senders go on."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

import click

from msmq.cli.exit_status import DONE, REFUSED, TIMED_OUT
from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.cli.output import Output
from msmq.cli.queues.drain_proof import DrainProof
from msmq.interfaces.drains import ARRIVAL_UNPROVEN
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.control.client.client import ControlClient

_COLUMNS: Final = ("queue", "destination", "condition", "remaining", "in_transit", "moved", "reason")
_POLL: Final = 0.2
"""Seconds between two looks at a drain."""

_PAGE: Final = 1000

_VERIFIED: Final = "verified"
"""The C{arrival} of messages that were compared with the message log of the destination."""

_QUIET: Final = 60.0
"""Seconds without an arrival after which messages that have left this queue manager count as missing, unless
--timeout sets another limit.
"""


class _Unfinished(Exception):
    """The time has ended before the proof."""


@click.command
@click.argument("queue", required=False)
@click.option("--to", "destination", metavar="DESTINATION", help="A format name of another queue manager.")
@click.option(
    "--end",
    is_flag=True,
    help="End the drain once the queue is empty, with --no-wait at once; later messages stay there.",
)
@click.option(
    "--verify",
    metavar="SERVER",
    help="Compare with the message log of the destination: a member by name as for --on, or an endpoint as"
    " for --control.",
)
@click.option(
    "--acknowledge-to",
    metavar="QUEUE",
    help="Keep each message here until its arrival is acknowledged in QUEUE: the format name under which the"
    " destination knows a queue of this queue manager.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Move messages that are not transactional without --acknowledge-to and --verify: those that the"
    " destination refuses are lost without notice.",
)
@click.option("--in-clear", is_flag=True, help="Also move messages that request encryption, without it.")
@click.option("--timeout", type=SecondsOption(0), metavar="S", help="The longest wait in seconds.")
@click.option("--no-wait", is_flag=True, help="Begin the drain, and do not wait.")
@common_options
@pass_settings
def drain(
    settings: Settings,
    queue: str | None,
    destination: str | None,
    end: bool,
    verify: str | None,
    acknowledge_to: str | None,
    accept_loss: bool,
    in_clear: bool,
    timeout: float | None,
    no_wait: bool,
) -> int:
    """Move the messages of QUEUE, and those that arrive later, to a queue of another queue manager.

    The command waits until everything that was in the queue when it began has arrived, and prints the counts
    and digests of both sides; the drain itself continues, also after a restart of the server, until --end.
    Repeat the command to continue an interrupted wait.  Without --to and --end it prints the drain of QUEUE,
    or all drains.

    A destination acknowledges messages that are not transactional before it accepts them, so for such a queue
    --to needs --acknowledge-to, --verify or --accept-loss.
    """
    if queue is None and any((destination, end, verify, acknowledge_to, accept_loss, in_clear)):
        raise click.UsageError("QUEUE is missing")
    _check_options(destination, end, verify, acknowledge_to, accept_loss, in_clear, no_wait)
    output, client = settings.output, settings.client
    if queue is None:
        output.many(client.drains(), _COLUMNS)
        output.flush()
        return DONE
    if destination is None and not end:
        _print(output, client.drain(queue))
        return DONE
    with settings.naming(queue):
        if destination is not None:
            if verify is None and acknowledge_to is None and not accept_loss:
                _check_arrival(client, queue)
            if verify is not None:
                _check_destination(settings, verify, destination)
            summary = client.begin_drain(queue, destination, in_clear=in_clear, acknowledge_to=acknowledge_to)
        else:
            summary = client.drain(queue)
    status = DONE
    if not no_wait:
        wait = _DrainWait(settings, queue, verify, timeout)
        try:
            summary = wait.run(summary, is_final=end)
        except _Unfinished:
            status = TIMED_OUT
            summary = wait.summary
    missing = summary.get("missing", 0)
    # Without the drain its proof could not be repeated.
    is_unproven = missing > summary["refused"]
    if status == DONE and end and not is_unproven:
        client.end_drain(queue)
        summary["condition"] = "ended"
    output.progress("")
    _print(output, summary)
    if summary["moved"] and summary["arrival"] == ARRIVAL_UNPROVEN:
        click.echo(
            f"msmq: {summary['moved']} messages were moved, and {summary['destination']} may have refused"
            " them after their hand-over: compare with that queue, and see the events and dead letters of its"
            " queue manager",
            err=True,
        )
    if missing:
        click.echo(
            f"msmq: {missing} of the moved messages have not arrived at {summary['destination']}: see the"
            " events and dead letters of both queue managers"
            + ("; the drain is not ended" if end and is_unproven else ""),
            err=True,
        )
    elif refused := summary["refused"]:
        click.echo(
            f"msmq: {refused} of the moved messages were not accepted by {summary['destination']}: they are"
            " dead letters of this queue manager",
            err=True,
        )
    if end and summary["condition"] != "ended" and not missing:
        click.echo("msmq: the drain is not ended: --end --no-wait ends it at once", err=True)
    faults = missing + summary.get("twice", 0) + (0 if "missing" in summary else summary["refused"])
    return REFUSED if status == DONE and faults else status


def _check_options(
    destination: str | None,
    end: bool,
    verify: str | None,
    acknowledge_to: str | None,
    accept_loss: bool,
    in_clear: bool,
    no_wait: bool,
) -> None:
    """Check that no option would be ignored: without a proof a drain would seem to be verified.

    @raise click.UsageError: one would be.
    """
    if destination is not None and end:
        raise click.UsageError("give one of --to DESTINATION and --end")
    if destination is None and (acknowledge_to is not None or in_clear or accept_loss):
        raise click.UsageError("--acknowledge-to, --accept-loss and --in-clear need --to DESTINATION")
    if verify is not None and destination is None and not end:
        raise click.UsageError("--verify needs --to DESTINATION or --end")
    if verify is not None and end and no_wait:
        raise click.UsageError("--no-wait would end the drain without the comparison of --verify")


def _check_arrival(client: ControlClient, queue: str) -> None:
    """Check that what the destination refuses will be noticed.

    A destination that refuses a whole queue (there is no such queue, access is denied) would leave nothing of
    it anywhere, and look like one that accepts it.

    @raise click.UsageError: it will not be.
    """
    if not client.queue(queue)["transactional"]:
        raise click.UsageError(
            f"{queue} is not transactional, so messages that the destination refuses would be lost without"
            " notice: give --acknowledge-to, which keeps each one here until it has arrived, --verify, which"
            " counts what has arrived, or --accept-loss"
        )


def _print(output: Output, summary: dict[str, Any]) -> None:
    # An unknown number would be read as none.
    is_unknown = summary["arrival"] == ARRIVAL_UNPROVEN and not output.as_json
    output.one({**summary, "refused": ARRIVAL_UNPROVEN} if is_unknown else summary)
    output.flush()


def _path(destination: str) -> str:
    r"""The path by which the destination's own queue manager knows a queue of a direct name."""
    name = destination.partition("=")[2] if "=" in destination else destination
    return ".\\" + name.partition("\\")[2] if "\\" in name else destination


def _own_name(destination: str) -> str:
    is_direct = destination.upper().removeprefix("FORMATNAME:").startswith("DIRECT=")
    return _path(destination) if is_direct else destination


def _check_destination(settings: Settings, server: str, destination: str) -> None:
    """Check that the queue is there, and has a message log.

    @raise MQError: it is not, or has none.
    """
    settings.client_of(server, "--verify").logged(_own_name(destination), count=1)


class _DrainWait:
    """Waits until a drain has moved what was in the queue, and the destination has it."""

    def __init__(self, settings: Settings, queue: str, server: str | None, timeout: float | None) -> None:
        self._client = settings.client
        self._output = settings.output
        self._queue = queue
        self._other = None if server is None else settings.client_of(server, "--verify")
        self._deadline = None if timeout is None else monotonic() + timeout
        self.summary: dict[str, Any] = {}

    def run(self, summary: dict[str, Any], *, is_final: bool) -> dict[str, Any]:
        """Wait, and return the figures with the proof.

        @param is_final: wait until the queue is empty, for the end of the drain.
        """
        self.summary = summary
        wanted = summary["moved"] + summary["remaining"]
        # Messages that other readers receive, that expire or are purged are never moved.
        while self.summary["remaining"] and (is_final or self.summary["moved"] < wanted):
            self._pause()
        if self._other is None:
            moved = self.summary["moved"]
            while self.summary["in_transit"] > self.summary["moved"] - moved:
                self._pause()
            return self.summary
        return self._prove()

    def _prove(self) -> dict[str, Any]:
        """Compare the identifiers of both sides until all have arrived."""
        assert self._other is not None
        first, moved = self.summary["first_identifier"], self.summary["moved"]
        sent: list[str] = []
        while len(sent) < moved - first:
            page = self._client.drain_identifiers(self._queue, first + len(sent), _PAGE)
            if not page:
                raise MQError(Status.MQ_ERROR_OPERATION_CANCELLED, "the drain was ended by another command")
            sent += page
        proof = DrainProof(sent[: moved - first])
        destination, after = _own_name(self.summary["destination"]), 0
        known, since = -1, monotonic()
        while True:
            logged = self._other.logged(destination, after, _PAGE)
            proof.add(message["id"] for message in logged)
            if logged:
                after = logged[-1]["sequence"]
                continue
            self.summary = {**self.summary, "arrival": _VERIFIED, "unproven": first, **proof.result()}
            missing = self.summary["missing"]
            if proof.is_complete or (not self.summary["in_transit"] and missing <= self.summary["refused"]):
                # What has not arrived is a dead letter of the old queue manager.
                return self.summary
            if missing != known or self.summary["in_transit"]:
                known, since = missing, monotonic()
            elif self._deadline is None and monotonic() - since >= _QUIET:
                # Refused there without an acknowledgement, or on its way beyond the next hop.
                return self.summary
            self._output.progress(f"{missing} messages have not arrived yet")
            self._pause()

    def _pause(self) -> None:
        if self._deadline is not None and monotonic() >= self._deadline:
            raise _Unfinished
        sleep(_POLL)
        found = self._client.drain(self._queue)
        self._output.progress(
            f"{found['moved']} moved, {found['remaining']} remain, {found['in_transit']} in transit"
            + (f"; waits: {found['reason']}" if found["reason"] else "")
        )
        self.summary = {**self.summary, **found}
