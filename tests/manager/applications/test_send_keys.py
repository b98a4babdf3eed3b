"""Messages that are sent under keys: one message for each key, however often it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.applications.send_keys import PREFIX, SendKeys, digest_of
from msmq.manager.applications.transaction_commits import PART
from msmq.manager.applications.transactions import TransactionHandle
from msmq.persistence.changes import Change, PutQueue, PutState, RemoveState
from msmq.persistence.send_key import KEY_LENGTH, page_of_former
from msmq.persistence.state_records import StateError
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from tests.builders import GAMMA
from tests.manager.support import BROKEN, ManagerTestCase

ELSEWHERE = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class SendKeysTests(SynchronousTestCase):
    """Stored keys, and their lifetime."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.state: dict[str, bytes] = {}

    def keep(self, keys: SendKeys, numbers: dict[str, int]) -> None:
        """Store some keys, as a commit of messages does."""
        page = keys.page({digest_of(key, ["q"]): number for key, number in numbers.items()}, self.clock.now())
        for name, value in page.changes():
            if value is None:
                del self.state[name]
            else:
                self.state[name] = value
        keys.stored(page, self.clock.now())

    def loaded(self, **settings: Any) -> SendKeys:
        """The keys after a restart."""
        keys = SendKeys(**settings)
        keys.load(self.state, self.clock.now())
        return keys

    def found(self, keys: SendKeys, *names: str) -> list[int | None]:
        return [keys.find(digest_of(name, ["q"]), self.clock.now()) for name in names]

    def test_keys_survive_a_restart(self) -> None:
        """A key stands for its number in this life and the next."""
        keys = SendKeys()
        self.assertEqual(self.found(keys, "a"), [None])
        self.keep(keys, {"a": 1, "b": 2})
        self.keep(keys, {"c": 0xFFFFFFFF})
        for life in (keys, self.loaded()):
            self.assertEqual(self.found(life, "a", "b", "c", "d"), [1, 2, 0xFFFFFFFF, None])

    def test_forgotten_with_time(self) -> None:
        """A key is forgotten when it is too old, and its record goes with the next that is stored."""
        keys = SendKeys(lifetime=100)
        self.keep(keys, {"a": 1})
        self.clock.advance(60)
        self.keep(keys, {"b": 2})
        self.clock.advance(60)
        self.assertEqual(self.found(keys, "a", "b"), [None, 2])
        self.assertEqual(self.found(self.loaded(lifetime=100), "a", "b"), [None, 2])
        self.keep(keys, {"a": 3})
        self.assertEqual((self.found(keys, "a", "b"), len(keys)), ([3, 2], 2))
        self.assertEqual(sorted(self.state), [f"{PREFIX}2", f"{PREFIX}3"])

    def test_clock_that_is_set(self) -> None:
        """A clock that is set forward and back forgets no key."""
        keys = SendKeys(lifetime=100)
        self.keep(keys, {"a": 1})
        wall = self.clock.now().wall
        self.clock.set_wall(wall + 1_000_000)
        self.keep(keys, {"b": 2})
        self.clock.set_wall(wall + 5)
        self.assertEqual([keys.find(digest_of(key, ["q"]), self.clock.now()) for key in "ab"], [1, 2])

    def test_bounded(self) -> None:
        """Beyond the limit the oldest keys are removed, in memory and in the store."""
        keys = SendKeys(limit=10)
        for number in range(100):
            self.keep(keys, {f"key {number}": number})
        self.assertEqual(len(keys), 10)
        self.assertLessEqual(len(self.state), 11)
        self.assertEqual(self.found(keys, "key 89", "key 90", "key 99"), [None, 90, 99])

    def test_smaller_limit(self) -> None:
        """After a restart with a smaller limit the records of what is forgotten go little by little."""
        keys = SendKeys()
        for number in range(1000):
            self.keep(keys, {f"key {number}": number})
        again = self.loaded(limit=10)
        self.assertEqual(self.found(again, "key 989", "key 990"), [None, 990])
        for number in range(4):
            self.keep(again, {f"new {number}": number})
        self.assertEqual((len(again), len(self.state)), (10, 11))

    def test_not_stored(self) -> None:
        """A message that could not be stored has no key, and a change that waited for it goes with the next
        commit.
        """
        keys = SendKeys(lifetime=100)
        self.keep(keys, {"a": 1})
        self.clock.advance(200)
        failed = keys.page({digest_of("b", ["q"]): 2}, self.clock.now())
        self.assertEqual(failed.closed, (f"{PREFIX}1",))
        keys.failed(failed)
        self.assertEqual(self.found(keys, "b"), [None])
        self.keep(keys, {"c": 3})
        self.assertEqual(list(self.state), [f"{PREFIX}3"])

    def test_express(self) -> None:
        """Keys of express messages alone store nothing; forgotten ones leave no removal behind."""
        keys = SendKeys(lifetime=100)
        express = {digest_of(key, ["q"]): number for number, key in enumerate("ab")}
        page = keys.page(express, self.clock.now(), express.keys())
        self.assertEqual(page.changes(), [])
        keys.stored(page, self.clock.now())
        self.assertEqual(self.found(keys, "a", "b"), [0, 1])
        self.clock.advance(200)
        self.keep(keys, {"c": 2})
        self.assertEqual((self.found(keys, "a", "b", "c"), len(keys)), ([None, None, 2], 1))
        self.assertEqual(self.found(self.loaded(lifetime=100), "a", "c"), [None, 2])

    def test_damaged(self) -> None:
        """A record that is cut short, or not one of this version, is named."""
        self.keep(SendKeys(), {"a": 1})
        [(name, value)] = self.state.items()
        for damaged in (b"", value[:-1], value + b"x", b"\x09" + value[1:]):
            self.state = {name: damaged}
            self.assertIn(name, str(self.assertRaises(StateError, self.loaded)))

    def test_same_key_elsewhere(self) -> None:
        """A key belongs to its destinations; the order of several ones does not matter."""
        self.assertEqual(digest_of("k", ["a", "b"]), digest_of("k", ["b", "a"]))
        digests = {digest_of("k", ["a"]), digest_of("k", ["a", "b"]), digest_of("l", ["a"])}
        digests |= {digest_of("k", ["ab"]), digest_of("k\0a", ["b"])}
        self.assertEqual(len(digests), 5)

    def test_length(self) -> None:
        """A key has 1 to 512 bytes in UTF-8."""
        digest_of("x" * KEY_LENGTH, ["q"])
        digest_of("\udcff", ["q"])
        for wrong in ("", "x" * (KEY_LENGTH + 1), "é" * (KEY_LENGTH // 2 + 1)):
            error = self.assertRaises(MQError, digest_of, wrong, ["q"])
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)


class KeyedTestCase(ManagerTestCase):
    def sending(
        self,
        queue: str,
        *keyed: tuple[str | None, bytes],
        transaction: TransactionHandle | None = None,
        **properties: Any,
    ) -> Deferred[Sequence[MessageIdentifier]]:
        """Begin to send messages, each under its key."""
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        properties.setdefault("transactional", queue == self.payments)
        messages = [Message(body=body, **properties) for _, body in keyed]
        keys = [key for key, _ in keyed]
        return Deferred.fromCoroutine(self.service.send(queue, messages, transaction=transaction, keys=keys))

    def keyed(self, queue: str, *keyed: tuple[str | None, bytes], **properties: Any) -> list[int]:
        """Send messages, each under its key; the numbers that are answered."""
        identifiers = self.successResultOf(self.sending(queue, *keyed, **properties))
        return [identifier.ordinal for identifier in identifiers]

    def failed(self, work: Deferred[Any], status: Status) -> None:
        self.assertEqual(self.failureResultOf(work, MQError).value.status, status)

    def locked(self, sending: Deferred[Any]) -> None:
        self.failed(sending, Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION)

    def unstored(self, work: Deferred[Any]) -> None:
        self.failed(work, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)


class SendTests(KeyedTestCase):
    """Without a transaction of the application."""

    def test_once(self) -> None:
        """A key that comes again sends nothing, and is answered with the first identifier."""
        for queue in (self.orders, self.payments):
            first = self.keyed(queue, ("a", b"1"), (None, b"2"), ("b", b"3"))
            self.assertEqual(first, list(range(first[0], first[0] + 3)))
            again = self.keyed(queue, ("a", b"other"), (None, b"4"), ("c", b"5"), ("b", b"3"))
            self.assertEqual((again[0], again[3]), (first[0], first[2]))
            self.assertEqual(again[2], again[1] + 1)
            self.assertEqual(self.keyed(queue, ("c", b"5"), ("a", b"1")), [again[2], first[0]])
            self.assertEqual(self.seen(queue), [b"1", b"2", b"3", b"4", b"5"])

    def test_twice_in_one_call(self) -> None:
        """Only the first of several messages of one call with one key is sent."""
        numbers = self.keyed(self.orders, ("a", b"1"), ("a", b"2"), ("b", b"3"), ("a", b"4"))
        self.assertEqual(numbers, [numbers[0], numbers[0], numbers[0] + 1, numbers[0]])
        self.assertEqual(self.seen(self.orders), [b"1", b"3"])

    def test_over_restarts(self) -> None:
        """Keys outlive a crash and an orderly stop, with the messages that were received meanwhile."""
        for queue in (self.orders, self.payments):
            numbers = self.keyed(queue, ("a", b"1"), ("b", b"2"))
            self.run_to_end(self.service.receive(queue, timeout=0))
            for crash in (True, False):
                self.restart(crash=crash)
                self.assertEqual(self.keyed(queue, ("b", b"2"), ("a", b"1")), numbers[::-1])
                self.assertEqual(self.seen(queue), [b"2"])

    def test_after_a_change_of_the_identifier(self) -> None:
        """What was sent under a former identifier of the queue manager is not sent again, and is answered
        with the identifier that the message has.
        """
        pages: list[PutState] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            pages.extend(
                each for each in changes if isinstance(each, PutState) and each.name.startswith(PREFIX)
            )
            return False

        self.store.error, self.store.is_hit = BROKEN, is_hit
        [first] = self.successResultOf(self.sending(self.orders, ("a", b"1")))
        [page] = pages
        self.successResultOf(self.store.commit([PutState(page.name, page_of_former(page.value, GAMMA))]))
        self.restart()
        again, new = self.successResultOf(self.sending(self.orders, ("a", b"1"), ("b", b"2")))
        self.assertEqual(again, MessageIdentifier(GAMMA, first.ordinal))
        self.assertEqual((new.queue_manager, self.seen(self.orders)), (first.queue_manager, [b"1", b"2"]))

    def test_express(self) -> None:
        """The key of an express message is forgotten with the message, so that a repeat sends it again."""
        numbers: list[int] = []
        for crash in (True, False):
            numbers = self.keyed(self.orders, ("a", b"1"), delivery=Delivery.EXPRESS)
            self.assertEqual(self.keyed(self.orders, ("a", b"1"), delivery=Delivery.EXPRESS), numbers)
            self.assertEqual(self.seen(self.orders), [b"1"])
            self.restart(crash=crash)
            self.assertEqual(self.seen(self.orders), [])
        self.assertNotEqual(self.keyed(self.orders, ("a", b"1"), delivery=Delivery.EXPRESS), numbers)
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_both_deliveries_in_one_call(self) -> None:
        """Keys of recoverable messages survive a restart, those of express messages of the same
        call do not.
        """
        messages = [
            Message(body=b"1", delivery=Delivery.EXPRESS),
            Message(body=b"2", delivery=Delivery.RECOVERABLE),
        ]
        send = lambda: self.service.send(self.orders, messages, keys=["a", "b"])  # noqa: E731
        first = self.run_to_end(send())
        self.assertEqual(self.run_to_end(send()), first)
        self.restart(crash=True)
        again = self.run_to_end(send())
        self.assertEqual(again[1], first[1])
        self.assertNotEqual(again[0], first[0])
        self.assertEqual(sorted(self.seen(self.orders)), [b"1", b"2"])

    def test_destinations(self) -> None:
        """A key belongs to its destination under any of its names, and is removed with its queue."""
        numbers = self.keyed(self.orders, ("a", b"1"))
        name = str(self.service.inspection.queue(self.orders).format_name)
        self.assertEqual(self.keyed(name, ("a", b"1")), numbers)
        self.assertEqual(self.keyed(self.orders.upper(), ("a", b"1")), numbers)
        self.assertNotEqual(self.keyed(self.admin, ("a", b"1")), numbers)
        self.assertEqual(len(self.keyed(ELSEWHERE, ("a", b"1"))), 1)
        self.assertEqual(self.keyed(ELSEWHERE, ("a", b"1")), self.keyed(ELSEWHERE, ("a", b"1")))
        self.run_to_end(self.service.delete_queue(self.orders))
        self.run_to_end(self.service.create_queue(self.orders))
        self.assertNotEqual(self.keyed(self.orders, ("a", b"1")), numbers)
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_open_queue(self) -> None:
        """A queue that is open for sending takes keys as well."""
        queue = self.service.open_queue(self.orders, QueueAccessType.SEND)
        message = Message(body=b"1")
        [first] = self.run_to_end(queue.send([message], keys=["a"]))
        self.assertEqual(self.run_to_end(queue.send([message, message], keys=["a", "a"])), [first, first])
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_not_before_it_is_stored(self) -> None:
        """A repeat waits for the disk as the first does, and neither is sent twice."""
        self.store.is_slow = True
        first = self.sending(self.orders, ("a", b"1"))
        again = self.sending(self.orders, ("b", b"2"), ("a", b"1"))
        other = self.sending(self.orders, ("c", b"3"))
        self.assertNoResult(first)
        self.assertNoResult(again)
        self.store.catch_up()
        [identifier] = self.successResultOf(first)
        self.assertEqual(self.successResultOf(again)[1], identifier)
        self.successResultOf(other)
        self.assertEqual(sorted(self.seen(self.orders)), [b"1", b"2", b"3"])

    def test_failing_disk(self) -> None:
        """A message that could not be stored was not sent: waiting callers send it, and so does
        a repetition.
        """
        for queue in (self.orders, self.payments):
            self.store.is_slow = True
            self.store.fail_commit(1)
            first = self.sending(queue, ("a", b"1"))
            again = self.sending(queue, ("a", b"2"))
            self.store.catch_up()
            self.unstored(first)
            self.successResultOf(again)
            self.store.recover()
            self.assertEqual(self.seen(queue), [b"2"])
            self.store.break_down()
            self.failureResultOf(self.sending(queue, ("b", b"3")))
            self.store.recover()
            self.keyed(queue, ("b", b"3"), ("a", b"2"))
            self.assertEqual(self.seen(queue), [b"2", b"3"])

    def test_caller_that_leaves(self) -> None:
        """A caller that cancels while the disk is at work has sent; one that cancels while waiting for
        another has not.
        """
        self.store.is_slow = True
        first = self.sending(self.orders, ("a", b"1"))
        waiting = [self.sending(self.orders, ("a", b"1"), ("b", b"2")) for _ in range(2)]
        for left in (first, waiting[0]):
            left.cancel()
            self.failureResultOf(left, CancelledError)
        self.store.catch_up()
        self.successResultOf(waiting[1])
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])

    def test_over_a_quota(self) -> None:
        """A refused message was not sent."""
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 1}))
        refused = self.sending(self.orders, ("a", bytes(2000)))
        self.failed(refused, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.run_to_end(self.service.set_queue(self.orders, {"quota": None}))
        self.keyed(self.orders, ("a", b"1"))
        self.assertEqual(self.seen(self.orders), [b"1"])

    def test_lifetime(self) -> None:
        """A key is forgotten after the time that is set, a day."""
        first = self.keyed(self.orders, ("a", b"1"))
        self.clock.advance(86_399)
        self.assertEqual(self.keyed(self.orders, ("a", b"1")), first)
        self.clock.advance(1)
        self.assertNotEqual(self.keyed(self.orders, ("a", b"2")), first)
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])

    def test_stored_with_its_message(self) -> None:
        """A key is part of the commit of its message, so that neither is there without the other."""
        commits: list[list[type]] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            commits.append(list(map(type, changes)))
            return False

        self.store.error, self.store.is_hit = BROKEN, is_hit
        self.keyed(self.orders, ("a", b"1"), ("b", b"2"))
        [changes] = [kinds for kinds in commits if PutState in kinds]
        self.assertEqual(len(changes), 3)
        self.assertNotIn(RemoveState, changes)

    def test_wrong_keys(self) -> None:
        """An invalid key, and too few or too many keys, send no message."""
        message = Message(body=b"1")
        for keys, status in (
            ([""], Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE),
            (["x" * 513], Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE),
            ([], Status.MQ_ERROR_INVALID_PARAMETER),
            ([None, None], Status.MQ_ERROR_INVALID_PARAMETER),
            (["a", "b"], Status.MQ_ERROR_INVALID_PARAMETER),
        ):
            self.refused(self.service.send(self.orders, [message], keys=keys), status)
        self.assertEqual(self.seen(self.orders), [])


