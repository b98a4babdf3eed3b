"""Ledger of sent and received messages, and its verification."""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Sequence

import attrs


@attrs.frozen
class Parcel:
    """One message; no other has its label in the same queue."""

    queue: str
    label: str

    @property
    def body(self) -> bytes:
        """Up to some thousand bytes, which follow from the label."""
        return self.label.encode() * (zlib.crc32(self.label.encode()) % 800)


@attrs.define(eq=False)
class Sending:
    """Messages that were sent at once, all or none if it was a transaction.

    @ivar is_confirmed: the send was confirmed; otherwise they may have been sent.
    """

    parcels: Sequence[Parcel]
    is_transaction: bool
    is_confirmed: bool = False


class Ledger:
    """Everything that was sent, in its order, and everything that was received, in its order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sendings: list[Sending] = []
        self.received: dict[str, list[str]] = {}
        self._doubtful: dict[str, list[str]] = {}
        self.confirmed = 0
        self.arrived = 0
        self.faults: list[str] = []

    @property
    def doubts(self) -> int:
        """Sends without a confirmation or a refusal."""
        return sum(not sending.is_confirmed for sending in self.sendings)

    def begin(self, parcels: Sequence[Parcel], *, is_transaction: bool) -> Sending:
        """Something is about to be sent."""
        sending = Sending(parcels, is_transaction)
        with self._lock:
            self.sendings.append(sending)
        return sending

    def confirm(self, sending: Sending) -> None:
        """It was taken."""
        with self._lock:
            sending.is_confirmed = True
            self.confirmed += len(sending.parcels)

    def found(self, queue: str, labels: Sequence[str]) -> None:
        """Settle whether the last receipt was accepted, by the messages at the head of a queue."""
        with self._lock:
            doubtful = self._doubtful.pop(queue, [])
            if not labels or list(labels[: len(doubtful)]) != doubtful[: len(labels)]:
                self._receive(queue, doubtful)

    def receive(self, queue: str, labels: Sequence[str]) -> None:
        """These are received permanently."""
        with self._lock:
            self._receive(queue, labels)

    def doubt(self, queue: str, labels: Sequence[str]) -> None:
        """These may be received, or not; what is found next in the queue will tell."""
        with self._lock:
            self._doubtful[queue] = list(labels)

    def _receive(self, queue: str, labels: Sequence[str]) -> None:
        self.received.setdefault(queue, []).extend(labels)
        self.arrived += len(labels)

    @property
    def is_complete(self) -> bool:
        """Whether everything that was confirmed has been received."""
        with self._lock:
            if self._doubtful:
                return False
            sets = {queue: set(labels) for queue, labels in self.received.items()}
            return all(
                parcel.label in sets.get(parcel.queue, ())
                for sending in self.sendings
                if sending.is_confirmed
                for parcel in sending.parcels
            )

    def judge(self) -> list[str]:
        """All violations."""
        faults = list(self.faults)
        expected: dict[str, list[str]] = {}
        sets = {queue: set(labels) for queue, labels in self.received.items()}
        in_order: set[str] = set()
        for sending in self.sendings:
            present = [parcel for parcel in sending.parcels if parcel.label in sets.get(parcel.queue, ())]
            for parcel in present:
                expected.setdefault(parcel.queue, []).append(parcel.label)
            if sending.is_transaction:
                in_order.update(parcel.queue for parcel in sending.parcels)
            missing = [parcel for parcel in sending.parcels if parcel not in present]
            if missing and sending.is_confirmed:
                faults.append(f"{len(missing)} of {len(sending.parcels)} are missing, {missing[0]} the first")
            elif missing and present and sending.is_transaction:
                faults.append(f"a transaction arrived in part: {present} without {missing}")
        for queue, labels in self.received.items():
            of_queue = expected.get(queue, [])
            times = Counter(labels)
            faults += [
                f"{label} in {queue} arrived {often} times" for label, often in times.items() if often > 1
            ]
            faults += [f"{label} in {queue} was never sent" for label in times.keys() - set(of_queue)]
            if queue in in_order and list(times) != of_queue:
                pairs = zip(times, of_queue, strict=False)
                wrong = next((f"{one} in the place of {other}" for one, other in pairs if one != other), "")
                faults.append(f"{queue} is out of order: {wrong}")
        return faults
