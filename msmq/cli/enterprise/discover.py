"""C{msmq discover}: finds directory servers by broadcast. [MS-MQSD]."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, cast

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID, format_guid, parse_guid

if TYPE_CHECKING:
    from uuid import UUID

    from msmq.discovery.client import DiscoveryClient
    from msmq.net.discovery import DiscoveryReactor


@click.command
@click.option(
    "--config", metavar="FILE", help="The configuration of a server, for its enterprise, site and address."
)
@click.option(
    "--address", metavar="IP", help="Search only the network of this address.  [default: all networks]"
)
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="N", help="The UDP port of the servers.  [default: 1801]"
)
@click.option("--enterprise", metavar="GUID", help="The enterprise to send in the request.  [default: none]")
@click.option(
    "--site", metavar="GUID", help="The site to send; servers of that site return no list.  [default: none]"
)
@common_options
@pass_settings
def discover(
    settings: Settings,
    config: str | None,
    address: str | None,
    port: int | None,
    enterprise: str | None,
    site: str | None,
) -> None:
    """Find directory servers by broadcast on the networks of this host.

    Each network is searched for 15 seconds, or 30 if a server answers late.  Status 3 if no server answers.
    """
    settings.refuse_on()
    wanted = _Wanted(config)
    if enterprise is not None:
        wanted.enterprise = _guid("--enterprise", enterprise)
    if site is not None:
        wanted.site = _guid("--site", site)
    if address is not None:
        wanted.address = _address(address)
    if port is not None:
        wanted.port = port
    client = _run(wanted)
    if client is None:
        raise MQError(Status.MQ_ERROR_IO_TIMEOUT, "no directory server answered")
    settings.output.many(
        [
            {
                "servers": list(client.directory_servers),
                "connected_networks": [format_guid(network) for network in client.connected_networks],
                "address": client.last_successful_address,
            }
        ],
        ("servers", "connected_networks", "address"),
    )
    settings.output.flush()


class _Wanted:
    """The parameters of a search.

    @ivar address: the one network; empty for all.
    """

    def __init__(self, config: str | None) -> None:
        self.enterprise = NULL_GUID
        self.site = NULL_GUID
        self.address = ""
        self.port = 1801
        if config is not None:
            self._take(config)

    def _take(self, config: str) -> None:
        from msmq.service.configuration import ConfigurationError, load

        try:
            configuration = load(config)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from error
        queue_manager = configuration.queue_manager
        self.enterprise = queue_manager.enterprise or NULL_GUID
        self.site = queue_manager.sites[0] if queue_manager.sites else NULL_GUID
        endpoint = configuration.listen.discovery
        if endpoint is not None:
            self.port = endpoint.port or self.port
            if ":" not in endpoint.interface:
                self.address = endpoint.interface


def _guid(option: str, text: str) -> UUID:
    try:
        return parse_guid(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _address(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError as error:
        raise click.UsageError(f"--address: {quoted(text)} is not an IPv4 address") from error


def _run(wanted: _Wanted) -> DiscoveryClient | None:
    """The client after its run; C{None} if no server answered."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from msmq.discovery.client import DiscoveryClient
    from msmq.net.clock import SystemClock
    from msmq.net.discovery import Discovery
    from msmq.net.networks import attached_networks

    networks = attached_networks(wanted.address)
    if not networks:
        where = f"{wanted.address} is not an address of this host" if wanted.address else "this host has none"
        raise MQError(Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE, f"no network can be searched: {where}")
    client = DiscoveryClient(wanted.enterprise, wanted.site)
    outcome: list[bool | Failure] = []

    def end(result: bool | Failure) -> None:
        outcome.append(result)
        reactor.stop()

    async def look() -> bool:
        discovery = Discovery(
            client,
            reactor=cast("DiscoveryReactor", reactor),
            clock=SystemClock(),
            port=wanted.port,
            networks=lambda: networks,
        )
        return await discovery.get_directory_server_list()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(look()).addBoth(end))
    reactor.run()
    if not outcome:
        # The reactor's own handler of SIGINT has stopped it.
        raise KeyboardInterrupt
    [result] = outcome
    if isinstance(result, Failure):
        result.raiseException()
    return client if result else None
