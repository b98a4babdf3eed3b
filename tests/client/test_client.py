"""The client for applications, against a queue manager in the same process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from msmq.client import AsyncioClient, Client, DeferredClient, message_to
from msmq.client.reconnection import Reconnection
from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.errors import LocalProtocolError
from msmq.structures.status import MQError, Status
from tests.client.running_server import RunningServerCase
from tests.project.example_files import example

T = TypeVar("T")

ORDERS = r".\private$\orders"
PAYMENTS = r".\private$\payments"


class ClientTests(RunningServerCase):
    """All faces of the client."""

    async def refusal(self, call: Callable[[], Any]) -> Status:
        try:
            await self.blocking(call)
        except MQError as error:
            return error.status
        raise AssertionError("it is not refused")

    async def test_example(self) -> None:
        """The program of the guide: a message, a transaction, a search, batches, and asyncio."""
        shop: Any = example("shop_client")
        output = io.StringIO()

        def program() -> None:
            with contextlib.redirect_stdout(output):
                shop.order(os.fspath(self.data))
                shop.handle(os.fspath(self.data))
                asyncio.run(shop.collect(os.fspath(self.data)))

        await self.blocking(program)
        self.assertEqual(output.getvalue(), "urgent: order 7\norder 7 is two boxes\npaid: 30\n")

    async def test_a_queue_that_exists(self) -> None:
        """It is as good as created, unless it is transactional and should not be, or the reverse."""
        create = self.client.create_queue
        await self.blocking(lambda: create(ORDERS, label="first"))
        same: Sequence[dict[str, object]] = ({}, {"label": "second"}, {"transactional": False})
        for options in same:
            found = await self.blocking(partial(create, ORDERS, **options))
            self.assertEqual(found["label"], "first")
        with self.assertRaisesRegex(MQError, "exists, and is not transactional"):
            await self.blocking(lambda: create(ORDERS, transactional=True))
        await self.blocking(lambda: create(PAYMENTS, transactional=True))
        with self.assertRaisesRegex(MQError, "exists, and is transactional"):
            await self.blocking(lambda: create(PAYMENTS, transactional=False))

    async def test_batches_that_are_released(self) -> None:
        """A released batch, or one whose handling fails, is received again; a confirmed one is not."""

        def program() -> list[list[str]]:
            self.client.create_queue(ORDERS)
            self.client.send_all([message_to(ORDERS, str(number)) for number in range(3)])
            seen = []
            with self.client.consume(ORDERS, count=2, timeout=0) as consumer:
                for end in ("release", "fail", "confirm", "confirm"):
                    batch = consumer.next_batch()
                    seen.append([message.text for message in batch])
                    self.assertRaises(LocalProtocolError, consumer.next_batch)
                    if end == "fail":
                        with contextlib.suppress(KeyError), batch:
                            raise KeyError
                    else:
                        getattr(batch, end)()
                    self.assertRaises(LocalProtocolError, batch.confirm)
                seen.append([message.text for message in consumer.next_batch()])
            return seen

        first = ["0", "1"]
        self.assertEqual(await self.blocking(program), [first, first, first, ["2"], []])

    async def test_batches_that_the_block_has_ended(self) -> None:
        """A block may confirm or release its batch itself, and its exception is never replaced by another."""

        def program() -> list[str]:
            self.client.create_queue(ORDERS)
            self.client.send_all([message_to(ORDERS, str(number)) for number in range(3)])
            with self.client.consume(ORDERS, count=1, timeout=0) as consumer:
                with consumer.next_batch() as batch:
                    batch.release()
                with consumer.next_batch() as batch:
                    batch.confirm()
                with self.assertRaises(KeyError), consumer.next_batch() as batch:
                    batch.confirm()
                    raise KeyError
                with self.assertRaises(KeyError), consumer.next_batch():
                    consumer.close()
                    raise KeyError
            with self.client.consume(ORDERS, timeout=0) as consumer:
                return [message.text for message in consumer.next_batch()]

        self.assertEqual(await self.blocking(program), ["2"])

    async def test_awaited_batches_of_asyncio(self) -> None:
        """The end of the block confirms a batch, an exception or C{release} returns its messages."""

        async def program() -> list[str]:
            seen = []
            async with AsyncioClient(self.data) as client:
                await client.create_queue(ORDERS)
                await client.send_all([message_to(ORDERS, str(number)) for number in range(3)])
                async with client.consume(ORDERS, count=1, timeout=0) as consumer:
                    async for batch in consumer:
                        seen.append(batch.messages[0].text)
                        with contextlib.suppress(KeyError):
                            async with batch:
                                if len(seen) == 1:
                                    await batch.release()
                                if len(seen) == 2:
                                    raise KeyError
                                if len(seen) == 3:
                                    await batch.confirm()
            return seen

        self.assertEqual(await self.blocking(lambda: asyncio.run(program())), ["0", "0", "0", "1", "2"])
        self.assertEqual(await self.blocking(lambda: self.client.peek(ORDERS)), [])

    async def test_awaited_batches_of_twisted(self) -> None:
        """So it is in a coroutine on Twisted, whose consumer closes at the end of its block."""
        client = DeferredClient(self.data)
        self.addCleanup(client.close)
        await client.create_queue(ORDERS)
        await client.send_all([message_to(ORDERS, str(number)) for number in range(3)])
        seen = []
        async with client.consume(ORDERS, count=1, timeout=0) as consumer:
            async for batch in consumer:
                seen.append(batch.messages[0].text)
                with contextlib.suppress(KeyError):
                    async with batch:
                        if len(seen) == 1:
                            await batch.release()
                        if len(seen) == 2:
                            raise KeyError
                        if len(seen) == 3:
                            await batch.confirm()
        self.assertEqual(seen, ["0", "0", "0", "1", "2"])
        self.assertEqual(await client.peek(ORDERS), [])
        with self.assertRaises(LocalProtocolError):
            await consumer.next_batch()

    async def test_restart(self) -> None:
        """Over a restart of the queue manager a send is completed and a consumer goes on."""
        await self.blocking(lambda: self.client.create_queue(ORDERS))
        deferred = DeferredClient(self.data)
        self.addCleanup(deferred.close)
        consumer = deferred.consume(ORDERS)
        self.addCleanup(consumer.close)
        waiting = consumer.next_batch()
        await self.server.stopService()
        sent = deferred.send(ORDERS, "after the restart")
        await self.start()
        identifier = await sent
        batch = await waiting
        self.assertEqual(
            [(each.identifier, each.text) for each in batch], [(identifier, "after the restart")]
        )
        await consumer.confirm(batch)
        self.assertEqual(await deferred.peek(ORDERS), [])

    async def test_server_that_is_not_created_yet(self) -> None:
        """A client may be created before the data directory of its queue manager."""
        elsewhere = self.data / "elsewhere"
        deferred = DeferredClient(elsewhere)
        self.addCleanup(deferred.close)
        asked = deferred.status()
        elsewhere.mkdir()
        (elsewhere / "control.sock").symlink_to(self.data / "control.sock")
        self.assertEqual((await asked)["name"], "ALPHA")

    async def test_closed_twice(self) -> None:
        """Closing again has no effect; requests of what is closed are refused."""
        deferred = DeferredClient(self.data)
        consumer = deferred.consume(ORDERS)
        for _ in range(2):
            consumer.close()
            deferred.close()
        for refused in (deferred.status(), consumer.next_batch()):
            with self.assertRaises(LocalProtocolError):
                await refused

        async def program() -> None:
            client = AsyncioClient(self.data)
            async with client, client.consume(ORDERS) as asynchronous:
                await asynchronous.close()
            client.close()
            with self.assertRaises(LocalProtocolError):
                await client.status()

        await self.blocking(lambda: asyncio.run(program()))

    async def test_cancelled_wait(self) -> None:
        """Cancelling a wait ends it, in the server too."""
        deferred = DeferredClient(self.data)
        self.addCleanup(deferred.close)
        await deferred.create_queue(ORDERS)
        consumer = deferred.consume(ORDERS)
        waiting = consumer.next_batch()
        await deferred.status()
        waiting.cancel()
        with self.assertRaises(CancelledError):
            await waiting
        consumer.close()
        await deferred.send(ORDERS, "kept")
        self.assertEqual([each.text for each in await deferred.peek(ORDERS)], ["kept"])

    async def test_cancelled_task(self) -> None:
        """Cancelling a task that waits under asyncio releases what its consumer has received."""

        async def program() -> list[str]:
            async with AsyncioClient(self.data) as client:
                await client.create_queue(ORDERS)
                await client.send(ORDERS, "kept")
                async with client.consume(ORDERS, count=1) as consumer:
                    self.assertEqual(len(await consumer.next_batch()), 1)
                async with client.consume(ORDERS, count=2) as consumer:
                    batch = await consumer.next_batch()
                    await consumer.confirm(batch)
                    waiting = asyncio.create_task(consumer.next_batch())
                    await client.status()
                    waiting.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await waiting
                return [each.text for each in batch]

        self.assertEqual(await self.blocking(lambda: asyncio.run(program())), ["kept"])

    async def test_closed_while_it_connects(self) -> None:
        """A consumer that is closed from another thread connects no more."""
        await self.blocking(lambda: self.client.create_queue(ORDERS))
        consumer = self.client.consume(ORDERS)
        consumer.abort()
        with self.assertRaises(LocalProtocolError):
            await self.blocking(consumer.next_batch)

    async def test_transaction_is_refused_as_a_whole(self) -> None:
        """Of a transaction with a refused message nothing is sent."""

        def program() -> None:
            self.client.create_queue(PAYMENTS, transactional=True)
            self.client.send_all(
                [message_to(PAYMENTS, "10"), message_to(PAYMENTS, "20", priority=8)], transaction=True
            )

        self.assertEqual(await self.refusal(program), Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
        self.assertEqual(await self.blocking(lambda: self.client.peek(PAYMENTS)), [])

    async def test_message_that_is_too_large(self) -> None:
        """A body over 4 MiB is refused by its size; what is before it is sent, except in a transaction."""

        def program() -> list[list[str]]:
            self.client.create_queue(ORDERS)
            self.client.create_queue(PAYMENTS, transactional=True)
            for queue, transaction in ((ORDERS, False), (PAYMENTS, True)):
                messages = [
                    message_to(queue, "1"),
                    message_to(queue, bytes(0x400001)),
                    message_to(queue, "3"),
                ]
                with self.assertRaises(MQError) as caught:
                    self.client.send_all(messages, transaction=transaction)
                self.assertEqual(caught.exception.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
                self.assertIn("the body and the extension of this one have 4194305", str(caught.exception))
            return [[message.text for message in self.client.peek(queue)] for queue in (ORDERS, PAYMENTS)]

        self.assertEqual(await self.blocking(program), [["1"], []])

    async def test_producer_that_fails(self) -> None:
        """What a producer raises is raised as it is, and its transaction is aborted."""

        def records(error: Exception) -> Iterator[StreamRecord]:
            yield message_to(PAYMENTS, "10").record(transactional=True)
            raise error

        def program() -> None:
            self.client.create_queue(PAYMENTS, transactional=True)
            control = ControlClient(self.data / "control.sock")
            for error in (OSError("the disk has failed"), ValueError("line 2 is not UTF-8")):
                with self.assertRaises(type(error)) as caught:
                    list(control.send(records(error), one_transaction=True))
                self.assertIs(caught.exception, error)
            self.assertEqual(self.client.peek(PAYMENTS, timeout=0), [])

        await self.blocking(program)

    async def test_refusals(self) -> None:
        """What the server refuses is not repeated."""
        status = await self.refusal(lambda: self.client.consume(ORDERS, timeout=0).next_batch())
        self.assertEqual(status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertEqual(
            await self.refusal(lambda: self.client.queue(ORDERS)), Status.MQ_ERROR_QUEUE_NOT_FOUND
        )


class ArgumentTests(SynchronousTestCase):
    """Arguments are checked where they come in."""

    def test_names_of_arguments(self) -> None:
        """Each error names its argument."""
        client = Client("unix:nowhere", reconnect=0)
        wrong: Any = 5
        for call, words in (
            (lambda: message_to(wrong), "destination is an int"),
            (lambda: message_to(ORDERS, wrong), "body is an int"),
            (lambda: message_to(ORDERS, "ab\ud800"), "body: character 3 is a lone surrogate"),
            (lambda: message_to(ORDERS, colour="red"), "colour"),  # type: ignore[call-arg]
            (lambda: client.send_all([wrong]), "messages: each has to be a MessageToSend"),
            (lambda: client.create_queue(ORDERS, label=b"x"), "bytes is not JSON serializable"),
            (lambda: client.create_queue(ORDERS, quota=float("nan")), "not JSON compliant"),
            (lambda: client.consume(ORDERS, count=0), "count is 0"),
            (lambda: client.consume(ORDERS, timeout=-1), "timeout is -1"),
            (lambda: client.consume(ORDERS, transactional=True), "count is missing"),
            (lambda: Client("x", reconnect=-1), "reconnect is -1"),
            (lambda: Client("tcp:far.example:15801"), "server: "),
        ):
            self.assertIn(words, str(self.assertRaises(LocalProtocolError, call)))

    def test_patience(self) -> None:
        """A request is repeated less and less often until the patience has ended."""
        slept: list[float] = []
        reconnection = Reconnection(20.0, lambda: sum(slept), slept.append)

        def refuse() -> None:
            raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "away")

        self.assertRaises(MQError, reconnection.run, refuse)
        self.assertEqual([round(each, 1) for each in slept], [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 3.7])

    def test_help(self) -> None:
        """Each method of the asynchronous faces has the documentation and arguments of the blocking one."""
        for face in (AsyncioClient, DeferredClient):
            for name in ("send", "send_all", "peek", "search", "status", "queue", "create_queue"):
                self.assertEqual(getattr(face, name).__doc__, getattr(Client, name).__doc__)
                self.assertTrue(getattr(face, name).__doc__)
