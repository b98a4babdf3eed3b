"""A short life with a server, and the account of what it promised meanwhile."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import attrs

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.structures.status import MQError, Status

ORDERS = ".\\private$\\orders"
SHORT = ".\\private$\\short"


class ArrivalOutcome(enum.Enum):
    """Expectation about a message after a restart."""

    KEPT = enum.auto()
    GONE = enum.auto()
    OPEN = enum.auto()


@attrs.define
class Account:
    """Answers of the server.

    @ivar queues: whether each queue has to be there after a restart.
    @ivar messages: by queue, the messages by their bodies, in the order in which they were sent.
    @ivar refusals: the refusals, in order.
    """

    queues: dict[str, ArrivalOutcome] = attrs.field(factory=dict)
    messages: dict[str, dict[str, ArrivalOutcome]] = attrs.field(factory=dict, repr=False)
    refusals: list[MQError] = attrs.field(factory=list)

    def wrong(self, queue: str, found: Sequence[str]) -> list[str]:
        """The violations among these bodies in a queue after a restart."""
        messages = self.messages.get(queue, {})
        faults = [
            f"{body[:40]!r} was confirmed and is lost" for body in self.kept(queue) if body not in found
        ]
        for body in found:
            if messages.get(body, ArrivalOutcome.GONE) is ArrivalOutcome.GONE:
                faults.append(f"{body[:40]!r} was gone, or never sent so")
        if len(set(found)) < len(found):
            faults.append("a message is there twice")
        order = list(messages)
        if (places := [order.index(body) for body in found if body in messages]) != sorted(places):
            faults.append("the order is another")
        return faults

    def kept(self, queue: str) -> list[str]:
        """The messages that have to be there."""
        return [body for body, fate in self.messages.get(queue, {}).items() if fate is ArrivalOutcome.KEPT]


class Visitor:
    """Does things with a server and keeps account of the answers.

    @ivar has_sent: whether a recoverable message was taken from it; then the numbers of others are
        reserved too, and an express message needs no disk.
    """

    def __init__(self, client: ControlClient, account: Account) -> None:
        self._client = client
        self._account = account
        self.has_sent = False

    def create(self, queue: str) -> bool:
        """Make a queue; whether it was made."""
        self._account.queues[queue] = ArrivalOutcome.OPEN
        self._account.messages.setdefault(queue, {})
        try:
            self._client.create_queue(queue, {})
        except MQError as error:
            self._refused(error)
            return False
        self._account.queues[queue] = ArrivalOutcome.KEPT
        return True

    def send(self, queue: str, *bodies: str, delivery: str = "recoverable") -> bool:
        """Send messages; whether they were taken."""
        messages = self._account.messages[queue]
        messages.update(
            dict.fromkeys(bodies, ArrivalOutcome.OPEN if delivery == "recoverable" else ArrivalOutcome.GONE)
        )
        header = {"destination": queue, "delivery": delivery}
        try:
            list(self._client.send(StreamRecord(header, body.encode()) for body in bodies))
        except MQError as error:
            self._refused(error)
            return False
        if delivery == "recoverable":
            messages.update(dict.fromkeys(bodies, ArrivalOutcome.KEPT))
            self.has_sent = True
        return True

    def receive(self, queue: str, count: int) -> list[str]:
        """Receive messages; returns those whose removal was confirmed."""
        messages = self._account.messages[queue]
        confirmed: list[str] = []
        try:
            with self._client.receive(queue, count=count, timeout=0) as stream:
                held: list[str] = []
                for item in stream:
                    match item:
                        case Delivered(_, body):
                            held.append(body.decode())
                        case Receipt():
                            self._remove(messages, held, ArrivalOutcome.OPEN)
                            item.confirm()
                            self._remove(messages, held, ArrivalOutcome.GONE)
                            confirmed += held
                            held = []
        except MQError as error:
            if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                self._refused(error)
        return confirmed

    def purge(self, queue: str) -> bool:
        """Purge a queue; whether it was done."""
        messages = self._account.messages[queue]
        self._remove(messages, messages, ArrivalOutcome.OPEN)
        try:
            self._client.purge_queue(queue)
        except MQError as error:
            self._refused(error)
            return False
        self._remove(messages, messages, ArrivalOutcome.GONE)
        return True

    def delete(self, queue: str) -> bool:
        """Delete a queue; whether it was done, and not only accepted while the store fails."""
        messages = self._account.messages[queue]
        self._account.queues[queue] = ArrivalOutcome.OPEN
        self._remove(messages, messages, ArrivalOutcome.OPEN)
        try:
            pending = self._client.delete_queue(queue).get("pending")
        except MQError as error:
            self._refused(error)
            return False
        if pending is not None:
            self._refused(MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, pending))
            return False
        self._account.queues[queue] = ArrivalOutcome.GONE
        self._remove(messages, messages, ArrivalOutcome.GONE)
        return True

    def is_there(self, queue: str) -> bool:
        """Whether there is such a queue."""
        try:
            self._client.queue(queue)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_QUEUE_NOT_FOUND:
                raise
            return False
        return True

    def look(self, queue: str) -> list[str]:
        """The bodies of what is in a queue."""
        try:
            with self._client.receive(queue, count=1000, timeout=0, peek=True) as stream:
                return [item.body.decode() for item in stream if isinstance(item, Delivered)]
        except MQError as error:
            if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                raise
            return []

    def _remove(
        self, messages: dict[str, ArrivalOutcome], bodies: Iterable[str], fate: ArrivalOutcome
    ) -> None:
        for body in bodies:
            if messages[body] is not ArrivalOutcome.GONE:
                messages[body] = fate

    def _refused(self, error: MQError) -> None:
        self._account.refusals.append(error)


def first_life(visitor: Visitor) -> None:
    """Make queues, fill them, take from them; a queue that is not made is asked for once more."""
    if not (visitor.create(ORDERS) or visitor.create(ORDERS)):
        return
    visitor.send(ORDERS, "one")
    visitor.send(ORDERS, *(f"batch {number}" for number in range(5)))
    visitor.send(ORDERS, "in memory", delivery="express")
    visitor.receive(ORDERS, 2)
    visitor.send(ORDERS, *(f"large {number}".ljust(9000) for number in range(2)))
    visitor.receive(ORDERS, 1)
    if not (visitor.create(SHORT) or visitor.create(SHORT)):
        return
    visitor.send(SHORT, "soon gone", "soon gone too")
    visitor.purge(SHORT)
    visitor.send(SHORT, "gone with the queue")
    visitor.delete(SHORT)
    visitor.send(ORDERS, "last")


def second_life(visitor: Visitor) -> None:
    """Go on with what is there."""
    visitor.send(ORDERS, "after the restart", "and another")
    visitor.receive(ORDERS, 3)
    visitor.send(ORDERS, "last after the restart")


def busy_life(visitor: Visitor) -> None:
    """Write so much that the log is checkpointed into the file meanwhile."""
    for number in range(0, 90, 2):
        visitor.send(ORDERS, *(f"busy {number + more}".ljust(60_000) for more in range(2)))
        if number % 10 == 0:
            visitor.receive(ORDERS, 9)
