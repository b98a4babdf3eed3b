"""A session factory of an application that dials: without a broker, and with an identifier alone."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any
from uuid import uuid4
from weakref import ref

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq import DiallingSessionFactory, NextHopAddress, SessionFactory, SessionProtocol
from msmq.errors import LocalProtocolError
from msmq.net.connector import Connector
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA
from tests.servers.own_address import own_address
from tests.shares import SHARES


class RedialTests(SynchronousTestCase):
    """ALPHA dials BETA while messages wait."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        here = self.network.host("127.0.0.2")
        self.resolved: list[float] = []
        started = self.clock.now().monotonic

        async def lookup(host: str) -> Sequence[NextHopAddress]:
            self.resolved.append(self.clock.now().monotonic - started)
            return [NextHopAddress(host, 1801, here.client_endpoint(host, 1801))]

        self.factory = DiallingSessionFactory(
            ALPHA, reactor=self.clock.reactor, clock=self.clock, lookup=lookup
        )
        self.backlog = True
        self.connector = self.factory.connector("127.0.0.3", lambda: self.backlog)

    def listen(self) -> None:
        """BETA listens from now on."""
        beta = SessionFactory(BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)
        self.successResultOf(self.network.host("127.0.0.3").server_endpoint(1801).listen(beta))

    @property
    def is_open(self) -> bool:
        return self.connector.session is not None and self.connector.session.is_open

    def test_a_peer_that_is_away(self) -> None:
        """It is dialled again, after growing waits, until it listens."""
        self.connector.connect()
        self.clock.advance(20)
        self.assertEqual((self.is_open, self.resolved), (False, [0, 5, 15]))
        self.listen()
        self.clock.advance(20)
        self.assertEqual((self.is_open, self.resolved), (True, [0, 5, 15, 35]))

    def test_a_connection_that_is_lost(self) -> None:
        """It is dialled again."""
        self.listen()
        self.connector.connect()
        self.clock.advance(1)
        self.assertTrue(self.is_open)
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        self.assertFalse(self.is_open)
        self.clock.advance(10)
        self.assertTrue(self.is_open)

    def test_nothing_waits(self) -> None:
        """Without messages it is not dialled again."""
        self.backlog = False
        self.connector.connect()
        self.clock.advance(100)
        self.assertEqual(self.resolved, [0])

    def test_stopped(self) -> None:
        """A connector that is stopped dials no more."""
        self.connector.connect()
        self.clock.advance(1)
        self.connector.stop()
        self.clock.advance(100)
        self.assertEqual(self.resolved, [0])

    def test_dropped_connectors(self) -> None:
        """A factory keeps none that an application has dropped, whether its peer was there or not."""
        self.listen()

        def dropped(host: str) -> ref[Connector]:
            connector = self.factory.connector(host, lambda: False)
            connector.connect()
            self.clock.advance(1)
            connector.stop()
            self.clock.advance(100)
            return ref(connector)

        found = [dropped("127.0.0.3"), dropped("127.0.0.4")]
        gc.collect()
        self.assertEqual([each() for each in found], [None, None])


class DefaultTests(TestCase):
    """On a reactor of Twisted."""

    async def test_the_name_service(self) -> None:
        """A factory needs nothing but an identifier: the reactor finds the host."""
        opened: Deferred[str] = Deferred()

        class Opened(SessionProtocol):
            def session_opened(self) -> None:
                super().session_opened()
                opened.callback(self.remote_address)

        address = own_address(202)
        peer = SessionFactory(uuid4())
        endpoint: Any = serverFromString(reactor, f"tcp:1801:interface={address}")
        port = await endpoint.listen(peer)
        self.addCleanup(port.stopListening)
        self.addCleanup(peer.close_all)
        factory = DiallingSessionFactory(uuid4(), protocol=Opened)
        connector = factory.connector(address, lambda: False)
        self.addCleanup(connector.stop)
        connector.connect()
        self.assertEqual(await opened, address)
        assert connector.session is not None
        lost: Deferred[None] = Deferred()
        self.patch(factory, "connection_lost", lambda connection: lost.callback(None))
        connector.stop()
        await lost

    def test_a_reactor_without_a_name_service(self) -> None:
        """It is refused where it is created, not where it dials."""
        error = self.assertRaises(LocalProtocolError, DiallingSessionFactory, uuid4(), reactor=Clock())
        self.assertIn("lookup is missing", str(error))
