"""Results of messages that are received while the store of their receiver is full."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.storage import StorageFull
from msmq.manager import waiting_results
from msmq.manager.result_records import PREFIX
from msmq.persistence.changes import (
    Change,
    PutMessage,
    PutMessages,
    PutState,
    RemoveMessages,
    RemoveState,
)
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.manager.support import BROKEN, FaultyStore
from tests.nodes.scripted import ACK_RECEIVE, POSITIVE, ScriptedTestCase, transactional
from tests.nodes.support import Node

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\admin")

X = 1_700_000_000 << 32 | 1
PLAIN = ".\\private$\\plain"


def _stores(changes: Sequence[Change]) -> bool:
    """Whether a batch needs more space than a full disk has for removals."""
    frees = any(isinstance(change, RemoveMessages | RemoveState) for change in changes)
    return any(
        isinstance(change, PutMessage | PutMessages)
        or (isinstance(change, PutState) and (len(change.value) > 100_000 or not frees))
        for change in changes
    )


class FullStoreTestCase(ScriptedTestCase):
    """GAMMA has sent three transactional messages to BETA, whose disk is full when they are received."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", FaultyStore())
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta, transactional=True)
        self.queue(self.beta, "plain")
        self.peer = self.dial(is_prompt=True)
        for number in (1, 2, 3):
            self.peer.send(transactional(b"m", (X, number, number - 1), user_flags=POSITIVE))
        self.clock.advance(1)
        assert isinstance(self.beta.store, FaultyStore)
        self.disk = self.beta.store
        self.fill()

    def fill(self) -> None:
        """The disk of BETA has no space but for removals."""
        self.disk.error, self.disk.is_hit = StorageFull("no space"), _stores
        refused = self.deferred(
            self.beta.service.send(PLAIN, [Message(body=b"x", delivery=Delivery.RECOVERABLE)])
        )
        self.failureResultOf(refused, MQError)
        self.assertTrue(self.beta.service.inspection.status().throttled)


