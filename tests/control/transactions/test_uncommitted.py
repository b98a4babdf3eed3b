"""Messages sent by open transactions are counted separately."""

from __future__ import annotations

from msmq.queues.arriving.message import Message
from tests.control.support import ControlTestCase, resource

ELSEWHERE = "DIRECT=TCP:127.0.0.9\\private$\\orders"


class UncommittedTests(ControlTestCase):
    """A queue and an outgoing queue, to which two transactions send."""

    def shown(self, kind: str, name: str) -> tuple[int, int, int]:
        """The number of messages, of uncommitted ones, and the bytes of these, as listed."""
        queue = self.call("GET", resource(kind, name)).json
        [listed] = [
            each
            for each in self.call("GET", f"/v1/{kind}").json
            if each["format_name"] == queue["format_name"]
        ]
        for key in ("messages", "bytes", "uncommitted", "uncommitted_bytes"):
            self.assertEqual(queue[key], listed[key])
        return queue["messages"], queue["uncommitted"], queue["uncommitted_bytes"]

    def test_counts(self) -> None:
        """They are no messages before the commit, and nothing after an abort; status says the same."""
        path = self.make_queue(transactional=True)
        begin = self.service.begin
        one, two = begin(), begin()
        for kind, name in (("queues", path), ("outgoing", ELSEWHERE)):
            for transaction, count in ((one, 2), (two, 1)):
                sent = [Message(body=bytes(100), transactional=True)] * count
                self.run_to_end(self.service.send(name, sent, transaction=transaction))
            messages, uncommitted, size = self.shown(kind, name)
            self.assertEqual((messages, uncommitted), (0, 3))
            self.assertGreater(size, 300)
        status = self.call("GET", "/v1/status").json
        self.assertEqual((status["messages"], status["uncommitted"]), (0, 6))
        self.assertEqual(self.call("GET", resource("outgoing", ELSEWHERE)).json["unacknowledged"], 0)
        self.run_to_end(one.commit())
        for kind, name in (("queues", path), ("outgoing", ELSEWHERE)):
            self.assertEqual(self.shown(kind, name)[:2], (2, 1))
        self.run_to_end(two.abort())
        for kind, name in (("queues", path), ("outgoing", ELSEWHERE)):
            self.assertEqual(self.shown(kind, name), (2, 0, 0))
        status = self.call("GET", "/v1/status").json
        self.assertEqual((status["messages"], status["uncommitted"]), (4, 0))

    def test_deleted_queue(self) -> None:
        """A queue that is deleted meanwhile takes what was sent to it with it."""
        path = self.make_queue(transactional=True)
        transaction = self.service.begin()
        self.run_to_end(self.service.send(path, [Message(transactional=True)], transaction=transaction))
        self.run_to_end(self.service.delete_queue(path))
        self.assertGreaterEqual(self.call("GET", "/v1/status").json["messages"], 0)
        self.run_to_end(transaction.abort())
        self.assertEqual(self.call("GET", "/v1/status").json["messages"], 0)
