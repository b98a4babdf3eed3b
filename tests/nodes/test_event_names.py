"""Queues in events and in the log are format names that can be pasted, for any name that a peer has sent."""

from __future__ import annotations

from uuid import UUID

from twisted.logger import capturedLogs, formatEvent

from msmq.wire.guid import format_guid
from tests.builders import BETA
from tests.nodes.support import NodesTestCase

UNKNOWN = UUID(int=0x77)


class RefusedNameTests(NodesTestCase):
    """ALPHA sends to queues that BETA does not have."""

    seen = 0

    def refused(self, name: str) -> str:
        """The queue of the event at BETA, which the log has too; C{name} stands for it at ALPHA."""
        with capturedLogs() as events:
            self.send(self.alpha, name, b"x")
            self.clock.advance(5)
        [stored] = self.successResultOf(self.beta.store.read_events(self.seen, 100))
        self.seen = stored.sequence
        lines = [formatEvent(event) or "" for event in events]
        self.assertTrue(any(stored.event.queue in line and "not accepted" in line for line in lines), lines)
        for text in (stored.event.queue, stored.event.reason, *lines):
            self.assertNotIn("FormatName", text)
            self.assertNotIn("UUID(", text)
        return stored.event.queue

    def test_names(self) -> None:
        """A private and a direct queue; a number that is BETA's own is reported as its own private name."""
        private = f"PRIVATE={format_guid(BETA)}\\00000077"
        # A session is needed, since a private name does not say where BETA is.
        direct = "DIRECT=TCP:127.0.0.3\\private$\\nowhere"
        self.assertEqual(self.refused(direct), direct)
        self.assertEqual(self.refused(private), private)
