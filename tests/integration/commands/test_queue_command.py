"""The verbs of the command that change queues, against a running server."""

from __future__ import annotations

from msmq.control.server.messages.json_records import json_record
from msmq.queues.arriving.message import Message
from tests.integration import test_control_socket as command
from tests.integration.test_control_socket import ORDERS


class QueueCommandTests(command.CommandTestCase):
    """C{msmq queue set} and C{msmq queue purge}."""

    async def test_set(self) -> None:
        """The given properties change, and C{none} removes a limit; the queue is printed."""
        options = ("--label", "Orders", "--quota", "10", "--journal", "--privacy", "none")
        ended = await self.msmq("queue", "set", ORDERS, "--json", *options)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [queue] = ended.objects
        found = (queue["label"], queue["quota"], queue["journal"], queue["privacy"])
        self.assertEqual(found, ("Orders", 10, True, "none"))
        ended = await self.msmq("queue", "set", ORDERS, "--json", "--quota", "none", "--no-journal")
        [queue] = ended.objects
        self.assertEqual((queue["label"], queue["quota"], queue["journal"]), ("Orders", None, False))
        self.assertEqual(queue, json_record(self.service.inspection.queue(ORDERS)))

    async def test_set_refused(self) -> None:
        """A label that is too long is refused by its name, with status 1."""
        ended = await self.msmq("queue", "set", ORDERS, "--label", "x" * 125)
        self.assertEqual((ended.status, ended.output), (1, b""))
        self.assertIn("MQ_ERROR_LABEL_TOO_LONG", ended.errors)

    async def test_purge(self) -> None:
        """The messages are gone, and how many they were is printed."""
        await self.put(b"1", b"2", b"3")
        ended = await self.msmq("queue", "purge", ORDERS, "--json")
        self.assertEqual((ended.status, ended.objects), (0, [{"purged": 3}]))
        self.assertEqual(await self.bodies(), [])

    async def test_purge_of_a_missing_queue(self) -> None:
        """A queue that does not exist is refused by its name, with status 1."""
        ended = await self.msmq("queue", "purge", ".\\private$\\none")
        self.assertEqual((ended.status, ended.output), (1, b""))
        self.assertIn("MQ_ERROR_QUEUE_NOT_FOUND", ended.errors)


class WildcardCommandTests(command.CommandTestCase):
    """Several queues at once, by a pattern."""

    async def test_purge_and_delete(self) -> None:
        """C{--dry-run} lists what would be removed; without a terminal the removal has to be confirmed."""
        for name in ("q1", "q2"):
            await self.service.create_queue(f".\\private$\\{name}")
            await self.service.send(f".\\private$\\{name}", [Message(body=b"x")])
        await self.put(b"1")
        listed = await self.msmq("queue", "list", "q?", "--json")
        self.assertEqual([queue["path"][-2:] for queue in listed.objects], ["q1", "q2"])
        dry = await self.msmq("queue", "purge", "q*", "--dry-run", "--json")
        self.assertEqual([queue["messages"] for queue in dry.objects], [1, 1])
        unconfirmed = await self.msmq("queue", "delete", "q*")
        self.assertEqual(unconfirmed.status, 2)
        self.assertIn("--yes", unconfirmed.errors)
        purged = await self.msmq("queue", "purge", "q*", "--yes")
        self.assertEqual(purged.output.decode(), "purged  1  .\\private$\\q1\npurged  1  .\\private$\\q2\n")
        deleted = await self.msmq("queue", "delete", ".\\private$\\q*", "--yes", "--json")
        self.assertEqual(
            deleted.objects, [{"deleted": ".\\private$\\q1"}, {"deleted": ".\\private$\\q2"}], deleted
        )
        none = await self.msmq("queue", "purge", "q*", "--yes")
        self.assertEqual((none.status, none.errors.count("\n")), (1, 1))
        self.assertIn("no queue matches 'q*'", none.errors)
        self.assertEqual(await self.bodies(), [b"1"])
