"""State that expires leaves the store by the clock, also on a server where nothing happens any more."""

from __future__ import annotations

from msmq.manager.applications.send_keys import PREFIX as KEYS
from msmq.queues.arriving.message import Delivery, Message
from msmq.transfer.duplicates import PREFIX as DUPLICATES
from tests.builders import BETA
from tests.manager.support import FaultyStore, ManagerTestCase


class ExpiredStateTests(ManagerTestCase):
    """An hour, and a day, without any message."""

    def rows(self, prefix: str) -> list[str]:
        """The names of the stored values of one kind."""
        return [name for name in self.store._contents.state if name.startswith(prefix)]

    def test_keys(self) -> None:
        """The keys of sends leave the store when their lifetime has ended."""
        message = Message(body=b"1", delivery=Delivery.RECOVERABLE)
        self.run_to_end(self.service.send(self.orders, [message], keys=["a"]))
        self.assertEqual(len(self.rows(KEYS)), 1)
        for _ in range(300):
            self.clock.advance(300)
        self.assertEqual(self.rows(KEYS), [])

    def test_duplicates(self) -> None:
        """Identifiers of messages leave the store when a repetition is no longer expected."""
        beta = self.node("BETA", BETA, store=FaultyStore())
        beta.start()
        self.send(beta, r"DIRECT=TCP:127.0.0.2\private$\orders", b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(10)
        self.assertEqual(self.seen(self.orders), [b"1"])
        self.assertEqual(len(self.rows(DUPLICATES)), 1)
        for _ in range(24):
            self.clock.advance(300)
        self.assertEqual(self.rows(DUPLICATES), [])
