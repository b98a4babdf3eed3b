"""DrainedArrivals: what became of the messages that a drain keeps until their arrival is acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from msmq.manager.peers.source_journal import SourceJournal
from msmq.moment import Moment
from msmq.structures.names.format_name import FormatName
from msmq.structures.packet.message_class import class_name
from msmq.structures.status import MQError, Status
from msmq.transfer.kept_arrivals import ArrivalCounts


class DrainedArrivals:
    """The results of one drain, and whether its destination is known to take messages.

    @ivar is_proven: the arrival of a message was acknowledged, and none was refused since.
    """

    def __init__(
        self,
        destination: FormatName,
        acknowledge_to: str,
        counts: ArrivalCounts,
        source_journal: SourceJournal,
        can_be_acknowledged: Callable[[], bool],
    ) -> None:
        """Create it for one drain.

        @param acknowledge_to: the format name of the administration queue.
        @param counts: of the destination.
        @param can_be_acknowledged: whether the administration queue exists.
        """
        self._destination = destination
        self._acknowledge_to = acknowledge_to
        self._counts = counts
        self._source_journal = source_journal
        self._can_be_acknowledged = can_be_acknowledged
        self._before = counts.failed
        self._failed = counts.failed
        self._arrived = counts.arrived
        self._sent = 0.0

    @property
    def is_proven(self) -> bool:
        """See the class."""
        return self._counts.failed == self._failed and self._counts.arrived > self._arrived

    @property
    def waiting(self) -> int:
        """Messages that were handed over, and wait for their acknowledgement."""
        return self._source_journal.waiting_for(self._destination)

    @property
    def refused(self) -> int:
        """Messages that were refused, or not acknowledged in time, since the drain was started."""
        return self._counts.failed - self._before

    def check(self) -> None:
        """Check that acknowledgements can come.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND if the administration queue was deleted.
        """
        if not self._can_be_acknowledged():
            raise MQError(
                Status.MQ_ERROR_QUEUE_NOT_FOUND,
                f"{self._acknowledge_to} gets the acknowledgements of this drain, and does not exist; create"
                " it, not transactional, or end the drain",
            )

    def take_refusal(self) -> str:
        """The reason to wait after messages were refused, once; empty if there is none."""
        counts = self._counts
        if counts.failed == self._failed:
            return ""
        self._failed, self._arrived = counts.failed, counts.arrived
        return (
            f"{self.refused} of the moved messages were not accepted, the last one with"
            f" {class_name(counts.last_class)}; they are dead letters here"
        )

    def sent(self, now: Moment) -> None:
        """Messages were moved."""
        self._sent = now.monotonic

    def silence(self, now: Moment) -> float:
        """Seconds since messages were moved, if any still wait for their acknowledgement."""
        return now.monotonic - self._sent if self.waiting else 0.0

    @property
    def missing_reason(self) -> str:
        """The reason to wait while the arrival of a message is not acknowledged."""
        return (
            f"the destination has not acknowledged the arrival of a message in {self._acknowledge_to}: the"
            " queue may not exist there, or deny access, or the name may not lead here"
        )
