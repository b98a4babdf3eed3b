"""Limits and times of this core, which operators and their tools rely on."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from msmq.transfer import (
    acknowledgement_guesses,
    awaiting_acknowledgements,
    incoming_streams,
    receivers,
    stream_context,
)
from msmq.transfer.decisions import (
    commit_backlog,
    dispatch_decision,
    final_ack_decision,
    next_hop_decision,
    peer_decision,
    peer_queue_decision,
)
from msmq.transfer.deliveries import records, table
from msmq.transfer.deliveries.records import DeliveryRecord, DeliveryStep, DeliveryTarget, MessageRun
from msmq.transfer.security import certificate_cache, key_cache, signature_rules, unproven_senders
from msmq.transfer.stream_changes import Assignment, Transmitted
from tests.transfer.support import START, Position, Sender, transactional_packet

MIB = 1 << 20


class LimitTests(SynchronousTestCase):
    """A limit that changes is a change that operators notice."""

    def test_each_limit(self) -> None:
        """A line for each, as a number."""
        for found, expected in (
            (acknowledgement_guesses.GUESSES, 1_000),
            (acknowledgement_guesses.GUESSES_PER_SECOND, 10),
            (acknowledgement_guesses.HOSTS_REMEMBERED, 4_096),
            (awaiting_acknowledgements.AFTER_START, 600),
            (awaiting_acknowledgements.MOST_ANSWERS, 4),
            (commit_backlog.SESSION_BACKLOG, MIB),
            (commit_backlog.TOTAL_BACKLOG, 16 * MIB),
            (dispatch_decision.BATCH_BYTES, MIB),
            (dispatch_decision.LOADED_AT_ONCE, 64),
            (final_ack_decision.MOST_UNVERIFIED, 1_000),
            (incoming_streams.LONGEST_KEY, 512),
            (next_hop_decision.REPORTED_AFTER, 600),
            (peer_decision.CLOCK_TOLERANCE, 60),
            (peer_decision.MOVED_AFTER, 3_600),
            (peer_queue_decision.MARGIN, 100),
            (peer_queue_decision.MOST_DIALLED_FOR_A_HOST, 1_000),
            (peer_queue_decision.MOST_OUTGOING_QUEUES, 10_000),
            (peer_queue_decision.PAUSE, 0.1),
            (receivers.MOST_DESTINATIONS, 10_000),
            (receivers.MOST_RECEIVERS, 16),
            (receivers.MOST_SEQUENCES, 10_000),
            (receivers.SWEPT, 16),
            (records.LARGEST_PAGE, MIB),
            (records.MOST_SOURCES, 1_000),
            (records.NO_GUID, bytes(16)),
            (stream_context.EARLY_FINAL_ACKS, 10_000),
            (table.MERGED, (64, 16)),
            (table.MERGED_BYTES, MIB // 4),
            (table.MOST_RANGES, 0xFFFF),
            (certificate_cache.CACHE_SIZE, 53),
            (certificate_cache.LIFETIME, 1_200),
            (key_cache.GRACE, 60),
            (key_cache.RECEIVE_SYMMETRIC_KEY_CACHE_SIZE, 127),
            (key_cache.SEND_SYMMETRIC_KEY_CACHE_SIZE, 53),
            (key_cache.SYMMETRIC_KEY_SHORT_LIFETIME, 600),
            (signature_rules.SMALLEST_KEY, 1_024),
            (unproven_senders.LIFETIME, 3),
            (unproven_senders.MOST, 1_000),
        ):
            self.assertEqual(found, expected)

    def test_long_names_in_delivery_records(self) -> None:
        """Of a queue and an address the first 2000 bytes are kept; each value counts 200 bytes more."""
        where = DeliveryTarget(bytes(16), "a" * 3000, 0.0, "q" * 3000)
        record = DeliveryRecord(DeliveryStep.ORDERED, 1.0, where, records.NO_GUID, (MessageRun(1, 1),))
        data = records.write_block([record])
        [found] = records.read_records("", data, records.NO_GUID, 1)
        self.assertEqual((found.where.address, found.where.queue), ("a" * 2000, "q" * 2000))
        deliveries = table.DeliveryTable("x/", MIB)
        deliveries.add(record)
        deliveries.take()
        self.assertEqual(deliveries.size, len(data) + 200)


class BeginningTests(SynchronousTestCase):
    """What is shown before anything happened."""

    def test_a_stream_without_a_session(self) -> None:
        """Nothing came, nothing is due, and the first wait is the next one."""
        sender = Sender(settings=SessionSettings(resend_short=7.0))
        info = sender.streams.stream("invoices").info()
        self.assertEqual((info.eod_last_ack_time, info.eod_last_ack_count), (0, 0))
        self.assertEqual((info.eod_resend_count, info.eod_resend_interval, info.eod_resend_time), (0, 7.0, 0))

    def test_texts_of_objects(self) -> None:
        """Packets, values and keys are not in them."""
        packet = transactional_packet(b"a secret")
        assignment: Assignment[Position] = Assignment(START.unix_seconds << 32 | 1, 1, 1)
        assignment.messages = [Position(packet)]
        for each in (
            Transmitted(None, b"a secret"),  # type: ignore[type-var]
            table.DeliveryValue("x/1", b"a secret", records.DeliveryIndex(0, 0.0, 0.0, {}), 8, 0),
            assignment,
        ):
            self.assertNotIn("secret", repr(each))
            self.assertNotIn("Position", repr(each))
