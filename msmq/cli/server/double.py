"""C{msmq double}: a scripted receiver of messages, for tests of other systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from msmq.cli.exit_status import DONE, WRONG_USAGE
from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.cli.output import OutputError, complain
from msmq.errors import MsmqError
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.cli.output import Output
    from msmq.double.double import FaultInjectingDouble
    from msmq.double.events import DoubleEvent

_FAREWELL: Final = 0.5
"""Seconds for the acknowledgements of the last message."""


@click.command
@click.option(
    "--script",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The faults, as TOML.  [default: none]",
)
@click.option(
    "--address",
    metavar="IP",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this address, at the ports 1801 and 3527.",
)
@click.option("--name", metavar="NAME", default="DOUBLE", show_default=True, help="ComputerName.")
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(min=1),
    help="End when N messages were received.  [default: Ctrl-C]",
)
@click.option(
    "--timeout",
    metavar="S",
    type=SecondsOption(min=0, min_open=True),
    help="End after S seconds, with status 3 if --count was not reached.",
)
@common_options
@pass_settings
def double(
    settings: Settings,
    script: str | None,
    address: str,
    name: str,
    count: int | None,
    timeout: float | None,
) -> int:
    """Receive messages as a queue manager in memory, with the faults of a script, and print what happens.

    For tests of systems that send: it refuses, delays, loses and closes as FILE says, and accepts from every
    address without authentication.
    """
    settings.refuse_on()
    from msmq.double.double import FaultInjectingDouble
    from msmq.double.script_file import ScriptError, read_script
    from msmq.errors import LocalProtocolError

    try:
        made = FaultInjectingDouble(
            None if script is None else read_script(script), address=address, name=name
        )
    except ScriptError as error:
        for line in str(error).splitlines():
            complain(line, "msmq double")
        return WRONG_USAGE
    except LocalProtocolError as error:
        raise click.UsageError(str(error).partition(": ")[2]) from error
    received = _run(made, settings.output, count, timeout)
    if count is None or received >= count:
        return DONE
    if timeout is None:
        # The reactor's own handler of SIGINT stopped it.
        raise KeyboardInterrupt
    raise MQError(
        Status.MQ_ERROR_IO_TIMEOUT, f"{received} of {count} messages were received within {timeout:g} s"
    )


def _run(made: FaultInjectingDouble, output: Output, count: int | None, timeout: float | None) -> int:
    """Run until a signal, the count or the time-out; returns how many messages were received."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IReactorCore, IReactorTime

    core, timer = IReactorCore(reactor), IReactorTime(reactor)
    failures: list[BaseException] = []
    received = 0

    is_ending = False

    def end() -> None:
        nonlocal is_ending
        if not is_ending:
            is_ending = True
            core.stop()

    async def stop() -> None:
        nonlocal is_ending
        # A signal has ended it as well.
        is_ending = True
        await made.stopService()

    def fail(error: BaseException) -> None:
        failures.append(error)
        end()

    def show(event: DoubleEvent) -> None:
        nonlocal received
        try:
            output.object(_record(event)) if output.as_json else output.write(_line(event))
            output.flush()
        except OutputError as error:
            # The reader of a pipe has ended, as head does.
            fail(error)
        received += event.kind == "received"
        if count is not None and received == count:
            # The acknowledgements of the last message still have to leave.
            timer.callLater(_FAREWELL, end)

    async def begin() -> None:
        made.startService()
        try:
            await made.started
            if output.as_json:
                output.object({"event": "listening", "addresses": list(made.addresses)})
            output.text(f"listens on {', '.join(made.addresses)}")
            output.flush()
        except MsmqError as error:
            fail(error)
            return
        if timeout is not None:
            timer.callLater(timeout, end)

    made.observers.append(show)
    core.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromCoroutine(stop()))
    core.callWhenRunning(lambda: Deferred.fromCoroutine(begin()))
    core.run()
    if failures:
        if isinstance(failures[0], OutputError):
            raise failures[0]
        raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, str(failures[0]))
    return received


def _record(event: DoubleEvent) -> dict[str, Any]:
    from msmq.decoding.values import unix_time

    return {
        "event": event.kind,
        "time": unix_time(event.time),
        "address": event.address,
        "action": event.action,
        "detail": event.detail,
        "message": event.message,
    }


def _line(event: DoubleEvent) -> str:
    from msmq.decoding.values import unix_time

    parts = [unix_time(event.time), event.kind, event.address]
    if event.message is not None:
        parts += [event.message["destination_queue"], event.message["id"], event.message["label"]]
    parts += [f"[{event.action}]" if event.action else "", event.detail]
    return "  ".join(str(part) for part in parts if part)
