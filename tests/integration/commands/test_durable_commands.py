"""The verbs of the command that need a durable store, against a running server."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater

from msmq.queues.arriving.message import Message
from tests.integration import test_control_socket as command
from tests.integration.test_control_socket import ORDERS, reactor
from tests.patience import DEADLINE

DEAD_LETTERS = ".\\system$;deadletter"
TX = ".\\private$\\tx"
UNKNOWN = "{11111111-2222-3333-4444-555555555555}\\7"


class DurableTestCase(command.CommandTestCase):
    """A server over SQLite, with a transactional queue in addition to the other."""

    storage = "sqlite"

    async def start(self) -> None:
        """Have both queues."""
        await super().start()
        await self.service.create_queue(TX, transactional=True)

    async def objects(self, *arguments: str) -> list[Any]:
        """The JSON objects that a successful command prints."""
        ended = await self.msmq(*arguments, "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""), arguments)
        return ended.objects

    async def refused(self, status: int, word: str, *arguments: str) -> None:
        """A command ends with this status, and one line that says why."""
        ended = await self.msmq(*arguments)
        self.assertEqual((ended.status, ended.output, ended.errors.count("\n")), (status, b"", 1))
        self.assertIn(word, ended.errors)

    async def lengths(self, *paths: str) -> list[int]:
        """How many messages these queues hold."""
        return [self.service.inspection.queue(path).messages for path in paths]


class TransactionTests(DurableTestCase):
    """Sending and receiving in one transaction."""

    async def test_send_and_receive(self) -> None:
        """N alike are one transaction on the wire, and are received as one."""
        sent = await self.objects("send", TX, "--transactional", "--count", "700", "--body", "x")
        received = await self.objects("receive", TX, "--transactional", "--count", "1000", "--timeout", "0.1")
        self.assertEqual([message["id"] for message in received], [line["id"] for line in sent])
        ends = [(message["transaction"]["first"], message["transaction"]["last"]) for message in received]
        self.assertEqual((ends[0], ends[-1]), ((True, False), (False, True)))
        self.assertEqual(set(ends[1:-1]), {(False, False)})
        self.assertEqual(await self.lengths(TX), [0])
        self.assertEqual(self.service.inspection.transactions(), [])

    async def test_sent_as_a_whole_or_not_at_all(self) -> None:
        """Where not all of N have room, none is sent, and no identifier is printed."""
        await self.service.set_queue(TX, {"quota": 10})
        await self.refused(
            1, "MQ_ERROR_INSUFFICIENT_RESOURCES", "send", TX, "--transactional", "--count", "700"
        )
        self.assertEqual(await self.lengths(TX), [0])

    async def test_killed_receive_gives_everything_back(self) -> None:
        """A command that dies after the last line has received nothing."""
        messages = [Message(body=b"%d" % number, transactional=True) for number in range(3)]
        await self.service.send(TX, messages)
        waiting = self.begin("receive", TX, "--transactional", "--count", "4", "--json")
        while not (await self.objects("transaction", "list")):
            await deferLater(reactor, 0.01)
        [listed] = await self.objects("transaction", "list")
        self.assertEqual((listed["state"], listed["sent"], listed["received"]), ("active", 0, 3))
        waiting.kill()
        await waiting.ended
        while self.service.inspection.transactions():
            await deferLater(reactor, 0.01)
        [first, *_] = await self.objects("receive", TX, "--count", "3", "--peek")
        self.assertEqual((first["body"], first["abort_count"]), ("0", 1))
        self.assertEqual(await self.lengths(TX), [3])

    async def test_abort(self) -> None:
        """A transaction is shown and aborted by its identifier; its reader gets an error."""
        await self.service.send(TX, [Message(body=b"x", transactional=True)])
        waiting = self.begin("receive", TX, "--transactional", "--count", "2", "--timeout", str(DEADLINE))
        while not self.service.inspection.transactions():
            await deferLater(reactor, 0.01)
        [listed] = await self.objects("transaction", "list")
        [shown] = await self.objects("transaction", "show", listed["identifier"])
        [message] = shown["messages"]
        self.assertEqual((message["operation"], message["queue"]), ("receive", TX))
        table = (await self.msmq("transaction", "show", listed["identifier"])).output.decode()
        self.assertRegex(table, r"(?m)^state +active$")
        self.assertRegex(table, r"(?m)^operation +queue +lookup_id +id$")
        aborted = await self.objects("transaction", "abort", f"{{{listed['identifier']}}}")
        self.assertEqual(aborted, [{"aborted": listed["identifier"]}])
        await self.service.send(TX, [Message(body=b"y", transactional=True)])
        ended = await waiting.ended
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("MQ_ERROR_TRANSACTION_SEQUENCE", ended.errors)
        self.assertEqual(await self.lengths(TX), [2])

    async def test_refusals(self) -> None:
        """A refusal is named, with status 1; a time-out is status 3."""
        await self.refused(1, "MQ_ERROR_TRANSACTION_USAGE", "send", ORDERS, "--transactional")
        await self.refused(1, "MQ_ERROR_TRANSACTION_USAGE", "send", TX, "--recoverable")
        await self.refused(1, "MQ_ERROR_TRANSACTION_USAGE", "receive", ORDERS, "--transactional")
        await self.refused(3, "MQ_ERROR_IO_TIMEOUT", "receive", TX, "--transactional", "--timeout", "0")
        await self.refused(1, "MQ_ERROR_TRANSACTION_SEQUENCE", "transaction", "show", UNKNOWN[1:-3])
        await self.refused(1, "MQ_ERROR_TRANSACTION_SEQUENCE", "transaction", "abort", UNKNOWN[:-2])
        await self.refused(1, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "transaction", "abort", "x")


class MessageTests(DurableTestCase):
    """Single messages, and their history."""

    async def test_move(self) -> None:
        """A message moves to a subqueue, where it is received, and then there is no subqueue."""
        [sent] = await self.objects("send", ORDERS, "--recoverable", "--body", "x")
        later = ORDERS + ";later"
        moved = await self.objects("move", sent["id"], later)
        self.assertEqual(moved, [{"id": sent["id"], "queue": later}])
        [queue] = await self.objects("queue", "show", ORDERS)
        self.assertEqual(
            queue["subqueues"], [{"name": "later", "messages": 1, "bytes": queue["subqueues"][0]["bytes"]}]
        )
        [received] = await self.objects("receive", later)
        self.assertEqual((received["body"], received["move_count"]), ("x", 1))
        [queue] = await self.objects("queue", "show", ORDERS)
        self.assertEqual(queue["subqueues"], [])

    async def test_expired_dead_letter(self) -> None:
        """A message that was not received in time is listed and explained."""
        options = ("--recoverable", "--dead-letter", "--time-to-be-received", "1", "--body", "late")
        [sent] = await self.objects("send", ORDERS, *options)
        while not (dead_letters := await self.objects("deadletter", "list", "--limit", "5")):
            await deferLater(reactor, 0.1)
        self.assertEqual([dead_letter["id"] for dead_letter in dead_letters], [sent["id"]])
        self.assertEqual(dead_letters[0]["class_name"], "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT")
        [known] = await self.objects("explain", sent["id"])
        self.assertEqual(known["message"]["id"], sent["id"])
        self.assertEqual([place["queue"] for place in known["places"]], [DEAD_LETTERS])
        [event] = known["events"]
        self.assertEqual((event["event"], event["class"]), ("expired", 0xC002))
        table = (await self.msmq("explain", sent["id"])).output.decode()
        self.assertRegex(table, r"(?m)^time +event +class_name +queue +reason$")
        [seen] = await self.objects("receive", DEAD_LETTERS, "--peek", "--timeout", "0")
        self.assertEqual(seen["body"], "late")

    async def test_requeue(self) -> None:
        """A dead letter, here one by hand, is sent again and removed from the dead letters."""
        [sent] = await self.objects("send", ORDERS, "--recoverable", "--body", "again")
        await self.objects("move", sent["id"], DEAD_LETTERS)
        requeued = (await self.msmq("deadletter", "requeue", sent["id"])).output.decode().strip()
        self.assertEqual(await self.objects("deadletter", "list"), [])
        [received] = await self.objects("receive", ORDERS, "--timeout", "0")
        self.assertEqual((received["id"], received["body"]), (requeued, "again"))

    async def test_journal(self) -> None:
        """Messages received from a queue with a journal are read there."""
        await self.objects("queue", "set", ORDERS, "--journal")
        await self.objects("send", ORDERS, "--recoverable", "--body", "x", "--count", "2")
        await self.objects("receive", ORDERS)
        [queue] = await self.objects("queue", "show", ORDERS)
        self.assertEqual((queue["messages"], queue["journal_messages"]), (1, 1))
        [copy] = await self.objects("receive", ORDERS + ";journal", "--timeout", "0")
        self.assertEqual(copy["body"], "x")

    async def test_log(self) -> None:
        """A message log has limits, an extent, and can be replayed in part."""
        path = ".\\private$\\logged"
        options = ("--log", "--log-age", "3600", "--log-size", "100")
        [queue] = await self.objects("queue", "create", path, *options)
        self.assertEqual((queue["log"], queue["log_age"], queue["log_size"]), (True, 3600, 100))
        await self.objects("send", path, "--recoverable", "--body", "x", "--count", "5")
        [queue] = await self.objects("queue", "show", path)
        extent = queue["log_extent"]
        self.assertEqual(extent["entries"], 5)
        bounds = ("--from", str(extent["first"] + 1), "--to", str(extent["last"] - 1))
        replayed = await self.objects("queue", "replay", path, "--into", ORDERS, *bounds)
        self.assertEqual(replayed, [{"replayed": 3}])
        self.assertEqual(await self.lengths(ORDERS), [3])
        bounds = ("--from", "2001-01-01", "--to", "2001-01-02T00:00:00Z")
        replayed = await self.objects("queue", "replay", path, "--into", ORDERS, *bounds)
        self.assertEqual(replayed, [{"replayed": 0}])
        [queue] = await self.objects("queue", "set", path, "--log-age", "none", "--log-size", "none")
        self.assertEqual((queue["log_age"], queue["log_size"]), (None, None))

    async def test_system_queues(self) -> None:
        """They are listed if asked for."""
        plain = [queue["path"] for queue in await self.objects("queue", "list")]
        self.assertEqual(plain, [ORDERS, TX])
        listed = [queue["path"] for queue in await self.objects("queue", "list", "--system")]
        self.assertEqual(listed[:2], plain)
        self.assertIn(DEAD_LETTERS, listed[2:])

    async def test_refusals(self) -> None:
        """A missing object is named, with status 1; of an unknown message there is no record."""
        await self.refused(1, "MQ_ERROR_MESSAGE_NOT_FOUND", "move", UNKNOWN, ORDERS)
        await self.refused(1, "MQ_ERROR_MESSAGE_NOT_FOUND", "deadletter", "requeue", UNKNOWN)
        await self.refused(1, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "explain", "x")
        await self.refused(
            1, "MQ_ERROR_QUEUE_NOT_FOUND", "queue", "replay", ".\\private$\\none", "--into", ORDERS
        )
        await self.refused(1, "MQ_ERROR_QUEUE_NOT_FOUND", "outgoing", "show", "DIRECT=OS:x\\private$\\q")
        [known] = await self.objects("explain", UNKNOWN)
        self.assertEqual(known["message"], {"id": UNKNOWN})
        self.assertFalse(known["known"])
        self.assertTrue(known["summary"].startswith("unknown: "))
        self.assertEqual([known[key] for key in ("events", "places", "deliveries", "reports")], [[]] * 4)
        table = (await self.msmq("explain", UNKNOWN)).output
        self.assertIn(b"events: none", table)
        self.assertIn(b"unknown: no copy", table)

    async def test_outgoing(self) -> None:
        """An outgoing queue is paused and resumed."""
        name = "DIRECT=OS:BETA\\private$\\q"
        await self.objects("send", name, "--recoverable")
        [paused] = await self.objects("outgoing", "pause", name)
        self.assertEqual((paused["state"], paused["messages"]), ("ONHOLD", 1))
        [shown] = await self.objects("outgoing", "show", name)
        self.assertEqual(shown["state"], "ONHOLD")
        [resumed] = await self.objects("outgoing", "resume", name)
        self.assertNotEqual(resumed["state"], "ONHOLD")
