"""C{msmq discover}: finds directory servers by broadcast. [MS-MQSD]."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.quoting import quoted
from msmq.wire.guid import NULL_GUID, format_guid, parse_guid

if TYPE_CHECKING:
    from uuid import UUID

    from msmq.net.directory_search import FoundDirectoryServers


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
    found = _run(wanted)
    settings.output.many(
        [
            {
                "servers": list(found.servers),
                "connected_networks": [format_guid(network) for network in found.connected_networks],
                "address": found.address,
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


def _run(wanted: _Wanted) -> FoundDirectoryServers:
    """What the servers answered."""
    from twisted.internet import reactor
    from twisted.internet.defer import maybeDeferred
    from twisted.python.failure import Failure

    from msmq.net.directory_search import find_directory_servers

    outcome: list[FoundDirectoryServers | Failure] = []

    def end(result: FoundDirectoryServers | Failure) -> None:
        outcome.append(result)
        reactor.stop()

    def begin() -> None:
        maybeDeferred(
            find_directory_servers,
            enterprise=wanted.enterprise,
            site=wanted.site,
            address=wanted.address,
            port=wanted.port,
        ).addBoth(end)

    reactor.callWhenRunning(begin)
    reactor.run()
    if not outcome:
        # The reactor's own handler of SIGINT has stopped it.
        raise KeyboardInterrupt
    [result] = outcome
    if isinstance(result, Failure):
        result.raiseException()
    return result
