"""Arguments of brokers and outcomes that cannot be used are refused where they are given, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq import Broker, MessageClass, Outcome, ReceivedMessage, accept, later, reject
from msmq.broker.outcomes import Deferral, Rejection
from msmq.errors import LocalProtocolError
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock


class Orders(Broker):
    """A broker with a constructor of the base class."""

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Accept it."""
        return accept()


class RefusedTests(SynchronousTestCase):
    """Each refusal names the class, the argument, the value and what it has to be."""

    def refused(self, make: Callable[[], object], text: str) -> None:
        self.assertIn(text, str(self.assertRaises(LocalProtocolError, make)))

    def test_arguments(self) -> None:
        """One line for each."""
        cases: list[tuple[dict[str, Any], str]] = [
            ({"concurrency": 0}, "Orders: concurrency is 0; it has to be from 1 to 1000"),
            ({"concurrency": "4"}, "Orders: concurrency is '4', a str; it has to be an int"),
            ({"concurrency": True}, "Orders: concurrency is a bool; it has to be an int"),
            ({"backlog": 0}, "Orders: backlog is 0; it has to be from 1 to 100000000"),
            (
                {"queues": "orders"},
                "queues is 'orders', a str; it has to be a list of names, such as [\"orders\"]",
            ),
            ({"queues": []}, "Orders: queues is empty; None takes the messages of every queue"),
            ({"queues": [1]}, "Orders: queues is an int; it has to be a name as a str"),
            ({"queues": ["a", ".\\private$\\A"]}, "Orders: queues names '.\\private$\\A' twice"),
            ({"queues": [".\\system$;deadletter"]}, "it has to be a queue, not a system queue"),
            ({"queues": ["a\\b\\c\\d"]}, "Orders: queues has the name 'a\\b\\c\\d': MQ_ERROR_"),
            (
                {"queues": {"a": {"jurnal": True}}},
                "queues['a'] has the unknown property 'jurnal'",
            ),
            ({"queues": {"a": {"journal": "no"}}}, "queues['a']: journal is a str; it has to be a bool"),
            ({"queues": {"a": True}}, "queues['a'] is a bool; it has to be a dict of queue properties"),
            ({"store": 5}, "Orders: store is an int; it has to be the path of a data directory, or provide"),
            ({"store": ""}, "Orders: store is an empty path"),
            ({"name": 5}, "Orders: name is an int; it has to be a str"),
            ({"address": b"x"}, "Orders: address is a bytes; it has to be a str"),
            ({"configuration": {}}, "Orders: configuration is a dict; it has to be a Configuration"),
        ]
        for arguments, text in cases:
            self.refused(lambda arguments=arguments: Orders(**arguments), text)  # type: ignore[misc]

    def test_without_the_coroutine(self) -> None:
        """The error for a subclass without a coroutine names the method to write."""

        class Empty(Broker):
            """A subclass without a coroutine."""

        self.refused(Empty, "Empty has no message_received: write async def message_received(self, message")

    def test_without_the_constructor(self) -> None:
        """A constructor that does not call that of the base class is named, however the broker is run."""

        class Careless(Orders):
            def __init__(self) -> None:
                self.boxes = 0

        text = "Careless.__init__ does not call super().__init__(...)"
        self.refused(lambda: Careless().program(Clock(), ManualClock()), text)
        self.refused(lambda: Careless().startService(), text)

    def test_inside_a_server(self) -> None:
        """Settings of the enclosing server are refused for a broker inside it."""
        clock = ManualClock()
        for arguments in ({"store": "x"}, {"name": "A"}, {"address": "127.0.0.1"}):
            [name] = arguments
            self.refused(
                lambda arguments=arguments: Orders(**arguments).program(Clock(), clock),  # type: ignore[misc]
                f"Orders: {name} belongs to the server that runs this broker",
            )

    def test_outcomes(self) -> None:
        """The functions check what they are given."""
        cases: list[tuple[Callable[[], object], str]] = [
            (lambda: later(-1), "later: seconds is -1; it has to be from 0 to 86400"),
            (lambda: later(float("nan")), "later: seconds is nan"),
            (lambda: later("5"), "later: seconds is '5', a str; it has to be a number"),  # type: ignore[arg-type]
            (
                lambda: reject(MessageClass.ACK_RECEIVE),
                "message_class is ACK_RECEIVE; it has to be",
            ),
            (lambda: reject(5), "reject: message_class is an int"),  # type: ignore[arg-type]
            (lambda: reject(reason=b""), "reject: reason is a bytes; it has to be a str"),  # type: ignore[arg-type]
        ]
        for make, text in cases:
            self.refused(make, text)

    def test_good_ones(self) -> None:
        """Names are private queues; a store and properties are taken as they are."""
        broker = Orders(
            queues={"orders": {"journal": True}, "private$\\b": {}, ".\\private$\\c": {}},
            store=MemoryMessageStore(),
            concurrency=1000,
        )
        self.assertEqual(
            [queue.path for queue in broker._queues or ()],
            [".\\private$\\orders", ".\\private$\\b", ".\\private$\\c"],
        )
        self.assertEqual(later(5), Deferral(5.0))
        self.assertEqual(reject(), Rejection(MessageClass.NACK_RECEIVE_REJECTED, ""))
