"""Operations in the name of an account: each right gates the operation that it names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.security.access import Account
from msmq.manager.membership.public_names import FRESH
from msmq.manager.securing.restricted_manager import RestrictedQueueManager
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.moment import Moment
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import PrivateFormatName, PublicFormatName, parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from msmq.wire.guid import NULL_GUID
from msmq.wire.sid import parse_sid
from tests.builders import BETA, GAMMA
from tests.manager.securing.slow_accounts import SlowAccounts
from tests.nodes.routes.test_public_queues import DirectoryTestCase
from tests.nodes.support import Node, NodesTestCase

OWNER, BOB = parse_sid("S-1-5-21-1-2-3-1001"), parse_sid("S-1-5-21-1-2-3-1002")
QUEUE = ".\\private$\\orders"
CLOSED = "O:S-1-5-21-1-2-3-1001D:"

Doing = Callable[[RestrictedQueueManager], Coroutine[Any, Any, Any]]


class JumpingClock(ManualClock):
    """The clock of a test, whose time jumps after some readings by as long as a list is not read again."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.reactor = clock.reactor
        self.readings = -1
        self._jumped = 0.0

    def now(self) -> Moment:
        """See L{IClock.now<msmq.interfaces.clock.IClock.now>}."""
        if self.readings == 0:
            self._jumped += FRESH + 1
        self.readings -= 1
        return super().now().later(self._jumped)


class SlowSearches(MemoryMessageStore):
    """A store whose searches wait for the test, if C{waiting} is a list."""

    def __init__(self) -> None:
        super().__init__(durable=True)
        self.waiting: list[Deferred[None]] | None = None

    def find(self, identity: bytes) -> Deferred[Any]:
        """See L{IMessageStore.find<msmq.interfaces.storage.IMessageStore.find>}."""
        if self.waiting is None:
            return super().find(identity)
        self.waiting.append(Deferred())
        return self.waiting[-1].addCallback(lambda _: super(SlowSearches, self).find(identity))

    def go_on(self) -> None:
        """Answer the search that waits."""
        assert self.waiting is not None
        self.waiting.pop().callback(None)


