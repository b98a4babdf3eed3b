"""Message logs: what arrived is kept, within limits, and sent again."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, ManagerTestCase


class MessageLogTestCase(ManagerTestCase):
    """A queue C{logged} with a message log, and where its messages are sent again."""

    def setUp(self) -> None:
        super().setUp()
        self.logged = self.queue(self.alpha, "logged", log=True)
        self.again = self.queue(self.alpha, "again")

    def extent(self) -> tuple[int, int, int]:
        """The first and the last entry of the log, and how many there are."""
        extent = self.run_to_end(self.service.inspection.log_extent(self.logged))
        return extent.first, extent.last, extent.entries

    def replay(self, into: str | None = None, **bounds: Any) -> list[bytes]:
        """Send entries of the log again, and receive them."""
        count = self.run_to_end(self.service.replay(self.logged, into or self.again, **bounds))
        bodies = self.bodies(self.alpha, into or self.again)
        self.assertEqual(count, len(bodies))
        return bodies


class PrivacyTests(MessageLogTestCase):
    """A message that asks for encryption is not sent in clear, unless the operator permits it."""

    elsewhere = "DIRECT=TCP:127.0.0.4\\private$\\orders"

    def setUp(self) -> None:
        super().setUp()
        self.put(self.logged, b"open")
        self.put(self.logged, b"secret", privacy_level=PrivacyLevel.BASE)

    def waiting(self) -> int:
        """How many messages are to be sent elsewhere."""
        return sum(queue.messages for queue in self.service.inspection.outgoing())

    def test_refused(self) -> None:
        """For a direct name, with a sentence that says what to do; of its portion nothing is sent."""
        asked = self.deferred(self.service.replay(self.logged, self.elsewhere))
        error = self.failureResultOf(asked, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        last = self.extent()[1]
        for words in (f"entry {last} of the log", "DIRECT=TCP:127.0.0.4", "PUBLIC=", "--in-clear"):
            self.assertIn(words, error.detail)
        self.assertEqual(self.waiting(), 0)

    def test_in_clear(self) -> None:
        """The operator permits it."""
        count = self.run_to_end(self.service.replay(self.logged, self.elsewhere, in_clear=True))
        self.assertEqual((count, self.waiting()), (2, 2))

    def test_local_replay_is_not_encrypted(self) -> None:
        """On this queue manager nothing is encrypted, and what was asked for is kept."""
        self.run_to_end(self.service.replay(self.logged, self.again))
        found = [message.view.privacy_level for message in self.messages(self.again)]
        self.assertEqual(found, [0, int(PrivacyLevel.BASE)])
        self.run_to_end(self.service.replay(self.logged, self.again, in_clear=True))
        found = [message.view.privacy_level for message in self.messages(self.again)]
        self.assertEqual(found, [0, int(PrivacyLevel.BASE), 0, 0])


class KeepingTests(MessageLogTestCase):
    """Content of a message log."""

    def test_whatever_becomes_of_them(self) -> None:
        """Entries stay when their messages leave, express ones and transactional ones too."""
        self.put(self.logged, b"1")
        self.put(self.logged, b"2", delivery=Delivery.EXPRESS)
        self.take(self.alpha, self.logged)
        self.put(self.logged, b"3", time_to_be_received=10)
        self.clock.advance(20)
        self.restart(crash=True)
        self.assertEqual(self.extent()[2], 3)
        self.assertEqual(self.replay(), [b"1", b"2", b"3"])

    def test_transactions(self) -> None:
        """Committed messages are in the log; uncommitted ones are not."""
        self.logged = self.queue(self.alpha, "both", log=True, transactional=True)
        self.put(self.logged, b"1", transactional=True)
        self.store.fail_commit(1)
        failing = self.deferred(self.service.send(self.logged, [Message(body=b"2", transactional=True)]))
        self.failureResultOf(failing, MQError)
        self.assertEqual(self.extent()[2], 1)

    def test_age(self) -> None:
        """Entries that are too old go, by the wall clock, within a minute."""
        self.run_to_end(self.service.set_queue(self.logged, {"log_age": 100}))
        self.put(self.logged, b"1")
        self.clock.advance(80)
        self.put(self.logged, b"2")
        self.assertEqual(self.extent()[2], 2)
        self.clock.advance(80)
        self.assertEqual(self.replay(), [b"2"])
        self.clock.advance(200)
        self.assertEqual(self.extent(), (0, 0, 0))

    def test_size(self) -> None:
        """The oldest go when there is too much of it."""
        self.run_to_end(self.service.set_queue(self.logged, {"log_size": 10}))
        for number in range(20):
            self.put(self.logged, b"%d" % number + bytes(1000))
        self.clock.advance(60)
        extent = self.run_to_end(self.service.inspection.log_extent(self.logged))
        self.assertTrue(8_000 < extent.size <= 10 * 1024, extent)
        self.assertEqual(extent.last, 20)

    def test_switched_off(self) -> None:
        """Existing entries stay within the limits; no further ones are added."""
        self.put(self.logged, b"1")
        self.run_to_end(self.service.set_queue(self.logged, {"log": False, "log_age": 100}))
        self.put(self.logged, b"2")
        self.assertEqual(self.extent()[2], 1)
        self.clock.advance(200)
        self.assertEqual(self.extent()[2], 0)

    def test_the_store_cannot_forget(self) -> None:
        """It is tried again with the next look."""
        self.run_to_end(self.service.set_queue(self.logged, {"log_age": 10}))
        self.put(self.logged, b"1")
        self.store.break_down()
        self.clock.advance(100)
        self.store.recover()
        self.assertEqual(self.extent()[2], 1)
        self.clock.advance(60)
        self.assertEqual(self.extent()[2], 0)

    def test_goes_with_its_queue(self) -> None:
        """A queue of the same name begins with an empty log."""
        self.put(self.logged, b"1")
        self.run_to_end(self.service.delete_queue(self.logged))
        self.refused(self.service.inspection.log_extent(self.logged), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.queue(self.alpha, "logged", log=True)
        self.assertEqual(self.extent()[2], 0)


class ReplayTests(MessageLogTestCase):
    """L{QueueManagerService.replay}."""

    def test_by_sequence(self) -> None:
        """Both bounds belong to it."""
        self.put(self.logged, *(b"%d" % number for number in range(10)))
        first, last, _ = self.extent()
        self.assertEqual(self.replay(first=first + 3, last=first + 5), [b"3", b"4", b"5"])
        self.assertEqual(self.replay(first=last), [b"9"])
        self.assertEqual(self.replay(last=first), [b"0"])
        self.assertEqual(self.replay(first=last + 1), [])

    def test_by_time(self) -> None:
        """When they arrived counts, by the wall clock."""
        times = []
        for number in range(5):
            times.append(self.clock.now().wall)
            self.put(self.logged, b"%d" % number)
            self.clock.advance(10)
        self.assertEqual(self.replay(since=times[1], until=times[3]), [b"1", b"2", b"3"])
        self.assertEqual(self.replay(since=times[4] + 1), [])

    def test_into_a_transactional_queue(self) -> None:
        """There they are sent in transactions, and are transactional."""
        self.put(self.logged, *(b"%d" % number for number in range(450)))
        bodies = self.replay(self.payments)
        self.assertEqual(bodies, [b"%d" % number for number in range(450)])
        self.assertEqual(self.service.inspection.transactions(), [])

    def test_from_a_transactional_queue(self) -> None:
        """A transactional message is replayed as a recoverable one to a queue that is not transactional."""
        self.logged = self.queue(self.alpha, "both", log=True, transactional=True)
        self.put(self.logged, b"1", transactional=True)
        self.run_to_end(self.service.replay(self.logged, self.again))
        [message] = self.messages(self.again)
        self.assertEqual((message.view.is_transactional, message.view.is_recoverable), (False, True))

    def test_into_itself(self) -> None:
        """It ends with what was there when it began."""
        self.put(self.logged, b"1", b"2")
        self.take(self.alpha, self.logged)
        self.assertEqual(self.replay(self.logged), [b"1", b"2"])
        self.assertEqual(self.extent()[2], 4)

    def test_to_another_queue_manager(self) -> None:
        """It may go wherever messages go."""
        self.put(self.logged, b"1", b"2")
        self.run_to_end(self.service.replay(self.logged, "DIRECT=TCP:127.0.0.4\\private$\\orders"))
        self.assertEqual(self.service.inspection.outgoing()[0].messages, 2)

    def test_copies_cause_no_acknowledgements(self) -> None:
        """Copies ask for no acknowledgements and no copies of their own, and do not expire again."""
        asked = {"acknowledge": ASK_ALL, "dead_letter": True, "time_to_be_received": 10}
        self.put(self.logged, b"1", label="kept", **asked)
        self.take(self.alpha, self.logged)
        self.answers()
        self.clock.advance(100)
        self.run_to_end(self.service.replay(self.logged, self.again))
        [message] = self.messages(self.again)
        self.assertEqual((message.view.label, message.view.dead_letter), ("kept", False))
        self.clock.advance(100)
        self.assertEqual((self.bodies(self.alpha, self.again), self.answers()), ([b"1"], []))

    def test_refused(self) -> None:
        """A message that cannot be sent is refused; those sent before stay sent."""
        self.put(self.logged, *(b"%d" % number for number in range(450)))
        nowhere = self.service.replay(self.logged, ".\\private$\\nowhere")
        self.refused(nowhere, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.store.fail_commit(2)
        failing = self.service.replay(self.logged, self.again)
        self.refused(failing, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual(self.count(self.again), 200)
        nothing = self.service.replay(".\\private$\\nowhere", self.again)
        self.refused(nothing, Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_the_log_cannot_be_read(self) -> None:
        """It says so."""
        self.put(self.logged, b"1")
        self.successResultOf(self.store.close())
        self.refused(self.service.inspection.log_extent(self.logged), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.refused(self.service.replay(self.logged, self.again), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
