"""Lenient input of the command: a pipe, a short name, an empty queue."""

from __future__ import annotations

from tests.integration.test_control_socket import ORDERS, CommandTestCase


class PipedBodyTests(CommandTestCase):
    """C{echo hello | msmq send QUEUE}."""

    async def test_pipe_is_the_body(self) -> None:
        """Without an option for the body it is what comes through the pipe, byte for byte; --body wins."""
        ended = await self.msmq("send", ORDERS, "--count", "2", piped=b"hello\n\xff")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        await self.msmq("send", ORDERS, "--body", "text", piped=b"ignored")
        self.assertEqual(await self.bodies(), [b"hello\n\xff", b"hello\n\xff", b"text"])


class PeekTests(CommandTestCase):
    """C{receive --peek} shows what is there."""

    async def test_empty_queue_is_not_waited_for(self) -> None:
        """An empty queue is status 3 at once; with a time limit the command waits for that."""
        ended = await self.msmq("receive", ORDERS, "--peek")
        self.assertEqual((ended.status, ended.output), (3, b""))
        waiting = self.begin("receive", ORDERS, "--peek", "--timeout", "600")
        await self.until_a_receiver_waits()
        await self.put(b"late")
        self.assertEqual((await waiting.ended).status, 0)


class SuggestionTests(CommandTestCase):
    """A refusal names the queue that is meant."""

    async def test_queue_that_is_meant(self) -> None:
        """The name without its folder, or with one wrong character; no suggestion for a name that is
        like no other.
        """
        for arguments, meant in (
            (("queue", "show", "orders"), f"; did you mean {ORDERS}?"),
            (("receive", ".\\private$\\ordesr"), f"; did you mean {ORDERS}?"),
            (("send", "ALPHA\\orders", "--body", "x"), f"; did you mean {ORDERS}?"),
            (("send", "private$\\orders", "--body", "x"), f"; did you mean {ORDERS}?"),
            (("queue", "show", "private$\\orders"), f"; did you mean {ORDERS}?"),
            (("send", ORDERS, "--ack", "reach", "--admin-queue", "no", "--body", "x"), " of 'no'"),
            (("send", f".\\private$\\x,{ORDERS}s", "--body", "x"), f"{ORDERS}s'"),
            (("queue", "delete", ".\\private$\\zebra"), "queue .\\private$\\zebra does not exist"),
        ):
            ended = await self.msmq(*arguments)
            self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1), ended.errors)
            self.assertTrue(ended.errors.endswith(f"{meant}\n"), ended.errors)
