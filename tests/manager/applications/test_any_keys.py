"""Any sends under keys with any concurrent events: each key is one message.

A history is a list of steps, drawn by hypothesis: messages are sent under a few keys, alone and together, in
transactions and without; transactions are committed and aborted; the store is slow, or fails; waiting callers
cancel; the queue manager is stopped, or killed.
C{MSMQ_SOAK} overrides the number of histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from msmq.manager.applications.transactions import TransactionHandle
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError
from tests.manager.support import ManagerTestCase
from tests.samples import examples

HISTORIES = examples(50)

KEYS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), KEYS),
        st.tuples(st.just("send_transactional"), KEYS),
        st.tuples(st.just("send_express"), KEYS),
        st.tuples(st.just("send_in"), KEYS),
        st.sampled_from(
            [
                *("begin", "commit", "abort", "slow", "catch_up", "finish_one", "break", "mend"),
                *("cancel", "stop", "crash"),
            ]
        ).map(lambda name: (name, [])),
    ),
    max_size=30,
)


class AnyKeysTests(ManagerTestCase):
    """L{msmq.manager.applications.keyed_messages.KeyedMessages}."""

    def begin_history(self) -> None:
        self.doCleanups()
        self.setUp()
        self.identifiers: dict[tuple[str, str], MessageIdentifier] = {}
        self.pending: list[Deferred[Any]] = []
        self.transaction: TransactionHandle | None = None
        self.sent_in: dict[str, MessageIdentifier] = {}

    def reported(self, queue: str, keys: Sequence[str], identifiers: Sequence[MessageIdentifier]) -> None:
        """A caller got the confirmation of these sends, which stays true."""
        for key, identifier in zip(keys, identifiers, strict=True):
            self.assertEqual(self.identifiers.setdefault((queue, key), identifier), identifier)

    def watch(self, work: Deferred[Any], then: Callable[[Any], object] = lambda result: None) -> None:
        """Have what comes of something, unless the queue manager is dead by then."""
        life = self.alpha
        self.pending.append(work)

        def end(result: object) -> None:
            if work in self.pending:
                self.pending.remove(work)
            if self.alpha is not life:
                return
            if isinstance(result, Failure):
                result.trap(MQError, CancelledError)
            else:
                then(result)

        work.addBoth(end)

    def sending(self, queue: str, keys: Sequence[str], transaction: TransactionHandle | None = None) -> Any:
        is_transactional = queue == self.payments
        delivery = Delivery.EXPRESS if queue == self.admin else Delivery.RECOVERABLE
        messages = [
            Message(body=key.encode(), delivery=delivery, transactional=is_transactional) for key in keys
        ]
        return self.deferred(self.service.send(queue, messages, transaction=transaction, keys=keys))

    def step(self, name: str, keys: Sequence[str]) -> None:
        match name:
            case "send" | "send_transactional" | "send_express":
                queue = {"send": self.orders, "send_express": self.admin}.get(name, self.payments)
                self.watch(self.sending(queue, keys), lambda sent: self.reported(queue, keys, sent))
            case "begin":
                self.transaction = self.transaction or self.service.begin()
            case "send_in":
                if self.transaction is not None:
                    self.watch(
                        self.sending(self.payments, keys, self.transaction),
                        lambda sent: self.is_in(sent, keys),
                    )
            case "commit" | "abort":
                transaction, self.transaction = self.transaction, None
                if transaction is not None:
                    sent, self.sent_in = self.sent_in, {}
                    self.watch(self.deferred(self.ending(transaction, name == "commit", sent)))
            case "slow":
                self.store.is_slow = True
            case "catch_up":
                self.store.catch_up()
            case "finish_one":
                self.store.finish(1)
            case "break":
                self.store.break_down()
            case "mend":
                self.store.recover()
            case "cancel":
                for work in self.pending[:1]:
                    work.cancel()
            case "stop" | "crash":
                self.store.recover()
                if name == "stop":
                    self.store.catch_up()
                # Who waits for a dead process hears no more of it.
                self.pending = []
                self.transaction, self.sent_in = None, {}
                self.start_again(crash=name == "crash")

    def start_again(self, *, crash: bool) -> None:
        """A restart, after which express messages are gone and may be sent again."""
        self.restart(crash=crash)
        self.identifiers = {
            (queue, key): sent for (queue, key), sent in self.identifiers.items() if queue != self.admin
        }

    def is_in(self, identifiers: Sequence[MessageIdentifier], keys: Sequence[str]) -> None:
        """A result confirmed in a transaction stays valid in it, and for others if it commits."""
        for key, identifier in zip(keys, identifiers, strict=True):
            self.assertEqual(self.sent_in.setdefault(key, identifier), identifier)

    async def ending(
        self, transaction: TransactionHandle, is_commit: bool, sent: dict[str, MessageIdentifier]
    ) -> None:
        if is_commit:
            try:
                await transaction.commit()
            except MQError:
                if transaction.state == "active":
                    await transaction.abort()
                raise
            self.reported(self.payments, list(sent), list(sent.values()))
        else:
            await transaction.abort()

    @settings(
        max_examples=HISTORIES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
    )
    @given(STEPS)
    def test_each_once(self, steps: Sequence[tuple[str, Sequence[str]]]) -> None:
        """A confirmed message is there once, under the identifier of the confirmation; none is there
        twice.
        """
        self.begin_history()
        for name, keys in steps:
            self.step(name, keys)
        self.store.recover()
        self.store.catch_up()
        if self.transaction is not None:
            self.run_to_end(self.transaction.abort())
        self.assertEqual(self.pending, [])
        for _ in range(2):
            for queue in (self.orders, self.payments, self.admin):
                found = Counter(bytes(message.view.body).decode() for message in self.messages(queue))
                self.assertLessEqual(max(found.values(), default=0), 1, found)
                known = {
                    bytes(each.view.body).decode(): each.view.identifier for each in self.messages(queue)
                }
                for (where, key), identifier in self.identifiers.items():
                    if where == queue:
                        self.assertEqual(known[key], identifier)
                # A caller that sends again gets what is there, and sends what is not.
                for key in "abc":
                    [identifier] = self.successResultOf(self.sending(queue, [key]))
                    self.assertEqual(known.get(key, identifier), identifier)
                    self.reported(queue, [key], [identifier])
            self.start_again(crash=True)
