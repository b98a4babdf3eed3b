"""Values of a service that are stored in the commit of messages."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import CancelledError, Deferred

from msmq.errors import LocalProtocolError
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.transaction_commits import PART
from msmq.persistence.state_records import StateChange
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status
from tests.manager.support import ManagerTestCase

PREFIX = "test/"


class ValuesOfMessagesTests(ManagerTestCase):
    """A value with the identifiers of the messages that were sent together."""

    def sending(
        self, queue: str, *bodies: bytes, keys: Sequence[str | None] | None = None, count: int = 1
    ) -> Deferred[Sequence[MessageIdentifier]]:
        """Begin to send messages; their value has the name of the first body."""
        messages = [
            Message(body=body, delivery=Delivery.RECOVERABLE, transactional=queue == self.payments)
            for body in bodies * count
        ]

        def values(identifiers: Sequence[MessageIdentifier]) -> list[StateChange]:
            return [(f"{PREFIX}{bodies[0].decode()}", " ".join(map(str, identifiers)).encode())]

        return Deferred.fromCoroutine(self.service.send(queue, messages, keys=keys, values=values))

    def sent(
        self, queue: str, *bodies: bytes, keys: Sequence[str | None] | None = None, count: int = 1
    ) -> bytes:
        """Send messages; the value that is expected."""
        sending = self.sending(queue, *bodies, keys=keys, count=count)
        # A large transaction takes several iterations of the reactor.
        self.clock.advance(1)
        self.clock.advance(1)
        identifiers = self.successResultOf(sending)
        return " ".join(map(str, identifiers)).encode()

    def values(self) -> dict[str, bytes]:
        """The values, by their names without the prefix."""
        return {
            name.removeprefix(PREFIX): value
            for name, value in self.service.service_values.read(PREFIX).items()
        }

    def test_stored_together(self) -> None:
        """A crash at any commit leaves messages and their value, or neither."""
        for queue in (self.orders, self.payments):
            for keys in (None, ["a", None]):
                value = None
                for commits in range(4):
                    name = f"{queue} {keys is None} {commits}"
                    self.store.is_slow = True
                    sending = self.sending(queue, name.encode(), b"2", keys=keys and [f"{name} a", None])
                    self.store.finish(commits)
                    self.store.lose()
                    self.restart(crash=True)
                    del sending
                    found = [str(each.view.identifier).encode() for each in self.messages(queue)]
                    value = self.values().get(name)
                    self.assertEqual(value, b" ".join(found) if found else None, name)
                    self.run_to_end(self.service.purge_queue(queue))
                self.assertIsNotNone(value)

    def test_many(self) -> None:
        """Those of a transaction that is committed in parts."""
        expected = self.sent(self.payments, b"1", count=PART + 1)
        self.assertEqual(self.values(), {"1": expected})
        self.restart(crash=True)
        self.assertEqual(self.values(), {"1": expected})

    def test_sent_before(self) -> None:
        """Messages whose keys were used have the value too, with their first identifiers."""
        first = self.sent(self.orders, b"1", keys=["a"])
        self.assertEqual(self.sent(self.orders, b"again", keys=["a"]), first)
        expected = {"1": first, "again": first}
        self.assertEqual((self.seen(self.orders), self.values()), ([b"1"], expected))
        self.restart(crash=True)
        self.assertEqual(self.values(), expected)

    def test_failures(self) -> None:
        """A commit that fails, a quota, and values that cannot be computed leave no value and no message."""
        for queue in (self.orders, self.payments):
            self.store.break_down()
            failure = self.failureResultOf(self.sending(queue, b"1", keys=["a"]), MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
            self.store.recover()
            self.run_to_end(self.service.set_queue(queue, {"quota": 0}))
            self.failureResultOf(self.sending(queue, b"2"), MQError)
            self.run_to_end(self.service.set_queue(queue, {"quota": 1}))

            def values(_: Sequence[MessageIdentifier]) -> list[StateChange]:
                raise ValueError

            message = Message(body=b"3", transactional=queue == self.payments)
            sending = self.service.send(queue, [message], values=values)
            self.failureResultOf(Deferred.fromCoroutine(sending), ValueError)
            self.assertEqual((self.values(), self.count(queue)), ({}, 0))
            self.assertEqual(self.service.inspection.queue(queue).bytes, 0)

    def test_without_keys(self) -> None:
        """Messages without keys leave nothing among the keys, which has no limit for them."""
        keyed = KeyedMessages(self.clock, SendKeys())
        claim = keyed.claim([])
        self.assertEqual((keyed.changes(claim, {}), claim.page), ([], None))
        keyed.stored(claim)

    def test_caller_that_leaves(self) -> None:
        """A caller that cancels while the disk is at work has stored both."""
        self.store.is_slow = True
        sending = self.sending(self.orders, b"1")
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.store.catch_up()
        self.assertEqual((list(self.values()), self.seen(self.orders)), (["1"], [b"1"]))

    def test_in_a_transaction_of_an_application(self) -> None:
        """It commits when the application says, so values are refused."""
        message = Message(transactional=True)
        transaction = self.service.begin()
        sending = self.service.send(
            self.payments, [message], transaction=transaction, values=lambda identifiers: []
        )
        self.failureResultOf(Deferred.fromCoroutine(sending), LocalProtocolError)
        self.run_to_end(transaction.abort())