class ActingTests(NodesTestCase):
    """BETA's owner lets bob do one thing at a time."""

    def setUp(self) -> None:
        self.access = SlowAccounts()
        for sid, name in ((OWNER, "alice"), (BOB, "bob")):
            self.access.add(Account(sid, name))
        super().setUp()
        self.service = self.beta.service
        self.queue(self.beta, security=CLOSED, journal=True)
        self.run_to_end(self.service.access.revoke(".", "everyone"))
        self.bob = self.run_to_end(self.service.acting_as("bob"))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name != "BETA":
            return super().node(name, identifier, **kwargs)
        self.store = SlowSearches()
        options = {"access": AccessPolicy(self.access, OWNER)}
        return super().node(name, identifier, options=options, store=self.store, **kwargs)

    def denial(self, doing: Doing) -> str:
        """Why bob may not."""
        failure = self.failureResultOf(Deferred.fromCoroutine(doing(self.bob)), MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_ACCESS_DENIED)
        return str(failure.value)

    def gate(self, path: str, right: str, doing: Doing, name: str) -> None:
        """Bob may do it with this right, and may not without, and the refusal names the right.

        @param name: the document's name of what is missing.
        """
        self.assertIn(name, self.denial(doing))
        self.run_to_end(self.service.access.allow(path, "bob", [right]))
        self.run_to_end(doing(self.bob))
        self.run_to_end(self.service.access.revoke(path, "bob"))
        self.assertIn(name, self.denial(doing))

    async def send_as(self, message: Message, destination: str, who: RestrictedQueueManager) -> None:
        await who.send(destination, [message])

    def fill(self) -> None:
        self.run_to_end(self.service.send(QUEUE, [Message(body=b"1")]))

    def test_rights_to_a_queue(self) -> None:
        """MQMQ-2.2.24-04: what each lets one do."""
        self.fill()
        to_look: Doing = lambda bob: bob.reserve(QUEUE, timeout=0, peek=True)  # noqa: E731

        async def take(bob: RestrictedQueueManager) -> None:
            self.fill()
            reservation = await bob.reserve(QUEUE, timeout=0)
            await reservation.confirm()

        async def take_copy(bob: RestrictedQueueManager) -> None:
            await (await bob.reserve(QUEUE + ";journal", timeout=0)).confirm()

        async def purge(bob: RestrictedQueueManager) -> None:
            await bob.purge_queue(QUEUE)

        self.gate(QUEUE, "send", lambda bob: bob.send(QUEUE, [Message()]), "MQSEC_WRITE_MESSAGE")
        self.gate(QUEUE, "peek", to_look, "MQSEC_PEEK_MESSAGE")
        self.gate(QUEUE, "receive", take, "MQSEC_RECEIVE_MESSAGE")
        self.gate(QUEUE, "receive-journal", take_copy, "MQSEC_RECEIVE_JOURNAL_MESSAGE")
        self.gate(QUEUE, "receive", purge, "MQSEC_RECEIVE_MESSAGE")
        self.gate(QUEUE, "get-properties", lambda bob: bob.queue(QUEUE), "MQSEC_GET_QUEUE_PROPERTIES")
        label = {"label": "Orders"}
        self.gate(
            QUEUE, "set-properties", lambda bob: bob.set_queue(QUEUE, label), "MQSEC_SET_QUEUE_PROPERTIES"
        )
        self.gate(QUEUE, "get-permissions", lambda bob: bob.acl(QUEUE), "MQSEC_GET_QUEUE_PERMISSIONS")
        change = "MQSEC_CHANGE_QUEUE_PERMISSIONS"
        self.gate(QUEUE, "set-permissions", lambda bob: bob.allow(QUEUE, "users", ["send"]), change)
        self.gate(QUEUE, "set-permissions", lambda bob: bob.deny(QUEUE, "users", ["send"]), change)
        self.gate(QUEUE, "set-permissions", lambda bob: bob.revoke(QUEUE, "users"), change)

    def test_half_of_a_right_is_none(self) -> None:
        """Receiving needs to look and to delete."""
        for right, missing in (("peek", "MQSEC_DELETE_MESSAGE"), ("delete-message", "MQSEC_PEEK_MESSAGE")):
            self.run_to_end(self.service.access.allow(QUEUE, "bob", [right]))
            self.assertIn(missing, self.denial(lambda bob: bob.reserve(QUEUE, timeout=0)))
            self.run_to_end(self.service.access.revoke(QUEUE, "bob"))

    def test_an_owner(self) -> None:
        """An account that takes ownership may change the list from then on; the right to delete deletes."""
        take = self.bob.take_ownership
        self.assertIn("MQSEC_TAKE_QUEUE_OWNERSHIP", self.denial(lambda bob: take(QUEUE)))
        self.run_to_end(self.service.access.allow(QUEUE, "bob", ["take-ownership"]))
        self.assertEqual(self.run_to_end(take(QUEUE)).owner, "bob (S-1-5-21-1-2-3-1002)")
        self.run_to_end(self.service.access.revoke(QUEUE, "bob"))
        self.assertIn("MQSEC_DELETE_QUEUE", self.denial(lambda bob: bob.delete_queue(QUEUE)))
        self.run_to_end(self.bob.allow(QUEUE, "bob", ["delete"]))
        self.run_to_end(self.bob.delete_queue(QUEUE))
        self.assertEqual(self.service.inspection.queues(), [])

    def test_rights_to_the_queue_manager(self) -> None:
        """MQMQ-2.2.23-05: what each lets one do."""
        nowhere = "DIRECT=TCP:127.0.0.2\\private$\\nowhere"
        dead_letters, journal = ".\\system$;deadletter", ".\\system$;journal"
        for _ in range(4):
            message = Message(body=b"1", dead_letter=True, time_to_reach_queue=1)
            self.run_to_end(self.service.send(nowhere, [message]))
        self.alpha.deaf()
        self.clock.advance(5)
        numbers = iter(range(10))

        def read(path: str, *, peek: bool) -> Doing:
            return lambda bob: bob.reserve(path, timeout=0, peek=peek)

        self.gate(
            ".",
            "create-queue",
            lambda bob: bob.create_queue(f".\\private$\\new{next(numbers)}"),
            "MQSEC_CREATE_QUEUE",
        )
        self.gate(".", "get-properties", lambda bob: bob.status(), "MQSEC_GET_MACHINE_PROPERTIES")
        self.gate(".", "get-permissions", lambda bob: bob.acl("."), "MQSEC_GET_MACHINE_PERMISSIONS")
        change = "MQSEC_CHANGE_MACHINE_PERMISSIONS"
        self.gate(".", "set-permissions", lambda bob: bob.deny(".", "users", ["delete"]), change)
        dead_letter = "MQSEC_PEEK_DEADLETTER_MESSAGE"
        self.gate(".", "peek-dead-letters", lambda bob: bob.dead_letters(), dead_letter)
        for path, word, name in (
            (dead_letters, "dead-letters", "DEADLETTER_MESSAGE"),
            (journal, "journal", "JOURNAL_QUEUE_MESSAGE"),
        ):
            for action in ("peek", "receive"):
                right = read(path, peek=action == "peek")
                missing = self.denial(right)
                self.assertIn(name, missing)
                self.run_to_end(self.service.access.allow(".", "bob", [f"{action}-{word}"]))
                outcome: list[Any] = []
                Deferred.fromCoroutine(right(self.bob)).addErrback(lambda failure: failure.value).addCallback(
                    outcome.append
                )
                if isinstance(outcome[0], MQError):
                    # There is nothing in it, which one learns only if one may look.
                    self.assertEqual(outcome[0].status, Status.MQ_ERROR_IO_TIMEOUT)
                self.run_to_end(self.service.access.revoke(".", "bob"))
        take = "MQSEC_TAKE_MACHINE_OWNERSHIP"
        self.gate(".", "take-ownership", lambda bob: bob.take_ownership("."), take)

    def test_a_user_owns_the_queues_it_creates(self) -> None:
        """A user owns the queues that it creates, and has full control of them."""
        self.run_to_end(self.service.access.allow(".", "bob", ["create-queue"]))
        path = ".\\private$\\mine"
        self.run_to_end(self.bob.create_queue(path))
        self.assertEqual(self.run_to_end(self.bob.acl(path)).owner, "bob (S-1-5-21-1-2-3-1002)")
        self.run_to_end(self.bob.send(path, [Message(body=b"1")]))
        self.run_to_end(self.bob.delete_queue(path))

    def test_queues_of_others(self) -> None:
        """Their queue managers decide about the right to send there."""
        self.queue(self.alpha, "theirs")
        self.run_to_end(self.bob.send("DIRECT=TCP:127.0.0.2\\private$\\theirs", [Message(body=b"1")]))
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, ".\\private$\\theirs"), [b"1"])

    def test_what_comes_of_a_message(self) -> None:
        """No dead letter and no acknowledgement gets into a queue that its sender may not write to."""
        nowhere = "DIRECT=TCP:127.0.0.2\\private$\\nowhere"
        self.alpha.deaf()
        dead_letter = Message(body=b"1", dead_letter=True, dead_letter_queue=QUEUE, time_to_reach_queue=1)
        asks = Message(body=b"1", acknowledge=Acknowledge.NEGATIVE_ARRIVAL, time_to_reach_queue=1)
        queue = self.beta.model.find(parse_path_name(QUEUE))
        assert queue is not None
        number = queue.definition.number
        admin_queues = (
            parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders"),
            PrivateFormatName(BETA, number),
            PrivateFormatName(NULL_GUID, number),
        )
        for message in (dead_letter, *(attrs.evolve(asks, admin_queue=name) for name in admin_queues)):
            send: Doing = functools.partial(self.send_as, message, nowhere)
            self.gate(QUEUE, "send", send, "MQSEC_WRITE_MESSAGE")
            self.clock.advance(5)
            self.assertEqual(self.bodies(self.beta, QUEUE), [b"1"])

    def test_answers_into_a_queue_that_is_created_later(self) -> None:
        """A queue that does not exist is refused: it may be closed to the sender when they get there."""
        nowhere, later = "DIRECT=TCP:127.0.0.2\\private$\\nowhere", ".\\private$\\later"
        self.alpha.deaf()
        for message in (
            Message(dead_letter=True, dead_letter_queue=later, time_to_reach_queue=1),
            Message(
                acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\later"),
                time_to_reach_queue=1,
            ),
        ):
            sending = self.deferred(self.bob.send(nowhere, [message]))
            status = self.failureResultOf(sending, MQError).value.status
            self.assertEqual(status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.queue(self.beta, "later", security=CLOSED)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, later), [])

    def test_answers_into_a_queue_that_is_created_again(self) -> None:
        """An acknowledgement gets into no queue that has got the name of the one that was checked."""
        path = ".\\private$\\again"
        self.run_to_end(self.service.access.allow(QUEUE, "bob", ["send"]))
        message = Message(
            body=b"1",
            acknowledge=Acknowledge.NEGATIVE_RECEIVE,
            admin_queue=parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\again"),
            time_to_be_received=1,
        )
        for is_replaced, expected in ((False, [b"1"]), (True, [])):
            self.queue(self.beta, "again", security="D:(A;;GA;;;WD)")
            self.run_to_end(self.bob.send(QUEUE, [message]))
            if is_replaced:
                self.run_to_end(self.service.delete_queue(path))
                self.queue(self.beta, "again", security=CLOSED)
            self.clock.advance(5)
            self.assertEqual(self.bodies(self.beta, path), expected)
            self.run_to_end(self.service.delete_queue(path))

    def test_answers_into_a_queue_for_authenticated_messages(self) -> None:
        """It gets no dead letter and no acknowledgement of a message that is not signed."""
        path = self.queue(self.beta, "signed", authenticate=True, security="D:(A;;GA;;;WD)")
        admin = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\signed")
        for message in (
            Message(dead_letter=True, dead_letter_queue=path, time_to_reach_queue=1),
            Message(acknowledge=Acknowledge.NEGATIVE_ARRIVAL, admin_queue=admin, time_to_reach_queue=1),
        ):
            sending = self.deferred(self.bob.send("DIRECT=TCP:127.0.0.2\\private$\\nowhere", [message]))
            status = self.failureResultOf(sending, MQError).value.status
            self.assertEqual(status, Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED)

    def test_no_other_sender(self) -> None:
        """A message does not state the queue manager as its sender, whatever the application asks for."""
        self.run_to_end(self.service.access.allow(QUEUE, "bob", ["send"]))
        for kind in SenderIdType:
            self.run_to_end(self.bob.send(QUEUE, [Message(body=b"1", sender_identifier_type=kind)]))
        self.assertEqual([view.sender_id for view in self.take(self.beta, QUEUE)], [None] * len(SenderIdType))

    def test_sending_a_dead_letter_again(self) -> None:
        """It needs the right to send to the queue that it was for."""
        message = Message(body=b"1", dead_letter=True, time_to_be_received=1)
        [identifier] = self.run_to_end(self.service.send(QUEUE, [message]))
        self.clock.advance(5)
        self.run_to_end(self.service.access.allow(".", "bob", ["receive-dead-letters"]))
        requeue: Doing = lambda bob: bob.requeue(identifier)  # noqa: E731
        self.assertIn("MQSEC_WRITE_MESSAGE", self.denial(requeue))
        self.run_to_end(self.service.access.allow(QUEUE, "bob", ["send"]))
        self.run_to_end(requeue(self.bob))
        self.assertEqual(self.bodies(self.beta, QUEUE), [b"1"])

    def test_queue_that_is_replaced_before_a_dead_letter_is_sent_again(self) -> None:
        """The dead letter is looked up again after the check, and does not go into another queue then."""
        message = Message(body=b"1", dead_letter=True, time_to_be_received=1)
        path = self.queue(self.beta, "again", security="D:(A;;GA;;;WD)")
        destination = "DIRECT=TCP:127.0.0.3\\private$\\again"
        [identifier] = self.run_to_end(self.service.send(destination, [message]))
        self.clock.advance(5)
        self.run_to_end(self.service.access.allow(".", "bob", ["receive-dead-letters"]))
        self.store.waiting = []
        sending = self.deferred(self.bob.requeue(identifier))
        self.store.go_on()
        self.run_to_end(self.service.delete_queue(path))
        self.queue(self.beta, "again", security=CLOSED)
        self.store.go_on()
        status = self.failureResultOf(sending, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_QUEUE_DELETED)
        self.assertEqual(self.bodies(self.beta, path), [])

    def test_a_subqueue_is_not_made_for_the_question(self) -> None:
        """A caller without the right to read creates nothing."""
        self.denial(lambda bob: bob.reserve(QUEUE + ";sub", timeout=0))
        queue = self.beta.model.collection
        self.assertEqual([each for each in queue.all_queues() if each.is_subqueue], [])

    def test_a_right_that_is_revoked_during_the_check(self) -> None:
        """Nothing is done with a right that was revoked before the directory has answered."""
        self.fill()
        operations: list[tuple[str, Doing]] = [
            (QUEUE, lambda bob: bob.purge_queue(QUEUE)),
            (QUEUE, lambda bob: bob.send(QUEUE, [Message(body=b"2")])),
            (QUEUE, lambda bob: bob.delete_queue(QUEUE)),
            (".", lambda bob: bob.create_queue(".\\private$\\new")),
        ]
        for path, doing in operations:
            self.run_to_end(self.service.access.allow(path, "bob", ["all"]))
            self.access.is_slow = True
            asked = Deferred.fromCoroutine(doing(self.bob))
            [lookup] = self.access.waiting
            self.access.waiting.clear()
            self.access.is_slow = False
            self.run_to_end(self.service.access.revoke(path, "bob"))
            lookup.callback(None)
            status = self.failureResultOf(asked, MQError).value.status
            self.assertEqual(status, Status.MQ_ERROR_ACCESS_DENIED)

    def test_a_queue_that_is_replaced_during_the_check(self) -> None:
        """The rights to a queue are none to another one that is created under its name meanwhile."""
        operations: list[Doing] = [
            lambda bob: bob.purge_queue(QUEUE),
            lambda bob: bob.queue(QUEUE),
            lambda bob: bob.allow(QUEUE, "bob", ["receive"]),
            lambda bob: bob.reserve(QUEUE, timeout=0),
            lambda bob: bob.reserve(QUEUE + ";sub", timeout=0, peek=True),
            lambda bob: bob.send(QUEUE, [Message(body=b"2")]),
        ]
        for doing in operations:
            self.run_to_end(self.service.access.allow(QUEUE, "bob", ["all"]))
            self.access.is_slow = True
            asked = Deferred.fromCoroutine(doing(self.bob))
            [lookup] = self.access.waiting
            self.access.waiting.clear()
            self.access.is_slow = False
            self.run_to_end(self.service.delete_queue(QUEUE))
            self.queue(self.beta, security=CLOSED, journal=True)
            self.fill()
            lookup.callback(None)
            status = self.failureResultOf(asked, MQError).value.status
            self.assertEqual(status, Status.MQ_ERROR_QUEUE_DELETED)
            self.assertEqual(self.service.inspection.queue(QUEUE).messages, 1)

    def test_right_that_is_revoked_during_a_wait(self) -> None:
        """A read that waits gets nothing that arrives once its right was revoked; the next reader does."""
        exact = ".\\private$\\exact"
        self.queue(self.beta, "exact", security=CLOSED, transactional=True)
        transaction = self.service.begin()
        waits: list[tuple[str, Doing]] = [
            (QUEUE, lambda bob: bob.reserve(QUEUE)),
            (QUEUE, lambda bob: bob.reserve(QUEUE, peek=True)),
            (exact, lambda bob: bob.reserve(exact, transaction=transaction)),
        ]
        for path, doing in waits:
            for is_revoked in (False, True):
                self.run_to_end(self.service.access.allow(path, "bob", ["receive", "peek"]))
                asked = Deferred.fromCoroutine(doing(self.bob))
                self.assertNoResult(asked)
                if is_revoked:
                    self.run_to_end(self.service.access.revoke(path, "bob"))
                message = Message(body=b"1", transactional=path == exact)
                self.run_to_end(self.service.send(path, [message]))
                if is_revoked:
                    status = self.failureResultOf(asked, MQError).value.status
                    self.assertEqual(status, Status.MQ_ERROR_ACCESS_DENIED)
                else:
                    self.successResultOf(asked).release()
                if path == exact:
                    self.run_to_end(transaction.commit() if is_revoked else transaction.abort())
                    transaction = self.service.begin()
                self.assertEqual(self.run_to_end(self.service.receive(path, timeout=0)).body, b"1")

    def test_unknown_accounts(self) -> None:
        """An unknown account cannot be impersonated; one that cannot be looked up has no rights."""
        asked = Deferred.fromCoroutine(self.service.acting_as("carol"))
        status = self.failureResultOf(asked, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_COULD_NOT_GET_USER_SID)
        self.access.is_connected = False
        self.assertIn("the accounts in memory are away", self.denial(lambda bob: bob.queue(QUEUE)))


