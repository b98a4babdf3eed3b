"""OutgoingTransferSequence: OrderAcks of an outgoing queue, and the waits for them. [MS-MQQB] 3.1.1.3.1.1."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.moment import Moment
from msmq.settings import SessionSettings
from msmq.structures.identifiers import SequenceInfo
from msmq.transfer.transfer_info import NO_SEQUENCE, sequence_info

SHORT_WAITS: Final = 3
"""The number of short waits in ResendTimerTable."""


def resend_timer_table(settings: SessionSettings) -> tuple[float, ...]:
    """[MS-MQQB] 3.1.3.1 ResendTimerTable: three short, three medium and three long waits, then the final one
    repeatedly.
    """
    short, medium, long = settings.resend_short, settings.resend_medium, settings.resend_long
    return (*SHORT_WAITS * (short,), *3 * (medium,), *3 * (long,), settings.resend_final)


@attrs.define
class OutgoingTransferSequence:
    """[MS-MQQB] 3.1.1.3.1.1 OutgoingTransferSequence; the list of unacknowledged messages is in
    L{OutgoingStream<msmq.transfer.outgoing_stream.OutgoingStream>}.

    @ivar resend_timer_table: in seconds.
    @ivar last_ack: LastAck, as far as the present connection knows.
    @ivar time_of_last_ack: seconds since 1970-01-01 UTC.
    @ivar last_ack_count: OrderAcks on the present connection.
    @ivar resend_interval_index: from 0.
    @ivar resend_time: seconds since 1970-01-01 UTC; 0 without a wait.
    @ivar attempts: how often messages have become due again since an OrderAck covered more, or none was
        pending; a lost connection does not reset it.
    @ivar passed: the attempts, since the last OrderAck or since none was pending, that the receiver has
        answered with an OrderAck of a later sequence.
    @ivar last_passed: the last of these attempts.
    """

    resend_timer_table: tuple[float, ...]
    last_ack: SequenceInfo = NO_SEQUENCE
    time_of_last_ack: int = 0
    last_ack_count: int = 0
    resend_interval_index: int = 0
    resend_time: int = 0
    attempts: int = 0
    passed: int = 0
    last_passed: int = -1

    @property
    def resend_interval(self) -> float:
        """The duration of the Transactional Ack Wait Timer, in seconds. [MS-MQQB] 3.1.2.6."""
        return self.resend_timer_table[self.resend_interval_index]

    @property
    def is_stuck(self) -> bool:
        """Whether messages were sent again three times without an OrderAck that covers more.

        A receiver that was restored from an older backup, or replaced, is behind what it has acknowledged.
        """
        return self.attempts >= SHORT_WAITS

    def connected(self, now: Moment) -> None:
        """Reset the state. [MS-MQQB] 3.1.3.2."""
        self.last_ack = NO_SEQUENCE
        self.time_of_last_ack = now.unix_seconds
        self.last_ack_count = 0
        self.rest()

    def order_ack_received(self, now: Moment) -> None:
        """An OrderAck came."""
        self.time_of_last_ack = now.unix_seconds
        self.last_ack_count += 1
        self._forget_passed()

    def later_acknowledged(self) -> bool:
        """An OrderAck of a later sequence came; true once, with the third attempt that it has answered.

        A single one may have been on its way for long.
        """
        if self.attempts == self.last_passed:
            return False
        self.last_passed = self.attempts
        self.passed += 1
        return self.passed == SHORT_WAITS

    def progress(self, sequence: int, number: int) -> None:
        """It covers more than the last; the waits begin with the shortest again (reading 55)."""
        self.last_ack = sequence_info(sequence, number, number - 1)
        self.resend_interval_index = 0
        self.attempts = 0

    def begin_again(self) -> None:
        """No message is pending: what the receiver has answered so far says nothing about the next ones."""
        self.attempts = 0
        self._forget_passed()

    def _forget_passed(self) -> None:
        self.passed, self.last_passed = 0, -1

    def wait(self, now: Moment) -> float:
        """Start the Transactional Ack Wait Timer; returns its monotonic deadline. [MS-MQQB] 3.1.2.6."""
        self.resend_time = now.unix_seconds + int(self.resend_interval)
        return now.monotonic + self.resend_interval

    def grow(self) -> None:
        """No OrderAck came in time: use the next wait of the table, or the last one repeatedly."""
        self.resend_interval_index = min(self.resend_interval_index + 1, len(self.resend_timer_table) - 1)

    def rest(self) -> None:
        """No message waits for an OrderAck."""
        self.resend_interval_index = 0
        self.resend_time = 0
