"""A program that sends messages one by one over a connection of its own."""

from __future__ import annotations

import fcntl
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.requests import ControlRequests
from msmq.control.client.send_stream import ClientSendStream
from msmq.control.protocol.records import RecordDecoder, StreamRecord
from msmq.structures.status import MQError, Status

MESSAGE = StreamRecord({"destination": ".\\private$\\orders"}, b"body")


class LargeBodyTests(SynchronousTestCase):
    """The send buffer of a unix socket."""

    def buffer_after(self, body: bytes) -> tuple[int, int]:
        """Its size before and after a message with this body is sent."""
        ours, server = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(server.close)
        before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        server.send(StreamRecord({"first": "{A}\\1", "messages": 1}).to_bytes())
        message = StreamRecord({"destination": ".\\private$\\orders"}, body)
        sending = ClientSendStream(ControlRequests(Path("unused")), ours, iter([message]), 10, True)
        self.assertEqual(list(sending), ["{A}\\1"])
        return before, ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def test_large_body(self) -> None:
        """With large bodies there is space for more than three of 64 KiB, so that the server reads more at
        once.
        """
        before, after = self.buffer_after(bytes(0x10000))
        self.assertGreater(after, before)

    def test_small_body(self) -> None:
        """With small ones the buffer stays: the server stores some while others are written."""
        before, after = self.buffer_after(bytes(1024))
        self.assertEqual(after, before)


class ManyDescriptorsTests(SynchronousTestCase):
    """A program with many open files and connections."""

    def test_descriptor_over_1023(self) -> None:
        """Messages are sent on a connection whose descriptor is beyond what C{select} can watch."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        first, server = socket.socketpair()
        ours = socket.socket(fileno=fcntl.fcntl(first, fcntl.F_DUPFD, 1024))
        for each in (first, server, ours):
            self.addCleanup(each.close)
        server.send(StreamRecord({"first": "{A}\\1", "messages": 1}).to_bytes())
        sending = ClientSendStream(ControlRequests(Path("unused")), ours, iter([MESSAGE]), 10, True)
        self.assertEqual(list(sending), ["{A}\\1"])


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
            ControlRequests(Path("unused")),
            self.ours,
            messages,
            1000,
            True,
            pipelined=True,
            monotonic=lambda: self.now,
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
        """Messages of the producer are sent while it waits for anything else."""

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


class QuickProducerTests(SynchronousTestCase):
    """A producer that always has the next message."""

    def records(self, outstanding: int, count: int, seconds: float) -> list[int]:
        """The number of messages in each record, for a producer that takes this many seconds for
        a message.
        """
        ours, server = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(server.close)
        now = 0.0
        sizes: list[int] = []

        def messages() -> Iterator[StreamRecord]:
            nonlocal now
            for _ in range(count):
                now += seconds
                yield MESSAGE

        def serve() -> None:
            decoder = RecordDecoder()
            while data := server.recv(1 << 20):
                for record in decoder.feed(data):
                    sizes.append(record.header.get("run", 1))
                    first = f"{{A}}\\{sum(sizes[:-1]) + 1}"
                    server.send(StreamRecord({"first": first, "messages": sizes[-1]}).to_bytes())

        thread = Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ours.shutdown, socket.SHUT_RDWR)
        stream = ClientSendStream(
            ControlRequests(Path("unused")),
            ours,
            messages(),
            outstanding,
            True,
            pipelined=True,
            monotonic=lambda: now,
        )
        self.assertEqual(len(list(stream)), count)
        return sizes

    def test_all_that_may_be_outstanding(self) -> None:
        """As many messages as may be outstanding go together, and so are one commit."""
        # A few more records than that, if this computer makes the producer look slow.
        self.assertLess(len(self.records(10, 400, 0.0)), 60)

    def test_collected_for_a_millisecond(self) -> None:
        """The first of several quick messages does not wait until many are collected."""
        self.assertLessEqual(max(self.records(1000, 200, 0.0003)), 6)


class TransactionTests(SynchronousTestCase):
    """A program that sends messages in one transaction."""

    def setUp(self) -> None:
        self.ours, self.server = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.server.close)
        self.server.settimeout(0)
        self.decoder = RecordDecoder()
        self.received: list[StreamRecord] = []

    def answers(self, messages: int, *answers: StreamRecord) -> Iterator[StreamRecord]:
        """Give messages, and answer all of them when the last is given."""
        yield from [MESSAGE] * messages
        self.server.send(b"".join(answer.to_bytes() for answer in answers))

    def receive(self) -> None:
        self.received += self.decoder.feed(self.server.recv(1 << 20))

    def send(self, messages: Iterator[StreamRecord]) -> list[str]:
        asking = ControlRequests(Path("unused"))
        return list(ClientSendStream(asking, self.ours, messages, 1, False, one_transaction=True))

    def test_end_is_sent_and_awaited(self) -> None:
        """No answer is waited for before the end is sent; the last answer may come with the server's end."""
        first = StreamRecord({"first": "{A}\\7", "messages": 3})
        sent = self.send(self.answers(3, first, StreamRecord({"end": "complete"})))
        self.receive()
        self.assertEqual(sent, ["{A}\\7", "{A}\\8", "{A}\\9"])
        self.assertEqual([record.header for record in self.received[3:]], [{"end": True}])

    def test_refusal(self) -> None:
        """The refusal is raised, and no identifier is given."""
        refusal = StreamRecord({"error": "MQ_ERROR_QUEUE_NOT_FOUND", "detail": "none", "messages": 2})
        with self.assertRaises(MQError) as caught:
            self.send(self.answers(2, refusal, StreamRecord({"end": "error"})))
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_messages_are_one_batch(self) -> None:
        """Outside of a pipeline few messages arrive together, however slowly they are given."""
        now = 0

        def messages() -> Iterator[StreamRecord]:
            nonlocal now
            for _ in range(3):
                now += 1
                yield MESSAGE
            self.server.send(StreamRecord({"first": "{A}\\7", "messages": 3}).to_bytes())

        asking = ControlRequests(Path("unused"))
        sent = ClientSendStream(asking, self.ours, messages(), 1000, True, monotonic=lambda: now)
        self.assertEqual(len(list(sent)), 3)
        self.receive()
        self.assertEqual([record.header["run"] for record in self.received], [3])

    def test_nothing_to_send(self) -> None:
        """Without a message there is nothing to commit, and nothing to wait for."""
        self.assertEqual(self.send(iter(())), [])
