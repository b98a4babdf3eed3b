"""C{msmq discover} and a server that answers, by broadcast on the real loopback network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from twisted.internet import reactor as installed_reactor
from twisted.trial.unittest import TestCase

from msmq.net.discovery import DiscoveryServerProtocol
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.wire.guid import format_guid
from tests.integration.test_control_socket import PROJECT, spawn
from tests.patience import DEADLINE

reactor = cast(Any, installed_reactor)

SITE = UUID("c51bf6dd-d4ad-4543-8739-71568e8f9128")
NETWORK = UUID("e6eaba62-d1c6-11db-baac-0003ff4e2d22")
CONFIGURATION = """
[queue_manager]
{more}
[listen]
session = "off"
ping = "off"
control = "off"
discovery = "udp:0:interface=127.0.0.47"
[storage]
backend = "memory"
"""
FULL = f'sites = ["{SITE}"]\nconnected_networks = ["{NETWORK}"]'


class DiscoverCommandTests(TestCase):
    """Looking for directory servers."""

    timeout = DEADLINE

    async def discover(self, *arguments: str) -> tuple[str, str, int]:
        ended = await spawn(("discover", *arguments), {}, PROJECT).ended
        return ended.output.decode(), ended.errors, cast(int, ended.status)

    async def serve(self, more: str) -> Server:
        path = Path(self.mktemp())
        path.mkdir()
        file = path / "msmq.toml"
        file.write_text(CONFIGURATION.format(more=more))
        server = Server(load(file, Overrides(name="GAMMA", data=str(path / "data"))), reactor)
        server.startService()
        await server.started
        self.addCleanup(server.stopService)
        return server

    async def test_server_of_the_site(self) -> None:
        """MQSD-1.5-01: the server of the site is found by broadcast; it says its networks, and no servers."""
        server = await self.serve(FULL)
        [address] = server.addresses
        self.assertTrue(address.startswith("UDP 127.0.0.47:"))
        port = address.rpartition(":")[2]
        output, errors, status = await self.discover(
            "--address", "127.0.0.48", "--port", port, "--site", str(SITE), "--json"
        )
        self.assertEqual((status, errors), (0, ""))
        [line] = output.splitlines()
        self.assertEqual(
            json.loads(line),
            {"servers": [], "connected_networks": [format_guid(NETWORK)], "address": "127.0.0.48"},
        )

    async def test_two_servers_of_another_site(self) -> None:
        """Without a directory each names itself; with two answers no further one has to be waited for."""
        server = await self.serve(FULL)
        port = server.addresses[0].rpartition(":")[2]
        assert server._parts is not None and server._parts.discovery is not None
        other = DiscoveryServerProtocol(server._parts.discovery.server, reactor)
        other.listen(int(port), "127.0.0.49")
        self.addCleanup(other.stop)
        output, errors, status = await self.discover("--address", "127.0.0.48", "--port", port)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("GAMMA", output)
        self.assertIn(format_guid(NETWORK), output)

    async def test_nothing_is_configured(self) -> None:
        """MQSD-1.3-02, reading 23: without a connected network no request is answered, and no port is
        open.
        """
        server = await self.serve("")
        self.assertEqual(list(server.addresses), [])

    async def test_wrong_usage(self) -> None:
        """Invalid arguments are refused before anything is sent."""
        for arguments, status, part in (
            (["--address", "nowhere"], 2, "'nowhere' is not an IPv4 address"),
            (["--site", "x"], 2, "--site"),
            (["--config", "missing.toml"], 2, "missing.toml"),
            (["--address", "203.0.113.9"], 1, "203.0.113.9 is not an address of this host"),
        ):
            output, errors, exit_status = await self.discover(*arguments)
            self.assertEqual((output, exit_status), ("", status), errors)
            self.assertIn(part, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)
