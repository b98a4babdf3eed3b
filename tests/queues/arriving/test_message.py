"""Properties of a message that an application can set."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.definition import LABEL_LENGTH, UNLIMITED, QueueDefinition
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.status import MQError, Status


class DefaultTests(SynchronousTestCase):
    """A message with default properties."""

    def test_defaults(self) -> None:
        """It is express, of priority 3, of no class, does not expire in its queue and asks for nothing.

        MQDMPR-3.1.1.12-20, MQDMPR-3.1.1.12-22, MQDMPR-3.1.1.12-41.
        """
        message = Message()
        self.assertEqual((message.priority, message.delivery), (3, Delivery.EXPRESS))
        self.assertEqual((message.body, message.label, message.extension), (b"", "", b""))
        self.assertEqual((message.time_to_reach_queue, message.time_to_be_received), (None, 0xFFFFFFFF))
        self.assertEqual((message.message_class, message.acknowledge), (0, 0))
        self.assertFalse(message.is_recoverable or message.journal or message.dead_letter)
        self.assertEqual((message.trace, message.admin_queue, message.response_queue), (None, None, None))

    def test_transactional_is_recoverable(self) -> None:
        """A transactional message is stored even if its delivery says express."""
        self.assertTrue(Message(transactional=True).is_recoverable)
        self.assertTrue(Message(delivery=Delivery.RECOVERABLE).is_recoverable)

    def test_body_is_not_printed(self) -> None:
        """The printed form of a message, in a log for example, has neither body nor extension."""
        text = repr(Message(body=b"secret", extension=b"hidden"))
        self.assertNotIn("secret", text)
        self.assertNotIn("hidden", text)


class FormatNameTests(SynchronousTestCase):
    """Names of queues as text, which a program gives with each of its messages."""

    def test_parsed_once(self) -> None:
        """Messages with the same text share one name, in any number of them."""
        text = "DIRECT=OS:BETA\\private$\\answers"
        first, second = (Message(response_queue=text, admin_queue=text) for _ in range(2))
        self.assertEqual(str(first.response_queue), text)
        self.assertIs(first.response_queue, second.response_queue)
        self.assertIs(first.response_queue, first.admin_queue)

    def test_a_wrong_name_is_refused_each_time(self) -> None:
        """A text that is not a format name is refused with its fault, also the second time."""
        for _ in range(2):
            with self.assertRaises(MQError) as caught:
                Message(admin_queue="OS:BETA\\private$\\answers")
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)


class RangeTests(SynchronousTestCase):
    """Values outside their range are refused with the status of the documents, and named."""

    def refused(self, status: Status, **values: Any) -> str:
        with self.assertRaises(MQError) as caught:
            Message(**values)
        self.assertEqual(caught.exception.status, status)
        return str(caught.exception.detail)

    def test_priority(self) -> None:
        """MQDMPR-3.1.1.12-19: priorities are 0 to 7, and 3 if nothing is said."""
        self.assertEqual([Message(priority=number).priority for number in range(8)], list(range(8)))
        self.assertEqual(Message().priority, 3)
        for priority in (-1, 8):
            self.assertIn("priority", self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, priority=priority))

    def test_label_length(self) -> None:
        """MQDMPR-3.1.1.12-38: a label has up to 249 characters, and is passed on as it is."""
        self.assertEqual(Message(label="é" * 249).label, "é" * 249)
        self.assertIn("249", self.refused(Status.MQ_ERROR_LABEL_TOO_LONG, label="x" * 250))

    def test_label_counts_in_sixteen_bits(self) -> None:
        """A character beyond the first plane takes two of the 249, as it does in the packet."""
        Message(label="\N{GRINNING FACE}" * 124)
        self.refused(Status.MQ_ERROR_LABEL_TOO_LONG, label="\N{GRINNING FACE}" * 125)

    def test_label_with_nul(self) -> None:
        """A NUL would end the label too early."""
        self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, label="a\0b")

    def test_dead_letter_queue(self) -> None:
        """The queue for dead letters is given as a path."""
        self.assertEqual(Message(dead_letter_queue=".\\private$\\failed").dead_letter_queue[-6:], "failed")
        self.refused(Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, dead_letter_queue="no path")

    def test_numbers_of_32_bits(self) -> None:
        """Each number that a packet holds in 32 bits is named when it does not fit."""
        for name in (
            "body_type",
            "time_to_reach_queue",
            "time_to_be_received",
            "application_tag",
            "hash_algorithm",
            "encryption_algorithm",
        ):
            with self.subTest(name=name):
                largest: dict[str, Any] = {name: 0xFFFFFFFF}
                Message(**largest)
                for value in (-1, 1 << 32):
                    detail = self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, **{name: value})
                    self.assertIn(name.replace("_", " "), detail)

    def test_correlation_identifier(self) -> None:
        """A correlation identifier is 20 bytes."""
        self.assertEqual(Message(correlation_id=bytes(20)).correlation_id, bytes(20))
        for size in (0, 19, 21):
            self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_SIZE, correlation_id=bytes(size))

    def test_class(self) -> None:
        """A class uses the bits 0xE1FF."""
        self.assertEqual(Message(message_class=0x01FF).message_class, 0x01FF)
        for number in (0x0200, 0x10000, -1):
            self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, message_class=number)

    def test_acknowledge(self) -> None:
        """Only four bits ask for acknowledgements."""
        self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, acknowledge=0x10)

    def test_privacy(self) -> None:
        """MQMQ-2.2.19.3-24: RC2 and RC4 go with the levels 1 and 3, AES with 5, and nothing else goes."""
        self.assertEqual(Message().privacy_level, PrivacyLevel.NONE)
        self.assertEqual((Message().encryption_algorithm, Message().hash_algorithm), (0x6610, 0x800E))
        for level in (1, 3, 5):
            Message(privacy_level=PrivacyLevel(level), encryption_algorithm=0x6610)
            self.assertEqual(Message(privacy_level=PrivacyLevel(level)).privacy_level, level)
            for algorithm in (0x6602, 0x6801, 0x660E, 0x660F):
                values: dict[str, Any] = {
                    "privacy_level": PrivacyLevel(level),
                    "encryption_algorithm": algorithm,
                }
                if (algorithm < 0x660E or algorithm == 0x6801) is (level < 5):
                    Message(**values)
                else:
                    detail = self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, **values)
                    self.assertIn(f"0x{algorithm:04X}", detail)
                    suitable = "AES" if level == 5 else "RC2 and RC4"
                    self.assertTrue(detail.endswith(f"level {level}, which is for {suitable}"), detail)
        for level in (2, 4, 6, -1):
            self.refused(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, privacy_level=level)
        self.refused(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
            privacy_level=PrivacyLevel.ADVANCED,
            encryption_algorithm=0x6601,
        )


class QueueDefinitionTests(SynchronousTestCase):
    """The properties of a queue."""

    def test_quotas(self) -> None:
        """A quota is 32 bits of kilobytes."""
        for name in ("quota", "journal_quota"):
            for value in (-1, 1 << 32):
                quota: dict[str, Any] = {name: value}
                with self.assertRaises(MQError) as caught:
                    QueueDefinition(UUID(int=1), "private$\\q", **quota)
                self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
                self.assertIn(name.replace("_", " "), caught.exception.detail)

    def test_defaults(self) -> None:
        """MQDMPR-3.1.7.1.33-02: a queue with default properties has no limits."""
        definition = QueueDefinition(UUID(int=1), "private$\\q")
        self.assertEqual((definition.quota, definition.journal_quota), (0xFFFFFFFF, UNLIMITED))

    def test_label(self) -> None:
        """The label of a queue is shorter than that of a message."""
        QueueDefinition(UUID(int=1), "private$\\q", label="x" * LABEL_LENGTH)
        with self.assertRaises(MQError) as caught:
            QueueDefinition(UUID(int=1), "private$\\q", label="x" * (LABEL_LENGTH + 1))
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_LABEL_TOO_LONG)
