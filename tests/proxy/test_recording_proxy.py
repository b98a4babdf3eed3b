"""The proxy as a service, on real sockets of loopback."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from msmq import Delivery, Message, NotDelivered, connect
from msmq.decoding.captures import decode
from msmq.net.clock import SystemClock
from msmq.net.ping import Pinger
from msmq.proxy.ping_relay import PingRelay
from msmq.structures.internal.ping import Ping
from msmq.testing import FaultInjectingDouble, RecordingProxy, RelayedPacket, start_service
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address

TARGET, PROXY = 110, 111


class CountingProxy(RecordingProxy):
    """Counts messages in its hook."""

    messages = 0

    def packet_relayed(self, packet: RelayedPacket) -> None:
        """Count, and fail once."""
        if packet.fields.get("packet") == "UserMessage":
            self.messages += 1
            raise ValueError("the hook failed")


class RecordingProxyTests(TestCase):
    """A sender, the proxy, and a receiver."""

    async def test_a_message_passes(self) -> None:
        """A ping and a message pass; the hook sees the message, and the capture has it."""
        double = FaultInjectingDouble(address=own_address(TARGET))
        capture = Path(self.mktemp())
        proxy = CountingProxy(own_address(TARGET), capture=capture, address=own_address(PROXY))
        for service in (double, proxy):
            service.startService()
            self.addCleanup(service.stopService)
            await service.started
        pinger = Pinger(ALPHA, reactor=installed_reactor, clock=SystemClock())  # type: ignore[arg-type]
        self.addCleanup(pinger.stop)
        self.assertFalse((await pinger.ask(own_address(PROXY))).refused)
        async with connect(
            "DIRECT=OS:DOUBLE", hosts={"DOUBLE": own_address(PROXY)}, reactor=IReactorTime(installed_reactor)
        ) as peer:
            await peer.send(r"private$\orders", Message(label="1", delivery=Delivery.RECOVERABLE), timeout=60)
        relayed = await proxy.when(lambda packet: packet.fields.get("packet") == "UserMessage")
        self.assertTrue(relayed.is_from_initiator)
        await double.when(lambda event: event.kind == "received")
        await proxy.when(lambda packet: packet.kind == "closed")
        self.assertEqual(proxy.messages, 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        await proxy.stopService()
        packets: list[Any] = [line.get("packet") for line in decode(capture.read_bytes())]
        self.assertEqual(packets.count("UserMessage"), 1)
        self.assertEqual(proxy.omitted, 0)

    async def test_example(self) -> None:
        """The example prints a line for each packet, in the order in which they pass."""
        output = io.StringIO()
        self.patch(sys, "stdout", output)
        double = FaultInjectingDouble(address=own_address(TARGET))
        proxy = example("recording_proxy", EXAMPLES / "recording_proxy").PrintingProxy(
            own_address(TARGET), address=own_address(PROXY)
        )
        for service in (double, proxy):
            service.startService()
            self.addCleanup(service.stopService)
            await service.started
        async with connect(
            "DIRECT=OS:DOUBLE", hosts={"DOUBLE": own_address(PROXY)}, reactor=IReactorTime(installed_reactor)
        ) as peer:
            message = Message(body=b"two", label="boxes", delivery=Delivery.RECOVERABLE)
            await peer.send(r"private$\orders", message, timeout=60)
        await proxy.when(lambda packet: packet.kind == "closed")
        lines = output.getvalue().splitlines()
        self.assertEqual(
            lines[:6],
            [
                "1 -> opened",
                "1 -> EstablishConnection",
                "1 <- EstablishConnection",
                "1 -> ConnectionParameters",
                "1 <- ConnectionParameters",
                "1 -> message 'boxes', 3 bytes",
            ],
        )
        self.assertTrue(lines[-1].startswith("1 -> closed"), lines)

    async def test_no_target(self) -> None:
        """A connection is closed at once while nothing listens at the target."""
        proxy = RecordingProxy(own_address(TARGET), address=own_address(PROXY))
        proxy.startService()
        self.addCleanup(proxy.stopService)
        await proxy.started
        async with connect(own_address(PROXY), reactor=IReactorTime(installed_reactor)) as peer:
            sending = Deferred.fromCoroutine(peer.send("orders", Message(label="1")))
            refused = await proxy.when(lambda packet: packet.kind == "refused")
        await self.assertFailure(sending, NotDelivered)
        self.assertIn("refused", refused.detail)

    async def test_a_target_of_ipv6(self) -> None:
        """An address of IPv6 is one too; pings from addresses of the other family have no answer."""
        proxy = RecordingProxy("::1", address=own_address(PROXY))
        proxy.startService()
        self.addCleanup(proxy.stopService)
        await proxy.started
        network = Network(Clock())
        relay = PingRelay(("2001:db8::5", 3527))
        network.host("10.0.0.9").listenUDP(3527, relay)
        relay.datagramReceived(Ping(1, ALPHA).to_bytes(), ("10.0.0.1", 4000))
        self.assertEqual(network.datagrams, [])

    def test_a_link_local_target(self) -> None:
        """Its answers, whose source a socket gives without the scope, go to the host that asked."""
        network = Network(Clock())
        relay = PingRelay(("fe80::5%2", 3527))
        network.host("fe80::9").listenUDP(3527, relay)
        request = Ping(1, ALPHA)
        relay.datagramReceived(request.to_bytes(), ("fe80::1", 4000))
        relay.datagramReceived(request.response(BETA, is_refused=False).to_bytes(), ("fe80::5", 3527))
        self.assertEqual(
            [datagram.destination for datagram in network.datagrams], [("fe80::5%2", 3527), ("fe80::1", 4000)]
        )

    async def test_several_stops(self) -> None:
        """Each ends when the ports are closed: another proxy can use the address. Cancelling one ends its
        wait alone.
        """
        proxy = RecordingProxy(own_address(TARGET), address=own_address(PROXY))
        proxy.startService()
        await proxy.started
        left, first, second = (proxy.stopService() for _ in range(3))
        left.cancel()
        await self.assertFailure(left, CancelledError)
        await second
        self.successResultOf(first)
        await start_service(self, RecordingProxy(own_address(TARGET), address=own_address(PROXY)))

    async def test_capture_cannot_be_written(self) -> None:
        """A capture in a directory that does not exist fails the start, with the name of the file."""
        proxy = RecordingProxy("127.0.0.1", capture="/nowhere/capture.pcap", address=own_address(PROXY))
        proxy.startService()
        self.addCleanup(proxy.stopService)
        with self.assertRaisesRegex(FileNotFoundError, "/nowhere/capture.pcap"):
            await proxy.started
