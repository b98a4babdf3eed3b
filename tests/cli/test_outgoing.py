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

    def test_all(self) -> None:
        """Those that are paused are left out, and counted on standard error."""
        ended = self.msmq("outgoing", "retry-now", "--all", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], [OTHER])
        self.assertEqual((ended.status, ended.errors.count("\n")), (0, 1))
        self.assertIn("1 paused outgoing queue(s) left out", ended.errors)
        self.assertEqual(self.msmq("outgoing", "resume", PAUSED).status, 0)
        self.assertEqual(self.msmq("outgoing", "retry-now", "--all").errors, "")
