"""Answers that a client waits for reach the kernel in the turn in which they are known."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IWriteDescriptor
from twisted.internet.testing import StringTransport
from zope.interface import implementer

from msmq.control.protocol.records import PROTOCOL, StreamRecord
from msmq.queues.arriving.message import Delivery
from tests.control.support import ORDERS, Caller, ControlTestCase

UPGRADE = {"Connection": "Upgrade", "Upgrade": PROTOCOL}


@implementer(IWriteDescriptor)
class DescriptorTransport(StringTransport):
    """A transport that notes how much of what was written the kernel has been given.

    @ivar sizes: after each write to the kernel, all bytes that it has.
    @ivar bufferSize: bytes that are read at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.bufferSize = 0x10000

    def doWrite(self) -> None:
        self.sizes.append(len(self.value()))

    def fileno(self) -> int:
        return -1

    def logPrefix(self) -> str:
        return "a test"

    def connectionLost(self, reason: object) -> None:
        self.connected = False


class DirectWriteTests(ControlTestCase):
    """How often the kernel is called, and with what."""

    def connection(self, path: str, **parameters: Any) -> tuple[Caller, DescriptorTransport]:
        """An upgraded connection to a descriptor."""
        caller = self.caller()
        transport = DescriptorTransport()
        caller.transport = transport
        caller.protocol.makeConnection(transport)
        caller.ask("GET", path, headers=UPGRADE, **parameters)
        transport.sizes.clear()
        return caller, transport

    def test_accepted(self) -> None:
        """The result of all that has arrived is one write; a client that waits for it has it at once."""
        caller, transport = self.connection("/v1/send")
        for _ in range(3):
            before = len(transport.value())
            messages = [StreamRecord({"destination": ORDERS}, b"1")] * 3
            caller.feed(b"".join(message.to_bytes() for message in messages))
            self.assertGreater(len(transport.value()), before)
            self.assertEqual(transport.sizes, [len(transport.value())])
            transport.sizes.clear()

    def test_more_to_come(self) -> None:
        """While other messages of the client are being stored, its results wait for theirs."""
        caller, transport = self.connection("/v1/send")
        self.disk.is_slow = True
        for _ in range(2):
            message = StreamRecord({"destination": ORDERS, "delivery": "recoverable"}, b"1")
            caller.feed(message.to_bytes())
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(transport.sizes, [len(transport.value())])

    def test_received(self) -> None:
        """A message and its receipt are one write."""
        _, transport = self.connection("/v1/receive", queue=ORDERS, count=2)
        self.put(b"1")
        self.clock.advance(0)
        self.assertIn(b'"receipt":1', transport.value())
        self.assertEqual(transport.sizes, [len(transport.value())])

    def test_confirmed(self) -> None:
        """A confirmation that wants no answer is confirmed without one; the end of the stream answers."""
        self.put(b"1", b"2", delivery=Delivery.RECOVERABLE)
        caller, transport = self.connection("/v1/receive", queue=ORDERS, count=3)
        before = transport.value()
        transport.sizes.clear()
        caller.feed(StreamRecord({"confirm": 1, "answer": False}).to_bytes())
        self.assertEqual(transport.value(), before)
        self.assertEqual(transport.sizes, [])
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_large_reads(self) -> None:
        """Where more arrives than is read at once, more is read from then on."""
        caller, transport = self.connection("/v1/send")
        transport.bufferSize = 100
        data = b"".join(StreamRecord({"destination": ORDERS}, bytes(200)).to_bytes() for _ in range(3))
        caller.feed(data[:99])
        self.assertEqual(transport.bufferSize, 100)
        caller.feed(data[99:199])
        self.assertEqual(transport.bufferSize, 0x100000)
        caller.feed(data[199:])
        self.assertEqual(self.bodies(), [bytes(200)] * 3)

    def test_connection_that_is_lost(self) -> None:
        """Results that become known after the client has disconnected are not written."""
        caller, transport = self.connection("/v1/send")
        self.disk.is_slow = True
        caller.feed(StreamRecord({"destination": ORDERS, "delivery": "recoverable"}, b"1").to_bytes())
        transport.connectionLost(None)
        caller.hang_up()
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(transport.sizes, [])
