"""C{msmq outgoing retry-now} and paused queues."""

from __future__ import annotations

from msmq.queues.arriving.message import Message
from tests.cli.served import ServedCommandTestCase

PAUSED, OTHER = (f"DIRECT=TCP:127.0.0.{host}\\private$\\q" for host in (8, 9))


class RetryTests(ServedCommandTestCase):
    """Two outgoing queues, one of them paused."""

    def setUp(self) -> None:
        super().setUp()
        for name in (PAUSED, OTHER):
            self.run_to_end(self.service.send(name, [Message(body=b"1")]))
        self.clock.advance(0)
        self.assertEqual(self.msmq("outgoing", "pause", PAUSED).status, 0)

    def test_one(self) -> None:
        """The command says in one line that it is paused, and which command resumes it."""
        resuming = f"msmq outgoing resume '{PAUSED}'"
        self.assert_ended(["outgoing", "retry-now", PAUSED], 1, "is paused", resuming)
        self.assertEqual(self.msmq("outgoing", "retry-now", OTHER).status, 0)

    def test_pattern(self) -> None:
        """With a pattern, those that wait are retried, and the paused one is named."""
        ended = self.msmq("outgoing", "retry-now", "DIRECT=TCP:*", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], [OTHER])
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("is paused", ended.errors)
        self.assert_ended(["outgoing", "retry-now", "DIRECT=OS:*"], 1, "no outgoing queue matches")

    def test_name_with_a_wildcard(self) -> None:
        """A name that has a wildcard itself is that queue alone."""
        star = "DIRECT=TCP:127.0.0.9\\private$\\*"
        self.run_to_end(self.service.send(star, [Message(body=b"1")]))
        self.clock.advance(0)
        for command in ("retry-now", "pause", "resume"):
            ended = self.msmq("outgoing", command, star, "--json")
            self.assertEqual([queue["format_name"] for queue in ended.objects], [star], ended.errors)

    def test_all(self) -> None:
        """Those that are paused are left out, and counted on standard error."""
        ended = self.msmq("outgoing", "retry-now", "--all", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], [OTHER])
        self.assertEqual((ended.status, ended.errors.count("\n")), (0, 1))
        self.assertIn("1 paused outgoing queue(s) left out", ended.errors)
        self.assertEqual(self.msmq("outgoing", "resume", PAUSED).status, 0)
        self.assertEqual(self.msmq("outgoing", "retry-now", "--all").errors, "")