class DirectoryActingTests(DirectoryTestCase):
    """GAMMA, which has public queues, lets bob send to an open queue and not to a closed one."""

    def setUp(self) -> None:
        self.access = SlowAccounts()
        for sid, name in ((OWNER, "alice"), (BOB, "bob")):
            self.access.add(Account(sid, name))
        super().setUp()
        self.create(".\\open", security="D:(A;;0x4;;;WD)")
        self.create(".\\closed", security=CLOSED)
        self.bob = self.run_to_end(self.service.acting_as("bob"))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if identifier != GAMMA:
            return super().node(name, identifier, **kwargs)
        self.jumping = JumpingClock(self.clock)
        kwargs["options"] = {"access": AccessPolicy(self.access, OWNER)}
        return Node(self.network, self.jumping, name, identifier, self.settings, **kwargs)

    def name(self, path: str) -> PublicFormatName:
        return PublicFormatName(self.service.inspection.queue(path).identifier)

    def test_reports(self) -> None:
        """Reports about a message get into no queue that its sender may not write to."""
        nowhere = "DIRECT=TCP:127.0.0.9\\private$\\nowhere"
        traced = Message(body=b"1", trace=self.name(".\\closed").queue)
        sending = self.deferred(self.bob.send(nowhere, [traced]))
        status = self.failureResultOf(sending, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_ACCESS_DENIED)
        self.run_to_end(self.bob.send(nowhere, [attrs.evolve(traced, trace=self.name(".\\open").queue)]))

    def test_list_that_changes_during_the_check(self) -> None:
        """A member that a distribution list gets while the rights are checked is checked too."""
        names = self.directory.add_distribution_list([self.name(".\\open")])
        message = Message(
            body=b"1", acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=self.name(".\\open")
        )
        self.run_to_end(self.bob.send(str(names), [message]))
        self.clock.advance(FRESH - 1)
        self.access.is_slow = True
        sending = self.deferred(self.bob.send(str(names), [message]))
        self.access.is_slow = False
        self.directory.add_distribution_list([self.name(".\\open"), self.name(".\\closed")], names.identifier)
        self.clock.advance(2)
        for waiting in self.access.waiting:
            waiting.callback(None)
        status = self.failureResultOf(sending, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_ACCESS_DENIED)
        self.assertEqual(self.bodies(self.gamma, ".\\closed"), [])

    def test_list_that_changes_after_the_check(self) -> None:
        """A message goes to the members that were checked, whenever the list has to be read again."""
        reached = 0
        for count in range(20):
            names = self.directory.add_distribution_list([self.name(".\\open")])
            self.run_to_end(self.bob.send(str(names), [Message(body=b"1")]))
            members = [self.name(".\\open"), self.name(".\\closed")]
            self.directory.add_distribution_list(members, names.identifier)
            self.jumping.readings = count
            sending = self.deferred(self.bob.send(str(names), [Message(body=b"2")]))
            sending.addErrback(lambda failure: failure.trap(MQError))
            self.clock.advance(0)
            self.successResultOf(sending)
            # The next list is read once before its jump, however many readings this message has taken.
            self.jumping.readings = -1
            self.assertEqual(self.bodies(self.gamma, ".\\closed"), [])
            reached += self.bodies(self.gamma, ".\\open").count(b"2")
        # Some were sent before the list was read again, and some were refused.
        self.assertIn(reached, range(1, 20))
