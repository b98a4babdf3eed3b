"""C{msmq message remove, copy, move} and C{msmq deadletter} against a real queue manager."""

from __future__ import annotations

import json

from twisted.internet.task import deferLater

from tests.integration.test_control_socket import ORDERS, CommandTestCase, reactor

OTHER = ".\\private$\\other"


class MessageCommandTests(CommandTestCase):
    """Messages by identifier and by expression."""

    async def test_move_copy_and_remove(self) -> None:
        """A move by expression, a copy by identifier, and a removal, each with its output and status."""
        await self.service.create_queue(OTHER)
        await self.put(b"1", b"2", b"3")
        moved = await self.msmq("message", "move", "--queue", ORDERS, "--where", "body == '2'", OTHER)
        self.assertEqual((moved.status, moved.output), (0, f"1 message moved to {OTHER}\n".encode()))
        [listed, _] = (await self.msmq("queue", "browse", ORDERS, "--json")).objects
        [copy] = (await self.msmq("message", "copy", listed["id"], "--to", OTHER, "--json")).objects
        self.assertEqual((copy["id"], copy["queue"]), (listed["id"], ORDERS))
        unconfirmed = await self.msmq("message", "remove", "--queue", ORDERS, "--all")
        self.assertEqual(unconfirmed.status, 2)
        self.assertIn("--yes", unconfirmed.errors)
        dry = await self.msmq("message", "remove", "--queue", ORDERS, "--all", "--dry-run")
        self.assertTrue(dry.output.endswith(b"2 messages would be removed\n"), dry.output)
        lookup_id = str(listed["lookup_id"])
        removed = await self.msmq("message", "remove", "--queue", ORDERS, lookup_id, "--yes")
        self.assertEqual((removed.status, removed.output), (0, b"1 message removed\n"))
        self.assertEqual(await self.bodies(), [b"3"])
        again = await self.msmq("message", "remove", "--queue", ORDERS, lookup_id, "--yes")
        self.assertEqual((again.status, again.output), (1, b"0 messages removed\n"))
        self.assertIn("MQ_ERROR_MESSAGE_NOT_FOUND", again.errors)

    async def test_dead_letters(self) -> None:
        """They are counted, one is edited and sent again, the others are sent elsewhere by class."""
        await self.service.create_queue(OTHER)
        name = "DIRECT=OS:BETA\\private$\\q"
        for body in ("1", "2"):
            sent = await self.msmq(
                "send", name, "--body", body, "--dead-letter", "--time-to-reach-queue", "1"
            )
            self.assertEqual(sent.status, 0)
        while len(dead_letters := (await self.msmq("deadletter", "list", "--json")).objects) < 2:
            await deferLater(reactor, 0.1)
        [group] = (await self.msmq("deadletter", "list", "--group-by", "class,queue", "--json")).objects
        self.assertEqual((group["messages"], group["destination_queue"]), (2, name))
        identifier = dead_letters[0]["id"]
        shown = await self.msmq("deadletter", "show", identifier, "--json")
        edited = json.dumps({**shown.objects[0], "body": "mended"}).encode()
        requeued = await self.msmq(
            "deadletter", "requeue", identifier, "--edit", "-", "--to", ORDERS, "--json", piped=edited
        )
        self.assertEqual([each["dead_letter"] for each in requeued.objects], [identifier])
        self.assertEqual(await self.bodies(), [b"mended"])
        rest = await self.msmq(
            "deadletter",
            "requeue",
            "--class",
            "nack_reach_queue_timeout",
            "--queue",
            "BETA\\private$\\q",
            "--since",
            "1h",
            "--to",
            OTHER,
        )
        self.assertEqual((rest.status, len(rest.output.splitlines())), (0, 1))
        misspelt = await self.msmq("deadletter", "requeue", "--class", "NACK_BAD_SIGNATUR")
        self.assertEqual((misspelt.status, misspelt.output), (2, b""))
        self.assertIn("no class NACK_BAD_SIGNATUR; did you mean NACK_BAD_SIGNATURE?", misspelt.errors)
        discarded = await self.msmq("deadletter", "discard", "--all", "--yes")
        self.assertEqual((discarded.status, discarded.output), (0, b"0 messages discarded\n"))


