"""Messages in flight on a session: their numbers and times of sending."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msmq.transfer.deliveries.records import MessageRun


class Flight:
    """The messages that were sent on one session and are not acknowledged.

    They are numbered from 1 in the order of sending, as UserMsgSequenceNumber of [MS-MQMQ] 2.2.20.4 counts.
    """

    def __init__(self) -> None:
        self._sent = 0
        self._numbers: dict[object, int] = {}
        # The number of the first message that was sent at each time; the oldest first.
        self._firsts: list[int] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        """The number of messages in flight."""
        return len(self._numbers)

    def depart(self, messages: Sequence[object], now: float) -> None:
        """These messages are sent, in this order.

        @param now: seconds since 1970-01-01 UTC.
        """
        first = self._sent + 1
        self._sent += len(messages)
        self._numbers.update(zip(messages, range(first, self._sent + 1), strict=True))
        self._firsts.append(first)
        self._times.append(now)

    def arrive(self, message: object) -> int:
        """The number of a message that is acknowledged; 0 if it is not in flight."""
        return self._numbers.pop(message, 0)

    def arrive_together(self, messages: Iterable[object], message_ids: Sequence[int]) -> list[MessageRun]:
        """The runs of messages that are acknowledged together, outside a sequence, as of L{RunBuilder}.

        @param message_ids: their MessageIDs.
        """
        pop, firsts = self._numbers.pop, self._firsts
        numbers = [pop(message, 0) for message in messages]
        runs: list[MessageRun] = []
        start = 0
        while start < len(numbers):
            first, number = message_ids[start], numbers[start]
            end = start + 1
            if number:
                # Those behind it that were sent at the same time, if they follow one another.
                index = bisect_right(firsts, number)
                last = firsts[index] - number if index < len(firsts) else len(numbers)
                count = len(numbers[start : start + last])
                if (
                    numbers[start + count - 1] == number + count - 1
                    and numbers[start : start + count] == list(range(number, number + count))
                    and message_ids[start : start + count] == list(range(first, first + count))
                ):
                    end = start + count
            count, sent = end - start, self.time(number)
            before = runs[-1] if runs else None
            if (
                before is not None
                and first == before.first + before.count
                and sent == before.sent
                and number == (before.number + before.count if before.number else 0)
            ):
                runs[-1] = MessageRun(before.first, before.count + count, before.number, 0, sent)
            else:
                runs.append(MessageRun(first, count, number, 0, sent))
            start = end
        return runs

    def time(self, number: int) -> float:
        """When the message with this number was sent, seconds since 1970-01-01 UTC; 0 if that is unknown."""
        index = bisect_right(self._firsts, number) - 1
        return self._times[index] if index >= 0 else 0.0

    def forget(self) -> None:
        """Drop the times before the oldest message in flight."""
        oldest = next(iter(self._numbers.values()), self._sent + 1)
        gone = bisect_right(self._firsts, oldest) - 1
        if gone > 0:
            del self._firsts[:gone]
            del self._times[:gone]


class RunBuilder:
    """Joins messages with consecutive numbers.

    @ivar runs: what was joined so far.
    """

    __slots__ = ("_count", "_first", "_number", "_sent", "_tx_number", "runs")

    def __init__(self) -> None:
        self.runs: list[MessageRun] = []
        self._count = 0
        self._first = self._number = self._tx_number = 0
        self._sent = 0.0

    def add(self, message_id: int, number: int = 0, sequence_number: int = 0, sent: float = 0.0) -> None:
        """One more message; as of L{MessageRun}."""
        count = self._count
        if count:
            if (
                message_id == self._first + count
                and sent == self._sent
                and number == (self._number + count if self._number else 0)
                and sequence_number == (self._tx_number + count if self._tx_number else 0)
            ):
                self._count = count + 1
                return
            self.runs.append(MessageRun(self._first, count, self._number, self._tx_number, self._sent))
        self._first, self._number, self._tx_number, self._sent = message_id, number, sequence_number, sent
        self._count = 1

    def finish(self) -> list[MessageRun]:
        """All runs."""
        if self._count:
            self.runs.append(MessageRun(self._first, self._count, self._number, self._tx_number, self._sent))
            self._count = 0
        return self.runs
