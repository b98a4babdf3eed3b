"""A program that sends messages one by one over a connection of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.requests import ControlRequests
from msmq.control.client.send_stream import ClientSendStream
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
            ControlRequests(Path("unused")), self.ours, messages, 1000, True, monotonic=lambda: self.now
        )

    def serve(self) -> bool:
        """Answer what has arrived; whether the connection is still there."""
        data = self.server.recv(1 << 20)
        for record in self.decoder.feed(data):
            count = record.header.get("run", 1)
            first = f"{{A}}\\{self.answered + 1}"
            self.answered += count
            self.server.send(StreamRecord({"first": first, "messages": count}).to_bytes())
        return bool(data)

    def test_sent_while_the_producer_takes_its_time(self) -> None:
        """Whatever the producer waits for next, the messages that it gave are sent meanwhile."""

        taken: SimpleQueue[int] = SimpleQueue()

        def messages() -> Iterator[StreamRecord]:
            for number in range(1, 12):
                yield MESSAGE
                while number % 4 == 0 and taken.get(timeout=30) < number:
                    pass

        def serve() -> None:
            while self.serve():
                taken.put(self.answered)

        server = Thread(target=serve)
        server.start()
        self.addCleanup(server.join)
        self.addCleanup(self.ours.shutdown, socket.SHUT_RDWR)
        self.assertEqual(list(self.sending(messages())), [f"{{A}}\\{number}" for number in range(1, 12)])

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
