"""The bytes of what this core stores: what one version wrote, every later one reads."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateChange
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.awaiting_acknowledgements import AwaitingAcknowledgements
from msmq.transfer.awaiting_final_acks import AwaitingFinalAcks
from msmq.transfer.awaiting_records import read_answers, read_messages
from msmq.transfer.deliveries.records import (
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    MessageRun,
    write_block,
)
from msmq.transfer.disputed_sequences import DisputedSequences
from msmq.transfer.duplicates import DuplicateHistory
from msmq.transfer.early_final_acks import EarlyFinalAcks
from msmq.transfer.incoming_stream import IncomingStream
from msmq.transfer.incoming_streams import IncomingStreams
from msmq.transfer.receivers import Receiver as KnownReceiver
from msmq.transfer.receivers import Receivers
from msmq.transfer.source_journaling import AwaitedMessage, MessageAnswer
from msmq.transfer.stream_changes import UnorderedMessage
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.transfer.support import SETTINGS, START, Position, Receiver, Sender, transactional_packet
from tests.transfer.test_receivers import Redirects

SEQUENCE = 7 << 32 | 9
RECEIVED = 0x4000
LONGEST = 0xFFFFFFFF
"""Of a message that took fifty days, or longer."""
ORDERS = "direct=tcp:10.0.0.5\\private$\\orders"


def text(value: str) -> bytes:
    """A text as it is stored: its size, and UTF-16 with a zero at its end."""
    encoded = (value + "\0").encode("utf-16-le")
    return struct.pack("<I", len(encoded)) + encoded


def named(key: bytes, view: UserMessageView) -> bytes:
    """The key of a destination, whatever the message says."""
    return key


class StoredFormTests(SynchronousTestCase):
    """Each value begins with its version, and its name ends in a number that begins with 1."""

    def verify(self, changes: Iterable[StateChange | None], expected: StateChange) -> None:
        self.assertEqual(list(changes), [expected])

    def test_time_stamp_of_sequences(self) -> None:
        """The second in which the queue manager started."""
        value = struct.pack("<BI", 1, START.unix_seconds)
        self.verify([Sender().streams.reservation()], ("tx/timestamp", value))

    def test_incoming_stream(self) -> None:
        """Its place, its destination, and the address of the peer; of other than direct names the host."""
        source, end = ALPHA.bytes_le, b"TCP:10.0.0.9"
        for number, key, has_address, address in (
            (None, b"\7" + b"tcp:10.0.0.5\\private$\\orders", 1, end),
            (5, b"\3" + bytes(16) + struct.pack("<I", 5), 0, end[4:]),
        ):
            receiver = Receiver()
            packet = transactional_packet(place=(SEQUENCE, 3, 0), private_number=number)
            receiver.classify(packet, transactional_packet(place=(SEQUENCE, 9, 8), private_number=number))
            value = struct.pack("<B16sQIIIH", 1, source, SEQUENCE, 3, 1, START.unix_seconds, len(key))
            value += key + struct.pack("<BH", has_address, len(address)) + address
            self.verify(receiver.streams.take_changes(), ("tx/incoming/1", value))

    def test_long_keys(self) -> None:
        """A key of more than 512 bytes is stored as its first byte, which is its kind, and its digest."""
        for key, expected in (
            (b"\7" + b"k" * 511, b"\7" + b"k" * 511),
            (b"\7" + b"k" * 512, b"\7" + sha256(b"\7" + b"k" * 512).digest()),
        ):
            streams = IncomingStreams(SETTINGS, key=partial(named, key))
            view = UserMessageView(transactional_packet())
            streams.classify([view], "TCP:10.0.0.9", START)
            [(name, value)] = streams.take_changes()
            streams.stored(START)
            self.assertEqual([info.key for info in streams.infos()], [expected])
            self.assertEqual(name, "tx/incoming/1")
            self.assertIn(struct.pack("<H", len(expected)) + expected, value or b"")

    def test_refusals(self) -> None:
        """More than fit into 32 bits are stored as the most that do."""
        stream = IncomingStream(1, ALPHA.bytes_le, b"\7k", reject_count=1 << 32)
        restored = IncomingStream.from_bytes(1, "tx/incoming/1", stream.to_bytes())
        self.assertEqual(restored.reject_count, 0xFFFFFFFF)

    def test_first_names(self) -> None:
        """They are the same without anything stored before."""
        history, finals = DuplicateHistory(SETTINGS), AwaitingFinalAcks(ALPHA, 10)
        history.classify([UserMessageView(user_packet(recoverable=True))], START)
        self.assertEqual([name for name, _ in history.take_changes(START)], ["duplicates/1"])
        message = UnorderedMessage(Position(transactional_packet()), SEQUENCE, 3, 100, 5)
        self.assertEqual(finals.add([message], [1]).change[0], "tx/awaiting/1")
        changes = Receivers(Redirects(), trusts=False).introduce(ORDERS, [KnownReceiver(BETA, "10.0.0.5")])
        self.assertEqual([name for name, _ in changes], ["tx/receivers/1"])

    def test_duplicates(self) -> None:
        """The time, and the sender and MessageID of each message."""
        history = DuplicateHistory(SETTINGS)
        history.load({}, START)
        views = [UserMessageView(user_packet(message_id=number, recoverable=True)) for number in (5, 6)]
        history.classify(views, START)
        value = struct.pack("<BII", 1, START.unix_seconds, 2)
        value += b"".join(view.source_queue_manager + view.packet[56:60] for view in views)
        self.verify(history.take_changes(START), ("duplicates/1", value))

    def test_early_final_acks(self) -> None:
        """The MessageID and the class; the place is in the name."""
        early = EarlyFinalAcks(10)
        early.add(SEQUENCE, 3, 100, RECEIVED)
        value = struct.pack("<BII", 1, 100, RECEIVED)
        self.verify(early.take_changes(), (f"tx/early/{SEQUENCE << 32 | 3}", value))

    def test_disputed_sequences(self) -> None:
        """The number that the receiver has acknowledged; the sequence is in the name."""
        disputed = DisputedSequences()
        disputed.add(SEQUENCE, 5)
        [change] = disputed.take_changes()
        self.verify([change], (f"tx/disputed/{SEQUENCE}", struct.pack("<BI", 1, 5)))

    def test_awaiting_final_acks(self) -> None:
        """The place of each message, its MessageID, what its sender wants, and its LookupIdentifier."""
        table = AwaitingFinalAcks(ALPHA, 10)
        table.load({}, ())
        message = UnorderedMessage(Position(transactional_packet()), SEQUENCE, 3, 100, 5)
        value = struct.pack("<BIQIIBQ", 1, 1, SEQUENCE, 3, 100, 5, 1 << 40)
        self.verify([table.add([message], [1 << 40]).change], ("tx/awaiting/1", value))

    def test_receivers(self) -> None:
        """Those of a destination, and those of a sequence."""
        receivers = Receivers(Redirects(), trusts=False)
        receivers.load({}, ())
        there = KnownReceiver(BETA, "10.0.0.5")
        known = struct.pack("<I", 1) + BETA.bytes_le + text("10.0.0.5")
        self.verify(receivers.introduce(ORDERS, [there]), ("tx/receivers/1", b"\1" + text(ORDERS) + known))
        receivers.sent(SEQUENCE, there)
        self.verify(receivers.arrived([SEQUENCE], [SEQUENCE]), (f"tx/arrived/{SEQUENCE}", b"\1" + known))

    def test_messages_that_wait_for_an_acknowledgement(self) -> None:
        """What they have in common once, and the rest of each."""
        table = AwaitingAcknowledgements(10, lambda owner: False)
        admin = UUID(int=7)
        names = text("A") + BETA.bytes_le + admin.bytes_le + text("B") + bytes(16) + admin.bytes_le
        messages = [
            AwaitedMessage(100, "A", BETA, admin, 3, 1 << 40),
            AwaitedMessage(101, "B", None, admin, 0, 1),
            AwaitedMessage(102, "A", BETA, admin, 1, 2),
        ]
        value = struct.pack("<BI", 1, 2) + names + struct.pack("<I", 3)
        for record in ((0, 100, 11, 3, 1 << 40), (1, 101, 12, 0, 1), (0, 102, 13, 1, 2)):
            value += struct.pack("<IIQBQ", *record)
        self.verify([table.add(messages, [11, 12, 13]).change], ("source/awaiting/1", value))

    def test_answers(self) -> None:
        """What they have in common once, and the MessageID and the class of each."""
        table = AwaitingAcknowledgements(10, lambda owner: False)
        answers = [MessageAnswer(number, "A", RECEIVED, BETA, GAMMA) for number in (100, 101)]
        value = struct.pack("<BI", 1, 1) + text("A") + BETA.bytes_le + GAMMA.bytes_le + struct.pack("<I", 2)
        value += struct.pack("<IIHIIH", 0, 100, RECEIVED, 0, 101, RECEIVED)
        self.verify([table.answer(answers).change], ("source/answers/1", value))

    def test_messages_of_other_senders(self) -> None:
        """With identifiers of other queue managers the value has another version, and their GUIDs."""
        table = AwaitingAcknowledgements(10, lambda owner: False)
        admin = UUID(int=7)
        messages = [
            AwaitedMessage(100, "A", BETA, admin, 6, 1, sender=GAMMA),
            AwaitedMessage(100, "A", BETA, admin, 6, 1),
        ]
        name = text("A") + BETA.bytes_le + admin.bytes_le
        value = struct.pack("<BI", 2, 2) + name + GAMMA.bytes_le + name + bytes(16) + struct.pack("<I", 2)
        value += struct.pack("<IIQBQIIQBQ", 0, 100, 11, 6, 1, 1, 100, 12, 6, 1)
        change = table.add(messages, [11, 12]).change
        self.verify([change], ("source/awaiting/1", value))
        self.assertEqual(read_messages("source/awaiting/1", value), [(messages[0], 11), (messages[1], 12)])
        answers = [MessageAnswer(100, "A", RECEIVED, BETA, admin, sender=GAMMA)]
        value = struct.pack("<BI", 2, 1) + name + GAMMA.bytes_le
        value += struct.pack("<IIIH", 1, 0, 100, RECEIVED)
        self.verify([table.answer(answers).change], ("source/answers/1", value))
        self.assertEqual(read_answers("source/answers/1", value), answers)

    def test_delivery_records(self) -> None:
        """The index, the places, and each record with its runs.

        Times are in milliseconds; of a run how long it took and one more, and 0 if that is unknown.
        """
        where = DeliveryTarget(BETA.bytes_le, "10.0.0.5", 1.5, "orders")
        runs = (
            MessageRun(5, 3, 7, 9, 6e6 - 0.25),
            MessageRun(20, 1),
            MessageRun(30, 1, 0, 0, 6e6),
            MessageRun(40, 1, 0, 0, 6e6 + 1),
            MessageRun(50, 1, 0, 0, 1.0),
        )
        record = DeliveryRecord(DeliveryStep.SETTLED, 6e6, where, ALPHA.bytes_le, runs, SEQUENCE, RECEIVED)
        time = 6_000_000_000
        value = struct.pack("<BBIQQH", 1, 0, 7, time, time, 1) + struct.pack("<16sII", ALPHA.bytes_le, 5, 50)
        value += struct.pack("<HI", 1, 1) + struct.pack("<16sQHH", BETA.bytes_le, 1500, 8, 6)
        value += b"10.0.0.5orders" + struct.pack("<BHHHQQI", 3, RECEIVED, 0, 0, time, SEQUENCE, 5)
        for run in (
            (5, 3, 7, 9, 251),
            (20, 1, 0, 0, 0),
            (30, 1, 0, 0, 1),
            (40, 1, 0, 0, 1),
            (50, 1, 0, 0, LONGEST),
        ):
            value += struct.pack("<IIIII", *run)
        self.assertEqual(write_block([record]), value)
