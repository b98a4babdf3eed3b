"""C{msmq queue browse} and C{msmq message show} against a real queue manager."""

from __future__ import annotations

from tests.integration.test_control_socket import ORDERS, CommandTestCase


class BrowseTests(CommandTestCase):
    """Messages at any position of a queue, which stay there."""

    async def test_listing(self) -> None:
        """A table says where to go on, and the next page begins there; JSON has the whole messages."""
        await self.put(b"1", b"2", b"3", label="L")
        table = await self.msmq("queue", "browse", ORDERS, "--limit", "2")
        lines = table.output.decode().splitlines()
        self.assertEqual((table.status, lines[0].split()[:2], len(lines)), (0, ["lookup_id", "id"], 4))
        after = lines[-1].removeprefix("there may be more: --after ")
        rest = await self.msmq("queue", "browse", ORDERS, "--after", after, "--json")
        self.assertEqual([each["body"] for each in rest.objects], ["3"])
        self.assertEqual(await self.bodies(), [b"1", b"2", b"3"])

    async def test_search(self) -> None:
        """An expression and a text choose; what cannot be compared is counted on standard error."""
        await self.put(b"needle", b"\xff", b"hay")
        ended = await self.msmq("queue", "browse", ORDERS, "--where", "contains(body, 'needle')", "--json")
        self.assertEqual([each["body"] for each in ended.objects], ["needle"])
        self.assertIn("1 message(s) could not be compared", ended.errors)
        wrong = await self.msmq("queue", "browse", ORDERS, "--where", "boddy == 'x'")
        self.assertEqual((wrong.status, wrong.output), (1, b""))
        self.assertIn("did you mean body?", wrong.errors)


class ShowTests(CommandTestCase):
    """One message."""

    async def test_by_identifier_and_by_position(self) -> None:
        """Both show the same message, as text, as JSON and as a hex dump."""
        await self.put(b"hello")
        [listed] = (await self.msmq("queue", "browse", ORDERS, "--json")).objects
        [shown] = (await self.msmq("message", "show", listed["id"], "--json")).objects
        self.assertEqual(shown, {"queue": ORDERS, **listed})
        lookup_id = str(listed["lookup_id"])
        dump = await self.msmq("message", "show", lookup_id, "--queue", ORDERS, "--hex")
        line = f"00000000  {'68 65 6c 6c 6f':23}  {'':23}  |hello|"
        self.assertEqual(dump.output.decode().splitlines(), [line, "00000005"])
        missing = await self.msmq("message", "show", "{11111111-1111-1111-1111-111111111111}\\7")
        self.assertEqual(missing.status, 1)
        self.assertIn("MQ_ERROR_MESSAGE_NOT_FOUND", missing.errors)
