"""Sending to another queue manager, on real sockets of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq import (
    Broker,
    Delivery,
    LocalProtocolError,
    Message,
    MQError,
    NotDelivered,
    Outcome,
    Overrides,
    ReceivedMessage,
    Sender,
    Status,
    accept,
    connect,
    load,
)
from msmq.sender.sender import _awaited
from tests.project.example_files import example
from tests.servers.own_address import own_address

RECOVERABLE = Delivery.RECOVERABLE


class Receiver(Broker):
    """Keeps the bodies; C{all} fires when there are C{count}."""

    def __init__(self, count: int) -> None:
        super().__init__(
            address=own_address(67),
            name="RECEIVER",
            queues={"orders": {}, "payments": {"transactional": True}},
        )
        self.bodies: list[bytes] = []
        self.all: Deferred[None] = Deferred()
        self._count = count

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Keep it."""
        self.bodies.append(message.body)
        if len(self.bodies) == self._count:
            self.all.callback(None)
        return accept()


class SenderTests(TestCase):
    """A sender and a receiver, each with a queue manager of its own."""

    async def receiver(self, count: int) -> Receiver:
        broker = Receiver(count)
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.started
        return broker

    async def test_each_kind(self) -> None:
        """Express, recoverable and transactional messages; each send ends when its message is delivered."""
        broker = await self.receiver(3)
        async with connect(own_address(67)) as peer:
            first = await peer.send("orders", Message(body=b"express"))
            second = await peer.send("orders", Message(body=b"recoverable", delivery=RECOVERABLE))
            third = await peer.send(
                r".\private$\payments", Message(body=b"transactional", transactional=True)
            )
        await broker.all
        self.assertEqual(sorted(broker.bodies), [b"express", b"recoverable", b"transactional"])
        self.assertTrue(first.ordinal < second.ordinal < third.ordinal)

    async def test_many(self) -> None:
        """More than may be outstanding wait, and arrive in the order of the calls."""
        broker = await self.receiver(300)
        bodies = [b"%d" % number for number in range(300)]
        destination = r"DIRECT=OS:RECEIVER\private$\orders"
        async with Sender(hosts={"RECEIVER": own_address(67)}, outstanding=20) as sender:
            sends = [
                ensureDeferred(sender.send(destination, Message(body=body, delivery=RECOVERABLE)))
                for body in bodies
            ]
            self.assertLessEqual(sender.pending, 20)
            await gatherResults(sends)
            self.assertEqual(sender.pending, 0)
        await broker.all
        self.assertEqual(broker.bodies, bodies)

    async def test_unreachable(self) -> None:
        """The time-out ends the wait and names the message; closing ends what is pending."""
        async with connect(own_address(68)) as peer:
            with self.assertRaises(MQError) as late:
                await peer.send("orders", Message(body=b"1"), timeout=0.05)
            self.assertEqual(late.exception.status, Status.MQ_ERROR_IO_TIMEOUT)
            self.assertIn("is not acknowledged after 0.05 s", str(late.exception))
            pending = ensureDeferred(peer.send("orders", Message(body=b"2", delivery=RECOVERABLE)))
        with self.assertRaises(NotDelivered) as lost:
            await pending
        self.assertEqual(lost.exception.event, "sender closed")

    async def test_closed_while_sends_wait(self) -> None:
        """Sends that wait for the results of others end with the sender as well, however many they are."""
        async with Sender(outstanding=1) as sender:
            destination = rf"DIRECT=TCP:{own_address(68)}\private$\orders"
            sends = [ensureDeferred(sender.send(destination, Message(body=b"1"))) for _ in range(1000)]
            self.assertEqual(sender.pending, 1)
        self.failureResultOf(sends[0], NotDelivered)
        for waiting in sends[1:]:
            refused = self.failureResultOf(waiting, MQError).value
            self.assertEqual(refused.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.assertEqual(sender.pending, 0)

    async def test_late_among_others(self) -> None:
        """The time-out also ends a wait for the results of other messages; this one is not sent then."""
        async with Sender(outstanding=1) as sender:
            destination = f"DIRECT=TCP:{own_address(68)}\\private$\\orders"
            first = ensureDeferred(sender.send(destination, Message(body=b"1", delivery=RECOVERABLE)))
            with self.assertRaises(MQError) as late:
                await sender.send(destination, Message(body=b"2"), timeout=0.05)
            self.assertEqual(late.exception.status, Status.MQ_ERROR_IO_TIMEOUT)
            self.assertIn("after 0.05 s, and this one was not sent", str(late.exception))
            self.assertEqual(sender.pending, 1)
        with self.assertRaises(NotDelivered):
            await first

    async def test_limits_that_are_none(self) -> None:
        """A time-out that is no time is refused before the message is sent."""
        async with connect(own_address(68)) as peer:
            for timeout in (-1, -0.001, math.nan):
                with self.assertRaises(LocalProtocolError) as refused:
                    await peer.send("orders", Message(body=b"1"), timeout=timeout)
                self.assertIn(f"send: timeout is {timeout:g}", str(refused.exception))
            with self.assertRaises(MQError):
                await peer.send("orders", Message(body=b"1"), timeout=0)

    async def test_example(self) -> None:
        """The program of the guide, with all of its messages."""
        broker = await self.receiver(14)
        printed = io.StringIO()
        program: Any = example("direct_sender")
        with contextlib.redirect_stdout(printed):
            await program.main(None, own_address(67), own_address(67))
        await broker.all
        self.assertEqual(
            Counter(broker.bodies),
            {b"two boxes": 1, b"a crate": 10, b"10": 1, b"20": 1, b"a parcel": 1},
        )
        self.assertEqual(
            printed.getvalue().splitlines()[1:],
            ["so are ten more", "both payments are there, in order", f"an order went to {own_address(67)}"],
        )

    async def test_refused_here(self) -> None:
        """A name that cannot be sent to is refused at once, and takes no place among the outstanding."""
        async with Sender(outstanding=1) as sender:
            for _ in range(2):
                with self.assertRaises(MQError):
                    await sender.send(".\\private$\\nowhere", Message(body=b"1"))

    async def test_outside_its_context(self) -> None:
        """A sender that is not open, or open twice, says so."""
        sender = Sender()
        with self.assertRaises(MQError) as caught:
            await sender.send(r"DIRECT=OS:BETA\private$\q", Message())
        self.assertIn("async with", str(caught.exception))
        async with sender:
            with self.assertRaises(LocalProtocolError):
                await sender.__aenter__()

    async def test_two_closes(self) -> None:
        """Each of two closes ends when the session is closed; then the sender can be opened again."""
        broker = await self.receiver(2)
        destination = f"DIRECT=TCP:{own_address(67)}\\private$\\orders"
        sender = Sender()
        await sender.__aenter__()
        await sender.send(destination, Message(body=b"1", delivery=RECOVERABLE))
        first, second = ensureDeferred(sender.close()), ensureDeferred(sender.close())
        await second
        self.successResultOf(first)
        async with sender:
            await sender.send(destination, Message(body=b"2", delivery=RECOVERABLE))
        await broker.all


class ArgumentTests(SynchronousTestCase):
    """What cannot be used is refused where it is given, by the name of the argument."""

    def assert_refused(self, call: Any, *words: str) -> None:
        error = self.assertRaises(LocalProtocolError, call)
        for word in words:
            self.assertIn(word, str(error))

    def test_senders(self) -> None:
        """Types and ranges of the options."""
        untyped: Any = Sender
        # A path of trial's own may be longer than a unix socket's may be.
        data = tempfile.mkdtemp(prefix="msmq-sender-")
        self.addCleanup(shutil.rmtree, data)
        configuration = load(None, Overrides(data=data, storage="memory"))
        for options, words in (
            ({"name": 5}, ("name", "int")),
            ({"name": "A", "configuration": configuration}, ("name", "configuration")),
            ({"configuration": "msmq.toml"}, ("configuration", "load()")),
            ({"outstanding": 0}, ("outstanding is 0", "from 1 to")),
            ({"outstanding": True}, ("outstanding", "bool")),
            ({"outstanding": "10"}, ("outstanding", "str")),
            ({"hosts": ["BETA"]}, ("hosts", "list")),
            ({"hosts": {"BETA": 5}}, ("hosts", "str")),
            ({"hosts": {"BETA": "192.0.2.1:99999"}}, ("'BETA'", "99999")),
        ):
            self.assert_refused(lambda options=options: untyped(**options), *words)

    def test_addresses(self) -> None:
        """Names and IP addresses, with and without the prefix; anything else is refused."""
        untyped: Any = connect
        for address in ("BETA", "192.0.2.1", "DIRECT=OS:beta.example.com", "direct=tcp:192.0.2.1"):
            connect(address)
        for wrong in (5, "", "DIRECT=OS:BETA\\private$\\q", "DIRECT=HTTP://beta", "PUBLIC=x", "a b\\c"):
            self.assert_refused(lambda wrong=wrong: untyped(wrong), "connect: address")

    def test_sends(self) -> None:
        """The arguments of a send."""
        sender: Any = Sender()
        for arguments, options, words in (
            ((5, Message()), {}, ("destination", "int")),
            (("DIRECT=OS:B\\q", b"body"), {}, ("message", "bytes")),
            (("DIRECT=OS:B\\q", Message()), {"timeout": "5"}, ("timeout", "str")),
        ):
            failure = self.failureResultOf(
                ensureDeferred(sender.send(*arguments, **options)), LocalProtocolError
            )
            for word in words:
                self.assertIn(word, str(failure.value))


class AsyncioTests(SynchronousTestCase):
    """Work that awaits Deferreds, in a task of asyncio."""

    def test_result_error_and_cancellation(self) -> None:
        """Result and error come through; cancelling the task cancels the work."""
        cancelled: list[object] = []
        endless: Deferred[int] = Deferred(cancelled.append)

        async def waits(deferred: Deferred[int]) -> int:
            return await deferred

        async def main() -> None:
            loop = asyncio.get_running_loop()
            later: Deferred[int] = Deferred()
            loop.call_soon(later.callback, 5)
            self.assertEqual(await _awaited(waits(later)), 5)
            fails: Deferred[int] = Deferred()
            loop.call_soon(fails.errback, ValueError("no"))
            with self.assertRaises(ValueError):
                await _awaited(waits(fails))
            task = loop.create_task(_awaited(waits(endless)))
            loop.call_soon(task.cancel)
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.assertEqual(cancelled, [endless])


FOREIGN_LOOP = """
import asyncio
from msmq import Broker, LocalProtocolError, Overrides, Sender, Server, accept, connect, load


class Orders(Broker):
    async def message_received(self, message):
        return accept()


async def broker():
    orders = Orders()
    orders.startService()
    await orders.started.asFuture(asyncio.get_running_loop())


async def server():
    Server(load(None, Overrides(name="ALPHA")))


async def main():
    for starting in (connect("127.0.0.1").__aenter__(), Sender().__aenter__(), broker(), server()):
        try:
            await starting
        except LocalProtocolError as error:
            print(error)


asyncio.run(main())
"""
"""A program on an event loop on which Twisted's reactor does not run."""


class ForeignLoopTests(SynchronousTestCase):
    """Programs that C{asyncio.run} starts without Twisted's reactor, where nothing would ever happen."""

    def test_refused(self) -> None:
        """Whatever is started there fails at once, and says how to start the program."""
        ended = subprocess.run(
            [sys.executable, "-c", FOREIGN_LOOP], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertEqual(len(lines), 4, ended.stdout)
        for line in lines:
            self.assertTrue(line.startswith("Twisted's reactor does not run on this event loop"), line)
            self.assertIn("twisted.internet.task.react", line)