class HeldTests(FullStoreTestCase):
    """BETA holds what it cannot store."""

    def test_final_acks_follow(self) -> None:
        """They are received, which frees space, and their sender learns it when there is some."""
        self.assertEqual(self.bodies(self.beta, self.path), [b"m"] * 3)
        self.clock.advance(20)
        self.assertEqual(self.peer.final_acks, [])
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_another_failure_before_that(self) -> None:
        """A store that has space and fails otherwise is tried again."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.disk.fail_commit(1, of=PutMessage)
        self.clock.advance(0.5)
        self.assertEqual(self.peer.final_acks, [])
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_failed_receipts_count_no_acknowledgements(self) -> None:
        """Each acknowledgement is counted once, when the store has it."""
        self.disk.recover()
        self.clock.advance(10)
        self.disk.fail_commit(1, of=RemoveMessages)
        held = self.run_to_end(self.beta.service.reserve(self.path, timeout=0))
        self.failureResultOf(self.deferred(held.confirm()), MQError)
        counts = self.beta.service.inspection.measurements.acknowledgements
        self.assertEqual(counts()["final"], 0)
        self.disk.recover()
        self.assertEqual(self.bodies(self.beta, self.path), [b"m"] * 3)
        self.clock.advance(6)
        self.assertEqual(len(self.peer.final_acks), 3)
        self.assertEqual(counts()["final"], 3)

    def test_a_store_that_goes_on_failing(self) -> None:
        """It is tried less and less often, with lines of the log, and their order is kept."""
        self.patch(waiting_results, "SENT_AT_ONCE", 1)
        self.take(self.beta, self.path)
        self.disk.recover()
        tried = 0

        def is_hit(changes: Sequence[Change]) -> bool:
            nonlocal tried
            has_results = any(isinstance(change, PutMessage) for change in changes)
            tried += has_results
            return has_results

        self.disk.error, self.disk.is_hit = BROKEN, is_hit
        with capturedLogs() as logs:
            self.clock.advance(100)
        self.assertIn(tried, range(3, 12))
        lines = [formatEvent(event) or "" for event in logs]
        self.assertEqual(sum("results of messages not stored, retrying" in line for line in lines), tried)
        self.disk.fail_commit(1, of=PutMessage)
        self.clock.advance(200)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_stopped_while_they_are_stored(self) -> None:
        """They are sent after the next start if the disk breaks down during the stop, and nothing is lost."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.disk.is_slow = True
        self.clock.advance(6)
        while self.beta.model.storage.throttled:
            self.disk.finish(1)
        self.assertTrue(self.disk.is_busy)
        self.beta.deaf()
        with capturedLogs() as logs:
            self.disk.break_down()
            stopping = self.beta.service.stopService()
        self.successResultOf(stopping)
        lines = [formatEvent(event) for event in logs]
        self.assertFalse([line for line in lines if line and "not sent" in line])
        self.disk.recover()
        self.assert_sent_after_a_restart()

    def test_stopped_before_there_is_space(self) -> None:
        """The store has them as small values: they are sent once when it has space after the next start."""
        self.take(self.beta, self.path)
        self.beta = self.restart(self.beta)
        self.listen(is_prompt=True)
        self.clock.advance(50)
        self.assertEqual([each for peer in self.peers for each in peer.final_acks], [])
        self.disk.recover()
        self.clock.advance(100)
        self.assert_sent()
        self.beta = self.restart(self.beta)
        self.clock.advance(100)
        self.assert_sent()

    def test_express_messages(self) -> None:
        """Their results have no record, which would need space that their removal does not have."""
        self.disk.recover()
        self.clock.advance(6)
        admin = self.queue(self.beta, "admin")
        message = Message(body=b"x", acknowledge=Acknowledge.POSITIVE_RECEIVE, admin_queue=ADMIN)
        self.successResultOf(self.deferred(self.beta.service.send(PLAIN, [message])))
        self.fill()
        self.assertEqual(self.bodies(self.beta, PLAIN), [b"x"])
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.beta.service.inspection.queue(admin).messages, 1)

    def test_no_space_for_records(self) -> None:
        """They are received all the same, and their results wait in memory; a stop says how many are lost."""
        self.disk.is_hit = lambda changes: any(
            isinstance(change, PutMessage | PutMessages | PutState) for change in changes
        )
        self.assertEqual(self.bodies(self.beta, self.path), [b"m"] * 3)
        self.assertEqual([name for name in self.disk.names() if name.startswith(PREFIX)], [])
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_stopped_without_records(self) -> None:
        """What has no record is lost by a stop that has no space for it, which the log says."""
        self.disk.is_hit = lambda changes: any(
            isinstance(change, PutMessage | PutMessages | PutState) for change in changes
        )
        self.take(self.beta, self.path)
        self.beta.deaf()
        with capturedLogs() as logs:
            self.successResultOf(self.beta.service.stopService())
        lines = [formatEvent(event) for event in logs]
        self.assertIn("the results of 3 message(s) were not sent: the store had failed until the stop", lines)

    def test_a_queue_that_is_deleted_meanwhile(self) -> None:
        """The record of a result for it is removed, with a line of the log."""
        self.disk.recover()
        self.clock.advance(6)
        admin = self.queue(self.beta, "admin")
        acknowledge = Acknowledge.POSITIVE_RECEIVE
        local = self.queue(self.beta, "local", transactional=True)
        message = Message(body=b"x", transactional=True, acknowledge=acknowledge, admin_queue=ADMIN)
        self.run_to_end(self.beta.service.send(local, [message]))
        self.fill()
        self.assertEqual(self.bodies(self.beta, local), [b"x"])
        self.run_to_end(self.beta.service.delete_queue(admin))
        self.assertIn(f"{PREFIX}1", self.disk.names())
        self.disk.recover()
        with capturedLogs() as logs:
            self.clock.advance(6)
        lines = [formatEvent(event) or "" for event in logs]
        self.assertTrue([line for line in lines if "not sent" in line], lines)
        self.assertFalse([line for line in lines if "retrying" in line], lines)
        self.assertNotIn(f"{PREFIX}1", self.disk.names())

    def test_not_received_if_that_is_not_stored(self) -> None:
        """What was not received because the disk failed has no result, also after the next start."""
        self.disk.error, self.disk.is_hit = BROKEN, lambda changes: True
        self.failureResultOf(self.deferred(self.beta.service.receive(self.path)), MQError)
        self.disk.recover()
        self.beta = self.restart(self.beta)
        self.listen(is_prompt=True)
        self.clock.advance(100)
        self.assertEqual([each for peer in self.peers for each in peer.final_acks], [])

    def test_their_messages_are_not_kept(self) -> None:
        """A result needs no memory for a message of any size, which has left."""
        self.disk.recover()
        self.clock.advance(6)
        self.peer.send(transactional(bytes(100_000), (X, 4, 3), user_flags=POSITIVE))
        self.clock.advance(1)
        self.fill()
        self.take(self.beta, self.path)
        self.clock.advance(1)
        self.peer.heard.clear()
        gc.collect()
        large = [
            each for each in gc.get_objects() if isinstance(each, UserMessageView) and each.size > 50_000
        ]
        self.assertEqual(large, [])
        self.disk.recover()
        self.clock.advance(6)
        self.assertIn((ACK_RECEIVE, 4), self.peer.final_acks)

    def test_space_again_before_the_stop(self) -> None:
        """A stop sends them, although no probe has found that there is space."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.assertTrue(self.beta.service.inspection.status().throttled)
        self.assert_sent_after_a_restart()

    def test_stopped_between_two_commits(self) -> None:
        """Each is sent once if the first is being stored when the queue manager stops."""
        self.patch(waiting_results, "SENT_AT_ONCE", 1)
        self.take(self.beta, self.path)
        self.disk.recover()
        self.disk.is_slow = True
        self.clock.advance(6)
        while self.beta.model.storage.throttled:
            self.disk.finish(1)
        self.assertTrue(self.disk.is_busy)
        self.assert_sent_after_a_restart()

    def assert_sent_after_a_restart(self) -> None:
        """GAMMA gets all FinalAcks, in order."""
        self.beta = self.restart(self.beta)
        self.listen(is_prompt=True)
        self.clock.advance(100)
        self.assert_sent()

    def assert_sent(self) -> None:
        """GAMMA has all FinalAcks, in order, each once."""
        acks = [each for peer in self.peers for each in peer.final_acks]
        self.assertEqual(acks, [(ACK_RECEIVE, number) for number in (1, 2, 3)])

    def test_stopped_before_that(self) -> None:
        """Nothing of them is left to do for a queue manager that has stopped."""
        self.take(self.beta, self.path)
        self.beta.deaf()
        self.successResultOf(self.beta.service.stopService())
        self.disk.recover()
        self.clock.advance(100)
        self.assertEqual(self.peer.final_acks, [])


class HeldLimitTests(FullStoreTestCase):
    """BETA holds 600 bytes of acknowledgements."""

    def setUp(self) -> None:
        self.patch(waiting_results, "MOST_WAITING_BYTES", 600)
        super().setUp()

    def test_a_limit_on_their_number(self) -> None:
        """It is one for records as well."""
        self.patch(waiting_results, "MOST_WAITING_BYTES", 6000)
        self.patch(waiting_results, "MOST_WAITING", 2)
        self.test_further_ones_are_dropped()

    def test_records_that_are_stored_at_once(self) -> None:
        """Those whose removals are under way count as well; those that were not stored do not."""
        self.patch(waiting_results, "MOST_WAITING_BYTES", 6000)
        self.patch(waiting_results, "MOST_WAITING", 2)
        reservations = [self.run_to_end(self.beta.service.reserve(self.path)) for _ in range(3)]
        self.disk.is_hit = lambda changes: True
        for reservation in reservations[:2]:
            self.failureResultOf(self.deferred(reservation.confirm()), MQError)
        self.disk.is_hit = _stores
        reservations[:2] = [self.run_to_end(self.beta.service.reserve(self.path)) for _ in range(2)]
        self.disk.is_slow = True
        confirming = [self.deferred(reservation.confirm()) for reservation in reservations]
        self.disk.catch_up()
        for each in confirming:
            self.successResultOf(each)
        self.assertEqual(sum(name.startswith(PREFIX) for name in self.disk.names()), 2)
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual([name for name in self.disk.names() if name.startswith(PREFIX)], [])

    def test_express_messages_do_not_count(self) -> None:
        """Results that wait without a record leave the space of records to others."""
        self.patch(waiting_results, "MOST_WAITING_BYTES", 6000)
        self.patch(waiting_results, "MOST_WAITING", 3)
        self.disk.recover()
        self.clock.advance(6)
        self.queue(self.beta, "admin")
        message = Message(body=b"x", acknowledge=Acknowledge.POSITIVE_RECEIVE, admin_queue=ADMIN)
        self.successResultOf(self.deferred(self.beta.service.send(PLAIN, [message])))
        self.fill()
        self.take(self.beta, PLAIN)
        self.take(self.beta, self.path)
        self.assertEqual(sum(name.startswith(PREFIX) for name in self.disk.names()), 3)

    def test_further_ones_are_dropped(self) -> None:
        """Memory is used within the limit."""
        self.take(self.beta, self.path)
        self.disk.recover()
        self.clock.advance(6)
        self.assertEqual(self.peer.final_acks, [(ACK_RECEIVE, number) for number in (1, 2)])
