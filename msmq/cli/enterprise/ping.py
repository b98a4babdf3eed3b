"""C{msmq ping}: sends Ping Requests to a queue manager. [MS-MQQB] 2.2.7."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import click

from msmq.cli.options import SecondsOption, Settings, common_options, pass_settings
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid

if TYPE_CHECKING:
    from msmq.net.ping import PingReactor, PingReply

_MOST_ADDRESSES: Final = 4


@click.command
@click.argument("host")
@click.option(
    "--timeout",
    metavar="S",
    type=SecondsOption(min=0, min_open=True),
    default=1.0,
    help="The longest wait for an answer, in seconds.  [default: 1]",
)
@common_options
@pass_settings
def ping(settings: Settings, host: str, timeout: float) -> None:
    """Check whether the queue manager of HOST, a name or an address, would accept a session.

    The answer comes from UDP port 3527, or from that of HOST:PORT.  Status 3 if none comes.
    """
    settings.refuse_on()
    name, port = _split(host)
    addresses = _addresses(name)
    reply = _run(addresses, port, timeout)
    if reply.problem:
        raise MQError(Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE, f"{reply.address}: {reply.problem}")
    if reply.identifier is None:
        raise MQError(Status.MQ_ERROR_IO_TIMEOUT, f"{host} did not answer within {timeout:g} s")
    settings.output.many(
        [
            {
                "address": reply.address,
                "identifier": format_guid(reply.identifier),
                "refused": reply.refused,
                "milliseconds": round(reply.seconds * 1000, 3),
            }
        ],
        ("address", "identifier", "refused", "milliseconds"),
    )
    settings.output.flush()


async def ask(reactor: PingReactor, addresses: Sequence[str], port: int | None, timeout: float) -> PingReply:
    """Ping these addresses one after the other; returns the first answer, or the last failure.

    @param timeout: seconds to wait for each.
    """
    from uuid import uuid4

    from msmq.net.clock import SystemClock
    from msmq.net.ping import Pinger
    from msmq.settings import SessionSettings

    pinger = Pinger(
        uuid4(), reactor=reactor, clock=SystemClock(), settings=SessionSettings(ping_response=timeout)
    )
    try:
        reply = await pinger.ask(addresses[0], port)
        for address in addresses[1:]:
            if reply.identifier is not None:
                break
            reply = await pinger.ask(address, port)
        return reply
    finally:
        await pinger.stop()


def _run(addresses: Sequence[str], port: int | None, timeout: float) -> PingReply:
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    outcome: list[PingReply | Failure] = []

    def end(result: PingReply | Failure) -> None:
        outcome.append(result)
        reactor.stop()

    def begin() -> None:
        Deferred.fromCoroutine(ask(cast("PingReactor", reactor), addresses, port, timeout)).addBoth(end)

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        # The reactor's own handler of SIGINT stopped it.
        raise KeyboardInterrupt
    [result] = outcome
    if isinstance(result, Failure):
        result.raiseException()
    return result


def _split(host: str) -> tuple[str, int | None]:
    """The host and the port of C{HOST}, C{HOST:PORT}, C{[IPv6]:PORT} or a bare IPv6 address."""
    name, colon, port = host.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        return host.removeprefix("[").removesuffix("]"), None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise click.UsageError(f"{quoted(port)} in {quoted(host)} is not a port from 1 to 65535")
    return name.removeprefix("[").removesuffix("]"), int(port)


def _addresses(name: str) -> list[str]:
    """The addresses of a host, IPv4 first, since old queue managers listen on IPv4 only.

    @raise MQError: MQ_ERROR_MACHINE_NOT_FOUND.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise MQError(
            Status.MQ_ERROR_MACHINE_NOT_FOUND, f"{quoted(name)}: {getattr(error, 'strerror', None) or error}"
        ) from error
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))[:_MOST_ADDRESSES]
