"""Progress of a campaign: what was sent and received, recorded as a history for L{tests.history_checker}."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence

import attrs

from tests.history_checker.recorder import Recorder, digest


@attrs.frozen
class Parcel:
    """One message; no other has its label in the same queue.

    @ivar queue: the name of its queue manager, and that of the queue.
    """

    queue: str
    label: str

    @property
    def name(self) -> str:
        """Its label in the history."""
        return f"{self.queue} {self.label}"

    @property
    def body(self) -> bytes:
        """Up to some thousand bytes, which follow from the label."""
        return self.label.encode() * (zlib.crc32(self.label.encode()) % 800)


@attrs.define(eq=False)
class Sending:
    """Messages that were sent at once, all or none if it was a transaction.

    @ivar operations: its operations in the history, one for each queue.
    @ivar is_confirmed: the send was confirmed; otherwise they may have been sent.
    @ivar is_refused: they were not sent.
    """

    parcels: Sequence[Parcel]
    operations: Sequence[int]
    is_confirmed: bool = False
    is_refused: bool = False


class Ledger:
    """Everything that was sent and received, as a history, and how far it is.

    @ivar faults: what a campaign has to report beside the violations of its history.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._record = recorder
        self._lock = threading.Lock()
        self._sendings: list[Sending] = []
        self._received: set[str] = set()
        self._doubtful: dict[str, set[str]] = {}
        self.confirmed = 0
        self.arrived = 0
        self.faults: list[str] = []

    @property
    def doubts(self) -> int:
        """Sends without a confirmation or a refusal."""
        return sum(not (sending.is_confirmed or sending.is_refused) for sending in self._sendings)

    def begin(self, sender: str, parcels: Sequence[Parcel], *, is_transaction: bool) -> Sending:
        """Something is about to be sent."""
        queues = dict.fromkeys(parcel.queue for parcel in parcels)
        facts = {"transaction": parcels[0].name} if is_transaction else {}
        operations = [
            self._record.begin(
                "send",
                sender=sender,
                queue=queue,
                messages=[(one.name, digest(one.body)) for one in parcels if one.queue == queue],
                transactional=is_transaction,
                recoverable=True,
                **facts,
            )
            for queue in queues
        ]
        sending = Sending(parcels, operations)
        with self._lock:
            self._sendings.append(sending)
        return sending

    def confirm(self, sending: Sending) -> None:
        """It was taken."""
        for operation in sending.operations:
            self._record.end(operation, "done")
        with self._lock:
            sending.is_confirmed = True
            self.confirmed += len(sending.parcels)

    def refuse(self, sending: Sending) -> None:
        """It was not taken: none of it."""
        for operation in sending.operations:
            self._record.end(operation, "refused")
        with self._lock:
            sending.is_refused = True

    def reading(self, queue: str) -> int:
        """A reader begins; gives its operation."""
        return self._record.begin("receive", queue=queue)

    def shown(self, operation: int, queue: str, messages: Sequence[tuple[str, bytes]]) -> None:
        """A reader saw these messages, by label: those of which it was in doubt are there, or not."""
        self._record.shown(operation, [(f"{queue} {label}", digest(body)) for label, body in messages])
        with self._lock:
            doubtful = self._doubtful.pop(queue, set())
            gone = doubtful - {f"{queue} {label}" for label, _ in messages}
            self._count(gone)

    def received(self, operation: int, queue: str, labels: Sequence[str]) -> None:
        """A reader removed what it saw."""
        self._record.end(operation, "done")
        with self._lock:
            self._count({f"{queue} {label}" for label in labels})

    def returned(self, operation: int) -> None:
        """A reader gave back what it saw."""
        self._record.end(operation, "returned")

    def failed(self, operation: int) -> None:
        """A reader was interrupted before it saw anything, and may have held messages."""
        self._record.end(operation, "failed")

    def nothing(self, operation: int, queue: str) -> None:
        """A reader saw that a queue is empty."""
        self._record.end(operation, "refused")
        with self._lock:
            self._count(self._doubtful.pop(queue, set()))

    def doubt(self, queue: str, labels: Sequence[str]) -> None:
        """What a reader saw may be removed, or not; its operation has no end."""
        with self._lock:
            self._doubtful[queue] = {f"{queue} {label}" for label in labels}

    def killed(self, name: str) -> None:
        """A queue manager was killed."""
        self._record.note("kill", node=name)

    def ended(self) -> None:
        """Everything was received."""
        self._record.note("end")

    def _count(self, names: set[str]) -> None:
        self.arrived += len(names - self._received)
        self._received |= names

    @property
    def is_complete(self) -> bool:
        """Whether everything that was confirmed has been received."""
        with self._lock:
            return not self._doubtful and all(
                parcel.name in self._received
                for sending in self._sendings
                if sending.is_confirmed
                for parcel in sending.parcels
            )
