"""A program that sends messages one by one over a connection of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.requests import ControlRequests
from msmq.control.client.streams import ClientSendStream
from msmq.control.protocol.records import RecordDecoder, StreamRecord

MESSAGE = StreamRecord({"destination": ".\\private$\\orders"}, b"body")


class SlowProducerTests(SynchronousTestCase):
    """A producer that takes its time for each message."""

    def setUp(self) -> None:
        self.ours, self.server = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.server.close)
        self.decoder = RecordDecoder()
        self.now = 0.0
        self.answered = 0

    def sending(self, messages: Iterator[StreamRecord]) -> ClientSendStream:
        return ClientSendStream(
            ControlRequests(Path("unused")), self.ours, messages, 1000, monotonic=lambda: self.now
        )

    def serve(self) -> bool:
        """Answer what has arrived; whether the connection is still there."""
        data = self.server.recv(1 << 20)
        for _ in self.decoder.feed(data):
            self.answered += 1
            self.server.send(StreamRecord({"first": f"{{A}}\\{self.answered}", "messages": 1}).to_bytes())
        return bool(data)

    def test_each_is_sent_before_the_next_is_asked_for(self) -> None:
        """Whatever the producer does next, the message that it gave last is with the server."""

        def messages() -> Iterator[StreamRecord]:
            for number in range(5):
                if number:
                    self.serve()
                self.assertEqual(self.answered, number)
                yield MESSAGE

        self.server.settimeout(0)
        sent = iter(self.sending(messages()))
        self.assertEqual(next(sent), "{A}\\1")
        self.serve()
        self.assertEqual(list(sent), [f"{{A}}\\{number}" for number in range(2, 6)])

    def test_an_answer_is_given_before_a_slow_producer_is_asked_again(self) -> None:
        """The program learns that a message is accepted when it is, and not with the next message."""
        asked = 0

        def messages() -> Iterator[StreamRecord]:
            nonlocal asked
            for _ in range(5):
                asked += 1
                self.now += 0.05
                yield MESSAGE

        def serve() -> None:
            while self.serve():
                pass

        server = Thread(target=serve)
        server.start()
        self.addCleanup(server.join)
        self.addCleanup(self.ours.shutdown, socket.SHUT_RDWR)
        for number, identifier in enumerate(self.sending(messages()), 1):
            self.assertEqual((identifier, asked), (f"{{A}}\\{number}", number))
