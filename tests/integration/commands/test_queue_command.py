"""The verbs of the command that change queues, against a running server."""

from __future__ import annotations

from msmq.control.server.messages.json_records import json_record
from tests.integration import test_control_socket as command
from tests.integration.test_control_socket import ORDERS


class QueueCommandTests(command.CommandTestCase):
    """C{msmq queue set} and C{msmq queue purge}."""

    async def test_set(self) -> None:
        """What the options name changes, and C{none} takes a limit away; the queue is printed."""
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