class TransactionTests(KeyedTestCase):
    """In a transaction of the application."""

    def test_committed(self) -> None:
        """A key that was sent in a transaction is remembered once that has committed."""
        transaction = self.service.begin()
        numbers = self.keyed(self.payments, ("a", b"1"), ("b", b"2"), transaction=transaction)
        self.assertEqual(self.keyed(self.payments, ("a", b"1"), transaction=transaction), numbers[:1])
        self.assertEqual(self.seen(self.payments), [])
        self.run_to_end(transaction.commit())
        self.restart(crash=True)
        self.assertEqual(self.keyed(self.payments, ("b", b"2"), ("a", b"1")), numbers[::-1])
        other = self.service.begin()
        self.assertEqual(self.keyed(self.payments, ("a", b"1"), transaction=other), numbers[:1])
        self.run_to_end(other.commit())
        self.assertEqual(self.seen(self.payments), [b"1", b"2"])

    def test_aborted(self) -> None:
        """The key of an aborted transaction can be used by other callers."""
        for end in ("abort", "crash"):
            transaction = self.service.begin()
            self.keyed(self.payments, (end, b"lost"), transaction=transaction)
            if end == "abort":
                self.run_to_end(transaction.abort())
            else:
                self.restart(crash=True)
            self.keyed(self.payments, (end, end.encode()))
        self.assertEqual(self.seen(self.payments), [b"abort", b"crash"])

    def test_locked_meanwhile(self) -> None:
        """While an application has not decided, others are refused, and not kept waiting."""
        transaction = self.service.begin()
        numbers = self.keyed(self.payments, ("a", b"1"), transaction=transaction)
        self.locked(self.sending(self.payments, ("b", b"2"), ("a", b"1")))
        self.locked(self.sending(self.payments, ("a", b"1"), transaction=self.service.begin()))
        self.store.is_slow = True
        commit = self.deferred(transaction.commit())
        again = self.sending(self.payments, ("a", b"1"))
        self.assertNoResult(again)
        self.store.catch_up()
        self.successResultOf(commit)
        self.assertEqual([each.ordinal for each in self.successResultOf(again)], numbers)
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_commit_that_fails(self) -> None:
        """After a commit that could not be stored it is again for the application to decide."""
        transaction = self.service.begin()
        numbers = self.keyed(self.payments, ("a", b"1"), transaction=transaction)
        self.store.is_slow = True
        self.store.fail_commit(1)
        commit = self.deferred(transaction.commit())
        again = self.sending(self.payments, ("a", b"1"))
        self.store.catch_up()
        self.unstored(commit)
        self.locked(again)
        self.store.recover()
        self.run_to_end(transaction.commit())
        self.assertEqual(self.keyed(self.payments, ("a", b"1")), numbers)
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_commit_of_many_that_fails(self) -> None:
        """The same for a long transaction, which stores the queues of its messages first."""
        transaction = self.service.begin()
        keyed = [(str(number), b"1") for number in range(PART + 1)]
        sent = self.sending(ELSEWHERE, *keyed, transaction=transaction, transactional=True)
        sent_numbers = [identifier.ordinal for identifier in self.successResultOf(sent)]
        self.store.is_slow = True
        self.store.fail_commit(1, of=PutQueue)
        commit = self.deferred(transaction.commit())
        again = self.sending(ELSEWHERE, keyed[0], transactional=True)
        self.assertNoResult(again)
        self.store.catch_up()
        self.unstored(commit)
        self.locked(again)
        self.store.recover()
        commit = self.deferred(transaction.commit())
        self.clock.advance(0)
        self.successResultOf(commit)
        self.assertEqual(self.keyed(ELSEWHERE, *keyed, transactional=True), sent_numbers)

    def test_refused_in_it(self) -> None:
        """A message that a transaction does not take leaves its key to others."""
        transaction = self.service.begin()
        self.run_to_end(self.service.set_queue(self.payments, {"quota": 1}))
        self.failureResultOf(
            self.sending(self.payments, ("a", bytes(2000)), transaction=transaction), MQError
        )
        self.keyed(self.payments, ("a", b"1"))
        self.run_to_end(transaction.commit())
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_nothing_new(self) -> None:
        """A transaction that sends only what was sent before commits nothing of it."""
        numbers = self.keyed(self.payments, ("a", b"1"))
        transaction = self.service.begin()
        self.assertEqual(self.keyed(self.payments, ("a", b"1"), transaction=transaction), numbers)
        self.run_to_end(transaction.abort())
        self.assertEqual(self.keyed(self.payments, ("a", b"1")), numbers)
        self.assertEqual(self.seen(self.payments), [b"1"])


class LimitTests(KeyedTestCase):
    """A queue manager that remembers three keys, for a minute."""

    def setUp(self) -> None:
        super().setUp()
        self.limits = {"options": {"send_keys": (3, 60.0)}}
        self.restart()

    def test_number(self) -> None:
        """One key more, and the oldest is forgotten."""
        numbers = [self.keyed(self.orders, (key, b""))[0] for key in "abcd"]
        self.assertEqual([self.keyed(self.orders, (key, b""))[0] for key in "bcd"], numbers[1:])
        self.assertNotEqual(self.keyed(self.orders, ("a", b"")), numbers[:1])

    def test_time(self) -> None:
        """They are forgotten after a minute, over a restart too."""
        first = self.keyed(self.orders, ("a", b""))
        self.restart(seconds=59)
        self.assertEqual(self.keyed(self.orders, ("a", b"")), first)
        self.restart(seconds=1)
        self.assertNotEqual(self.keyed(self.orders, ("a", b"")), first)
