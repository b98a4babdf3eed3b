"""Whether a server answers pings is one line of its configuration."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import cast
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import DatagramProtocol
from twisted.trial.unittest import TestCase

from msmq.net.clock import SystemClock
from msmq.net.ping import Pinger, PingReactor
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from tests.servers.own_address import own_address

ASKING = UUID("557358d1-9150-9595-4997-b6e611ea26c6")
ADDRESS = own_address(126)
"""An address of loopback for these tests alone, so that they can use the real port."""


class PingSwitchTests(TestCase):
    def setUp(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        self.reactor = cast(PingReactor, reactor)

    async def identifier_of_server(self, listen: str) -> str:
        """Start a server with this C{[listen]}; returns its identifier."""
        path = Path(str(self.mktemp()))
        path.write_text(f'[listen]\nsession = "off"\ncontrol = "off"\n{listen}')
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), address=ADDRESS)
        server = Server(load(path, overrides), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return str(server.manager.inspection.status().identifier)

    async def test_answers_by_default(self) -> None:
        """MQQB-2.1.2-07: by default a server answers on UDP 3527, as old initiators need.

        The document's newer versions have the same switch and the opposite default (note 10).
        MQQB-3.1.1.7.1-01: that it sends none before a session is seen where the handshake is.
        """
        identifier = await self.identifier_of_server("")
        pinger = Pinger(ASKING, reactor=self.reactor, clock=SystemClock())
        self.addCleanup(pinger.stop)
        reply = await pinger.ask(ADDRESS)
        self.assertTrue(reply.will_accept)
        self.assertEqual(str(reply.identifier), identifier)

    async def test_is_closed_when_switched_off(self) -> None:
        """MQQB-2.1.2-07: with C{ping = "off"} UDP 3527 is free for other programs."""
        await self.identifier_of_server('ping = "off"\n')
        port = self.reactor.listenUDP(3527, DatagramProtocol(), ADDRESS)
        await maybeDeferred(port.stopListening)