class LineTests(CommandTestCase):
    """C{msmq send --json-lines} and C{--lines}."""

    storage = "sqlite"

    async def test_received_messages_are_sent_again(self) -> None:
        """Messages that were received as JSON are sent with all of their properties."""
        await self.put(b"1", b"\xff", label="L", priority=6)
        received = await self.msmq("receive", ORDERS, "--count", "2", "--json")
        sent = await self.msmq("send", ORDERS, "--json-lines", "-", piped=received.output)
        self.assertEqual((sent.status, len(sent.output.splitlines())), (0, 2))
        again = await self.msmq("receive", ORDERS, "--count", "2", "--json")
        keys = ("label", "priority", "body_size", "delivery")
        self.assertEqual(
            [[each[key] for key in keys] for each in again.objects],
            [[each[key] for key in keys] for each in received.objects],
        )

    async def test_damaged_line_and_resumption(self) -> None:
        """A damaged line is named, and what is before it stays sent; with a key it is not sent again."""
        file = self.directory / "orders.jsonl"
        file.write_text('{"body": "1"}\n{"body": "2"}\n{"body": 3}\n')
        ended = await self.msmq("send", ORDERS, "--json-lines", str(file), "--key", "k")
        self.assertEqual((ended.status, len(ended.output.splitlines())), (1, 2))
        self.assertIn("orders.jsonl:3: body is text", ended.errors)
        self.assertIn("2 messages of lines 1 to 2 sent", ended.errors)
        file.write_text('{"body": "1"}\n{"body": "2"}\n{"body": "3"}\n')
        again = await self.msmq("send", ORDERS, "--json-lines", str(file), "--key", "k")
        self.assertEqual(again.output.splitlines()[:2], ended.output.splitlines())
        self.assertEqual(await self.bodies(), [b"1", b"2", b"3"])
        refused = await self.msmq("send", ORDERS, "--lines", "-", "--priority", "3", piped=b"x\ny\n")
        self.assertEqual(refused.status, 0)
        wrong = await self.msmq("send", "--json-lines", "-", piped=b'{"destination": "x", "prio": 3}\n')
        self.assertEqual(wrong.status, 1)
        self.assertIn("standard input:1: ", wrong.errors)
        self.assertTrue(wrong.errors.endswith("; nothing was sent\n"), wrong.errors)

    async def test_line_that_the_server_refuses(self) -> None:
        """It is named too, except in a transaction, which has one result."""
        lines = b'{"body": "1"}\n\n{"body": "2", "priority": 77}\n{"body": "3"}\n'
        ended = await self.msmq("send", ORDERS, "--json-lines", "-", piped=lines)
        self.assertEqual((ended.status, len(ended.output.splitlines())), (1, 1))
        self.assertIn("standard input:3: priority", ended.errors)
        self.assertIn("; 1 message of line 1 sent, and none after them", ended.errors)
        whole = await self.msmq("send", ORDERS, "--json-lines", "-", "--transactional", piped=lines)
        self.assertEqual(whole.status, 1)
        self.assertIn("MQ_ERROR_TRANSACTION_USAGE: standard input: private", whole.errors)
        self.assertTrue(whole.errors.endswith("; nothing was sent\n"), whole.errors)

    async def test_refused_destination(self) -> None:
        """A refused destination of a line, which has its backslashes, is no reason to explain them."""
        line = b'{"destination": ".\\\\private$\\\\nowhere", "body": "two boxes"}\n'
        ended = await self.msmq("send", "--json-lines", "-", piped=line)
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1), ended.errors)
        self.assertIn(".\\private$\\nowhere", ended.errors)
        self.assertNotIn("write a path", ended.errors)
